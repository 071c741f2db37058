"""Keys by the public API: what `esper keys` does, as typed results."""

from __future__ import annotations

import pytest

from esper_agents.api import accept_project_keys, export_key, list_keys, revoke_key, rotate_key, trust_key
from esper_agents.domain.key_format import KeyFormat
from esper_agents.errors import UsageError


@pytest.fixture
def other(tmp_path, home):
    """The public key of another user."""
    from esper_agents.certificates.signing.signing_key import as_ssh, signing_key

    return as_ssh(signing_key(tmp_path / "other").public_key)


def test_listing_creates_no_key(project, home):
    found = list_keys(project)
    assert (found.own, found.trusted) == (None, ())
    assert not found.private_file.exists()


def test_the_exported_key_is_the_own_key(project, home):
    line = export_key(KeyFormat.SSH, "ann@example.org")
    own = list_keys(project).own
    assert own is not None
    assert line == f"{own.public_key} ann@example.org"
    assert own.key_id.startswith("SHA256:")


def test_a_trusted_key_is_listed_once_with_its_owner(project, home, other):
    assert trust_key(other, "bob@example.org").is_new
    assert not trust_key(other, "bob@example.org").is_new
    (key,) = list_keys(project).trusted
    assert (key.name, key.public_key, key.source) == ("bob@example.org", other, "trusted here")


def test_keys_of_a_project_are_trusted_only_after_acceptance(project, home, other):
    file = project / ".esper/trusted_keys"
    file.parent.mkdir()
    file.write_text(f"bob@example.org {other}\n")
    before = list_keys(project)
    assert before.has_untrusted_file
    assert [each.name for each in before.untrusted] == ["bob@example.org"]
    assert [key.name for key in accept_project_keys(project).keys] == ["bob@example.org"]
    assert [each.name for each in list_keys(project).trusted] == ["bob@example.org"]


def test_rotation_replaces_the_own_key_and_keeps_trusting_the_old_one(judged_project):
    old = list_keys(judged_project.root).own
    done = rotate_key("once a year")
    found = list_keys(judged_project.root)
    assert done.old.key_id == old.key_id
    assert done.new.key_id == found.own.key_id != old.key_id
    assert "own, earlier" in [each.source for each in found.trusted]
    assert len(done.logs) == 1


def test_a_revoked_key_is_named_with_its_logs(judged_project):
    old = rotate_key().old
    done = revoke_key(old.key_id, "the laptop is gone", judged_project.root)
    assert done.key.key_id == old.key_id
    assert len(done.logs) == 1


def test_an_unknown_fingerprint_is_refused(judged_project):
    with pytest.raises(UsageError, match="unknown Ed25519 key"):
        revoke_key(f"SHA256:{'A' * 43}", "gone", judged_project.root)
