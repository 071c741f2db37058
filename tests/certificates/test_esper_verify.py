"""The checker for those who do not want our software says the same as ours, and is what it promises to be."""

from __future__ import annotations

import ast
import asyncio
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from certificate_samples import certificate, evidence, of_status, source
from judged import FAULTY

from esper_agents.api import open_project, verify_certificate
from esper_agents.certificates.log.merkle import leaf_hash, node_hash
from esper_agents.certificates.log.note import Checkpoint, signed_checkpoint, write_proof
from esper_agents.certificates.notices import notice_statement
from esper_agents.certificates.signing.allowed_signers import own_signer
from esper_agents.certificates.signing.dsse import PAYLOAD_TYPE, envelope_bytes, pae, read_envelope, seal
from esper_agents.certificates.signing.signing_key import as_pem, as_ssh, signing_key
from esper_agents.certificates.statement import statement
from esper_agents.certificates.views.markdown import render_markdown
from esper_agents.domain.status import STANCES, QuestionType, Status, status_for
from esper_agents.errors import NewerRecordError
from esper_agents.paths import data_folder

PROGRAM = data_folder("certificates") / "esper_verify.py"
SMALL_ORDER = [bytes(32), (1).to_bytes(32, "little"), (2**255 - 20).to_bytes(32, "little")]


@dataclass(frozen=True)
class Said:
    """What the program said of one certificate."""

    code: int
    text: str
    errors: str

    def word(self, name):
        """Return how a group ended."""
        (found,) = [line for line in self.text.splitlines() if line.startswith(f"  {name}: ")]
        return found.partition(": ")[2]

    @property
    def words(self):
        return self.word("genuine"), self.word("in the log"), self.word("current")


