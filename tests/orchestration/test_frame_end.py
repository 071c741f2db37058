from __future__ import annotations

import asyncio
import shutil

import pytest
from sqlalchemy import select
from toys import calling, calls

from esper_agents.domain.agent_action import Ask, Conclude
from esper_agents.domain.evidence import Risk
from esper_agents.domain.session import SessionState
from esper_agents.errors import BusyError, ExitCode, LeaseLostError, UsageError
from esper_agents.orchestration import turn
from esper_agents.orchestration.session_run import StoppedError
from esper_agents.storage import sessions
from esper_agents.storage.tables import session as table

pytestmark = [pytest.mark.anyio, pytest.mark.both_databases]


@pytest.fixture
def slow(toybox):
    """A toybox whose agent calls tools in three turns; the second call tells that it runs and waits for a word."""
    toybox.running, toybox.go_on = asyncio.Event(), asyncio.Event()

    async def wait(_context):
        toybox.running.set()
        await toybox.go_on.wait()

    def three(_brief):
        yield calls("one")
        yield calls("wait", "two")
        yield calls("three")
        return Conclude("all three")

    for name in ("one", "two", "three"):
        toybox.tool(name)
    toybox.tool("wait", during=wait, repeatable=False)
    toybox.agent("worker", three)
    return toybox


async def test_a_session_that_is_told_to_stop_stops_between_two_steps_and_goes_on_later(slow):
    async with slow.open() as opened:
        session = await slow.submit(opened, "worker")
        running = asyncio.create_task(session.run())
        await slow.running.wait()
        session.stop()
        slow.go_on.set()
        with pytest.raises(StoppedError) as stopped:
            await running
        assert stopped.value.exit_code is ExitCode.INTERRUPTED
        assert stopped.value.remedy == f"go on with `esper resume {session.id}`"
        assert slow.effects() == ["one", "wait"]
        found = await opened.sessions.get(session.id)
        assert (found.state, found.is_owned) == (SessionState.OPEN, False)
        outcome = await (await opened.tasks.resume(session.id)).run()
        assert outcome.state is SessionState.DONE
    assert slow.effects() == ["one", "wait", "two", "three"]


async def test_a_session_that_is_told_to_stop_before_it_runs_does_nothing(slow):
    async with slow.open() as opened:
        session = await slow.submit(opened, "worker")
        session.stop()
        with pytest.raises(StoppedError):
            await session.run()
    assert slow.effects() == []


async def test_cancelling_a_session_that_runs_elsewhere_ends_it_at_the_next_step(slow):
    async with slow.open() as here, slow.open() as elsewhere:
        session = await slow.submit(here, "worker")
        running = asyncio.create_task(session.run())
        await slow.running.wait()
        found = await elsewhere.sessions.cancel(session.id)
        assert (found.state, found.is_owned) == (SessionState.OPEN, True)
        slow.go_on.set()
        outcome = await running
        assert (outcome.state, outcome.exit_code) == (SessionState.CANCELLED, ExitCode.CANCELLED)
        assert outcome.certificate is None
        rows = await here.sessions.timeline(session.id)
        assert rows[-1].kind == "cancelled"
        assert (await here.sessions.get(session.id)).state is SessionState.CANCELLED
    assert slow.effects() == ["one", "wait"]


async def test_no_tool_runs_for_a_move_during_which_the_session_was_cancelled(toybox):
    def cancelled_meanwhile(_brief):
        with toybox.opened.services.store.store.reading() as connection:
            session = connection.scalar(select(table.c.id))
        sessions.request_cancel(toybox.opened.services.store.store, session)
        yield calls("look")

    toybox.tool("look")
    toybox.agent("worker", cancelled_meanwhile)
    async with toybox.open() as toybox.opened:
        outcome = await (await toybox.submit(toybox.opened, "worker")).run()
        rows = await toybox.opened.sessions.timeline(outcome.session)
    assert outcome.state is SessionState.CANCELLED
    assert [row.kind for row in rows][-3:] == ["deciding", "moved", "cancelled"]
    assert toybox.effects() == []


