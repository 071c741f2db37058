from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest
from toys import Toybox, calling

from esper_agents.api import open_project_sync
from esper_agents.domain.agent_action import Ask, Conclude
from esper_agents.domain.budget import Amount, Resource
from esper_agents.domain.evidence import Risk
from esper_agents.domain.session import SessionState
from esper_agents.errors import ExitCode, InputFileError, UsageError
from esper_agents.orchestration.session_run import StoppedError

pytestmark = [pytest.mark.anyio, pytest.mark.both_databases]


@pytest.fixture
def looking(toybox) -> Toybox:
    for name in ("one", "two"):
        toybox.tool(name)
    toybox.agent("worker", calling("one", "two"))
    return toybox


async def gathered(session, after=0):
    return [event async for event in session.events(after)]


async def test_who_watches_sees_every_row_once_and_in_order(looking):
    async with looking.open() as opened:
        session = await looking.submit(opened, "worker")
        watching = asyncio.create_task(gathered(session))
        await session.run()
        seen = await watching
        assert tuple(seen) == await opened.sessions.timeline(session.id)
    numbers = [each.seq for each in seen]
    assert numbers == sorted(set(numbers))
    assert [seen[0].kind, seen[-1].kind] == ["submitted", "certified"]


async def test_any_number_may_watch_and_each_sees_everything(looking):
    async with looking.open() as opened:
        session = await looking.submit(opened, "worker")
        watching = [asyncio.create_task(gathered(session)) for _ in range(12)]
        await session.run()
        # A watcher that missed the end would wait for ever.
        seen = await asyncio.wait_for(asyncio.gather(*watching), 60)
        assert {tuple(each) for each in map(tuple, [[event.seq for event in one] for one in seen])} == {
            tuple(event.seq for event in await opened.sessions.timeline(session.id))
        }


class Gate:
    """A clock of the store that stops the next write in the middle, until it is opened."""

    def __init__(self, opened):
        self._store = opened.services.store.store
        self._clock = self._store._clock
        self._open = threading.Event()
        self.reached = threading.Event()

    def close(self, *, passing=0):
        self._passing = passing
        self._store._clock = self._stopped

    def _stopped(self, connection):
        self._passing -= 1
        if self._passing < 0:
            self.reached.set()
            self._open.wait()
        return self._clock(connection)

    def open(self):
        self._store._clock = self._clock
        self._open.set()


async def test_who_begins_to_watch_while_the_session_ends_sees_its_end(looking):
    async with looking.open() as opened:
        session, gate = await looking.submit(opened, "worker"), Gate(opened)

        async def until_certified():
            async for event in session.events():
                if event.kind == "certified":
                    gate.close()

        first, running = asyncio.create_task(until_certified()), asyncio.create_task(session.run())
        assert await asyncio.to_thread(gate.reached.wait, 60)
        second = asyncio.create_task(gathered(session))
        await asyncio.sleep(0)
        gate.open()
        await running
        # A watcher that missed the end would wait for ever.
        _, seen = await asyncio.wait_for(asyncio.gather(first, second), 60)
        assert tuple(seen) == await opened.sessions.timeline(session.id)


async def test_a_session_that_is_torn_down_in_the_middle_of_a_write_is_listed_as_its_ledger_says(looking):
    gates = []

    def asking(_brief):
        # The move itself is written; its question is not yet.
        gates[0].close(passing=1)
        answer = yield Ask("why?")
        return Conclude(answer.text)

    looking.agent("asker", asking)
    async with looking.open() as opened:
        session, gate = await looking.submit(opened, "asker"), Gate(opened)
        gates.append(gate)
        running = asyncio.create_task(session.run())
        assert await asyncio.to_thread(gate.reached.wait, 60)
        running.cancel()
        await asyncio.sleep(0)
        gate.open()
        with pytest.raises(asyncio.CancelledError):
            await running
        history = await opened.sessions.history(session.id)
        assert history.state is SessionState.WAITING
        assert (await opened.sessions.get(session.id)).state is SessionState.WAITING


async def test_who_comes_late_or_knows_some_rows_sees_the_rest(looking):
    async with looking.open() as opened:
        session = await looking.submit(opened, "worker")
        await session.run()
        everything = await opened.sessions.timeline(session.id)
        assert tuple(await gathered(session)) == everything
        assert tuple(await gathered(session, after=everything[4].seq)) == everything[5:]


async def test_rows_are_seen_while_the_session_runs(looking):
    gate = asyncio.Event()

    async def wait(_context):
        await gate.wait()

    looking.tool("wait", during=wait)
    looking.agent("waiter", calling("wait"))
    async with looking.open() as opened:
        session = await looking.submit(opened, "waiter")
        running = asyncio.create_task(session.run())
        events = session.events()
        async for event in events:
            if event.kind == "calling":
                assert not running.done()
                gate.set()
        assert (await running).state is SessionState.DONE