def said_by(*arguments, cwd=None):
    # -I: nothing of ours can be imported by accident, neither from the folder nor from the environment's settings.
    done = subprocess.run(
        [sys.executable, "-I", PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=cwd
    )
    assert "Traceback" not in done.stderr
    return Said(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def judged(judged_project, monkeypatch):
    monkeypatch.chdir(judged_project.root)
    return judged_project


@pytest.fixture
def key(home, judged):
    return as_ssh(signing_key(home).public_key)


@pytest.fixture
def stranger(tmp_path):
    return signing_key(tmp_path / "stranger")


def ours(target, home, monkeypatch, tmp_path):
    """Return what our own software says on a machine without the archive that trusts the same key."""
    shutil.copytree(home / "keys", tmp_path / "clone" / "keys", dirs_exist_ok=True)
    with monkeypatch.context() as there:
        there.setenv("ESPER_HOME", str(tmp_path / "clone"))
        return int(asyncio.run(verify_certificate(str(target), None)).exit_code)


@pytest.fixture
def both(judged, home, key, monkeypatch, tmp_path):
    """Return what checks with both programs and compares their exit codes."""

    def run(target=None, given=None):
        target = target or judged.view
        said = said_by("--key", given or key, target)
        assert said.code == ours(target, home, monkeypatch, tmp_path)
        return said

    return run


def on_project(root, work):
    async def run():
        async with open_project(root) as project:
            return await work(project)

    return asyncio.run(run())


def test_it_fits_on_a_few_pages_and_needs_nothing_of_ours():
    source = PROGRAM.read_text(encoding="utf-8")
    assert len(source.splitlines()) < 400
    imported = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(source, feature_version=(3, 10)))
        for name in (
            [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= sys.stdlib_module_names | {"cryptography"}


def test_its_rows_are_those_of_the_policy():
    from esper_agents.certificates.policy.verdict_ceiling import verdict_levels

    namespace = {"__name__": "checked"}
    exec(compile(PROGRAM.read_text(encoding="utf-8"), str(PROGRAM), "exec"), namespace)  # noqa: S102 - ours
    assert {kind: tuple(each.split()) for kind, each in namespace["ROWS"].items()} == {
        str(kind): tuple(f"{stance}/{status_for(kind, stance)}" for stance in verdict_levels(kind))
        for kind in QuestionType
    }
    assert {stance for each in namespace["ROWS"].values() for stance in each.split()}
    assert len(STANCES) == 6


def test_the_files_of_a_manifest_are_compared_one_by_one_and_a_changed_list_is_refused():
    namespace = {"__name__": "checked"}
    exec(compile(PROGRAM.read_text(encoding="utf-8"), str(PROGRAM), "exec"), namespace)  # noqa: S102 - ours
    files = tuple(source(f"m{number:03}.py", f"x = {number}\n") for number in range(60))
    made = replace(certificate(), examined=files, evidence=(evidence(examined=files),))
    value = json.loads(statement(made))
    assert namespace["examined"](value) == [(file.path, file.sha256, "") for file in files]
    value["predicate"]["files"]["list"] = value["predicate"]["files"]["list"].replace("m001", "m999")
    with pytest.raises(namespace["RefusedError"]):
        namespace["examined"](value)


def test_what_nobody_touched_holds_by_view_and_by_envelope(judged, both):
    for target in (judged.view, judged.record):
        assert both(target).words == ("holds", "holds", "valid")
        assert both(target).code == 0


@pytest.mark.parametrize("form", ["pem", "allowed_signers", "line"])
def test_a_key_may_be_given_in_every_form(judged, home, key, tmp_path, form):
    raw = signing_key(home).public_key
    file = tmp_path / "key"
    lines = {"pem": as_pem(raw), "line": f"{key} ann@example.org\n"}
    file.write_text(lines.get(form, f"# the team\n\n{own_signer('ann@example.org', raw).line()}\n"))
    found = said_by("--key", file, judged.record)
    assert (found.code, found.errors) == (0, "")
    assert form != "allowed_signers" or "by ann@example.org" in found.text


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "line",
    [
        *(as_ssh(each) for each in SMALL_ORDER),
        'ann namespaces="git" {key}',
        'ann namespaces="esper-*" {key}',
        "ann cert-authority {key}",
        'ann valid-before="20300101" {key}',
        "ann,bob {key}",
        "* {key}",
        "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQ==",
        "-----BEGIN PUBLIC KEY-----\n",
        "no key",
        "",
    ],
)
def test_a_key_that_cannot_be_relied_on_is_no_key(judged, key, tmp_path, line):
    (tmp_path / "keys").write_text(line.format(key=key) + "\n")
    found = said_by("--key", tmp_path / "keys", judged.record)
    assert found.code == 2
    assert "no Ed25519 public key was given" in found.errors


def test_a_key_that_nobody_gave_decides_nothing(judged, stranger, home, monkeypatch, tmp_path):
    found = said_by("--key", as_ssh(stranger.public_key), judged.view)
    assert found.words == ("cannot decide", "cannot decide", "valid")
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "stranger"))
    assert found.code == int(asyncio.run(verify_certificate(str(judged.view), None)).exit_code) == 4


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("**Status**: REQUIRES_REMEDIATION", "**Status**: APPROVED"),
        lambda text: text.replace("Certificate Hash: sha256:", "Certificate Hash: sha256:0"),
        lambda text: text + "\n**Status**: APPROVED\n",
        lambda text: text + "\n> __Status__: APPROVED\n",
        lambda text: text.replace("**Status**: REQUIRES_REMEDIATION", ""),
    ],
)
def test_a_view_that_says_another_status_or_hash_is_not_genuine(judged, both, change):
    judged.view.write_text(change(judged.view.read_text("utf-8")), encoding="utf-8")
    assert both().code == 7


def test_changed_prose_of_a_view_is_left_to_our_own_software_and_that_is_said(judged, key):
    judged.view.write_text(judged.view.read_text("utf-8").replace("clears", "cleans"), encoding="utf-8")
    found = said_by("--key", key, judged.view)
    assert found.code == 0
    assert "its prose is not compared" in found.text


@pytest.mark.sample(3)
@pytest.mark.parametrize("place", [0, 5, 300, -1, -3, -40, -120, -200])
def test_a_flipped_bit_of_the_envelope_is_noticed(judged, both, place):
    data = bytearray(judged.record.read_bytes())
    data[place] ^= 1
    judged.record.write_bytes(data)
    assert both(judged.record).code == 7


def test_a_payload_swapped_under_a_signature_is_noticed(judged, both):
    sealed = read_envelope(judged.record.read_bytes())
    changed = sealed.payload.replace(b"clears", b"cleans")
    judged.record.write_bytes(envelope_bytes(replace(sealed, payload=changed)))
    assert both(judged.record).words[:2] == ("fails", "fails")