async def test_what_was_done_before_something_went_wrong_is_on_record(toybox, monkeypatch):
    def breaks(_brief):
        yield calls("look")

    def broken(*_given):
        raise ZeroDivisionError

    toybox.tool("look")
    toybox.agent("worker", breaks)
    async with toybox.open() as opened:
        session = await toybox.submit(opened, "worker")
        monkeypatch.setattr(turn, "make_call", broken)
        with pytest.raises(ZeroDivisionError):
            await session.run()
        assert [row.kind for row in await opened.sessions.timeline(session.id)][-2:] == ["deciding", "moved"]
        monkeypatch.undo()
        assert (await opened.sessions.get(session.id)).state is SessionState.OPEN


async def test_nothing_is_carried_out_after_a_session_was_cancelled(toybox):
    async def cancel(_context):
        async with toybox.open() as elsewhere:
            await elsewhere.sessions.cancel("latest")

    def two(_brief):
        yield calls("first")
        yield calls("second")
        return Conclude("both")

    toybox.tool("first", during=cancel)
    toybox.tool("second")
    toybox.agent("worker", two)
    ran = await toybox.run("worker")
    assert ran.outcome.state is SessionState.CANCELLED
    assert [row.kind for row in ran.rows][-4:] == ["called", "deciding", "moved", "cancelled"]
    assert toybox.effects() == ["first"]


async def test_cancelling_a_session_that_nobody_runs_ends_it_at_once(slow):
    async with slow.open() as opened:
        session = await slow.submit(opened, "worker")
        session.stop()
        with pytest.raises(StoppedError):
            await session.run()
        assert (await opened.sessions.cancel(session.id)).state is SessionState.CANCELLED
        outcome = await (await opened.tasks.resume(session.id)).run()
        assert (outcome.state, outcome.certificate) == (SessionState.CANCELLED, None)
        with pytest.raises(UsageError, match="is cancelled already"):
            await opened.sessions.cancel(session.id)
    assert slow.effects() == []


async def test_cancelling_a_session_that_waits_ends_it(toybox):
    toybox.tool("write", risk=Risk.MEDIUM)
    toybox.agent("writer", calling("write"))
    async with toybox.open() as opened:
        outcome = await (await toybox.submit(opened, "writer")).run()
        assert (await opened.sessions.cancel(outcome.session)).state is SessionState.CANCELLED
        assert await opened.approvals.questions() == ()
        assert await opened.certificates.list() == ()
    assert toybox.effects() == []


async def test_a_session_that_is_over_cannot_be_cancelled(toybox):
    toybox.tool("look")
    toybox.agent("worker", calling("look"))
    ran = await toybox.run("worker")
    async with toybox.open() as opened:
        with pytest.raises(UsageError, match="is done already") as refused:
            await opened.sessions.cancel(ran.outcome.session)
        assert refused.value.remedy == "nothing is left to cancel"


async def test_a_session_has_one_owner(slow):
    async with slow.open() as here, slow.open() as elsewhere:
        session = await slow.submit(here, "worker")
        with pytest.raises(BusyError):
            await elsewhere.tasks.resume(session.id)
        running = asyncio.create_task(session.run())
        await slow.running.wait()
        with pytest.raises(BusyError, match="is being worked on") as refused:
            await elsewhere.tasks.resume(session.id)
        assert refused.value.exit_code is ExitCode.BUSY
        slow.go_on.set()
        await running
        assert (await (await elsewhere.tasks.resume(session.id)).run()).state is SessionState.DONE
    assert slow.effects() == ["one", "wait", "two", "three"]


async def test_who_has_lost_a_session_writes_nothing_more_and_says_so(slow, expire):
    async with slow.open() as here, slow.open() as elsewhere:
        session = await slow.submit(here, "worker")
        running = asyncio.create_task(session.run())
        await slow.running.wait()
        expire(here, session.id)
        other = await elsewhere.tasks.resume(session.id)
        slow.go_on.set()
        with pytest.raises(LeaseLostError, match="was taken over by another process"):
            await running
        before = await here.sessions.timeline(session.id)
        assert [row.kind for row in before][-1] == "calling"
        outcome = await other.run()
        assert outcome.state is SessionState.DONE
        certificate = await elsewhere.certificates.read(outcome.certificate.id)
    # Whether the call took effect could not be known: it was not repeated, and it is on record as interrupted.
    assert slow.effects() == ["one", "wait", "two", "three"]
    assert [str(each.outcome) for each in certificate.evidence] == [
        "completed",
        "interrupted",
        "completed",
        "completed",
    ]


