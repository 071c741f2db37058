from __future__ import annotations

import os
from hashlib import sha256

import pytest

from esper_agents.certificates.signing import signing_key as keys
from esper_agents.certificates.signing.allowed_signers import MOST_BYTES, NAMESPACE, own_signer, read_signer
from esper_agents.certificates.signing.public_keys import key_id_of
from esper_agents.certificates.signing.signing_key import VARIABLE, locked_folder, signing_key
from esper_agents.certificates.signing.trusted_keys import (
    OWN,
    TrustOrigin,
    accept,
    earlier_file,
    home_file,
    keep_earlier,
    project_file,
    project_keys,
    trust,
    trusted,
)
from esper_agents.errors import UsageError

PROJECT_KEY = "toy-0123456789ab"


@pytest.fixture
def ann(tmp_path):
    return own_signer("ann", signing_key(tmp_path / "ann").public_key)


@pytest.fixture
def bob(tmp_path):
    return own_signer("bob", signing_key(tmp_path / "bob").public_key)


@pytest.fixture
def bring(project):
    """Return what writes the project's file of keys."""

    def write(*signers, data=None):
        place = project_file(project)
        place.parent.mkdir(exist_ok=True)
        text = "".join(f"{signer.line()}\n" for signer in signers).encode() if data is None else data
        place.write_bytes(text)
        return text

    return write


def test_an_empty_home_trusts_nobody_and_stays_empty(home, project, ann):
    found = trusted(home, project, PROJECT_KEY)
    assert found.keys == ()
    assert found.who(ann.raw) is None
    assert list(home.iterdir()) == []


def test_one_s_own_key_is_trusted_to_sign_certificates_and_nothing_else(home):
    key = signing_key(home)
    found = trusted(home, None)
    assert found.who(key.public_key, NAMESPACE) == OWN
    assert found.who(key.public_key, "git") is None
    assert found.public_key(key.key_id) == key.public_key


def test_a_given_key_is_one_s_own(home, tmp_path, monkeypatch):
    key = signing_key(tmp_path / "ci")
    monkeypatch.setenv(VARIABLE, str(keys.key_file(tmp_path / "ci")))
    assert trusted(home, None).who(key.public_key) == OWN


def test_an_earlier_key_of_one_s_own_stays_trusted(home, ann):
    with locked_folder(home):
        keep_earlier(home, ann.raw)
        keep_earlier(home, ann.raw)
    (found,) = trusted(home, None).keys
    assert (found.source, found.signer.raw) == (TrustOrigin.EARLIER, ann.raw)
    assert earlier_file(home).read_text().count("\n") == 1


def test_a_key_that_a_person_trusts_counts_from_then_on(home, ann, bob):
    assert trust(home, ann)
    assert not trust(home, ann)
    assert trust(home, bob)
    found = trusted(home, None)
    assert [found.who(each.raw) for each in (ann, bob)] == ["ann", "bob"]
    assert home_file(home).stat().st_mode & 0o777 == 0o600


def test_lines_that_a_person_wrote_stay_as_they_are(home, ann, bob):
    text = f"# my team\n{bob.line()} since May"
    home_file(home).write_text(text)
    home_file(home).chmod(0o644)
    trust(home, ann)
    assert home_file(home).read_text() == f"{text}\n{ann.line()}\n"


def test_a_key_is_not_trusted_under_two_names(home, ann):
    trust(home, ann)
    with pytest.raises(UsageError, match="already"):
        trust(home, own_signer("mallory", ann.raw))
    assert trusted(home, None).who(ann.raw) == "ann"


def test_a_key_is_one_key_however_often_it_is_named(home, project, bring, ann):
    trust(home, ann)
    accept(home, PROJECT_KEY, bring(own_signer("somebody-else", ann.raw), own_signer("third", ann.raw)))
    found = trusted(home, project, PROJECT_KEY)
    assert [key.signer.principal for key in found.keys] == ["ann"]


def test_a_key_that_a_project_brings_along_is_not_trusted(home, project, bring, ann):
    data = bring(ann)
    found = trusted(home, project, PROJECT_KEY)
    assert found.keys == ()
    assert found.who(ann.raw) is None
    assert found.public_key(key_id_of(ann.raw)) is None
    assert found.allowed_signers() == ""
    assert found.roots() == ()
    assert found.brought == (ann,)
    assert found.brought_sha256 == sha256(data).hexdigest()


def test_a_project_s_keys_count_once_a_person_accepted_that_very_file(home, project, bring, ann):
    accept(home, PROJECT_KEY, bring(ann))
    found = trusted(home, project, PROJECT_KEY)
    assert found.who(ann.raw) == "ann"
    assert found.keys[0].source is TrustOrigin.PROJECT
    assert (found.brought, found.brought_sha256) == ((), "")


