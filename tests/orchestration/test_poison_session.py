from __future__ import annotations

import pytest
from sqlalchemy import update
from toys import calling

from esper_agents.archive.verification.statement import CheckOutcome, verify_statement
from esper_agents.certificates.policy.verdict_ceiling import policy_text
from esper_agents.domain.agent_action import Consult, HandOff, Panel
from esper_agents.domain.evidence import CallOutcome, Risk
from esper_agents.domain.session import SessionState
from esper_agents.domain.status import QuestionType, Stance, Status
from esper_agents.errors import ExitCode
from esper_agents.orchestration import graph, poison_session, routing
from esper_agents.orchestration.poison_session import MOST_ATTEMPTS
from esper_agents.storage import sessions
from esper_agents.storage.owner import this_process
from esper_agents.storage.tables import session as table

pytestmark = [pytest.mark.anyio, pytest.mark.both_databases]


class DeathError(BaseException):
    """Stands for the death of the process: the run is torn down in the middle of something."""


async def die(_context):
    raise DeathError


def dying(_brief):
    raise DeathError
    yield


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def box(request, toybox, monkeypatch):
    """Return a toybox whose rows live in either database."""
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql_url").render_as_string(hide_password=False)
        monkeypatch.setenv("ESPER_DATABASE_URL", url)
    return toybox


def bury(opened, session):
    """Leave the session with an owner who has died, as it is after a crash."""
    machine, number, _ = this_process().rsplit("|", 2)
    with opened.services.store.store.writing() as transaction:
        wanted = update(table).where(table.c.id == session.id)
        transaction.connection.execute(wanted.values(owner=f"{machine}|{number}|1"))


async def wear_out(opened, session, deaths=MOST_ATTEMPTS):
    """Let so many owners of a session die, one after the other, and return it as the next one holds it."""
    for _ in range(deaths):
        with pytest.raises(DeathError):
            await session.run()
        bury(opened, session)
        session = await opened.tasks.resume(session.id)
    return session


async def given_up(box, opened):
    """Return the outcome and the certificate of a session that nobody survives."""
    session = await wear_out(opened, await box.submit(opened, "worker"))
    outcome = await session.run()
    return outcome, await opened.certificates.read(outcome.certificate.id)


async def test_after_five_owners_that_died_the_sixth_concludes_that_it_cannot_be_decided(box):
    box.tool("explode", during=die)
    box.agent("worker", calling("explode"))
    async with box.open() as opened:
        outcome, certificate = await given_up(box, opened)
        assert outcome.state is SessionState.DONE
        assert outcome.exit_code is ExitCode.UNDECIDED
        verdict = certificate.verdict
        assert (verdict.stance, verdict.status) == (Stance.UNDECIDED, Status.NEEDS_FURTHER_REVIEW)
        said = "5 consecutive processes crashed or stopped responding, the last one while explode ran at step 1.1"
        (gap,) = certificate.gaps
        assert gap.blocks_approval
        for each in (verdict.rationale, gap.why, certificate.summary):
            assert said in each
        assert gap.command == "esper submit --agent worker 'review this' train.py"
        assert box.effects() == ["explode"] * MOST_ATTEMPTS
        data = await opened.certificates.record(certificate.id)
        checks = verify_statement(data, policy_text())
        assert [check for check in checks if check.outcome is not CheckOutcome.HOLDS] == []
        assert outcome.view.is_file()


async def test_four_owners_that_died_do_not_end_it(box):
    box.tool("explode", during=die)
    box.agent("worker", calling("explode"))
    async with box.open() as opened:
        session = await wear_out(opened, await box.submit(opened, "worker"), MOST_ATTEMPTS - 1)
        with pytest.raises(DeathError):
            await session.run()
        assert (await opened.sessions.get(session.id)).state is SessionState.OPEN
    assert box.effects() == ["explode"] * MOST_ATTEMPTS


async def test_a_call_that_killed_its_owners_is_on_record_as_interrupted(toybox):
    toybox.tool("look")
    toybox.tool("explode", during=die)
    toybox.agent("worker", calling("look", "explode", "look"))
    async with toybox.open() as opened:
        _, certificate = await given_up(toybox, opened)
    outcomes = [(each.tool, each.outcome) for each in certificate.evidence]
    assert outcomes == [("look", CallOutcome.COMPLETED), ("explode", CallOutcome.INTERRUPTED)]


def handing(_brief):
    yield HandOff("second", "toys", "it is next", "nothing")


def consulting(_brief):
    yield Consult("second", "why?")


def asking_two(_brief):
    yield Panel((Consult("helper", "what?"), Consult("second", "why?")))


@pytest.mark.parametrize(
    ("first", "said", "by"),
    [
        (dying, "while worker decided on step 1.1", "worker"),
        (handing, "while second decided on step 2.1", "second"),
        (consulting, "while second decided on step 2.1", "worker"),
        (asking_two, "while second decided on step 3.1", "worker"),
    ],
    ids=["deciding", "handed off", "consulted", "of a panel"],
)
async def test_the_certificate_says_in_what_they_died_and_who_had_the_task_concludes(toybox, first, said, by):
    toybox.agent("worker", first)
    toybox.agent("second", dying)
    toybox.agent("helper", calling("look"))
    toybox.tool("look")
    async with toybox.open() as opened:
        _, certificate = await given_up(toybox, opened)
    assert certificate.agent == by
    assert said in certificate.gaps[0].why
    assert certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW


