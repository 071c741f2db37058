"""Agents that reason with a model: the real SDK against a scripted server, from the task to the certificate."""

from __future__ import annotations

import json

import pytest
from modelling import EVIDENCE, ask, conclude, finding, opening, served, told
from toys import calling

from esper_agents.domain.agent_action import CallTools, Conclude
from esper_agents.domain.budget import Resource, read_budget
from esper_agents.domain.evidence import Risk
from esper_agents.domain.finding import Standing
from esper_agents.domain.session import SessionState
from esper_agents.domain.status import Status
from esper_agents.errors import ExitCode, ModelBusyError, ModelError, UsageError
from esper_agents.orchestration.budgets import usage
from esper_agents.orchestration.consent import ConsentError
from esper_agents.testing.script import Fail, Hang, RawBytes, Say, Stop, Think, ToolUseBlock, TruncateResponse

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setenv("ESPER_MODEL_TIMEOUT", "20")
    monkeypatch.setattr("esper_agents.reasoning.retry_budget._FIRST_WAIT_S", 0.001)


@pytest.fixture
def worker(toybox):
    """Return a toybox with a tool and an agent whose playbook looks once and concludes."""
    toybox.tool("look")
    toybox.agent("worker", calling("look", then=lambda _: Conclude("looked")))
    return toybox


async def test_what_a_model_looks_up_and_concludes_ends_in_a_certificate_that_names_the_exchange(worker, monkeypatch):
    def script(request):
        if request.number == 1:
            return [Think("first"), Say("I look."), ToolUseBlock("look", {"text": "twice"})]
        return conclude(findings=[finding(request)], stance="conditional", below_ceiling="it is young")

    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    assert ran.outcome.state is SessionState.DONE
    assert [each.claim.name for each in ran.certificate.findings] == ["gradients-not-clipped"]
    assert ran.certificate.verdict.status is Status.CONDITIONALLY_APPROVED
    by = {definition.reasoner: definition for definition in ran.certificate.definitions}
    assert set(by) == {"playbook", "claude"}
    assert len(by["claude"].exchanges) == len(server.requests) == 2
    assert by["claude"].provider.startswith("anthropic ")
    assert not by["playbook"].exchanges


async def test_a_playbook_has_its_say_before_a_model_is_asked_and_its_evidence_is_told(worker, monkeypatch):
    with served([conclude()], monkeypatch) as server:
        ran = await ask(worker, server)
    first = ran.bodies("moved")[0]["move"]
    assert (first["move"], first["reasoner"]) == ("consult", "playbook")
    assert worker.effects() == ["look"]
    assert EVIDENCE.findall(opening(server.requests[0]))[0] == "e1"
    assert ran.certificate.evidence[0].summary in opening(server.requests[0])


async def test_several_tool_calls_of_one_turn_are_one_step_and_each_is_answered(worker, monkeypatch):
    script = [
        [ToolUseBlock("look", {"text": "a"}), ToolUseBlock("look", {"text": "b"}), ToolUseBlock("look", {"text": "c"})],
        conclude(),
    ]
    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    assert worker.effects() == ["look", "look a", "look b", "look c"]
    answers = server.requests[1].body["messages"][-1]["content"]
    assert [answer["type"] for answer in answers] == ["tool_result"] * 3
    made = [turn.moved.move for turn in ran.history.frames[0].turns if isinstance(turn.moved.move, CallTools)]
    assert [len(each.calls) for each in made] == [3]


async def test_calls_with_one_id_are_all_made_and_each_is_answered(worker, monkeypatch):
    twice = [ToolUseBlock("look", {"text": text}, "toolu_same") for text in ("a", "b")]
    again = [ToolUseBlock("look", {"text": "c"}, "toolu_same"), ToolUseBlock("look", "{,", "toolu_same")]
    with served([twice, again, conclude()], monkeypatch) as server:
        ran = await ask(worker, server)
    assert worker.effects() == ["look", "look a", "look b", "look c"]
    answered = [each["tool_use_id"] for each in server.requests[2].body["messages"][-1]["content"]]
    assert len({*answered, "toolu_same", "toolu_same_2"}) == 4
    assert not any(request.refusal for request in server.requests)
    assert ran.outcome.state is SessionState.DONE


