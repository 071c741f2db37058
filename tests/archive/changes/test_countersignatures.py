"""Whose countersignatures count, for a certificate that several people looked at."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import replace

import pytest
from judged import judge
from rows import rows_of

from esper_agents.api import open_project
from esper_agents.archive.changes.countersignatures import (
    Countersigner,
    check_countersignatures,
    countersign_certificate,
)
from esper_agents.archive.changes.key_changes import ChangeReason, revoke
from esper_agents.archive.verification.signature import Keyring
from esper_agents.certificates.check import CheckOutcome
from esper_agents.certificates.log import transparency_log
from esper_agents.certificates.notices import enter_notice, log_notices
from esper_agents.certificates.signing.key_history import key_history
from esper_agents.certificates.signing.key_input import claimed_signer
from esper_agents.certificates.signing.trusted_keys import trust, trusted
from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.errors import IntegrityError, NotFoundError, UsageError

pytestmark = pytest.mark.both_databases


@pytest.fixture
def judged(judged_project):
    return judged_project


@pytest.fixture
def ann(tmp_path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ann", "-f", tmp_path / "ann"], check=True)
    return tmp_path / "ann"


def at(judged, work):
    """Return what work makes of the open project's store and place."""

    async def run():
        async with open_project(judged.root) as project:
            return await project.services.store.run(work, project.services.place)

    return asyncio.run(run())


def countersign(judged, home, key, certificate_id=""):
    by = Countersigner(key, "somebody", "read it", home)
    return at(judged, lambda store, shop: countersign_certificate(store, shop, certificate_id or judged.id, by))


def checks(judged, home):
    def work(store, shop):
        with store.reading() as connection:
            log_id = transparency_log.log_of(connection, shop.project.key)
            keys = trusted(home, None)
            ring = Keyring(keys, key_history(log_notices(transparency_log.notices(connection, log_id)), keys.roots()))
            data = transparency_log.envelope(connection, log_id, judged.id).payload
            return check_countersignatures(connection, log_id, judged.id, data, ring)

    return at(judged, work)


def key_of(key):
    return claimed_signer(str(key.with_name(f"{key.name}.pub")), "ann")


def test_a_certificate_that_nobody_countersigned_has_no_such_check(home, judged):
    assert checks(judged, home) == ()


def test_a_countersignature_counts_once_its_key_is_trusted(home, judged, ann):
    countersign(judged, home, ann)
    assert [check.outcome for check in checks(judged, home)] == [CheckOutcome.CANNOT_DECIDE]
    trust(home, key_of(ann))
    (found,) = checks(judged, home)
    assert found.outcome is CheckOutcome.HOLDS
    assert "by ann" in found.detail


def test_a_countersignature_after_the_key_was_revoked_counts_for_nothing(home, judged, ann):
    from esper_agents.git.find_project import find_project

    trust(home, key_of(ann))
    key = find_project([judged.root], judged.root).key
    revoke(home, key_of(ann).raw, ChangeReason("me", "stolen"), project_key=key)
    countersign(judged, home, ann)
    (found,) = checks(judged, home)
    assert found.outcome is CheckOutcome.FAILS
    assert "revoked" in found.detail


def test_a_countersignature_moved_from_another_certificate_fails(home, judged, ann):
    other = judge(judged.root)
    notice = countersign(judged, home, ann, other.id)
    trust(home, key_of(ann))

    def move(store, shop):
        with store.writing() as transaction:
            moved = replace(notice, id=new_id(Prefix.NOTICE), certificate=judged.id)
            enter_notice(transaction, shop.project.key, moved)

    at(judged, move)
    (found,) = checks(judged, home)
    assert found.outcome is CheckOutcome.FAILS


def test_one_key_countersigns_a_certificate_once(home, judged, ann):
    countersign(judged, home, ann)
    with pytest.raises(UsageError, match="already"):
        countersign(judged, home, ann)


def test_what_was_changed_in_the_archive_is_not_countersigned(home, judged, ann):
    with rows_of(home) as rows:
        rows.execute("UPDATE certificate SET statement = CAST('changed' AS BLOB)")
    with pytest.raises(IntegrityError):
        countersign(judged, home, ann)


def test_a_certificate_that_is_not_there_is_not_countersigned(home, judged, ann):
    with pytest.raises(NotFoundError):
        countersign(judged, home, ann, "crt_" + "0" * 32)
