"""`esper keys` and `esper certificates countersign`, run as people run them."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from contextlib import suppress

import pytest
from places import FAULTY, Place, git, write

from esper_agents.certificates.signing.public_keys import read_public_key
from esper_agents.certificates.signing.signing_key import as_pem, key_file, load, signing_key


@pytest.fixture
def place(tmp_path):
    """Return a project whose home is empty."""
    root = tmp_path / "toy"
    write(root, {"train.py": FAULTY})
    git(root, "init", "-q", "-b", "main", "--template=")
    return Place(root, tmp_path / "home")


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory):
    """Return a project with one certificate, and a copy of it and its home."""
    folder = tmp_path_factory.mktemp("keys")
    write(folder / "toy", {"train.py": FAULTY})
    git(folder / "toy", "init", "-q", "-b", "main", "--template=")
    made = Place(folder / "toy", folder / "home")
    made.esper("submit", "review this training code", "train.py", "--agent", "pytorch-code-reviewer")
    return made, shutil.copytree(folder, tmp_path_factory.mktemp("kept") / "keys")


@pytest.fixture
def judged(reviewed):
    """Return the project as it was after its review, at the path that names it."""
    made, kept = reviewed
    shutil.rmtree(made.root.parent)
    shutil.copytree(kept, made.root.parent)
    return made


@pytest.fixture
def ann(tmp_path):
    """Return the SSH key of a colleague."""
    key = tmp_path / "ann"
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ann@example.org", "-f", key]
    subprocess.run(command, check=True)
    return key


def public(key):
    return " ".join(key.with_name(f"{key.name}.pub").read_text().split()[:2])


def bring(place, *lines):
    write(place.root, {".esper/trusted_keys": "".join(f"{line}\n" for line in lines)})


def test_showing_makes_no_key(place):
    said = place.esper("keys", "show", code=0).stdout
    assert "own: none yet" in said
    assert not place.home.exists()
    assert place.esper("keys", "show", "--json", code=0).json == {
        "own": None,
        "trusted": [],
        "brought_by_the_project_not_trusted": [],
        "refused": [],
    }


def test_what_is_exported_is_the_public_half_in_every_form(place, tmp_path):
    (tmp_path / "key.pub").write_text(place.esper("keys", "export", code=0).stdout)
    key = load(key_file(place.home))
    said = subprocess.run(["ssh-keygen", "-l", "-f", tmp_path / "key.pub"], capture_output=True, text=True, check=True)
    assert said.stdout.split()[1] == key.key_id
    assert place.esper("keys", "export", "--format", "pem", code=0).stdout == as_pem(key.public_key)
    note = place.esper("keys", "export", "--format", "note", "--name", "example.org/log", code=0).stdout
    assert note.startswith("example.org/log+")
    assert read_public_key(note) == key.public_key
    line = place.esper("keys", "export", "--format", "allowed-signers", "--name", "me@example.org", code=0).stdout
    assert line.startswith('me@example.org namespaces="esper-certificate" ssh-ed25519 AAAA')


def test_nothing_that_is_shown_or_exported_holds_the_private_half(place):
    place.esper("keys", "export", code=0)
    secret = key_file(place.home).read_text().split("\n")[1]
    for command in (["show"], ["show", "--json"], *(["export", "--format", each] for each in ("pem", "ssh"))):
        assert secret[20:40] not in place.esper("keys", *command, code=0).stdout


def test_the_key_of_a_note_needs_the_name_of_a_log(place, tmp_path):
    problem, remedy = place.esper("keys", "export", "--format", "note").problem(2)
    assert "no name" in problem
    assert "--name" in remedy


def test_an_exported_line_is_trusted_by_a_colleague_and_then_counts(place, tmp_path):
    colleague = Place(place.root, tmp_path / "other-home")
    line = place.esper("keys", "export", "--format", "allowed-signers", "--name", "me@example.org", code=0).stdout
    (tmp_path / "line").write_text(line)
    assert "trusted: me@example.org" in colleague.esper("keys", "trust", str(tmp_path / "line"), code=0).stdout
    (found,) = colleague.esper("keys", "show", "--json", code=0).json["trusted"]
    assert (found["name"], found["source"]) == ("me@example.org", "trusted here")
    assert found["key_id"] == load(key_file(place.home)).key_id


@pytest.mark.sample(2)
@pytest.mark.parametrize("form", ["words", "quoted", "file", "pem", "note"])
def test_a_key_is_trusted_in_any_form_that_others_write_keys_in(place, ann, tmp_path, form):
    raw = read_public_key(public(ann))
    (tmp_path / "ann.pem").write_text(as_pem(raw))
    from esper_agents.certificates.signing.signing_key import as_note_key

    given = {
        "words": [*public(ann).split(), "ann@example.org"],
        "quoted": [f"{public(ann)} ann@example.org"],
        "file": [f"{ann}.pub"],
        "pem": [str(tmp_path / "ann.pem"), "--name", "ann@example.org"],
        "note": [as_note_key(raw, "ann@example.org")],
    }[form]
    place.esper("keys", "trust", *given, code=0)
    (found,) = place.esper("keys", "show", "--json", code=0).json["trusted"]
    assert (found["name"], found["public_key"]) == ("ann@example.org", public(ann))
    assert found["namespaces"] == ["esper-certificate"]


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["no such file"], "neither a key nor a file"),
        (["ssh-ed25519 AAAA ann"], "not such a key"),
        (["ssh-dss AAAAB3NzaC1kc3M= ann"], "not supported"),
        (["PRIVATE"], "private key"),
        (["NAMELESS"], "has no owner name"),
        (["NAMELESS", "--name", "*"], "has no owner name"),
        (["NAMELESS", "--name", "a b"], "has no owner name"),
        (["NAMELESS", "--name", "\x1b[31mann"], "has no owner name"),
        (["FIFO"], "not a file with one key"),
        (["a\nb"], "neither a key nor a file"),
        ([], "either a key or --from-project"),
        (["NAMELESS", "--from-project"], "either a key or --from-project"),
    ],
)
def test_what_is_no_key_of_somebody_is_refused_with_a_remedy(place, ann, tmp_path, given, problem):
    import os

    os.mkfifo(tmp_path / "fifo")
    named = {"PRIVATE": str(ann), "NAMELESS": public(ann), "FIFO": str(tmp_path / "fifo")}
    said, remedy = place.esper("keys", "trust", *(named.get(each, each) for each in given)).problem(2)
    assert problem in said
    assert remedy
    assert not (place.home / "trusted_keys").exists()


def test_keys_that_the_project_brings_are_listed_and_not_trusted_until_a_person_accepts_them(place, ann):
    bring(place, f'ann@example.org namespaces="esper-certificate" {public(ann)}')
    before = place.esper("keys", "show", "--json", code=0).json
    assert before["trusted"] == []
    assert [each["name"] for each in before["brought_by_the_project_not_trusted"]] == ["ann@example.org"]
    assert "brought by the project, not trusted: 1 key of" in place.esper("keys", "show", code=0).stdout
    place.esper("keys", "trust", "--from-project", code=0)
    after = place.esper("keys", "show", "--json", code=0).json
    assert [each["source"] for each in after["trusted"]] == ["the project's, accepted"]
    assert after["brought_by_the_project_not_trusted"] == []


def test_a_key_added_to_an_accepted_file_is_not_trusted(place, ann, tmp_path):
    line = f"ann@example.org {public(ann)}"
    bring(place, line)
    place.esper("keys", "trust", "--from-project", code=0)
    mallory = signing_key(tmp_path / "mallory")
    from esper_agents.certificates.signing.signing_key import as_ssh

    bring(place, line, f"mallory@example.org {as_ssh(mallory.public_key)}")
    found = place.esper("keys", "show", "--json", code=0).json
    assert found["trusted"] == []
    assert len(found["brought_by_the_project_not_trusted"]) == 2


def test_a_project_without_a_file_of_keys_has_nothing_to_accept(place):
    problem, remedy = place.esper("keys", "trust", "--from-project").problem(2)
    assert ".esper/trusted_keys" in problem
    assert "esper keys export" in remedy


def test_what_a_project_s_file_says_never_reaches_the_terminal_as_it_is(place, ann):
    bring(
        place, f"ann\x1b[2J {public(ann)}", f"\u202enna {public(ann)}", "x\x1b]0;title\x07", f"* {public(ann)} \x1b[31m"
    )
    said = place.esper("keys", "show", code=0).stdout
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert said.count("refused:") == 4


def test_a_key_that_others_can_read_is_refused_wherever_it_is_needed(place):
    place.esper("keys", "export", code=0)
    key_file(place.home).chmod(0o644)
    for command in (["keys", "show"], ["keys", "export"], ["keys", "rotate"]):
        problem, remedy = place.esper(*command).problem(2)
        assert "other users can access" in problem
        assert "chmod 600" in remedy


def test_the_key_that_ci_gives_signs_and_the_home_gets_none(place, tmp_path):
    given = signing_key(tmp_path / "ci")
    env = {"ESPER_SIGNING_KEY_FILE": str(key_file(tmp_path / "ci"))}
    assert place.esper("keys", "show", "--json", code=0, env=env).json["own"]["key_id"] == given.key_id
    assert "ESPER_SIGNING_KEY_FILE" in place.esper("keys", "show", code=0, env=env).stdout
    place.esper("submit", "review this training code", "train.py", "--agent", "pytorch-code-reviewer", env=env)
    assert not (place.home / "keys").exists()
    assert place.rows("SELECT key_id FROM log_entry") == [(given.key_id,)]
    problem, _ = place.esper("keys", "rotate", env=env).problem(2)
    assert "ESPER_SIGNING_KEY_FILE" in problem


def test_a_rotated_key_signs_and_the_old_one_s_certificates_stay_genuine(judged):
    before = judged.esper("keys", "show", "--json", code=0).json["own"]["key_id"]
    done = judged.esper("keys", "rotate", "--reason", "once a year", "--json", code=0).json
    assert done["old"] == before
    assert done["logs"] == [str(judged.database)]
    found = judged.esper("certificates", "verify", "--json").json
    assert found["genuine"]["outcome"] == "holds"
    assert judged.esper("keys", "show", "--json", code=0).json["own"]["key_id"] == done["new"]


def test_a_key_is_revoked_by_its_fingerprint(judged):
    old = judged.esper("keys", "rotate", "--json", code=0).json["old"]
    said = judged.esper("keys", "revoke", old, "--reason", "the laptop is gone", code=0).stdout
    assert f"revoked: {old}" in said
    problem, _ = judged.esper("keys", "revoke", old, "--reason", "again").problem(2)
    assert "not valid in any local log" in problem
    assert "revoked later" in judged.esper("certificates", "verify").stdout.replace("\n      ", " ")


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("SHA256:" + "A" * 43, "unknown Ed25519 key"),
        ("nonsense", "neither a key nor a file"),
        ("OWN", "cannot revoke itself"),
    ],
)
def test_what_cannot_be_revoked_is_refused_with_a_remedy(judged, key, problem):
    own = judged.esper("keys", "show", "--json", code=0).json["own"]["key_id"]
    said, remedy = judged.esper("keys", "revoke", own if key == "OWN" else key, "--reason", "x").problem(2)
    assert problem in said
    assert remedy


def test_a_countersignature_is_in_the_log_and_beside_the_view_for_anybody_to_check(judged, ann, tmp_path):
    done = judged.esper(
        "certificates", "countersign", "latest", "--key", str(ann), "--reason", "read", "--json", code=0
    )
    assert done.json["kind"] == "countersigned"
    assert done.json["key"] == public(ann)
    (signature,) = (judged.root / "docs").rglob("*.sshsig")
    (tmp_path / "allowed").write_text(f"ann {public(ann)}\n")
    data = judged.rows("SELECT statement FROM certificate")[0][0]
    verify = ["ssh-keygen", "-Y", "verify", "-f", tmp_path / "allowed", "-I", "ann", "-n", "esper-certificate"]
    subprocess.run([*verify, "-s", signature], input=data, check=True, capture_output=True)
    problem, _ = judged.esper("certificates", "countersign", "latest", "--key", str(ann)).problem(2)
    assert "already" in problem


def test_the_key_that_issued_it_cannot_countersign(judged):
    own = str(key_file(judged.home))
    problem, remedy = judged.esper("certificates", "countersign", "latest", "--key", own).problem(2)
    assert "cannot countersign" in problem
    assert "~/.ssh" in remedy


def published_key(place):
    """Return the fingerprint of the key that signed the certificate of a place, and the published file of the key."""
    (file,) = place.root.glob("docs/ai/agents/keys/*.pub")
    return place.esper("keys", "show", "--json", code=0).json["own"]["key_id"], file


def trusted_at_terminal(place, key_id, answer):
    """Trust a fingerprint at a terminal; return the exit code and the output."""
    ours, theirs = pty.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    command = ("keys", "trust", key_id, "--name", "ann@example.org")
    process = subprocess.Popen(
        **place.child(*command, env={"COLUMNS": "200", "NO_COLOR": "1"}), **streams, start_new_session=True
    )
    os.close(theirs)
    shown = b""
    while b"[y/N]" not in shown:
        shown += os.read(ours, 4096)
    os.write(ours, answer.encode())
    with suppress(OSError):
        while more := os.read(ours, 4096):
            shown += more
    os.close(ours)
    return process.wait(), shown.decode()


def test_a_fingerprint_is_trusted_at_a_terminal_after_confirmation_and_never_without(judged, tmp_path):
    key_id, _ = published_key(judged)
    bob = Place(judged.root, tmp_path / "bob")
    problem, remedy = bob.esper("keys", "trust", key_id, "--name", "ann@example.org").problem(2)
    assert "needs a terminal" in problem
    assert "from its owner" in remedy
    code, shown = trusted_at_terminal(bob, key_id, "n\n")
    assert (code, key_id in shown, "Did ann@example.org confirm" in shown) == (10, True, True)
    assert bob.esper("keys", "show", "--json").json["trusted"] == []
    code, _ = trusted_at_terminal(bob, key_id, "y\n")
    assert code == 0
    (key,) = bob.esper("keys", "show", "--json").json["trusted"]
    assert (key["key_id"], key["name"]) == (key_id, "ann@example.org")


def test_a_published_key_is_found_by_its_digest_alone_whatever_its_file_is_called(judged, ann, tmp_path):
    key_id, file = published_key(judged)
    # Mallory replaces the content: the file no longer holds the key of that fingerprint.
    file.write_text(public(ann) + "\n")
    problem, _ = Place(judged.root, tmp_path / "bob").esper("keys", "trust", key_id, "--name", "ann").problem(2)
    assert "publishes no key" in problem


def test_the_saved_list_of_a_code_host_is_trusted_key_by_key(place, ann, tmp_path):
    subprocess.run(["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", tmp_path / "rsa"], check=True)
    rsa = (tmp_path / "rsa.pub").read_text().rsplit(" ", 1)[0]
    # A code host serves keys without comments; DSA keys are not supported.
    saved = tmp_path / "ann.keys"
    saved.write_text(f"{public(ann)}\n{rsa}\nssh-dss AAAAB3NzaC1kc3MAAACBAP\n")
    problem, remedy = place.esper("keys", "trust", saved).problem(2)
    assert ("owner name" in problem, "--name" in remedy) == (True, True)
    done = place.esper("keys", "trust", saved, "--name", "ann@example.org", code=0).stdout
    assert done.count("trusted: ann@example.org SHA256:") == 2
    assert "may countersign" in done
    assert "refused: key 3" in done
    assert {each["public_key"] for each in place.esper("keys", "show", "--json").json["trusted"]} == {public(ann), rsa}


def test_a_list_without_a_key_is_refused(place, tmp_path):
    (tmp_path / "empty.keys").write_text("<html>\nnot found\n</html>\n")
    problem, _ = place.esper("keys", "trust", tmp_path / "empty.keys", "--name", "ann").problem(2)
    assert "no line" in problem