async def test_thinking_is_given_back_with_its_signature(worker, monkeypatch):
    with served([[Think("hm"), ToolUseBlock("look")], conclude()], monkeypatch) as server:
        await ask(worker, server)
    block = server.requests[1].body["messages"][1]["content"][0]
    assert block["type"] == "thinking"
    assert block["signature"]


async def test_a_move_beside_tool_calls_waits_and_is_told_so(worker, monkeypatch):
    with served([[ToolUseBlock("look"), conclude()], conclude()], monkeypatch) as server:
        ran = await ask(worker, server)
    assert "one kind of move" in told(server.requests[1])
    assert ran.outcome.state is SessionState.DONE


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ToolUseBlock("no-such-tool", {}), "has no tool"),
        (ToolUseBlock("look", {"txt": "x"}), "of tool"),
        (ToolUseBlock("conclude", {"summing-up": "x"}), "do not fit its schema"),
        (ToolUseBlock("conclude", {"summary": 5}), "do not fit its schema"),
        (ToolUseBlock("hand_off", {"agent": "worker", "domain": "x", "reason": "x", "context": "x"}), "to itself"),
        (
            ToolUseBlock("hand_off", {"agent": "worcker", "domain": "x", "reason": "x", "context": "x"}),
            "did you mean worker",
        ),
        (ToolUseBlock("consult", {"agent": "nobody", "question": "x"}), "no other agent"),
        (Say("I think it is fine."), "no move"),
        ([ToolUseBlock("look"), Stop("max_tokens")], "was cut"),
        (ToolUseBlock("look", '{"text": "a'), "look was not called: its arguments are not valid JSON"),
        (ToolUseBlock("look", '{"text": "a"'), "delimiter"),
        (ToolUseBlock("look", '{"text": "a"} and more'), "Extra data"),
        (ToolUseBlock("look", '{"text": "a", "text": "b"}'), "occurs twice"),
        (ToolUseBlock("look", '{"text": NaN}'), "NaN is not a JSON number"),
        (ToolUseBlock("look", '["text"]'), "not an object"),
        (ToolUseBlock("look", "{,"), "not valid JSON"),
        (ToolUseBlock("look", '{"text": ' + "[" * 100_000), "not valid JSON"),
        (ToolUseBlock("conclude", '{"summary": "It is as it should be."'), "conclude was not called"),
    ],
)
async def test_what_cannot_be_carried_out_goes_back_in_words_and_nothing_of_it_runs(worker, monkeypatch, answer, said):
    with served([answer, conclude()], monkeypatch) as server:
        ran = await ask(worker, server)
    assert said in told(server.requests[1])
    assert worker.effects() == ["look"]
    assert ran.outcome.state is SessionState.DONE


async def test_beside_a_call_that_cannot_be_read_the_others_of_its_turn_are_carried_out(worker, monkeypatch):
    answer = [ToolUseBlock("look", '{"text": "not this'), ToolUseBlock("look", {"text": "this"})]
    with served([answer, conclude()], monkeypatch) as server:
        ran = await ask(worker, server)
    results = server.requests[1].body["messages"][-1]["content"]
    assert sorted(result["is_error"] for result in results) == [False, True]
    # The first is the playbook's, before the model is asked.
    assert worker.effects() == ["look", "look this"]
    assert ran.outcome.state is SessionState.DONE


async def test_a_model_that_never_makes_a_move_ends_undecided_in_the_end(worker, monkeypatch):
    with served(lambda _: Say("Let me think."), monkeypatch) as server:
        ran = await ask(worker, server)
    assert ran.certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert any("12 moves in a row" in gap.why for gap in ran.certificate.gaps)
    assert len(server.requests) == 12


