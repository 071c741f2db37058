from __future__ import annotations

import asyncio
import shutil
import threading
from collections import Counter
from contextlib import asynccontextmanager
from itertools import accumulate

import pytest
from sqlalchemy import create_engine, text
from toys import Toybox, agent_file, calling, calls

from esper_agents.api import verify_archive
from esper_agents.api import worker as worker_module
from esper_agents.api.worker import open_worker
from esper_agents.api.worker_events import WorkerEventKind
from esper_agents.domain.evidence import Risk
from esper_agents.domain.session import SessionState
from esper_agents.errors import ExitCode, NewerDatabaseError, StorageError
from esper_agents.orchestration import certify, drift
from esper_agents.orchestration.project_services import ServiceOverrides
from esper_agents.storage import lease
from esper_agents.storage.database_url import SqliteUrl
from esper_agents.storage.postgres_schema import VERSION_TABLE
from esper_agents.storage.schema_names import SCHEMA

pytestmark = [pytest.mark.anyio, pytest.mark.both_databases]


@pytest.fixture
def looking(toybox) -> Toybox:
    for name in ("one", "two"):
        toybox.tool(name)
    toybox.agent("worker", calling("one", "two"))
    return toybox


@pytest.fixture
def hire(monkeypatch):
    """Return what opens a worker with everything in a box, and what it told."""

    @asynccontextmanager
    async def opened(box, *, concurrency=8, **options):
        told = []
        additions = ServiceOverrides(tuple(box.tools), box.playbooks, (box.folder,))
        async with open_worker(
            box.project, concurrency=concurrency, tell=told.append, additions=additions, **options
        ) as worker:
            worker.told = told
            yield worker

    return opened


async def enqueued(box, count=1, agent="worker"):
    async with box.open() as opened:
        return [
            await opened.tasks.enqueue(opened.tasks.create("review this", [box.project / "train.py"], agent=agent))
            for _ in range(count)
        ]


async def found(box, names):
    async with box.open() as opened:
        return [await opened.sessions.get(name) for name in names]


async def until(holds):
    while not holds():  # noqa: ASYNC110 - what is waited for happens in other threads, too
        await asyncio.sleep(0.01)


def said(worker, what):
    return [each.name for each in worker.told if each.what is what]


async def test_a_queued_session_is_run_to_its_certificate(looking, hire):
    (name,) = await enqueued(looking)
    async with hire(looking) as worker:
        await worker.run(once=True, poll_s=0.05)
    (session,) = await found(looking, [name])
    assert (session.state, session.is_owned) == (SessionState.DONE, False)
    assert [each.what for each in worker.told] == [WorkerEventKind.TAKEN, WorkerEventKind.ENDED]
    assert looking.effects() == ["one", "two"]
    async with looking.open() as opened:
        assert (await opened.certificates.read(session.certificate)).session == name
        assert (await opened.certificates.audit_log()).faults == ()


async def test_there_may_be_nothing_to_do(looking, hire):
    await enqueued(looking, 0)
    async with hire(looking) as worker:
        await worker.run(once=True, poll_s=0.05)
    assert worker.told == []


@pytest.mark.slow
async def test_sixty_four_sessions_at_once_all_end_and_each_call_is_made_once(looking, hire):
    names = await enqueued(looking, 64)
    async with hire(looking, concurrency=64) as worker:
        await worker.run(once=True, poll_s=0.05)
    assert Counter(each.what for each in worker.told) == {WorkerEventKind.TAKEN: 64, WorkerEventKind.ENDED: 64}
    assert {each.state for each in await found(looking, names)} == {SessionState.DONE}
    assert Counter(looking.effects()) == {"one": 64, "two": 64}


async def test_no_more_run_at_once_than_may(looking, hire):
    running, most = 0, 0

    async def during(_context):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    looking.tool("slow", during=during)
    looking.agent("slowly", calling("slow"))
    await enqueued(looking, 7, "slowly")
    async with hire(looking, concurrency=3) as worker:
        await worker.run(once=True, poll_s=0.05)
    assert len(said(worker, WorkerEventKind.ENDED)) == 7
    assert 1 <= most <= 3
    steps = {WorkerEventKind.TAKEN: 1, WorkerEventKind.ENDED: -1}
    assert max(accumulate(steps.get(event.what, 0) for event in worker.told)) <= 3


async def test_a_session_that_needs_a_person_is_left_waiting(toybox, hire):
    toybox.tool("erase", risk=Risk.HIGH)
    toybox.agent("worker", calling("erase"))
    (name,) = await enqueued(toybox)
    async with hire(toybox) as worker:
        await worker.run(once=True, poll_s=0.05)
    assert said(worker, WorkerEventKind.WAITING) == [name]
    assert [each.state for each in await found(toybox, [name])] == [SessionState.WAITING]
    assert toybox.effects() == []
    async with toybox.open() as opened:
        outcome = await (await opened.approvals.answer(name, "approve")).run()
    assert outcome.state is SessionState.DONE
    assert toybox.effects() == ["erase"]


