from __future__ import annotations

import pytest
from rows import is_shared
from toys import calling, calls

from esper_agents.api import AnswerType, open_project
from esper_agents.domain.agent_action import Ask, Conclude
from esper_agents.domain.budget import Amount, Resource
from esper_agents.domain.evidence import Risk
from esper_agents.domain.session import SessionState
from esper_agents.errors import NotFoundError, UsageError
from esper_agents.orchestration.answers import record_answer
from esper_agents.orchestration.session_run import StoppedError, hold_lease
from esper_agents.storage import lease

pytestmark = [pytest.mark.anyio, pytest.mark.both_databases]


@pytest.fixture
def careful(toybox):
    """Return a toybox whose agent calls two tools in one turn that a person must agree to."""
    for name in ("first", "second"):
        toybox.tool(name, risk=Risk.MEDIUM, repeatable=False)
    toybox.agent("writer", calling("first", "second"))
    return toybox


async def asked(toybox, opened, agent="writer"):
    outcome = await (await toybox.submit(opened, agent)).run()
    assert outcome.state is SessionState.WAITING
    return outcome


async def stopped(session):
    session.stop()
    with pytest.raises(StoppedError):
        await session.run()


async def test_what_waits_is_listed_over_all_sessions_the_oldest_first(careful):
    async with careful.open() as opened:
        outcomes = [await asked(careful, opened) for _ in range(2)]
        found = await opened.approvals.list()
        assert [each.question for each in found] == [question for outcome in outcomes for question in outcome.questions]
        assert [each.session for each in found] == [each.session for each in outcomes for _ in range(2)]
        assert {each.agent for each in found} == {"writer"}
        assert all(each.is_decision for each in found)
        (row, _) = [each for each in await opened.sessions.timeline(outcomes[0].session) if each.kind == "asked"]
        assert found[0].since == row.at


async def test_of_two_questions_in_one_turn_the_second_is_denied_and_the_first_approved(careful):
    async with careful.open() as opened:
        outcome = await asked(careful, opened)
        first, second = outcome.questions
        await opened.approvals.record(second.id, "deny")
        assert [each.question for each in await opened.approvals.list()] == [first]
        await (await opened.approvals.answer(first.id, "approve")).run()
        assert await opened.approvals.list() == ()
    assert careful.effects() == ["first"]


async def test_a_question_is_named_by_its_end_and_not_by_too_little_of_it(careful):
    async with careful.open() as opened:
        outcome = await asked(careful, opened)
        name = outcome.questions[0].id
        for wanted in ("", "qst_", name[-5:], "%", "latest ", name[:-1], f"{name}x", "zzzzzzzz"):
            with pytest.raises(NotFoundError) as error:
                await opened.approvals.answer(wanted, "approve")
            assert "esper approvals list" in error.value.remedy or "did you mean" in error.value.remedy
        await stopped(await opened.approvals.answer(name[-12:], "approve"))
        assert [each.question for each in await opened.approvals.list()] == [outcome.questions[1]]


async def test_latest_is_the_newest_open_question_and_not_the_newest_session(toybox):
    toybox.tool("write", risk=Risk.MEDIUM, repeatable=False)
    toybox.tool("look")
    toybox.agent("writer", calling("write"))
    toybox.agent("talker", calling("look"))
    async with toybox.open() as opened:
        older, newer = [await asked(toybox, opened) for _ in range(2)]
        await (await toybox.submit(opened, "talker")).run()
        for outcome in (newer, older):
            assert (await opened.approvals.record("latest", "deny")).session == outcome.session
        with pytest.raises(UsageError, match="has no pending question"):
            await opened.approvals.record("latest", "deny")


async def test_an_end_that_fits_two_questions_is_refused(careful, monkeypatch):
    made = iter(f"qst_{number}{'ab' * 15}a" for number in range(4))
    monkeypatch.setattr("esper_agents.orchestration.permissions.new_id", lambda _prefix: next(made))
    async with careful.open() as opened:
        outcome = await asked(careful, opened)
        with pytest.raises(UsageError, match="matches 2 questions") as error:
            await opened.approvals.answer("ababababa", "approve")
        assert outcome.questions[0].id in error.value.remedy


async def test_a_question_of_another_session_is_none_of_this_one(careful):
    async with careful.open() as opened:
        one, other = [await asked(careful, opened) for _ in range(2)]
        held = await opened.services.store.run(lease.claim, one.session)
        async with hold_lease(opened.services, held, lambda _: None) as run:
            with pytest.raises(NotFoundError, match="no question named"):
                await record_answer(run, other.questions[0].id, "approve", "ann")
        assert len(await opened.approvals.list()) == 4


async def test_a_question_of_another_project_is_not_answered_from_here(careful, make_project):
    async with careful.open() as opened:
        outcome = await asked(careful, opened)
        async with open_project(make_project(name="other")) as elsewhere:
            assert await elsewhere.approvals.list() == ()
            # Only a database that projects share knows whose it is.
            said = "belongs to the project in" if is_shared() else "no question named"
            with pytest.raises(UsageError, match=said) as error:
                await elsewhere.approvals.answer(outcome.questions[0].id, "approve")
            if is_shared():
                assert error.value.remedy == f"use --project {careful.project}"
            with pytest.raises(NotFoundError):
                await elsewhere.approvals.answer(outcome.questions[0].id[-12:], "approve")
        assert len(await opened.approvals.list()) == 2
    assert careful.effects() == []