async def test_words_unknown_tools_and_malformed_calls_do_not_end_a_frame(worker, monkeypatch):
    script = [
        *(Say("Hm."), Say("Hm."), ToolUseBlock("nosuch"), ToolUseBlock("nosuch"), ToolUseBlock("conclude", "{")),
        *(ToolUseBlock("conclude", {"stance": "splendid", "summary": "x"}), conclude()),
    ]
    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    assert len(server.requests) == 7
    assert ran.certificate.verdict.status is not Status.NEEDS_FURTHER_REVIEW


async def test_a_malformed_conclusion_made_three_times_over_is_kept_as_far_as_it_fits(worker, monkeypatch):
    def script(request):
        good = finding(request, evidence=["e1"])
        return ToolUseBlock("conclude", {"summary": "seen", "stance": "for", "findings": [good, {"severity": 7}]})

    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    assert len(server.requests) == 3
    assert "findings.1." in told(server.requests[1])
    (kept,) = ran.certificate.findings
    assert kept.standing is Standing.UNVERIFIED
    assert "made 3 times over without a change" in kept.checks[-1]
    assert ran.certificate.summary == "seen"
    assert ran.certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW


async def test_the_complete_findings_of_a_conclusion_that_is_always_cut_off_are_kept(worker, monkeypatch):
    def script(request):
        good = finding(request, evidence=["e1"])
        whole = json.dumps({"summary": "seen", "stance": "for", "findings": [good, {**good, "name": "left-out"}]})
        return [ToolUseBlock("conclude", whole[: whole.index("left-out") + 4]), Stop("max_tokens")]

    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    assert len(server.requests) == 3
    assert "was cut because it grew too long" in told(server.requests[1])
    (kept,) = ran.certificate.findings
    assert (kept.claim.name, kept.standing) == ("gradients-not-clipped", Standing.UNVERIFIED)
    assert ran.certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW


async def test_one_bad_call_of_a_turn_is_refused_and_the_others_run(worker, monkeypatch):
    calls = [ToolUseBlock("look", {"text": "one"}), ToolUseBlock("nosuch"), ToolUseBlock("look", {"text": 3})]
    with served([calls, conclude()], monkeypatch) as server:
        ran = await ask(worker, server)
    assert worker.effects() == ["look", "look one"]
    results = server.requests[1].body["messages"][-1]["content"]
    assert sorted(result["is_error"] for result in results) == [False, True, True]
    assert "has no tool 'nosuch'" in told(server.requests[1])
    assert "text of tool 'look': input should be a valid string" in told(server.requests[1])
    assert ran.outcome.state is SessionState.DONE


async def test_a_model_that_calls_tools_for_ever_ends_undecided(worker, monkeypatch):
    monkeypatch.setattr("esper_agents.orchestration.turn.MOST_TURNS", 5)
    with served(lambda _: ToolUseBlock("look"), monkeypatch) as server:
        ran = await ask(worker, server)
    assert ran.certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert len(server.requests) == 4


async def test_a_consult_is_answered_and_the_one_who_asks_stays_in_charge(worker, monkeypatch):
    worker.agent("other")

    def script(request):
        if "Another agent asks you" in opening(request):
            return conclude(summary="It depends.")
        if request.number == 1:
            return ToolUseBlock("consult", {"agent": "other", "question": "does it?"})
        return conclude()

    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    assert "It depends." in told(server.requests[2])
    assert [consult.agent for consult in ran.certificate.consults] == ["worker", "other"]


async def test_questions_to_several_agents_are_a_panel(worker, monkeypatch):
    worker.agent("one")
    worker.agent("two")

    def script(request):
        if "Another agent asks you" in opening(request):
            return conclude(summary="Yes.")
        if request.number == 1:
            return [ToolUseBlock("consult", {"agent": name, "question": "is it?"}) for name in ("one", "two")]
        return conclude()

    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    assert [consult.agent for consult in ran.certificate.consults] == ["worker", "one", "two"]


