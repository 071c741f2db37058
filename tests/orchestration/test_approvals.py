from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from toys import calling, calls

from esper_agents.certificates.statement import digest_of_value as digest
from esper_agents.domain.agent_action import Ask, Conclude
from esper_agents.domain.approval_scope import AnswerReach, ScopeKind
from esper_agents.domain.evidence import CallOutcome, Risk
from esper_agents.domain.ledger import RowKind
from esper_agents.domain.session import SessionState
from esper_agents.domain.status import Status
from esper_agents.errors import BusyError, ExitCode, NotFoundError, UsageError

pytestmark = [pytest.mark.anyio, pytest.mark.both_databases]


@pytest.fixture
def careful(toybox):
    """Return a toybox whose agent calls one tool that a person must agree to."""
    toybox.tool("write", risk=Risk.MEDIUM, repeatable=False)
    toybox.agent("writer", calling("write"))
    return toybox


async def waiting(toybox, opened, agent="writer"):
    outcome = await (await toybox.submit(opened, agent)).run()
    assert outcome.state is SessionState.WAITING
    return outcome


@pytest.mark.parametrize("risk", [Risk.MEDIUM, Risk.HIGH])
async def test_a_risky_tool_waits_for_a_person(toybox, risk):
    toybox.tool("write", risk=risk)
    toybox.agent("writer", calling("write"))
    async with toybox.open() as opened:
        outcome = await waiting(toybox, opened)
        assert outcome.exit_code is ExitCode.WAITING
        assert outcome.certificate is None
        assert [question.tool for question in outcome.questions] == ["write"]
        assert outcome.questions[0].options == ("approve", "deny")
        assert await opened.approvals.questions() == ((outcome.session, outcome.questions[0]),)
    assert toybox.effects() == []


async def test_an_approved_call_runs_once(careful):
    async with careful.open() as opened:
        outcome = await waiting(careful, opened)
        outcome = await (await opened.approvals.answer(outcome.questions[0].id, "approve")).run()
        assert outcome.state is SessionState.DONE
        again = await (await opened.tasks.resume(outcome.session)).run()
        assert again.certificate == outcome.certificate
    assert careful.effects() == ["write"]


async def test_a_denied_call_never_runs_and_its_denial_is_evidence(careful):
    async with careful.open() as opened:
        outcome = await waiting(careful, opened)
        outcome = await (await opened.approvals.answer(outcome.questions[0].id, "deny")).run()
        certificate = await opened.certificates.read(outcome.certificate.id)
    assert careful.effects() == []
    assert [each.outcome for each in certificate.evidence] == [CallOutcome.DENIED]
    assert certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW


async def two_asked(toybox):
    for name in ("first", "second"):
        toybox.tool(name, risk=Risk.MEDIUM, repeatable=False)
    toybox.agent("writer", calling("first", "second"))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_of_two_questions_in_one_turn_the_approved_tool_runs_and_the_denied_one_never(toybox, order):
    await two_asked(toybox)
    said = {"first": "approve", "second": "deny"}
    async with toybox.open() as opened:
        outcome = await waiting(toybox, opened)
        asked = outcome.questions
        assert [each.tool for each in asked] == ["first", "second"]
        for number in order:
            outcome = await (await opened.approvals.answer(asked[number].id, said[asked[number].tool])).run()
        certificate = await opened.certificates.read(outcome.certificate.id)
    assert toybox.effects() == ["first"]
    assert [(each.tool, each.outcome) for each in certificate.evidence] == [
        ("first", CallOutcome.COMPLETED),
        ("second", CallOutcome.DENIED),
    ]


async def test_of_two_questions_in_one_turn_denying_the_first_and_approving_the_second_runs_only_the_second(toybox):
    await two_asked(toybox)
    async with toybox.open() as opened:
        asked = (await waiting(toybox, opened)).questions
        # Both answers before anything goes on, as two people would give them.
        for question, text in zip(asked, ("deny", "approve"), strict=True):
            held = await opened.approvals.answer(question.id, text)
            held.stop()
            if text == "deny":
                await stopped(held)
        await stopped(held)
        outcome = await (await opened.tasks.resume(held.id)).run()
        assert outcome.state is SessionState.DONE
    assert toybox.effects() == ["second"]


async def stopped(session):
    from esper_agents.orchestration.session_run import StoppedError

    with pytest.raises(StoppedError):
        await session.run()


async def test_one_answer_of_two_lets_its_tool_run_and_the_other_still_waits(toybox):
    await two_asked(toybox)
    async with toybox.open() as opened:
        asked = (await waiting(toybox, opened)).questions
        outcome = await (await opened.approvals.answer(asked[0].id, "approve")).run()
        assert outcome.state is SessionState.WAITING
        assert outcome.questions == asked[1:]
    assert toybox.effects() == ["first"]


