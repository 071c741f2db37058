"""Enrolled worker keys: valid for whoever trusts the person who enrolled them, on every machine."""

from __future__ import annotations

import asyncio

import pytest
from judged import FAULTY, judge

from esper_agents.api import check_health, enroll_keys, open_project, revoke_key, trust_key
from esper_agents.archive.log_discovery import open_logs
from esper_agents.certificates.log import transparency_log
from esper_agents.certificates.notices import log_notices
from esper_agents.certificates.signing.public_keys import as_ssh
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.domain.notice import NoticeKind
from esper_agents.errors import ExitCode, UsageError

pytestmark = pytest.mark.postgresql


class Machine:
    """One machine: a data directory of its own, and the shared database."""

    def __init__(self, home, monkeypatch):
        self.home, self._monkeypatch = home, monkeypatch
        self.line = f"{as_ssh(signing_key(home).public_key)} {home.name}@example.org"

    def use(self):
        self._monkeypatch.setenv("ESPER_HOME", str(self.home))
        return self

    def verify_all(self, root):
        async def run():
            async with open_project(root) as project:
                return await project.certificates.verify_all()

        self.use()
        return asyncio.run(run()).exit_code

    def unknown(self, root):
        self.use()
        return asyncio.run(check_health(root)).database.unknown_signers


@pytest.fixture
def shared(monkeypatch, postgresql_url):
    monkeypatch.setenv("ESPER_DATABASE_URL", postgresql_url.render_as_string(hide_password=False))


@pytest.fixture
def team(shared, tmp_path, monkeypatch, make_project):
    """Return a project in a shared database, and the machines of ann and of a worker, which both signed in it."""
    root = make_project({"train.py": FAULTY})
    ann, worker = (Machine(tmp_path / name, monkeypatch) for name in ("ann", "worker"))
    for machine in (ann, worker):
        machine.use()
        judge(root)
    return root, ann, worker


def test_two_machines_verify_everything_once_the_worker_is_enrolled_and_trusts_the_person(team):
    root, ann, worker = team
    assert ann.verify_all(root) is not ExitCode.DONE
    assert worker.verify_all(root) is not ExitCode.DONE
    ann.use()
    enroll_keys(worker.line)
    worker.use()
    trust_key(ann.line)
    judge(root)
    assert [each.verify_all(root) for each in team[1:]] == [ExitCode.DONE, ExitCode.DONE]


def test_a_machine_that_trusts_the_person_alone_verifies_what_workers_signed(team, tmp_path, monkeypatch):
    root, ann, worker = team
    ann.use()
    enroll_keys(worker.line, reason="the first worker")
    third = Machine(tmp_path / "third", monkeypatch).use()
    assert third.verify_all(root) is not ExitCode.DONE
    trust_key(ann.line)
    assert third.verify_all(root) is ExitCode.DONE


def test_doctor_names_unknown_signers_until_they_are_enrolled(team):
    root, ann, worker = team
    (unknown,) = ann.unknown(root)
    assert (unknown.key_id, unknown.entries) == (signing_key(worker.home).key_id, 1)
    problems = asyncio.run(check_health(root)).problems
    (said,) = [each for each in problems if unknown.key_id in each.problem]
    assert "esper keys enroll" in said.remedy
    enroll_keys(worker.line)
    assert ann.unknown(root) == ()


def test_a_stranger_s_enrollment_has_no_effect_for_others(team, tmp_path, monkeypatch):
    root, ann, worker = team
    stranger = Machine(tmp_path / "stranger", monkeypatch).use()
    assert enroll_keys(worker.line).logs
    assert {each.key_id for each in ann.unknown(root)} == {signing_key(each.home).key_id for each in (worker, stranger)}
    assert enroll_keys(worker.line).logs, "the notice of a stranger does not stand in for one's own"
    assert [each.key_id for each in ann.unknown(root)] == [signing_key(stranger.home).key_id]


def test_a_key_is_enrolled_once_and_in_every_log_of_the_database(team, make_project):
    _root, ann, worker = team
    ann.use()
    judge(make_project({"train.py": FAULTY}, name="other"))
    assert enroll_keys(worker.line).logs
    assert enroll_keys(worker.line).logs == ()
    with open_logs(ann.home) as (store,), store.reading() as connection:
        for log_id in transparency_log.logs(connection):
            kinds = [each.notice.kind for each in log_notices(transparency_log.notices(connection, log_id))]
            assert kinds == [NoticeKind.KEY_ENROLLED]


def test_a_revoked_worker_is_not_enrolled_again_and_its_later_entries_do_not_count(team):
    root, ann, worker = team
    ann.use()
    enroll_keys(worker.line)
    revoke_key(signing_key(worker.home).key_id, "stolen", root)
    with pytest.raises(UsageError, match="revoked"):
        enroll_keys(worker.line)
    worker.use()
    judge(root)
    assert ann.verify_all(root) is ExitCode.TAMPERED


def test_a_key_that_signs_no_certificates_and_a_machine_without_a_log_are_refused(home, tmp_path):
    key = signing_key(tmp_path / "worker")
    with pytest.raises(UsageError, match="no signing key"):
        enroll_keys(as_ssh(key.public_key), "worker@example.org")
    signing_key(home)
    with pytest.raises(UsageError, match="no log exists"):
        enroll_keys(as_ssh(key.public_key), "worker@example.org")