async def test_a_handoff_starts_on_the_brief_and_not_on_the_transcript(worker, monkeypatch):
    worker.agent("other", calling("look"))

    def script(request):
        if request.number == 1:
            return ToolUseBlock("look", {"text": "a long story"})
        if request.number == 2:
            return ToolUseBlock(
                "hand_off", {"agent": "other", "domain": "toys", "reason": "theirs", "context": "all seen"}
            )
        return conclude()

    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    last = server.requests[2].body
    assert len(last["messages"]) == 1
    assert "all seen" in opening(server.requests[2])
    assert ran.certificate.agent == "other"
    assert [handoff.receiver for handoff in ran.certificate.handoffs] == ["other"]


async def test_a_question_to_the_person_waits_and_its_answer_reaches_the_model(worker, monkeypatch):
    with served(
        [ToolUseBlock("ask_person", {"question": "which?", "options": ["a", "b"]}), conclude()], monkeypatch
    ) as server:
        ran = await ask(worker, server)
        assert ran.outcome.state is SessionState.WAITING
        async with worker.open() as opened:
            outcome = await (await opened.approvals.answer(ran.outcome.questions[0].id, "b")).run()
    assert outcome.state is SessionState.DONE
    assert '\\"answer\\": \\"b\\"' in told(server.requests[1])


async def test_a_tool_of_some_risk_waits_for_a_person(worker, monkeypatch):
    worker.tool("write", risk=Risk.MEDIUM)
    with served([ToolUseBlock("write")], monkeypatch) as server:
        ran = await ask(worker, server)
    assert ran.outcome.state is SessionState.WAITING
    assert worker.effects() == ["look"]


async def test_a_turn_that_is_on_record_is_never_asked_for_again(worker, monkeypatch):
    with served([ToolUseBlock("ask_person", {"question": "which?"}), conclude()], monkeypatch) as server:
        ran = await ask(worker, server)
        async with worker.open() as opened:
            await opened.tasks.resume(ran.outcome.session)
            assert len(server.requests) == 1


async def test_a_replay_asks_nobody_and_gives_the_same_certificate(worker, monkeypatch):
    with served([ToolUseBlock("look"), conclude()], monkeypatch) as server:
        ran = await ask(worker, server)
        async with worker.open() as opened:
            replayed = await opened.sessions.replay(ran.outcome.session)
        assert len(server.requests) == 2
    assert replayed.is_identical
    assert not replayed.differences


async def test_nothing_is_sent_before_a_person_has_agreed(worker, monkeypatch):
    with served([conclude()], monkeypatch) as server, pytest.raises(ConsentError, match="no consent"):
        await ask(worker, server, agreed=False)
    assert not server.requests


async def test_nothing_is_sent_after_consent_was_withdrawn(worker, monkeypatch):
    with served([ToolUseBlock("ask_person", {"question": "which?"}), conclude()], monkeypatch) as server:
        ran = await ask(worker, server)
        async with worker.open() as opened:
            opened.models.withdraw(opened.services.server.host)
            session = await opened.approvals.answer(ran.outcome.questions[0].id, "b")
            with pytest.raises(ConsentError):
                await session.run()
        assert len(server.requests) == 1


@pytest.mark.parametrize(("address", "error"), [("", UsageError), ("http://127.0.0.1:9", ModelBusyError)])
async def test_a_server_that_cannot_do_is_told_before_there_is_a_session(worker, monkeypatch, address, error):
    with served([], monkeypatch, key="right") as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "wrong")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", address or server.url)
        with pytest.raises(error) as raised:
            await ask(worker, server)
        async with worker.open() as opened:
            assert await opened.sessions.list() == ()
    assert "--reasoner playbook" in raised.value.remedy
    assert not worker.effects()


async def test_a_server_is_greeted_once_and_by_playbooks_never(worker, monkeypatch):
    with served([conclude(), conclude()], monkeypatch) as server:
        async with worker.open() as opened:
            opened.models.allow(opened.services.server.host)
            task = opened.tasks.create("review this", [worker.project / "train.py"], agent="worker")
            await (await opened.tasks.submit(opened.models.with_reasoner(task, "playbook"))).run()
            assert not server.counted
            for _ in range(2):
                await (await opened.tasks.submit(opened.models.with_reasoner(task, "claude"))).run()
    assert len(server.counted) == 1