def broken(_brief):
    yield calls("one")
    raise ZeroDivisionError("the playbook is broken")


async def test_a_session_that_fails_stops_neither_the_worker_nor_the_others(looking, hire):
    looking.agent("broken", broken)
    (bad,) = await enqueued(looking, agent="broken")
    good = await enqueued(looking, 3)
    async with hire(looking) as worker:
        await worker.run(once=True, poll_s=0.05)
    assert said(worker, WorkerEventKind.FAILED) == [bad]
    assert worker.failed == 1
    assert {each.state for each in await found(looking, good)} == {SessionState.DONE}
    (left,) = await found(looking, [bad])
    assert (left.state, left.is_owned, left.is_queued) == (SessionState.OPEN, False, False)
    (problem,) = [each for each in worker.told if each.what is WorkerEventKind.FAILED]
    assert "the playbook is broken" in problem.text
    async with hire(looking) as second:
        await second.run(once=True, poll_s=0.05)
    assert second.told == []


async def test_a_session_that_the_database_failed_is_not_taken_again_at_once(looking, hire, monkeypatch):
    (name,) = await enqueued(looking)
    plain, failures = drift.find_drift, [StorageError("the database is away", remedy="wait")]

    def find_drift(*arguments):
        if failures:
            raise failures.pop()
        return plain(*arguments)

    monkeypatch.setattr(drift, "find_drift", find_drift)
    async with hire(looking) as worker:
        await worker.run(once=True, poll_s=0.05)
    assert [each.what for each in worker.told] == [WorkerEventKind.TAKEN, WorkerEventKind.FAILED]
    (left,) = await found(looking, [name])
    assert (left.state, left.is_queued) == (SessionState.OPEN, True)


async def test_a_session_whose_agent_has_changed_is_left_for_a_person(looking, hire):
    (name,) = await enqueued(looking)
    stop = []
    looking.tool("halt", during=lambda _context: _call(stop[0]))
    looking.agent("halting", calling("halt", "one"))
    (halted,) = await enqueued(looking, agent="halting")
    async with hire(looking, concurrency=1) as worker:
        stop.append(worker.stop)
        await worker.run(once=True, poll_s=0.05)
    assert said(worker, WorkerEventKind.GIVEN_BACK) == [halted]
    agent_file(looking.folder, "halting", tools=None, extra="model: another\n")
    async with hire(looking) as worker:
        await worker.run(once=True, poll_s=0.05)
    (failed,) = [each for each in worker.told if each.what is WorkerEventKind.FAILED]
    assert failed.name == halted
    assert failed.text.startswith(f"definitions changed since session {halted} started: agent halting")
    assert failed.remedy.startswith(f"`esper resume {halted} --definitions current`")
    assert [each.state for each in await found(looking, [name, halted])] == [SessionState.DONE, SessionState.OPEN]


async def _call(do):
    do()


async def test_who_is_stopped_gives_its_sessions_back_between_two_steps_and_another_goes_on(looking, hire):
    stop = []
    looking.tool("halt", during=lambda _context: _call(stop[0]))
    looking.agent("halting", calling("one", "halt", "two"))
    names = await enqueued(looking, 2, "halting")
    async with hire(looking, concurrency=2) as first:
        stop.append(first.stop)
        await first.run(once=False, poll_s=30)
    left = await found(looking, names)
    assert {(each.is_owned, each.is_queued) for each in left if each.state is SessionState.OPEN} == {(False, True)}
    assert said(first, WorkerEventKind.GIVEN_BACK)
    stop[:] = [lambda: None]
    async with hire(looking) as second:
        await second.run(once=True, poll_s=0.05)
    assert {each.state for each in await found(looking, names)} == {SessionState.DONE}
    assert Counter(looking.effects()) == {"one": 2, "halt": 2, "two": 2}


async def test_a_session_that_is_stopped_while_it_publishes_is_left_to_the_next_worker(looking, hire, monkeypatch):
    loop = asyncio.get_running_loop()
    (name,) = await enqueued(looking)
    async with hire(looking) as first:

        def stopped(*_):
            loop.call_soon_threadsafe(first.stop_at_once)
            threading.Event().wait(0.3)

        with monkeypatch.context() as patched:
            patched.setattr(certify, "publish", stopped)
            await first.run(once=True, poll_s=0.05)
    assert said(first, WorkerEventKind.GIVEN_BACK) == [name]
    (left,) = await found(looking, [name])
    assert (left.state, left.is_owned) == (SessionState.OPEN, False)
    async with hire(looking) as second:
        await second.run(once=True, poll_s=0.05)
    assert said(second, WorkerEventKind.ENDED) == [name]
    whole = await verify_archive(looking.project)
    assert (len(whole.certificates), whole.is_published, whole.exit_code) == (1, True, ExitCode.DONE)
    assert looking.effects() == ["one", "two"]