async def test_a_consult_that_killed_its_owners_is_on_record_as_not_answered(toybox):
    toybox.agent("worker", consulting)
    toybox.agent("second", dying)
    async with toybox.open() as opened:
        _, certificate = await given_up(toybox, opened)
    (answer,) = certificate.consults
    assert answer.problem.startswith("second could not answer: 5 consecutive processes crashed")


async def test_where_nobody_was_given_the_task_yet_it_is_refused(toybox, monkeypatch):
    def dies(*_):
        raise DeathError

    toybox.agent("worker", calling("look"))
    async with toybox.open() as opened:
        session = await toybox.submit(opened, "worker")
        monkeypatch.setattr(routing, "route_of", dies)
        session = await wear_out(opened, session)
        outcome = await session.run()
        assert outcome.state is SessionState.REFUSED
        assert outcome.exit_code is ExitCode.USAGE
        assert "5 consecutive processes crashed" in outcome.route.explanation
        assert outcome.certificate is None
        assert (await opened.sessions.get(session.id)).state is SessionState.REFUSED


async def test_owners_that_give_the_session_back_are_no_deaths(toybox):
    toybox.tool("explode", during=die)
    toybox.agent("worker", calling("explode"))
    async with toybox.open() as opened:
        session = await toybox.submit(opened, "worker")
        for _ in range(2 * MOST_ATTEMPTS):
            with pytest.raises(DeathError):
                await session.run()
            session = await opened.tasks.resume(session.id)
        with pytest.raises(DeathError):
            await session.run()
    assert len(toybox.effects()) == 2 * MOST_ATTEMPTS + 1


async def test_the_answer_of_a_person_begins_the_count_anew(toybox):
    toybox.tool("apply", risk=Risk.MEDIUM)
    toybox.agent("worker", calling("apply"))
    async with toybox.open() as opened:
        outcome = await (await toybox.submit(opened, "worker")).run()
        for _ in range(MOST_ATTEMPTS):
            # Owners die while it waits, before they give it back.
            session = await opened.tasks.resume(outcome.session)
            assert (await session.run()).state is SessionState.WAITING
            bury(opened, session)
        waiting = await (await opened.tasks.resume(outcome.session)).run()
        assert waiting.state is SessionState.WAITING
        bury(opened, session)
        done = await (await opened.approvals.answer(outcome.questions[0].id, "approve")).run()
        assert done.state is SessionState.DONE
    assert toybox.effects() == ["apply"]


async def test_a_session_whose_last_owners_died_after_it_had_concluded_is_still_certified(toybox, monkeypatch):
    toybox.tool("look")
    toybox.agent("worker", calling("look"))

    async def dies(_run):
        raise DeathError

    async with toybox.open() as opened:
        dead, sound = graph.build_graph(end=dies), graph.build_graph()
        monkeypatch.setitem(vars(opened.sessions), "_graph", dead)
        session = await wear_out(opened, await toybox.submit(opened, "worker"))
        session._graph = sound
        outcome = await session.run()
        assert outcome.exit_code is ExitCode.DONE
        certificate = await opened.certificates.read(outcome.certificate.id)
    assert certificate.verdict.kind is QuestionType.APPROVAL
    assert certificate.gaps == ()


async def test_the_program_that_gives_up_may_die_as_well(toybox, monkeypatch):
    toybox.tool("explode", during=die)
    toybox.agent("worker", calling("explode"))

    async def dies(*_):
        raise DeathError

    async with toybox.open() as opened:
        session = await wear_out(opened, await toybox.submit(opened, "worker"))
        with monkeypatch.context() as patch:
            patch.setattr(poison_session, "conclude", dies)
            with pytest.raises(DeathError):
                await session.run()
        bury(opened, session)
        outcome = await (await opened.tasks.resume(session.id)).run()
        assert outcome.certificate.status is Status.NEEDS_FURTHER_REVIEW
    assert toybox.effects() == ["explode"] * MOST_ATTEMPTS


async def test_a_session_that_was_to_be_cancelled_meanwhile_gets_no_verdict(toybox):
    toybox.tool("explode", during=die)
    toybox.agent("worker", calling("explode"))
    async with toybox.open() as opened:
        session = await wear_out(opened, await toybox.submit(opened, "worker"))
        sessions.request_cancel(opened.services.store.store, session.id)
        assert (await session.run()).state is SessionState.CANCELLED


async def test_it_is_replayed_to_the_same_bytes(toybox):
    toybox.tool("explode", during=die)
    toybox.agent("worker", calling("explode"))
    async with toybox.open() as opened:
        outcome, _ = await given_up(toybox, opened)
        assert (await opened.sessions.replay(outcome.session)).is_identical