async def test_without_a_key_there_are_two_ways_on(worker, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    async with worker.open() as opened:
        with pytest.raises(UsageError, match="no API key") as raised:
            opened.models.with_reasoner(
                opened.tasks.create("review this", [worker.project / "train.py"], agent="worker"), "claude"
            )
    assert "ANTHROPIC_API_KEY" in raised.value.remedy
    assert "--reasoner playbook" in raised.value.remedy


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("answer", "error", "code"),
    [
        (Fail(401), UsageError, ExitCode.USAGE),
        (Fail(403), UsageError, ExitCode.USAGE),
        (Fail(404), ModelError, ExitCode.FAILED),
        (Fail(400, "temperature: not known"), ModelError, ExitCode.FAILED),
        (Fail(429), ModelBusyError, ExitCode.BUSY),
        (Fail(500), ModelBusyError, ExitCode.BUSY),
        (Fail(529), ModelBusyError, ExitCode.BUSY),
        (TruncateResponse(0), ModelBusyError, ExitCode.BUSY),
        ([Say("I begin to"), TruncateResponse(600)], ModelBusyError, ExitCode.BUSY),
        (Hang(), ModelBusyError, ExitCode.BUSY),
        (RawBytes(b"<html>welcome</html>"), ModelError, None),
    ],
)
async def test_a_server_in_trouble_is_told_in_one_line_and_the_session_goes_on_later(
    worker, monkeypatch, answer, error, code
):
    if isinstance(answer, Hang):
        monkeypatch.setenv("ESPER_MODEL_TIMEOUT", "0.5")
    with served(lambda _: answer, monkeypatch) as server:
        with pytest.raises(error) as raised:
            await ask(worker, server)
        assert "\n" not in raised.value.problem
        assert raised.value.remedy
        assert code is None or raised.value.exit_code is code
    with served([conclude()], monkeypatch) as server:
        async with worker.open() as opened:
            opened.models.allow(opened.services.server.host)
            outcome = await (await opened.tasks.resume("latest")).run()
    assert outcome.state is SessionState.DONE
    assert worker.effects() == ["look"]


async def test_a_stream_that_breaks_off_is_asked_for_again(worker, monkeypatch):
    answers = iter([[Say("I begin"), TruncateResponse(600)], Fail(529), Fail(429, retry_after_s=0.001), conclude()])
    with served(lambda _: next(answers), monkeypatch) as server:
        ran = await ask(worker, server)
    assert ran.outcome.state is SessionState.DONE
    assert len(server.requests) == 4


async def test_a_model_that_declines_leaves_the_judgement_open_after_the_fallback_declined_too(worker, monkeypatch):
    with served(lambda _: [Say("I cannot."), Stop("refusal")], monkeypatch) as server:
        ran = await ask(worker, server)
    assert len({request.body["model"] for request in server.requests}) == 2
    assert ran.certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert any("declined" in gap.why for gap in ran.certificate.gaps)


async def test_an_overloaded_model_gives_way_to_the_fallback_and_is_asked_first_in_the_next_turn(worker, monkeypatch):
    asked = []

    def script(request):
        asked.append(request.body["model"])
        if asked[-1] == asked[0]:
            return Fail(529, retry_after_s=0.001)
        return ToolUseBlock("look", {"text": "x"}) if len(asked) == 6 else conclude()

    heard = []
    with served(script, monkeypatch):
        async with worker.open() as opened:
            opened.models.allow(opened.services.server.host)
            task = opened.tasks.create("review this", [worker.project / "train.py"], agent="worker")
            session = await opened.tasks.submit(opened.models.with_reasoner(task, "claude"))
            outcome = await session.run(heard.append)
            history = await opened.sessions.history(session.id)
    first, other = dict.fromkeys(asked)
    assert outcome.state is SessionState.DONE
    assert asked == [*[first] * 5, other, *[first] * 5, other]
    assert sum(f"{other} is asked instead" in each for each in heard) == 2
    decided = [turn.moved.record for turn in history.frames[0].turns if turn.moved.record]
    assert {each["model"] for each in decided} == {other}


