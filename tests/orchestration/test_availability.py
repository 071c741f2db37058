from __future__ import annotations

import pytest
from toys import calling, calls

from esper_agents.domain.agent_action import Conclude, Consult, HandOff
from esper_agents.domain.ledger import Refusal
from esper_agents.domain.reasoner_names import CLAUDE, REASONER
from esper_agents.domain.status import QuestionType, Status
from esper_agents.errors import UsageError

pytestmark = pytest.mark.anyio


async def test_a_task_for_an_agent_without_playbook_and_model_is_declined_before_a_session_starts(toybox):
    toybox.agent("idle")
    async with toybox.open() as opened:
        task = opened.tasks.create("review this", [toybox.project / "train.py"], agent="idle")
        plan = await opened.tasks.plan(task)
        for start in (opened.tasks.submit, opened.tasks.enqueue):
            with pytest.raises(UsageError, match="idle cannot answer this without a language model") as caught:
                await start(task)
            assert (caught.value.problem, caught.value.remedy) == (plan.declined.problem, plan.declined.remedy)
        assert "esper submit 'review this' train.py --reasoner claude --agent idle" in plan.declined.remedy
        assert await opened.sessions.list() == ()
        task.options[REASONER] = CLAUDE
        assert (await opened.tasks.plan(task)).declined is None


async def test_a_request_without_any_code_is_declined(toybox):
    (toybox.project / "train.py").unlink()
    async with toybox.open() as opened:
        task = opened.tasks.create("why is my loss nan after 400 steps?", agent="nan-debugger")
        with pytest.raises(UsageError, match="nan-debugger has no Python code to read"):
            await opened.tasks.submit(task)


async def test_a_handoff_to_an_agent_that_cannot_act_is_refused_and_becomes_a_gap(toybox):
    refusals = []

    def play(_brief):
        refusals.append((yield HandOff("idle", domain="toys", reason="it knows", context="nothing yet")))
        yield calls("look")
        return Conclude("done without it")

    toybox.tool("look")
    toybox.agent("idle")
    toybox.agent("first", play)
    ran = await toybox.run("first")
    assert [refusal.unavailable for refusal in refusals if isinstance(refusal, Refusal)] == [("idle",)]
    (gap,) = [each for each in ran.certificate.gaps if "idle" in each.what]
    assert gap.command == "esper submit 'review this' train.py --reasoner claude --agent idle"
    assert gap.blocks_approval
    assert ran.certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW


async def test_a_consult_of_an_agent_that_cannot_act_is_refused_and_becomes_a_gap(toybox):
    def play(_brief):
        answer = yield Consult("idle", "is it right?")
        assert isinstance(answer, Refusal)
        yield calls("look")
        return Conclude("done without it")

    toybox.tool("look")
    toybox.agent("idle")
    toybox.agent("first", play)
    ran = await toybox.run("first")
    assert [gap.blocks_approval for gap in ran.certificate.gaps if "idle" in gap.what] == [False]


async def test_an_agent_with_a_playbook_of_a_program_needs_no_files(toybox):
    toybox.tool("look")
    toybox.agent("first", calling("look"))
    async with toybox.open() as opened:
        task = opened.tasks.create("look around", agent="first")
        assert (await opened.tasks.plan(task)).declined is None


async def test_the_reviewer_takes_a_request_that_rules_concern_if_its_agent_needs_a_model(toybox):
    async with toybox.open() as opened:
        task = opened.tasks.create(
            "tail latency budget: where does the data loader cost time?", [toybox.project / "train.py"]
        )
        plan = await opened.tasks.plan(task)
        assert (plan.route.agent, plan.declined) == ("pytorch-code-reviewer", None)
        named = opened.tasks.create(task.request, [toybox.project / "train.py"], agent="performance-engineer")
        assert (await opened.tasks.plan(named)).declined is not None


async def test_the_question_is_what_a_person_says_and_not_a_pasted_trace(toybox):
    trace = (
        'Traceback (most recent call last):\n  File "train.py", line 3, in approve\nValueError: is it ready to merge?'
    )
    async with toybox.open() as opened:
        said = opened.tasks.create(f"why does this crash?\n{trace}", [toybox.project / "train.py"])
        alone = opened.tasks.create(trace, [toybox.project / "train.py"])
        asked = opened.tasks.create(f"review this training code\n{trace}", [toybox.project / "train.py"])
    assert (said.kind, alone.kind, asked.kind) == (QuestionType.ADVICE, QuestionType.ADVICE, QuestionType.APPROVAL)


@pytest.mark.parametrize("request_", ["find me the best learning rate", "tune the hyperparameters of train.py pls"])
async def test_a_search_over_training_runs_is_declined_with_what_would_serve(toybox, request_):
    async with toybox.open() as opened:
        task = opened.tasks.create(request_, [toybox.project / "train.py"])
        with pytest.raises(UsageError, match="only runs of your training can answer") as caught:
            await opened.tasks.submit(task)
        command = "esper submit 'is the optimizer set up correctly, and the learning rate schedule?' train.py"
        assert caught.value.remedy.endswith(command)
        assert await opened.sessions.list() == ()
        # A model may plan such a search, and the code of one can be judged.
        task.options[REASONER] = CLAUDE
        assert (await opened.tasks.plan(task)).declined is None
        for judged in ("review the hyperparameter search in train.py", "why does the best learning rate diverge?"):
            assert (await opened.tasks.plan(opened.tasks.create(judged))).declined is None
        assert (await opened.tasks.plan(opened.tasks.create(command.split("'")[1]))).declined is None