async def test_two_workers_share_the_work_and_never_a_session(looking, hire):
    names = await enqueued(looking, 24)
    async with hire(looking, concurrency=3) as first, hire(looking, concurrency=3) as second:
        await asyncio.gather(*(each.run(once=True, poll_s=0.05) for each in (first, second)))
    taken = said(first, WorkerEventKind.TAKEN) + said(second, WorkerEventKind.TAKEN)
    assert sorted(taken) == sorted(names)
    assert said(first, WorkerEventKind.TAKEN)
    assert said(second, WorkerEventKind.TAKEN)
    assert Counter(looking.effects()) == {"one": 24, "two": 24}


async def test_work_that_comes_later_is_found(looking, hire, rows_in):
    """On PostgreSQL a notice tells of it: there the worker polls once an hour."""
    await enqueued(looking, 0)
    is_notified = rows_in == "postgresql"
    async with hire(looking) as worker:
        working = asyncio.create_task(worker.run(once=False, poll_s=3600 if is_notified else 0.05))
        await until(lambda: worker._notices.is_listening or not is_notified)
        names = await enqueued(looking, 2)
        await until(lambda: len(said(worker, WorkerEventKind.ENDED)) == 2)
        worker.stop()
        await working
    assert sorted(said(worker, WorkerEventKind.ENDED)) == sorted(names)


async def test_a_session_whose_owner_died_is_taken_over(looking, hire):
    async with looking.open() as opened:
        session = await looking.submit(opened, "worker")
        # Its heart never beats: it does not run.
        held = session._lease
        await opened.services.store.run(_age, held)
    async with hire(looking) as worker:
        await worker.run(once=True, poll_s=0.05)
    assert said(worker, WorkerEventKind.ENDED) == [session.id]


def _age(store, held):
    from sqlalchemy import text

    with store.writing() as transaction:
        given = {"then": transaction.now_ms - 1, "id": held.session}
        transaction.connection.execute(text("UPDATE session SET expires_ms = :then WHERE id = :id"), given)


async def test_heartbeats_go_on_while_tools_have_taken_every_other_thread(looking, hire, monkeypatch):
    monkeypatch.setattr(lease, "LEASE_MS", 400)
    beats = []
    plain = lease.beat

    def counted(store, held):
        beats.append(held.session)
        plain(store, held)

    monkeypatch.setattr(lease, "beat", counted)

    async def during(_context):
        blocked = threading.Event()
        hogs = [asyncio.get_running_loop().run_in_executor(None, blocked.wait) for _ in range(40)]
        await until(lambda: len(beats) >= 6)
        blocked.set()
        await asyncio.gather(*hogs)

    looking.tool("hog", during=during)
    looking.agent("hogging", calling("hog"))
    (name,) = await enqueued(looking, agent="hogging")
    async with hire(looking) as worker:
        await worker.run(once=True, poll_s=0.05)
    assert said(worker, WorkerEventKind.ENDED) == [name]


async def test_sessions_of_a_project_that_is_not_on_this_machine_are_left_alone_and_that_is_said_once(
    looking, hire, rows_in, make_project, monkeypatch
):
    if rows_in == "sqlite":
        pytest.skip("only a shared database knows several projects")
    away = Toybox(make_project(name="away"), looking.folder, looking.migrated, looking.playbooks, looking.tools)
    names = await enqueued(away, 2)
    (mine,) = await enqueued(looking)
    shutil.rmtree(away.project)
    monkeypatch.chdir(looking.project)
    told = []
    additions = ServiceOverrides(tuple(looking.tools), looking.playbooks, (looking.folder,))
    async with open_worker(concurrency=2, tell=told.append, additions=additions) as worker:
        await worker.run(once=True, poll_s=0.05)
        await worker.run(once=True, poll_s=0.05)
    assert [each.text for each in told if each.what is WorkerEventKind.AWAY] == [
        f"sessions of {str(away.project)!r} are skipped: the project is not on this machine"
    ]
    assert [each.name for each in told if each.what is WorkerEventKind.ENDED] == [mine]
    assert not set(names) & {each.name for each in told}