async def test_a_prompt_that_is_too_long_is_sent_again_with_older_results_in_a_line_each(worker, monkeypatch):
    def script(request):
        if request.number <= 3:
            return ToolUseBlock("look", {"text": "x" * 3000})
        long = "left_out" not in json.dumps(request.body["messages"])
        return Fail(400, "prompt is too long: 9 tokens > 8 maximum") if long else conclude()

    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    assert ran.outcome.state is SessionState.DONE
    assert len(server.requests) == 5


async def bounded(worker, monkeypatch, budget, script=lambda _: ToolUseBlock("look")):
    """Run a task that would never end under a budget; return its outcome, its history and the server."""
    with served(script, monkeypatch) as server:
        async with worker.open() as opened:
            opened.models.allow(opened.services.server.host)
            paths = [worker.project / "train.py"]
            task = opened.tasks.create("review this", paths, agent="worker", budget=read_budget(budget))
            outcome = await (await opened.tasks.submit(opened.models.with_reasoner(task, "claude"))).run()
            return outcome, await opened.sessions.history(outcome.session), server


async def test_what_a_model_costs_is_on_record_and_stops_at_the_budget(worker, monkeypatch):
    outcome, history, server = await bounded(worker, monkeypatch, "money=0.07")
    assert outcome.exit_code is ExitCode.BUDGET
    assert len(server.requests) > 1
    used = usage(history)
    assert 0 < used[Resource.MONEY] <= 70_000
    assert used[Resource.TOKENS] > sum(request.usage.total for request in server.requests) > 0


def as_long_as_may_be(request):
    """Use all the tokens that an answer may have, and something to go on with."""
    return [Say("word" * (request.body["max_tokens"] - 20)), ToolUseBlock("look")]


@pytest.mark.sample(2)
@pytest.mark.parametrize("budget", ["tokens=20000", "tokens=35000", "tokens=90000", "money=0.08", "money=0.5"])
async def test_however_long_a_model_speaks_it_stays_within_the_budget(worker, monkeypatch, budget):
    outcome, history, server = await bounded(worker, monkeypatch, budget, as_long_as_may_be)
    (limit,) = read_budget(budget)
    assert outcome.exit_code is ExitCode.BUDGET
    assert 0 < usage(history)[limit.resource] <= limit.amount
    assert all(2_000 <= request.body["max_tokens"] <= 32_000 for request in server.requests)
    assert server.requests[-1].body["max_tokens"] < 32_000


async def test_without_a_budget_an_answer_may_be_as_long_as_ever(worker, monkeypatch):
    with served([conclude()], monkeypatch) as server:
        await ask(worker, server)
    assert server.requests[0].body["max_tokens"] == 32_000


async def test_what_the_program_itself_says_of_an_end_goes_back_to_nobody(worker, monkeypatch):
    monkeypatch.setattr("esper_agents.orchestration.turn.MOST_TURNS", 25)
    with served(lambda _: ToolUseBlock("look"), monkeypatch) as server:
        ran = await ask(worker, server)
    assert any("has taken 25 turns" in gap.why for gap in ran.certificate.gaps)
    assert not ran.bodies("move-refused")


@pytest.mark.sample(1)
@pytest.mark.parametrize("budget", ["money=0.0001", "tokens=1000", "tokens=7000"])
async def test_where_what_is_left_is_too_little_to_conclude_in_nothing_is_sent(worker, monkeypatch, budget):
    outcome, history, server = await bounded(worker, monkeypatch, budget)
    assert outcome.exit_code is ExitCode.BUDGET
    assert not server.requests
    last = history.frames[0].turns[-1].moved.move
    assert "is too small to ask once more" in last.summary
    (more,) = read_budget(last.next_steps[0].split()[3])
    assert more.amount > 2 * read_budget(budget)[0].amount
    outcome, _, server = await bounded(worker, monkeypatch, more.option)
    assert server.requests


