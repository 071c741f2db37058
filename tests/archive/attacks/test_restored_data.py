"""A data directory restored from an older copy: signed notices in published files are not forgotten with it."""

from __future__ import annotations

import asyncio
import shutil
from hashlib import sha256

import pytest
from command_line import build
from typer.testing import CliRunner

from esper_agents.api import open_project
from esper_agents.certificates.notices import notice_statement
from esper_agents.certificates.signing.dsse import envelope_bytes, read_envelope, seal
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.domain.notice import LogNoticeStatement, NoticeKind
from esper_agents.domain.status import Status


def on_project(root, work):
    async def run():
        async with open_project(root) as project:
            return await work(project)

    return asyncio.run(run())


def notices(judged):
    return sorted(judged.view.parent.glob(f"{judged.view.stem}.*.notice.json"))


def run(*arguments):
    return CliRunner().invoke(build(), [str(argument) for argument in arguments])


def verify(*arguments):
    return run("certificates", "verify", *arguments)


def revoke(project, judged):
    return project.certificates.revoke(judged.id, "the data set was mislabelled")


def override(project, judged):
    return project.certificates.override(judged.id, Status.REJECTED, "not on my watch")


@pytest.fixture
def restored(judged, home, tmp_path):
    """Return what publishes a notice and then restores the data directory of before."""

    def restore(work):
        before = tmp_path / "before"
        shutil.copytree(home, before)
        on_project(judged.root, lambda project: work(project, judged))
        shutil.rmtree(home)
        shutil.copytree(before, home)
        return judged

    return restore


@pytest.mark.parametrize(("work", "name"), [(revoke, "revocation"), (override, "override")])
def test_a_signed_notice_that_the_log_does_not_contain_is_not_authentic(restored, work, name):
    judged = restored(work)
    for target in (judged.id, judged.view, judged.record, judged.view.with_suffix(".html"), "--all"):
        done = verify(target)
        assert done.exit_code == 7
        said = " ".join(done.stdout.split())
        assert f"the {name} ntc_" in said
        assert "the data directory is older than the published files" in said
    done = run("gate", "train.py", "--json")
    assert done.exit_code == 7
    assert '"standing": "tampered"' in done.stdout
    assert f"the {name} ntc_" in done.stdout


def test_a_revocation_that_the_log_does_not_contain_revokes_by_whatever_name_is_verified(restored):
    judged = restored(revoke)
    for target in (judged.id, judged.view, judged.view.with_suffix(".html"), judged.record):
        done = verify(target)
        assert done.exit_code == 7
        assert "current: revoked" in done.stdout
    assert f"{judged.id}: genuine fails" in " ".join(verify("--all").stdout.split())
    assert "revoked" in verify("--all").stdout


def test_a_repair_enters_lost_notices_again_and_the_certificate_stays_revoked(restored):
    judged = restored(revoke)
    done = run("certificates", "repair")
    assert done.exit_code == 0
    said = " ".join(done.stdout.split())
    assert "entered in the log again: the revocation ntc_" in said
    assert "the data set was mislabelled" in said
    assert "entered in the log again" not in run("certificates", "repair").stdout
    assert verify(judged.id).exit_code == 8
    assert verify("--all").exit_code == 0
    assert run("gate", "train.py").exit_code == 8


def test_a_repair_that_accepts_a_rollback_enters_lost_notices_again(judged, home, tmp_path):
    (database,) = home.glob("projects/*/esper.db")
    shutil.copy(database, tmp_path / "before.db")
    on_project(judged.root, lambda project: revoke(project, judged))
    for path in database.parent.glob("esper.db*"):
        path.unlink()
    shutil.copy(tmp_path / "before.db", database)
    assert verify(judged.id).exit_code == 7
    assert run("certificates", "repair", "--accept-rollback").exit_code == 0
    assert verify(judged.id).exit_code == 8


def test_a_notice_of_an_unknown_key_decides_nothing(restored, tmp_path):
    judged = restored(revoke)
    (notice,) = notices(judged)
    stranger = signing_key(tmp_path / "stranger")
    notice.write_bytes(envelope_bytes(seal(stranger, read_envelope(notice.read_bytes()).payload)))
    assert verify(judged.id).exit_code == 0
    assert verify(judged.view).exit_code == 0
    assert "in the log again" not in run("certificates", "repair").stdout


def test_a_countersignature_that_the_log_does_not_contain_is_not_authentic(judged, home):
    digest = sha256(read_envelope(judged.record.read_bytes()).payload).hexdigest()
    notice = LogNoticeStatement(
        id=f"ntc_{'0' * 32}",
        kind=NoticeKind.COUNTERSIGNED,
        at="2026-01-31T09:30:00.000Z",
        by="ann",
        reason="",
        certificate=judged.id,
        certificate_sha256=digest,
        signature="armoured",
    )
    beside = judged.view.with_suffix(".7.notice.json")
    beside.write_bytes(envelope_bytes(seal(signing_key(home), notice_statement(notice))))
    done = verify(judged.id)
    assert done.exit_code == 7
    assert f"the countersignature {notice.id}" in " ".join(done.stdout.split())


def test_a_notice_about_another_certificate_decides_nothing(restored, home):
    judged = restored(revoke)
    (notice,) = notices(judged)
    payload = read_envelope(notice.read_bytes()).payload
    other = payload.replace(judged.id.encode(), f"crt_{'0' * 32}".encode())
    notice.write_bytes(envelope_bytes(seal(signing_key(home), other)))
    assert verify(judged.id).exit_code == 0


def test_a_notice_beside_a_deleted_view_is_not_passed_over(restored):
    judged = restored(revoke)
    for each in (judged.view, judged.view.with_suffix(".html"), judged.record, judged.proof):
        each.unlink()
    assert verify(judged.id).exit_code == 7
    assert verify("--all").exit_code == 7


def test_a_revocation_that_is_in_the_log_is_no_loss(judged):
    on_project(judged.root, lambda project: revoke(project, judged))
    assert verify(judged.id).exit_code == 8
    assert verify("--all").exit_code == 0