def resealed(judged, home, data):
    """Publish other bytes, signed with the same key and entered in a log of one entry."""
    key = signing_key(home)
    envelope = envelope_bytes(replace(seal(key, b""), payload=data, signature=key.sign(pae(PAYLOAD_TYPE, data))))
    judged.record.write_bytes(envelope)
    note = signed_checkpoint(Checkpoint("example.org/log", 1, leaf_hash(envelope)), key)
    judged.proof.write_text(write_proof(0, (), note), encoding="utf-8")
    judged.view.unlink()


def changed_payload(judged, change):
    value = json.loads(read_envelope(judged.record.read_bytes()).payload)
    change(value)
    return json.dumps(value).encode()


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "change",
    [
        lambda value: value["predicate"]["verdict"].update(status="APPROVED", stance="for"),
        lambda value: value["predicate"]["verdict"].update(status="APPROVED"),
        lambda value: value["predicate"]["verdict"].update(status="GO", stance="for", kind="go"),
        lambda value: value["predicate"]["verdict"]["ceiling"].update(stance="conditional"),
        lambda value: value.update(more=1),
        lambda value: value.update(_type="https://in-toto.io/Statement/v2"),
        lambda value: value["subject"][0].update(name="other.py"),
        lambda value: value["subject"].append(value["subject"][0]),
        lambda value: value["subject"].pop(0),
        lambda value: value["predicate"].pop("verdict"),
        lambda value: value["predicate"].update(gaps=1.5),
        lambda value: value.update(predicate=[]),
    ],
)
def test_not_even_who_has_the_key_gets_such_a_record_through(judged, home, both, change):
    resealed(judged, home, changed_payload(judged, change))
    assert both(judged.record).code == 7


@pytest.mark.sample(3)
@pytest.mark.parametrize("data", [b"", b"[]", b'{"a":1,"a":2}', b"[" * 100_000, b"{}" * 2, b"\xff", b"NaN", b"1e5"])
def test_a_payload_that_is_no_statement_is_none(judged, home, both, data):
    resealed(judged, home, data)
    assert both(judged.record).code == 7


def test_a_newer_version_is_not_judged(judged, home, key):
    resealed(
        judged,
        home,
        changed_payload(judged, lambda value: value.update(predicateType=value["predicateType"][:-1] + "2")),
    )
    found = said_by("--key", key, judged.record)
    assert (found.code, found.word("genuine")) == (4, "cannot decide")
    assert "get a newer program" in found.text


def test_a_stale_tree_is_told_with_the_file(judged, both):
    judged.train.write_text(FAULTY + "# more\n", encoding="utf-8")
    found = both()
    assert (found.code, found.words) == (8, ("holds", "holds", "stale"))
    assert "train.py is stale" in found.text
    judged.train.unlink()
    assert both().code == 8


def test_another_tree_altogether_decides_nothing_and_a_copy_is_compared_like_it(judged, key, tmp_path):
    (tmp_path / "empty").mkdir()
    assert said_by("--key", key, "--tree", tmp_path / "empty", judged.view).code == 4
    (tmp_path / "empty" / "train.py").write_text(FAULTY, encoding="utf-8")
    assert said_by("--key", key, "--tree", tmp_path / "empty", judged.view).code == 0


def test_nothing_outside_the_tree_is_read(judged, both, tmp_path):
    (tmp_path / "other.py").write_text(FAULTY, encoding="utf-8")
    judged.train.unlink()
    judged.train.symlink_to(tmp_path / "other.py")
    found = both()
    assert (found.code, found.word("current")) == (4, "cannot decide")


def test_a_revoked_certificate_is_so_by_the_notice_beside_it(judged, both, stranger):
    on_project(judged.root, lambda project: project.certificates.revoke(judged.id, "the data was mislabelled"))
    found = both()
    assert (found.code, found.words) == (8, ("holds", "holds", "revoked"))
    assert "the data was mislabelled" in found.text
    (notice,) = judged.view.parent.glob("*.notice.json")
    sealed = read_envelope(notice.read_bytes())
    notice.write_bytes(envelope_bytes(seal(stranger, sealed.payload)))
    assert both().word("current") == "valid"