async def test_equal_calls_in_one_turn_are_two_questions_with_an_answer_each(toybox):
    toybox.tool("write", risk=Risk.MEDIUM, repeatable=False)
    toybox.agent("writer", calling("write", "write"))
    async with toybox.open() as opened:
        asked = (await waiting(toybox, opened)).questions
        assert asked[0].arguments_sha256 == asked[1].arguments_sha256
        await (await opened.approvals.answer(asked[1].id, "approve")).run()
        outcome = await (await opened.approvals.answer(asked[0].id, "deny")).run()
        certificate = await opened.certificates.read(outcome.certificate.id)
    assert [each.outcome for each in certificate.evidence] == [CallOutcome.DENIED, CallOutcome.COMPLETED]
    assert toybox.effects() == ["write"]


async def test_all_calls_of_a_turn_are_asked_about_before_one_of_them_runs_and_run_in_their_order(toybox):
    for name in ("write", "publish"):
        toybox.tool(name, risk=Risk.MEDIUM, repeatable=False)
    for name in ("look", "look-again"):
        toybox.tool(name)
    toybox.agent("writer", calling("look", "write", "look-again", "publish"))
    async with toybox.open() as opened:
        outcome = await waiting(toybox, opened)
        assert [question.tool for question in outcome.questions] == ["write", "publish"]
        # A call after one that waits could depend on it.
        assert toybox.effects() == ["look"]
        last = await opened.approvals.answer(outcome.questions[1].id, "approve")
        assert (await last.run()).state is SessionState.WAITING
        assert toybox.effects() == ["look"]
        outcome = await (await opened.approvals.answer(outcome.questions[0].id, "approve")).run()
        assert outcome.state is SessionState.DONE
    assert toybox.effects() == ["look", "write", "look-again", "publish"]


@pytest.mark.parametrize(("text", "effects"), [("approve", ["first", "second"]), ("deny", [])])
async def test_the_approvals_of_a_turn_can_be_answered_together(toybox, text, effects):
    await two_asked(toybox)
    async with toybox.open() as opened:
        outcome = await waiting(toybox, opened)
        recorded = await opened.approvals.record(outcome.session, text, reach=AnswerReach(is_all=True))
        assert [question.tool for question in recorded.questions] == ["first", "second"]
        assert await opened.approvals.questions() == ()
        outcome = await (await opened.approvals.resume(outcome.session)).run()
        assert outcome.state is SessionState.DONE
    assert toybox.effects() == effects


def working(*turns):
    """Return a playbook that calls tools in several turns."""

    def play(_brief):
        for names in turns:
            yield calls(*names)
        return Conclude("done")

    return play


SESSION = AnswerReach(kind=ScopeKind.SESSION)


async def test_an_approval_for_the_session_covers_later_calls_of_the_tool_and_no_other_tool(toybox):
    for name in ("write", "publish"):
        toybox.tool(name, risk=Risk.MEDIUM, repeatable=False)
    toybox.agent("writer", working(("write", "write"), ("write", "publish")))
    async with toybox.open() as opened:
        asked = (await waiting(toybox, opened)).questions
        recorded = await opened.approvals.record(asked[0].id, "approve", reach=SESSION)
        # The other call of the turn is covered as well.
        assert {question.id for question in recorded.questions} == {each.id for each in asked}
        outcome = await (await opened.approvals.resume(recorded.session)).run()
        assert [question.tool for question in outcome.questions] == ["publish"]
        assert toybox.effects() == ["write", "write", "write"]


async def test_an_approval_for_the_session_ends_with_the_session_and_its_forks(toybox):
    toybox.tool("write", risk=Risk.MEDIUM, repeatable=False)
    toybox.agent("writer", working(("write",), ("write",)))
    async with toybox.open() as opened:
        outcome = await waiting(toybox, opened)
        done = await (await opened.approvals.answer(outcome.questions[0].id, "approve", reach=SESSION)).run()
        assert done.state is SessionState.DONE
        fork = await (await opened.sessions.fork(done.session, "1")).run()
        assert [question.tool for question in fork.questions] == ["write"]
        assert (await waiting(toybox, opened)).questions
    assert toybox.effects() == ["write", "write"]