async def test_one_worker_serves_every_project_of_a_shared_database(looking, hire, rows_in, make_project, monkeypatch):
    if rows_in == "sqlite":
        pytest.skip("only a shared database knows several projects")
    other = Toybox(make_project(name="other"), looking.folder, looking.migrated, looking.playbooks, looking.tools)
    names = [*await enqueued(looking), *await enqueued(other)]
    monkeypatch.chdir("/")
    told = []
    additions = ServiceOverrides(tuple(looking.tools), looking.playbooks, (looking.folder,))
    async with open_worker(concurrency=2, tell=told.append, additions=additions) as worker:
        await worker.run(once=True, poll_s=0.05)
    assert sorted(each.name for each in told if each.what is WorkerEventKind.ENDED) == sorted(names)
    assert looking.effects() == other.effects() == ["one", "two"]
    for box, name in zip((looking, other), names, strict=True):
        async with box.open() as opened:
            assert (await opened.certificates.view((await opened.sessions.get(name)).certificate)).is_relative_to(
                box.project
            )


async def test_a_database_that_is_away_for_a_while_is_waited_for(looking, hire, monkeypatch):
    from esper_agents.storage import queue

    plain, fails = queue.queued_projects, 3

    def away(store, **options):
        nonlocal fails
        if fails:
            fails -= 1
            raise StorageError("the database cannot be reached", remedy="start it")
        return plain(store, **options)

    monkeypatch.setattr(queue, "queued_projects", away)
    (name,) = await enqueued(looking)
    async with hire(looking) as worker:
        working = asyncio.create_task(worker.run(once=False, poll_s=0.01))
        await until(lambda: said(worker, WorkerEventKind.ENDED))
        worker.stop()
        await working
    assert [each.text for each in worker.told if each.what is WorkerEventKind.TROUBLE] == [
        "the database cannot be reached"
    ]
    assert said(worker, WorkerEventKind.ENDED) == [name]


async def test_a_cancelled_session_ends_in_the_worker_that_runs_it(looking, hire):
    begun, go = asyncio.Event(), asyncio.Event()

    async def during(_context):
        begun.set()
        await go.wait()

    looking.tool("hold", during=during)
    looking.agent("holding", calling("hold", "one"))
    (name,) = await enqueued(looking, agent="holding")
    async with hire(looking) as worker:
        working = asyncio.create_task(worker.run(once=True, poll_s=0.05))
        await begun.wait()
        async with looking.open() as opened:
            await opened.sessions.cancel(name)
        go.set()
        await working
    assert [each.state for each in await found(looking, [name])] == [SessionState.CANCELLED]
    assert looking.effects() == ["hold"]


@pytest.mark.slow
async def test_certificates_that_two_workers_issue_in_one_second_are_all_genuine(looking, hire, monkeypatch):
    names = await enqueued(looking, 12)
    async with hire(looking, concurrency=4) as one, hire(looking, concurrency=4) as other:
        for worker in (one, other):
            monkeypatch.setattr(worker._store.store, "_clock", lambda _: 4_000_000_000_000)
        await asyncio.gather(*(each.run(once=True, poll_s=0.05) for each in (one, other)))
    assert sorted(said(one, WorkerEventKind.ENDED) + said(other, WorkerEventKind.ENDED)) == sorted(names)
    async with looking.open() as opened:
        seconds = {each.issued_at[:19] for each in await opened.certificates.list()}
    whole = await verify_archive(looking.project)
    assert len(seconds) == 1
    assert whole.faults == ()
    assert [certificate.verified.soundness for certificate in whole.certificates] == [ExitCode.DONE] * 12
    assert len(list(looking.project.rglob("certificates/*.md"))) == 12


def migrated_to(url, version):
    engine = create_engine(f"sqlite:///{url.database}" if isinstance(url, SqliteUrl) else url)
    table = "alembic_version"
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            table = f"{SCHEMA}.{VERSION_TABLE}"
        connection.execute(text(f"UPDATE {table} SET version_num = :version"), {"version": version})  # noqa: S608 - constant names
    engine.dispose()


async def test_a_worker_stops_after_its_step_when_the_database_is_newer_and_a_newer_worker_continues(
    toybox, hire, monkeypatch
):
    url = None

    async def during(_context):
        migrated_to(url, "9999")
        # Longer than the time between two looks at the version.
        await asyncio.sleep(worker_module._SCHEMA_S * 1.5)

    toybox.tool("one", during=during)
    toybox.tool("two")
    toybox.agent("worker", calling("one", "two"))
    (name,) = await enqueued(toybox)
    async with hire(toybox) as older:
        url = older._store.store.url
        with pytest.raises(NewerDatabaseError) as refused:
            await older.run(once=False, poll_s=0.05)
    assert "9999" in refused.value.problem
    assert refused.value.remedy == "pip install --upgrade esper-agents"
    assert said(older, WorkerEventKind.GIVEN_BACK) == [name]
    assert toybox.effects() == ["one"]
    monkeypatch.setattr("esper_agents.storage.migrate.HEAD", "9999")
    async with hire(toybox) as newer:
        await newer.run(once=True, poll_s=0.05)
    assert said(newer, WorkerEventKind.ENDED) == [name]
    assert toybox.effects() == ["one", "two"]