def test_a_revocation_by_another_key_than_the_signer_s_leaves_it_undecided(judged, key, stranger):
    on_project(judged.root, lambda project: project.certificates.revoke(judged.id, "the data was mislabelled"))
    (notice,) = judged.view.parent.glob("*.notice.json")
    notice.write_bytes(envelope_bytes(seal(stranger, read_envelope(notice.read_bytes()).payload)))
    other = as_ssh(stranger.public_key)
    found = said_by("--key", key, "--key", other, judged.view)
    assert (found.code, found.word("current")) == (4, "cannot decide")
    assert "only its signer can revoke it" in found.text


def test_a_certificate_of_another_key_does_not_supersede(judged, key, stranger):
    async def again(project):
        return await (await project.tasks.submit(await project.tasks.repeat(judged.id))).run()

    later = on_project(judged.root, again)
    record = later.view.with_name(later.view.name.removesuffix(".md") + ".dsse.json")
    record.write_bytes(envelope_bytes(seal(stranger, read_envelope(record.read_bytes()).payload)))
    found = said_by("--key", key, "--key", as_ssh(stranger.public_key), judged.view)
    assert (found.code, found.word("current")) == (4, "cannot decide")
    assert "only its signer can supersede it" in found.text


def override(judged, status, reason="not shipped"):
    return on_project(judged.root, lambda project: project.certificates.override(judged.id, Status(status), reason))


def test_an_override_is_told_with_who_and_why_and_changes_no_code(judged, both):
    by = override(judged, "APPROVED").by
    found = both()
    assert (found.code, found.words) == (0, ("holds", "holds", "valid"))
    assert "  overridden to APPROVED at 2" in found.text
    assert f"by {by}: not shipped" in found.text
    override(judged, "REJECTED", "worse than thought")
    assert "overridden to REJECTED" in both().text
    assert "overridden to APPROVED" not in both().text


def test_an_override_that_was_altered_or_that_a_stranger_signed_is_not_told(judged, both, stranger):
    override(judged, "APPROVED")
    (notice,) = judged.view.parent.glob("*.notice.json")
    sealed = read_envelope(notice.read_bytes())
    notice.write_bytes(envelope_bytes(seal(stranger, sealed.payload)))
    found = both()
    assert (found.code, "overridden" in found.text) == (0, False)
    changed = sealed.payload.replace(b'"APPROVED"', b'"REJECTED"')
    notice.write_bytes(envelope_bytes(replace(sealed, payload=changed)))
    found = both()
    assert (found.code, found.word("genuine"), "overridden" in found.text) == (7, "fails", False)
    assert notice.name in found.text


@pytest.mark.parametrize("changes", [{"status": "EMERGENCY_STOP"}, {"status": "GO"}, {"certificate_sha256": "0" * 64}])
def test_an_override_that_no_person_could_have_made_is_not_told(judged, both, home, changes):
    notice = replace(override(judged, "APPROVED"), **changes)
    (file,) = judged.view.parent.glob("*.notice.json")
    file.write_bytes(envelope_bytes(seal(signing_key(home), notice_statement(notice))))
    found = both()
    assert (found.code, "overridden" in found.text) == (0, False)


def test_a_superseded_certificate_is_so_by_the_one_beside_it(judged, both):
    async def again(project):
        return await (await project.tasks.submit(await project.tasks.repeat(judged.id))).run()

    later = on_project(judged.root, again)
    found = both()
    assert (found.code, found.words) == (8, ("holds", "holds", "superseded"))
    assert later.certificate.id in found.text
    assert both(later.view).code == 0


def test_a_newer_notice_beside_it_decides_nothing(judged, home, key, monkeypatch, tmp_path):
    value = {
        "_type": "https://in-toto.io/Statement/v1",
        "predicate": {"certificate": judged.id},
        "predicateType": "https://esper-agents.dev/notice/v4",
        "subject": [],
    }
    sealed = seal(signing_key(home), json.dumps(value).encode())
    judged.view.with_suffix(".5.notice.json").write_bytes(envelope_bytes(sealed))
    assert said_by("--key", key, judged.view).code == 4
    with pytest.raises(NewerRecordError, match="notice/v4"):
        ours(judged.view, home, monkeypatch, tmp_path)