async def test_a_replay_of_a_session_that_a_budget_stopped_is_the_same(worker, monkeypatch):
    outcome, _, _ = await bounded(worker, monkeypatch, "tokens=1000")
    async with worker.open() as opened:
        replayed = await opened.sessions.replay(outcome.session)
    assert replayed.is_identical
    assert not replayed.differences


async def test_what_a_declined_turn_used_is_counted_with_that_of_the_fallback(worker, monkeypatch):
    def script(request):
        return [Say("I cannot."), Stop("refusal")] if request.number == 1 else conclude()

    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    first, second = (each.usage.total for each in server.requests)
    (record,) = [turn.moved.record for turn in ran.history.frames[0].turns if turn.moved.record]
    usage = record["usage"]
    assert usage["fresh"] + usage["written"] + usage["cached"] == first + second
    assert record["spent"]["tokens"] == first + second + usage["output"]
    assert record["answered"]["output"] < usage["output"]


async def test_what_a_stream_that_broke_off_used_is_counted(worker, monkeypatch):
    with served([[Say("I begin"), TruncateResponse(600)], conclude()], monkeypatch) as server:
        ran = await ask(worker, server)
    assert usage(ran.history)[Resource.TOKENS] > sum(request.usage.total for request in server.requests)


async def test_what_a_turn_used_that_failed_in_the_end_is_counted_and_a_replay_is_the_same(worker, monkeypatch):
    broken = [[Say("I begin"), TruncateResponse(600)]] * 5
    with served([*broken, *broken, conclude()], monkeypatch) as server:
        with pytest.raises(ModelBusyError, match="ended its answer early"):
            await ask(worker, server)
        async with worker.open() as opened:
            with pytest.raises(ModelBusyError):
                await (await opened.tasks.resume("latest")).run()
            ran = await (await opened.tasks.resume("latest")).run()
            used = usage(await opened.sessions.history(ran.session))
            (told,) = await opened.models.usage([ran.session])
            replayed = await opened.sessions.replay(ran.session)
    assert len(server.requests) == 11
    prompts = sum(request.usage.total for request in server.requests)
    assert prompts < used[Resource.TOKENS] == told.expense.tokens
    assert used[Resource.MONEY] == told.expense.money > 0
    assert replayed.is_identical
    assert not replayed.differences


async def test_the_fallback_is_not_asked_where_what_is_left_is_too_little(worker, monkeypatch):
    def declines(request):
        return [Say("word" * (request.body["max_tokens"] - 20)), Stop("refusal")]

    _, history, server = await bounded(worker, monkeypatch, "tokens=30000", declines)
    assert len(server.requests) == 1
    assert usage(history)[Resource.TOKENS] <= 30_000


async def test_the_prefix_is_read_from_the_cache_from_turn_to_turn_and_from_hop_to_hop(worker, monkeypatch):
    worker.agent("other", calling("look"))

    def script(request):
        if request.number <= 3:
            return ToolUseBlock("look", {"text": str(request.number)})
        if request.number == 4:
            return ToolUseBlock(
                "hand_off", {"agent": "other", "domain": "toys", "reason": "theirs", "context": "all seen"}
            )
        return conclude()

    with served(script, monkeypatch) as server:
        await ask(worker, server)
    first, *later = [each.usage for each in server.requests]
    assert first.read == 0
    assert all(each.read > 0.5 * first.written for each in later)


async def test_what_a_model_writes_is_told_as_it_comes(worker, monkeypatch):
    heard = []
    with served([Say("One moment."), conclude()], monkeypatch):
        async with worker.open() as opened:
            opened.models.allow(opened.services.server.host)
            task = opened.tasks.create("review this", [worker.project / "train.py"], agent="worker")
            await (await opened.tasks.submit(opened.models.with_reasoner(task, "claude"))).run(heard.append)
    assert "".join(heard).startswith("One moment.")