@pytest.mark.parametrize("change", [b"# \n", b"\n", b" "])
def test_a_file_that_changed_after_it_was_accepted_counts_no_longer(home, project, bring, ann, change):
    data = bring(ann)
    accept(home, PROJECT_KEY, data)
    bring(data=data + change)
    assert trusted(home, project, PROJECT_KEY).who(ann.raw) is None
    bring(ann, own_signer("mallory", signing_key(home / "mallory").public_key))
    assert trusted(home, project, PROJECT_KEY).roots() == ()
    bring(data=data)
    assert trusted(home, project, PROJECT_KEY).who(ann.raw) == "ann"


def test_accepting_a_file_for_one_project_accepts_it_for_no_other(home, project, bring, ann):
    accept(home, PROJECT_KEY, bring(ann))
    assert trusted(home, project, "toy-ba9876543210").who(ann.raw) is None
    assert trusted(home, None, PROJECT_KEY).who(ann.raw) is None


@pytest.mark.parametrize("project_key", ["", "..", "a/b-0123456789ab", "../x-0123456789ab", "a\0-0123456789ab", "a"])
def test_the_key_of_a_project_never_becomes_another_path(home, project, bring, ann, project_key):
    data = bring(ann)
    with pytest.raises(UsageError):
        accept(home, project_key, data)
    with pytest.raises(UsageError):
        trusted(home, project, project_key)
    assert not any(path.is_file() for path in home.rglob("*"))


@pytest.mark.parametrize("what", ["link", "fifo", "folder", "huge", "link in between"])
def test_a_project_s_file_that_is_no_plain_small_file_is_none(home, project, tmp_path, ann, what):
    place = project_file(project)
    place.parent.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(f"{ann.line()}\n")
    match what:
        case "link":
            place.symlink_to(elsewhere)
        case "fifo":
            os.mkfifo(place)
        case "folder":
            place.mkdir()
        case "huge":
            place.write_bytes(b"#" * (MOST_BYTES + 1))
        case "link in between":
            place.parent.rmdir()
            place.parent.symlink_to(tmp_path / "no such folder")
    assert project_keys(project) is None
    assert trusted(home, project, PROJECT_KEY).brought == ()


@pytest.mark.parametrize("bits", [0o602, 0o620, 0o666])
def test_a_file_of_trusted_keys_that_others_can_write_trusts_nobody_and_says_so(home, ann, bob, bits):
    trust(home, ann)
    home_file(home).chmod(bits)
    found = trusted(home, None)
    assert found.keys == ()
    assert "only you can write" in found.refused[0].why
    with pytest.raises(UsageError, match="cannot add to"):
        trust(home, bob)


def test_an_accepted_digest_that_others_can_write_accepts_nothing(home, project, bring, ann):
    accept(home, PROJECT_KEY, bring(ann))
    (home / "projects" / PROJECT_KEY / "accepted_trusted_keys").chmod(0o666)
    assert trusted(home, project, PROJECT_KEY).who(ann.raw) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="files of another user were NOT tried: this is not root")
def test_a_file_of_trusted_keys_of_another_user_trusts_nobody(home, ann):
    trust(home, ann)
    os.chown(home_file(home), 12345, 12345)
    assert trusted(home, None).keys == ()


def test_lines_that_are_not_taken_are_named_and_the_rest_counts(home, project, bring, ann, bob):
    home_file(home).write_text(f"* {ann.kind} {ann.blob}\n{bob.line()}\n")
    home_file(home).chmod(0o600)
    bring(data=f"nonsense\n{ann.line()}\n".encode())
    found = trusted(home, project, PROJECT_KEY)
    assert [each.where for each in found.refused] == [f"{home_file(home)}:1", ".esper/trusted_keys:1"]
    assert found.who(bob.raw) == "bob"


def test_a_key_for_other_purposes_signs_no_certificate(home, ann):
    home_file(home).write_text(f'ann namespaces="git" {ann.kind} {ann.blob}\n')
    home_file(home).chmod(0o600)
    found = trusted(home, None)
    assert found.who(ann.raw, NAMESPACE) is None
    assert found.who(ann.raw, "git") == "ann"
    assert found.roots() == ()


def test_one_s_own_key_gives_no_second_opinion(home, ann):
    signing_key(home)
    trust(home, ann)
    assert [read_signer(line).principal for line in trusted(home, None).allowed_signers().splitlines()] == ["ann"]