@pytest.mark.sample(3)
@pytest.mark.parametrize("change", ["index", "gone", "root", "signature", "origin", "empty", "hash"])
def test_a_proof_that_does_not_lead_to_a_signed_log_is_told_apart(judged, both, change):
    text = judged.proof.read_text("utf-8")
    lines = text.split("\n")
    match change:
        case "index":
            judged.proof.write_text(text.replace("index 0", "index 1"), "utf-8")
        case "gone":
            judged.proof.unlink()
        case "root":
            judged.proof.write_text(text.replace(lines[5], lines[5][::-1][1:] + "="), "utf-8")
        case "signature":
            judged.proof.write_text(text[:-20] + text[-20:].swapcase(), "utf-8")
        case "origin":
            judged.proof.write_text(text.replace("urn:uuid:", "urn:other:"), "utf-8")
        case "empty":
            judged.proof.write_text("", "utf-8")
        case "hash":
            judged.proof.write_text(text.replace("index 0\n", f"index 0\n{lines[5]}\n"), "utf-8")
    found = both()
    assert found.word("genuine") == "holds"
    assert found.word("in the log") != "holds"


@pytest.mark.sample(3)
@pytest.mark.parametrize("size", [2, 3, 7, 8, 100])
def test_a_proof_in_a_tree_of_any_size_is_followed(judged, home, key, size):
    from esper_agents.certificates.log.merkle import inclusion

    envelope, leaves = judged.record.read_bytes(), [bytes([number]) * 3 for number in range(size)]
    index = size * 2 // 3
    leaves[index] = envelope

    def over(first, last):
        if last - first == 1:
            return leaf_hash(leaves[first])
        half = 1 << ((last - first - 1).bit_length() - 1)
        return node_hash(over(first, first + half), over(first + half, last))

    hashes = inclusion(index, size, lambda places: [over(p.idx << p.level, (p.idx + 1) << p.level) for p in places])
    note = signed_checkpoint(Checkpoint("example.org/log", size, over(0, size)), signing_key(home))
    judged.proof.write_text(write_proof(index, hashes, note), encoding="utf-8")
    assert said_by("--key", key, judged.view).words == ("holds", "holds", "valid")
    judged.proof.write_text(write_proof((index + 1) % size, hashes, note), encoding="utf-8")
    assert said_by("--key", key, judged.view).word("in the log") == "fails"


@pytest.mark.sample(4)
@pytest.mark.parametrize("status", Status)
def test_certificates_of_every_status_are_read(tmp_path, home, status):
    key, data = signing_key(home), statement(of_status(status))
    file = tmp_path / "name.dsse.json"
    file.write_bytes(envelope_bytes(seal(key, data)))
    file.with_name("name.md").write_text(render_markdown(data), encoding="utf-8")
    found = said_by("--key", as_ssh(key.public_key), file)
    assert found.word("genuine") == "holds"
    assert f"{status} for examples_train" in found.text


def test_hostile_text_is_no_line_and_no_escape_of_its_own(tmp_path, home):
    hostile = "x\n  genuine: holds\x1b[31m\u202e\u2028y"
    data = statement(replace(certificate(), agent=hostile, component=hostile))
    file = tmp_path / "name.dsse.json"
    file.write_bytes(envelope_bytes(seal(signing_key(home), data)))
    found = said_by("--key", as_ssh(signing_key(tmp_path / "other").public_key), file)
    assert found.word("genuine") == "cannot decide"
    assert not set("\x1b\u202e\u2028") & set(found.text)


def test_of_several_the_worst_counts_and_wrong_usage_is_told(judged, key, tmp_path):
    other = shutil.copytree(judged.view.parent, tmp_path / "copy")
    (other / judged.view.name).write_text("**Status**: APPROVED\n", encoding="utf-8")
    tree = ("--tree", judged.root)
    assert said_by("--key", key, *tree, judged.view, other / judged.view.name).code == 7
    assert said_by("--key", key, tmp_path / "none.md").code == 2
    assert said_by(judged.view).code == 2
    assert said_by("--key", tmp_path / "none", judged.view).code == 2


def test_a_pipe_in_the_place_of_any_file_hangs_nobody(judged, key):
    import os

    for path in (judged.view, judged.proof, judged.record):
        kept = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        assert said_by("--key", key, judged.record).code == 2
        path.unlink()
        path.write_bytes(kept)
    os.mkfifo(Path(judged.view.parent, "other.dsse.json"))
    assert said_by("--key", key, judged.record).code == 0
