"""A person's status in the place of a certificate's own: what it takes, what it changes, and what it does not."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace

import pytest
from judged import judge
from rows import rows_of

from esper_agents.api import open_project, verify_archive, verify_certificate
from esper_agents.certificates.log import transparency_log
from esper_agents.certificates.log.transparency_log import Record
from esper_agents.certificates.notices import log_notices, notice_statement
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.notice import EntryKind, NoticeKind
from esper_agents.domain.status import Status
from esper_agents.errors import ExitCode, IntegrityError, NotCurrentError, NotFoundError, UsageError

pytestmark = pytest.mark.both_databases


@pytest.fixture
def judged(judged_project, monkeypatch):
    monkeypatch.chdir(judged_project.root)
    return judged_project


def on_project(judged, work):
    async def run():
        async with open_project(judged.root) as project:
            return await work(project)

    return asyncio.run(run())


def override(judged, status=Status.APPROVED, reason="the faulty path is not shipped"):
    return on_project(judged, lambda project: project.certificates.override(judged.id, status, reason))


def verified(target):
    return asyncio.run(verify_certificate(str(target), None))


def noticed(judged):
    """Return the overrides that the log has of the certificate, oldest first."""

    def read(store, shop):
        with store.reading() as connection:
            said = transparency_log.notices_about(
                connection, transparency_log.log_of(connection, shop.project.key), judged.id
            )
            return [log_notice.notice for log_notice in log_notices(said)]

    return on_project(judged, lambda project: project.services.store.run(read, project.services))


def entered(judged, notice, key):
    """Enter a notice in the log that the program would not enter, or that another key signed."""

    def write(store, shop):
        with store.writing() as transaction:
            record = Record(notice.id, EntryKind.NOTICE, notice.certificate, notice_statement(notice))
            transparency_log.append(transaction, key, shop.project.key, record)

    on_project(judged, lambda project: project.services.store.run(write, project.services))


def test_an_override_is_told_and_changes_neither_the_certificate_nor_what_verifying_exits_with(judged):
    before = {path: path.read_bytes() for path in (judged.view, judged.record, judged.proof)}
    notice = override(judged)
    assert (notice.kind, notice.status) == (NoticeKind.OVERRIDDEN, Status.APPROVED)
    for target in (judged.id, judged.view, judged.record):
        found = verified(target)
        assert found.certificate.verdict.status is Status.REQUIRES_REMEDIATION
        assert (found.overridden.status, found.overridden.by) == (Status.APPROVED, notice.by)
        assert (found.overridden.reason, found.overridden.is_better) == ("the faulty path is not shipped", True)
        assert found.exit_code is ExitCode.DONE
    assert {path: path.read_bytes() for path in before} == before
    assert not asyncio.run(verify_archive(judged.root)).faults


def test_without_the_archive_the_notice_beside_the_view_tells_it(judged, home, monkeypatch, tmp_path):
    override(judged, reason="first")
    override(judged, Status.REJECTED, "last")
    shutil.copytree(home / "keys", tmp_path / "other" / "keys")
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "other"))
    monkeypatch.delenv("ESPER_DATABASE_URL", raising=False)
    found = verified(judged.view)
    assert "archive" not in {each.name for each in found.genuine}
    assert (found.overridden.status, found.overridden.is_better) == (Status.REJECTED, False)
    # Files can be called anything: what came last is said in what is signed.
    first, last = sorted(judged.view.parent.glob("*.notice.json"))
    kept = first.read_bytes()
    first.write_bytes(last.read_bytes())
    last.write_bytes(kept)
    assert verified(judged.view).overridden.reason == "last"


def test_the_last_override_counts_and_every_one_stays_on_record(judged):
    for status in (Status.APPROVED, Status.CONDITIONALLY_APPROVED):
        override(judged, status)
    assert verified(judged.id).overridden.status is Status.CONDITIONALLY_APPROVED
    assert [each.status for each in noticed(judged)] == ["APPROVED", "CONDITIONALLY_APPROVED"]


def test_an_override_to_its_own_status_takes_the_one_before_back(judged):
    with pytest.raises(UsageError, match="already"):
        override(judged, Status.REQUIRES_REMEDIATION)
    override(judged)
    with pytest.raises(UsageError, match="already"):
        override(judged)
    override(judged, Status.REQUIRES_REMEDIATION, "it is shipped")
    assert verified(judged.id).overridden is None
    assert len(noticed(judged)) == 2
    override(judged)
    assert verified(judged.id).overridden.status is Status.APPROVED


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_an_override_wants_a_reason(judged, reason):
    with pytest.raises(UsageError, match="needs a reason"):
        override(judged, reason=reason)


@pytest.mark.parametrize("status", [Status.GO, Status.RECOMMEND, Status.ADVISORY_ONLY, Status.EMERGENCY_STOP])
def test_a_status_of_another_kind_of_question_and_an_emergency_stop_are_refused(judged, status):
    with pytest.raises(UsageError, match=f"{status} cannot replace") as refused:
        override(judged, status)
    assert "CONDITIONALLY_APPROVED" in refused.value.remedy
    assert noticed(judged) == []


def test_a_certificate_that_is_not_there_is_not_overridden(judged):
    with pytest.raises(NotFoundError):
        override(replace(judged, id="crt_" + "0" * 32))


def test_a_revoked_certificate_is_not_overridden(judged):
    on_project(judged, lambda project: project.certificates.revoke(judged.id, "wrong data"))
    with pytest.raises(NotCurrentError, match="is revoked by ntc_") as refused:
        override(judged)
    assert refused.value.exit_code == 8


def test_a_superseded_certificate_is_not_overridden(judged):
    async def again(project):
        return await (await project.tasks.submit(await project.tasks.repeat(judged.id))).run()

    later = on_project(judged, again).certificate
    with pytest.raises(NotCurrentError, match=f"is superseded by {later.id}"):
        override(judged)


def test_a_certificate_that_was_changed_is_not_overridden(judged, home):
    with rows_of(home) as rows:
        rows.execute("UPDATE certificate SET statement = CAST('changed' AS BLOB)")
    with pytest.raises(IntegrityError):
        override(judged)


def test_an_override_whose_status_was_altered_is_found_and_counts_for_nothing(judged, home):
    override(judged, Status.REJECTED)
    with rows_of(home) as rows:
        said = bytes(rows.execute("SELECT statement FROM log_entry WHERE idx = 1").scalar_one())
        altered = said.replace(b'"REJECTED"', b'"APPROVED"')
        assert altered != said
        rows.execute(f"UPDATE log_entry SET statement = CAST('{altered.decode()}' AS BLOB) WHERE idx = 1")  # noqa: S608 - ours
    found = verified(judged.id)
    assert found.overridden is None
    assert found.exit_code is ExitCode.TAMPERED
    assert asyncio.run(verify_archive(judged.root)).faults
    with pytest.raises(IntegrityError):
        override(judged)


def test_an_override_that_a_stranger_signed_counts_for_nothing(judged, tmp_path):
    made = replace(override(judged), id=new_id(Prefix.NOTICE), status=Status.REJECTED)
    entered(judged, made, signing_key(tmp_path / "stranger"))
    found = verified(judged.id)
    assert found.overridden.status is Status.APPROVED
    assert len(noticed(judged)) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"status": Status.GO},
        {"status": "EMERGENCY_STOP"},
        {"status": Status.REJECTED, "certificate_sha256": "0" * 64},
    ],
)
def test_an_override_that_the_program_would_not_make_counts_for_nothing(judged, home, changes):
    made = replace(override(judged), id=new_id(Prefix.NOTICE), **changes)
    entered(judged, made, signing_key(home))
    assert verified(judged.id).overridden.status is Status.APPROVED


def test_a_listing_tells_nothing_of_an_overridden_certificate_that_was_changed(judged, home):
    override(judged)
    with rows_of(home) as rows:
        rows.execute("UPDATE certificate SET statement = CAST('changed' AS BLOB)")

    async def listed(project):
        return await project.certificates.overrides(await project.certificates.list())

    assert on_project(judged, listed) == {}


def test_a_listing_tells_which_certificates_are_overridden(judged):
    other = judge(judged.root)
    override(judged)

    async def listed(project):
        return await project.certificates.overrides(await project.certificates.list())

    found = on_project(judged, listed)
    assert {name: each.status for name, each in found.items()} == {judged.id: Status.APPROVED}
    override(judged, Status.REQUIRES_REMEDIATION)
    assert on_project(judged, listed) == {}
    assert other.id != judged.id