async def test_a_question_over_which_the_session_went_on_is_stale_and_waits_no_more(toybox):
    toybox.tool("write", risk=Risk.MEDIUM, repeatable=False)
    toybox.tool("look")

    def both(_brief):
        yield calls("look", "write", "look")
        return Conclude("done")

    toybox.agent("writer", both)
    async with toybox.open() as opened:
        task = opened.tasks.create(
            "review this",
            [toybox.project / "train.py"],
            agent="writer",
            budget=(Amount(Resource.TOOL_CALLS, 1),),
        )
        outcome = await (await opened.tasks.submit(task)).run()
        assert outcome.state is SessionState.DONE
        assert await opened.approvals.list() == ()
        row = next(each for each in await opened.sessions.timeline(outcome.session) if each.kind == "asked")
        with pytest.raises(UsageError, match="its questions are closed"):
            await opened.approvals.answer(row.body["id"], "approve")
    assert toybox.effects() == ["look"]


async def test_an_approval_of_a_question_that_wants_words_is_refused(toybox):
    def asks(_brief):
        answer = yield Ask("which device?")
        return Conclude(answer.text)

    toybox.agent("asker", asks)
    async with toybox.open() as opened:
        outcome = await asked(toybox, opened, "asker")
        with pytest.raises(UsageError, match="needs an answer, not an approval") as error:
            await opened.approvals.answer(outcome.session, "approve", is_decision=True)
        assert error.value.remedy == f"esper answer {outcome.questions[0].id} ANSWER"
        outcome = await (await opened.approvals.answer(outcome.session, "approve")).run()
        assert outcome.state is SessionState.DONE


@pytest.mark.parametrize(
    ("wants", "good", "bad"),
    [
        (AnswerType.INTEGER, ("8", "-3", " 12 "), ("", "8.0", "eight", "1e3", "٣", "9" * 19, "8\n8")),
        (AnswerType.NUMBER, ("0.5", "-3", "1.25"), ("", ".5", "nan", "1e-3", "0,5", "1.")),
        (AnswerType.TEXT, ("it is there", "8"), ("", "   ", "x" * 20_001)),
    ],
)
async def test_an_answer_must_be_of_the_type_that_was_asked_for(toybox, wants, good, bad):
    def asks(_brief):
        answer = yield Ask("how many?", wants=wants)
        return Conclude(f"[{answer.text}]")

    toybox.agent("asker", asks)
    async with toybox.open() as opened:
        for text in good:
            outcome = await asked(toybox, opened, "asker")
            assert outcome.questions[0].wants is wants
            for wrong in bad:
                with pytest.raises(UsageError):
                    await opened.approvals.answer(outcome.session, wrong)
            outcome = await (await opened.approvals.answer(outcome.session, text)).run()
            assert (await opened.certificates.read(outcome.certificate.id)).summary == f"[{text.strip()}]"


async def test_a_program_cannot_approve_a_risk_above_low_and_may_decline_it(careful):
    async with careful.open() as opened:
        outcome = await asked(careful, opened)
        first, second = outcome.questions
        assert opened.approvals.needs_person(first)
        for client in ("claude-code 2.1", "approve", "root"):
            with pytest.raises(UsageError, match="needs a person") as error:
                await opened.approvals.answer(first.id, "approve", client=client)
            assert error.value.remedy == f"in a terminal: esper approve {first.id}"
        await opened.approvals.record(second.id, "deny", client="claude-code 2.1")
        rows = await opened.sessions.timeline(outcome.session)
        (answer,) = [row.body for row in rows if row.kind == "answered"]
        assert (answer["text"], answer["by"]) == ("deny", "client claude-code 2.1")
    assert careful.effects() == []


async def test_a_program_approves_a_low_risk_that_the_user_asks_about_and_is_recorded_as_the_program(toybox):
    toybox.tool("look", risk=Risk.LOW)
    toybox.agent("looker", calling("look"))
    async with toybox.open() as opened:
        task = opened.tasks.create("look at it", [toybox.project / "train.py"], agent="looker")
        session = await opened.tasks.submit(opened.tasks.restrict(task, ask=["look"]))
        (question,) = (await session.run()).questions
        assert not opened.approvals.needs_person(question)
        name = "evil\n\x1b[2J " + "x" * 100
        outcome = await (await opened.approvals.answer(question.id, "approve", client=name)).run()
        assert outcome.state is SessionState.DONE
        rows = await opened.sessions.timeline(outcome.session)
    (answer,) = [row.body for row in rows if row.kind == "answered"]
    assert answer["by"].startswith("client evil \\u001b[2J xxx")
    assert len(answer["by"]) <= len("client ") + 60
    assert toybox.effects() == ["look"]