async def test_watching_ends_when_the_session_waits_or_fails(looking):
    def broken(_brief):
        yield from ()
        raise ZeroDivisionError

    looking.tool("write", risk=Risk.MEDIUM)
    looking.agent("writer", calling("write"))
    looking.agent("broken", broken)
    async with looking.open() as opened:
        for agent, last in (("writer", "asked"), ("broken", "deciding")):
            session = await looking.submit(opened, agent)
            watching = asyncio.create_task(gathered(session))
            with contextlib.suppress(ZeroDivisionError):
                await session.run()
            assert (await watching)[-1].kind == last


def sync(toybox):
    return open_project_sync(toybox.project, tools=toybox.tools, playbooks=toybox.playbooks, agents=[toybox.folder])


def test_the_same_works_without_await(looking):
    with sync(looking) as opened:
        task = opened.tasks.create("review this", [looking.project / "train.py"], agent="worker")
        assert opened.tasks.plan(task).route.agent == "worker"
        session, seen = opened.tasks.submit(task), []
        outcome = session.run(watch=seen.append)
        assert outcome.state is SessionState.DONE
        assert [each.kind for each in seen][-1] == "certified"
        assert [each.seq for each in seen] == sorted({each.seq for each in seen})
        assert [each.id for each in opened.sessions.list()] == [session.id]
        (entry,) = opened.certificates.list()
        assert opened.certificates.read(entry.id).id == entry.id == outcome.certificate.id
        assert opened.certificates.markdown(entry.id) == outcome.view.read_text()
        assert opened.memory.list()
    assert looking.effects() == ["one", "two"]


def test_without_await_questions_are_answered_and_sessions_resumed(looking):
    looking.tool("write", risk=Risk.MEDIUM)
    looking.agent("writer", calling("write"))
    with sync(looking) as opened:
        task = opened.tasks.create("review this", [looking.project / "train.py"], agent="writer")
        outcome = opened.tasks.submit(task).run()
        assert outcome.exit_code is ExitCode.WAITING
        outcome = opened.approvals.answer(outcome.questions[0].id, "approve").run()
        assert outcome.state is SessionState.DONE
        assert opened.tasks.resume(outcome.session).run().certificate == outcome.certificate
    assert looking.effects() == ["write"]


async def test_the_face_without_await_works_where_an_event_loop_runs_already(looking):
    def use():
        with sync(looking) as opened:
            task = opened.tasks.create("review this", [looking.project / "train.py"], agent="worker")
            return opened.tasks.submit(task).run().state

    # On the loop's own thread, as in a notebook cell.
    assert use() is SessionState.DONE


def test_without_await_errors_are_the_same(looking, tmp_path):
    with pytest.raises(InputFileError), open_project_sync(tmp_path / "nosuch"):
        pass
    with sync(looking) as opened, pytest.raises(UsageError, match="the request is empty"):
        opened.tasks.create(" ")


def test_a_session_is_stopped_from_another_thread(looking):
    started, go_on = threading.Event(), threading.Event()

    async def wait(_context):
        started.set()
        await asyncio.to_thread(go_on.wait)

    looking.tool("wait", during=wait)
    looking.agent("waiter", calling("wait", "two"))
    with sync(looking) as opened:
        session = opened.tasks.submit(
            opened.tasks.create("review this", [looking.project / "train.py"], agent="waiter")
        )

        def stop():
            started.wait()
            session.stop()
            go_on.set()

        stopper = threading.Thread(target=stop)
        stopper.start()
        with pytest.raises(StoppedError):
            session.run()
        stopper.join()
        assert opened.tasks.resume(session.id).run().state is SessionState.DONE
    assert looking.effects() == ["wait", "two"]


def test_when_watching_fails_the_failure_is_told_and_the_session_can_go_on(looking):
    def watch(event):
        if event.kind == "moved":
            raise ZeroDivisionError

    with sync(looking) as opened:
        session = opened.tasks.submit(
            opened.tasks.create("review this", [looking.project / "train.py"], agent="worker")
        )
        with pytest.raises(ZeroDivisionError):
            session.run(watch=watch)
        assert opened.tasks.resume(session.id).run().state is SessionState.DONE
    assert looking.effects() == ["one", "two"]


@pytest.mark.parametrize("budget", [(), (Amount(Resource.TOOL_CALLS, 1),)], ids=["whole", "stopped by its budget"])
async def test_who_looks_later_is_told_of_the_same_outcome(looking, budget):
    async with looking.open() as opened:
        task = opened.tasks.create("review this", [looking.project / "train.py"], agent="worker", budget=budget)
        outcome = await (await opened.tasks.submit(task)).run()
        assert bool(outcome.stopped_by) is bool(budget)
        assert await opened.sessions.result(outcome.session) == outcome