@pytest.fixture
def expire():
    from sqlalchemy import update

    def run_out(opened, session):
        with opened.services.store.store.writing() as transaction:
            transaction.connection.execute(update(table).where(table.c.id == session).values(expires_ms=0))

    return run_out


def answered(_brief):
    yield calls("look")
    answer = yield Ask("sure?")
    return Conclude(f"sure: {answer.text}")


async def finished(toybox):
    toybox.tool("look")
    toybox.agent("worker", answered)
    async with toybox.open() as opened:
        outcome = await (await toybox.submit(opened, "worker")).run()
        outcome = await (await opened.approvals.answer(outcome.session, "yes")).run()
        return outcome, await opened.certificates.record(outcome.certificate.id)


def copied(opened, target, session, *, upto):
    """Copy a session's rows into another database, as they stand, with SQL."""
    from sqlalchemy import insert

    from esper_agents.domain.ledger import RowKind
    from esper_agents.storage.tables import ledger, project

    with opened.services.store.store.reading() as connection:
        projects = connection.execute(select(project)).mappings().all()
        sessions = connection.execute(select(table).where(table.c.id == session)).mappings().all()
        rows = connection.execute(select(ledger).where(ledger.c.session_id == session).order_by(ledger.c.seq))
        kept = [dict(mapping) for mapping in rows.mappings() if mapping["kind"] is not RowKind.CERTIFIED]
    with target.services.store.store.writing() as transaction:
        transaction.connection.execute(insert(project), [dict(each) for each in projects])
        fresh = {"state": SessionState.OPEN, "certificate_id": ""}
        transaction.connection.execute(insert(table), [{**each, **fresh} for each in sessions])
        transaction.connection.execute(insert(ledger), kept[:upto])


async def test_the_same_rows_in_another_database_give_the_same_certificate(toybox, home, monkeypatch, tmp_path):
    outcome, data = await finished(toybox)
    async with toybox.open() as opened:
        elsewhere = tmp_path / "elsewhere"
        monkeypatch.setenv("ESPER_HOME", str(elsewhere))
        monkeypatch.delenv("ESPER_DATABASE_URL", raising=False)
        async with toybox.open() as other:
            copied(opened, other, outcome.session, upto=None)
            again = await (await other.tasks.resume(outcome.session)).run()
            assert again.state is SessionState.DONE
            assert await other.certificates.record(again.certificate.id) == data
    assert toybox.effects() == ["look"]


async def test_without_its_end_a_session_is_brought_to_it_again_and_finished_calls_do_not_run_again(
    toybox, monkeypatch, tmp_path
):
    outcome, _ = await finished(toybox)
    async with toybox.open() as opened:
        monkeypatch.setenv("ESPER_HOME", str(tmp_path / "elsewhere"))
        monkeypatch.delenv("ESPER_DATABASE_URL", raising=False)
        async with toybox.open() as other:
            # Without the conclusion, which holds the identifier and the time of the certificate.
            copied(opened, other, outcome.session, upto=-1)
            again = await (await other.tasks.resume(outcome.session)).run()
            assert again.certificate.id != outcome.certificate.id
            assert (await other.certificates.read(again.certificate.id)).summary == "sure: yes"
    assert toybox.effects() == ["look"]


async def test_certifying_again_changes_nothing(toybox):
    outcome, data = await finished(toybox)
    async with toybox.open() as opened:
        shutil.rmtree(outcome.view.parent)
        again = await (await opened.tasks.resume(outcome.session)).run()
        assert again.certificate == outcome.certificate
        assert await opened.certificates.record(again.certificate.id) == data
        assert len(await opened.certificates.list()) == 1
        assert outcome.view.read_text() == await opened.certificates.markdown(again.certificate.id)


async def test_a_session_that_nobody_takes_ends_refused_and_without_a_certificate(toybox):
    ran = await toybox.run(request="what is the weather like in Paris tomorrow?", paths=())
    assert (ran.outcome.state, ran.outcome.exit_code) == (SessionState.REFUSED, ExitCode.USAGE)
    assert ran.certificate is None
    assert [row.kind for row in ran.rows] == ["submitted", "refused"]
    assert ran.outcome.route.explanation