async def test_a_denial_has_no_scope_and_a_measurement_is_approved_alone(toybox):
    toybox.tool("torch-toy", risk=Risk.MEDIUM)
    toybox.agent("writer", calling("torch-toy"))
    async with toybox.open() as opened:
        asked = (await waiting(toybox, opened)).questions[0]
        for text, problem in (("deny", "only an approval has one"), ("approve", "one measurement at a time")):
            with pytest.raises(UsageError, match=problem):
                await opened.approvals.answer(asked.id, text, reach=SESSION)
        assert [each for _, each in await opened.approvals.questions()] == [asked]


@pytest.mark.parametrize("reach", [SESSION, AnswerReach(is_all=True), AnswerReach(kind=ScopeKind.PREFIX, prefix="a")])
async def test_a_program_answers_one_question_and_grants_no_scope(careful, reach):
    async with careful.open() as opened:
        asked = (await waiting(careful, opened)).questions[0]
        for text in ("approve", "deny"):
            with pytest.raises(UsageError, match="needs a person"):
                await opened.approvals.answer(asked.id, text, client="toy 1", reach=reach)
        assert [each for _, each in await opened.approvals.questions()] == [asked]
    assert careful.effects() == []


KILLED = """
import asyncio, os, signal, sys
from esper_agents.api import open_project

async def main():
    async with open_project(sys.argv[1]) as project:
        await project.approvals.record(sys.argv[2], "approve")
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_answers_before_a_kill_are_kept_and_the_others_are_still_asked(toybox):
    for name in ("first", "second", "third"):
        toybox.tool(name, risk=Risk.MEDIUM, repeatable=False)
    toybox.agent("writer", calling("first", "second", "third"))
    async with toybox.open() as opened:
        outcome = await waiting(toybox, opened)
        for question in outcome.questions[:2]:
            command = [sys.executable, "-c", KILLED, str(toybox.project), question.id]
            done = await asyncio.to_thread(subprocess.run, command, check=False)
            assert done.returncode == -9
        assert [each for _, each in await opened.approvals.questions()] == [outcome.questions[2]]
        outcome = await (await opened.approvals.answer(outcome.questions[2].id, "deny")).run()
        assert outcome.state is SessionState.DONE
    assert toybox.effects() == ["first", "second"]


async def test_a_second_answer_is_refused_and_the_first_stands(careful):
    async with careful.open() as opened:
        asked = (await waiting(careful, opened)).questions[0]
        held = await opened.approvals.answer(asked.id, "deny")
        held.stop()
        await stopped(held)
        with pytest.raises(UsageError, match="already answered: 'deny'"):
            await opened.approvals.answer(asked.id, "approve")
        outcome = await (await opened.tasks.resume(held.id)).run()
        with pytest.raises(UsageError, match="already answered: 'deny'"):
            await opened.approvals.answer(asked.id, "approve")
        assert outcome.state is SessionState.DONE
    assert careful.effects() == []


async def test_an_answer_that_is_not_offered_is_refused_and_the_question_stays_open(careful):
    async with careful.open() as opened:
        outcome = await waiting(careful, opened)
        with pytest.raises(UsageError, match="'yes' is not a valid answer") as refused:
            await opened.approvals.answer(outcome.questions[0].id, "yes")
        assert refused.value.remedy == "answer one of approve, deny"
        assert [each for _, each in await opened.approvals.questions()] == list(outcome.questions)
        assert (await opened.sessions.get(outcome.session)).state is SessionState.WAITING


async def test_a_question_that_nobody_asked_is_refused(careful):
    async with careful.open() as opened:
        await waiting(careful, opened)
        with pytest.raises(NotFoundError, match="no question named 'qst_"):
            await opened.approvals.answer("qst_" + "0" * 32, "approve")


async def test_a_question_of_a_cancelled_session_can_not_be_answered_any_more(careful):
    async with careful.open() as opened:
        outcome = await waiting(careful, opened)
        await opened.sessions.cancel(outcome.session)
        assert await opened.approvals.questions() == ()
        with pytest.raises(UsageError, match="is cancelled; its questions are closed"):
            await opened.approvals.answer(outcome.questions[0].id, "approve")
    assert careful.effects() == []


async def test_a_session_that_asks_one_thing_can_be_answered_by_its_own_name(careful):
    async with careful.open() as opened:
        outcome = await waiting(careful, opened)
        assert (await (await opened.approvals.answer(outcome.session, "approve")).run()).state is SessionState.DONE


async def test_a_session_that_asks_two_things_must_be_answered_by_the_question(toybox):
    await two_asked(toybox)
    async with toybox.open() as opened:
        outcome = await waiting(toybox, opened)
        with pytest.raises(UsageError, match="asks 2 questions"):
            await opened.approvals.answer(outcome.session, "approve")
    assert toybox.effects() == []


async def test_while_a_session_is_being_worked_on_its_answer_is_busy(careful):
    async with careful.open() as opened:
        outcome = await waiting(careful, opened)
        held = await opened.tasks.resume(outcome.session)
        with pytest.raises(BusyError):
            await opened.approvals.answer(outcome.questions[0].id, "approve")
        assert (await held.run()).state is SessionState.WAITING
        await (await opened.approvals.answer(outcome.questions[0].id, "approve")).run()
    assert careful.effects() == ["write"]


ANSWER = """
import asyncio, sys
from contextlib import suppress
from esper_agents.api import open_project
from esper_agents.orchestration.drift import ChangedError