async def test_the_name_of_the_model_follows_from_the_definition_and_the_persons_settings(worker, monkeypatch, home):
    worker.agent("reader", calling("look"), extra="model: haiku\n")
    (home / "config.toml").write_text('[models]\nhaiku = "claude-opus-4-8"\n')
    with served([conclude()], monkeypatch) as server:
        await ask(worker, server, agent="reader")
    assert server.requests[0].body["model"] == "claude-opus-4-8"


async def test_another_model_argues_the_other_side_and_both_positions_are_on_the_certificate(worker, monkeypatch):
    def script(request):
        if "Argue the other side" in opening(request):
            return conclude(summary="Rather not: it is rare.")
        if request.number == 1:
            return ToolUseBlock("second_opinion", {"question": "is it worth it?", "position": "yes, for the speed"})
        return conclude()

    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    models = [each.body["model"] for each in server.requests]
    assert models[0] == models[2] != models[1]
    (_, other) = ran.certificate.consults
    assert "yes, for the speed" in other.question
    assert other.answer == "Rather not: it is rare."


async def test_a_second_opinion_is_asked_for_twice_at_most(worker, monkeypatch):
    def script(request):
        if "Argue the other side" in opening(request):
            return conclude(summary="Rather not.")
        if "which is the most" in told(request):
            return conclude()
        return ToolUseBlock("second_opinion", {"question": "is it worth it?", "position": "yes"})

    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    assert len(ran.certificate.consults) == 3
    assert ran.outcome.state is SessionState.DONE


async def test_a_second_opinion_may_come_from_another_server_which_needs_its_own_consent(worker, monkeypatch):
    script = [ToolUseBlock("second_opinion", {"question": "is it worth it?", "position": "yes"}), conclude()]
    with served([conclude(summary="Rather not.")], monkeypatch) as other, served(script, monkeypatch) as server:
        monkeypatch.setenv("ESPER_SECOND_OPINION_BASE_URL", other.url)
        monkeypatch.setenv("ESPER_SECOND_OPINION_API_KEY", "theirs")
        ran = await ask(worker, server)
        assert not other.requests
        assert "no consent" in ran.certificate.consults[1].problem


async def test_thinking_is_left_out_once_what_went_before_it_is_told_in_fewer_words(worker, monkeypatch):
    monkeypatch.setattr("esper_agents.reasoning.model_reasoner._FULL", 0.04)

    def script(request):
        turns = sum(each["role"] == "assistant" for each in request.body["messages"])
        look = ToolUseBlock("look", {"text": "x" * 3000})
        return [Think(f"hm {turns}"), look] if turns < 8 else [Think("so"), conclude()]

    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    assert ran.outcome.state is SessionState.DONE
    assert not any(each.refusal for each in server.requests)
    assert "left_out" in json.dumps(server.requests[-1].body["messages"])


async def test_thinking_that_does_not_fit_what_the_project_says_by_now_is_left_out(worker, monkeypatch):
    script = [[Think("hm"), ToolUseBlock("ask_person", {"question": "which?"})], conclude(), conclude()]
    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
        (worker.project / "CLAUDE.md").write_text("Say little.")
        async with worker.open() as opened:
            outcome = await (await opened.approvals.answer(ran.outcome.questions[0].id, "b")).run()
    assert outcome.state is SessionState.DONE
    refused, last = server.requests[1:]
    assert "different conversation" in refused.refusal
    assert "thinking" not in [each["type"] for each in last.body["messages"][1]["content"]]


async def test_a_replay_of_a_session_that_ends_in_a_decision_asks_nobody(worker, monkeypatch):
    with served(lambda _: Fail(404), monkeypatch) as server:
        with pytest.raises(ModelError):
            await ask(worker, server)
        asked = len(server.requests)
        async with worker.open() as opened:
            (session,) = await opened.sessions.list()
            replayed = await opened.sessions.replay(session.id)
        assert len(server.requests) == asked
    assert replayed.ending == "the ledger ends while worker decides"