async def main():
    async with open_project(sys.argv[1]) as project:
        # The answer is on record; the agent and its playbook are known to the other process alone.
        with suppress(ChangedError):
            await project.approvals.answer(sys.argv[2], "approve")

asyncio.run(main())
"""


@pytest.mark.slow
async def test_an_answer_may_come_from_another_process(careful):
    async with careful.open() as opened:
        outcome = await waiting(careful, opened)
        command = [sys.executable, "-c", ANSWER, str(careful.project), outcome.questions[0].id]
        await asyncio.to_thread(subprocess.run, command, check=True)
        assert (await (await opened.tasks.resume(outcome.session)).run()).state is SessionState.DONE
    assert careful.effects() == ["write"]


async def test_an_approval_is_bound_to_the_tool_and_the_arguments_it_was_asked_for(careful):
    from sqlalchemy import select, update

    from esper_agents.domain.codec import decode, encode
    from esper_agents.domain.ledger import ActionDecided
    from esper_agents.storage.tables import ledger

    async with careful.open() as opened:
        outcome = await waiting(careful, opened)
        await stopped_after_answer(opened, outcome.questions[0].id)
        with opened.services.store.store.writing() as transaction:
            where = ledger.c.session_id == outcome.session, ledger.c.kind == RowKind.MOVED
            moved = decode(ActionDecided, transaction.connection.scalar(select(ledger.c.body).where(*where)))
            other = ActionDecided(calls("write", text="something else"), moved.record)
            assert digest({"text": "something else"}) != outcome.questions[0].arguments_sha256
            transaction.connection.execute(update(ledger).where(*where).values(body=encode(other)))
        careful.playbooks["writer"] = calling_with_text
    async with careful.open() as opened:
        await (await opened.tasks.resume(outcome.session, accept=True)).run()
    assert careful.effects() == []


async def test_an_approval_is_bound_to_its_question(toybox):
    from sqlalchemy import select, update

    from esper_agents.domain.agent_action import UserAnswer
    from esper_agents.domain.codec import decode, encode
    from esper_agents.storage.tables import ledger

    toybox.tool("write", risk=Risk.MEDIUM, repeatable=False)
    toybox.agent("writer", calling("write"))
    async with toybox.open() as opened:
        outcome = await waiting(toybox, opened)
        await stopped_after_answer(opened, outcome.questions[0].id)
        with opened.services.store.store.writing() as transaction:
            where = ledger.c.session_id == outcome.session, ledger.c.kind == RowKind.ANSWERED
            given = decode(UserAnswer, transaction.connection.scalar(select(ledger.c.body).where(*where)))
            other = UserAnswer("qst_" + "0" * 32, given.text, given.by)
            transaction.connection.execute(update(ledger).where(*where).values(body=encode(other)))
        await (await opened.tasks.resume(outcome.session)).run()
    assert toybox.effects() == []


async def stopped_after_answer(opened, question):
    held = await opened.approvals.answer(question, "approve")
    held.stop()
    await stopped(held)


def calling_with_text(_brief):
    yield calls("write", text="something else")
    return Conclude("done")


def asking(_brief):
    answer = yield Ask("which device?", ("cpu", "cuda"))
    free = yield Ask("why?")
    return Conclude(f"{answer.text} because {free.text}")


async def test_a_person_answers_what_an_agent_asks(toybox):
    toybox.agent("asker", asking)
    async with toybox.open() as opened:
        outcome = await waiting(toybox, opened, "asker")
        with pytest.raises(UsageError, match="'tpu' is not a valid answer"):
            await opened.approvals.answer(outcome.questions[0].id, "tpu")
        outcome = await (await opened.approvals.answer(outcome.questions[0].id, "cuda")).run()
        assert outcome.state is SessionState.WAITING
        assert [question.text for question in outcome.questions] == ["why?"]
        outcome = await (await opened.approvals.answer("latest", "it is there")).run()
        assert (await opened.certificates.read(outcome.certificate.id)).summary == "cuda because it is there"
