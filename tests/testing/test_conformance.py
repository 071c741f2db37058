from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from esper_agents.agents.registry import load_registry
from esper_agents.domain.agent_action import Ask, CallTools, Conclude, Consult, ToolCall
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.finding import Finding
from esper_agents.domain.frame import Brief
from esper_agents.domain.handoff import Handoff, OpenPart
from esper_agents.domain.ledger import Refusal
from esper_agents.domain.project import GitRevision
from esper_agents.domain.status import QuestionType, Stance
from esper_agents.domain.task import Task
from esper_agents.reasoning.model_client import ModelServer
from esper_agents.reasoning.model_reasoner import ModelClientConfig, claude_source
from esper_agents.reasoning.models import load_models
from esper_agents.reasoning.playbook import load_playbooks, source_of, without_playbook
from esper_agents.reasoning.reasoner import Decision, ReasonerSource
from esper_agents.testing import MessagesServer, Say, Stop, Think, ToolUseBlock, conformance
from esper_agents.testing.conformance import CHECKS, Trial, check, report
from esper_agents.tools.registry import load_tools
from esper_agents.tools.tool import ToolContext

pytestmark = pytest.mark.anyio
TOOLS = load_tools().tools
AGENTS = load_registry(None).agents
PLAYBOOKS = load_playbooks()
LOOK = CallTools((ToolCall("static-review", {"paths": ["train.py"]}),))


def brief_of(name, request="review this: is it right, fast, and free of NaN?"):
    return Brief(
        agent=AGENTS[name],
        task=Task(request, ("train.py",), QuestionType.APPROVAL, "review"),
        project="toy",
        revision=GitRevision("", "", "", "", False, ()),
        handoff=None,
        chain=(),
        question="",
        findings=(),
        evidence=(),
        notes=(),
        tools=tuple(tool.use for tool in TOOLS.values()),
        agents=tuple(AGENTS),
    )


BRIEF = brief_of("pytorch-expert")


def trial_of(play, **more):
    return Trial(source_of(play, "toys 1"), BRIEF, **more)


def reading(project):
    """Return tools of which those that only read are the real ones, and the others say that nothing can be run."""
    elsewhere = ThreadPoolExecutor(1)

    @cache
    def answered(name, arguments):
        call = ToolCall(name, json.loads(arguments))
        if name.startswith("torch") or name in {"run-tests", "reproduce-evidence", "related-code"}:
            return report(call, f"{name} cannot run here", outcome=CallOutcome.FAILED)
        running = TOOLS[name].run(ToolContext(project), call.arguments)
        result = elsewhere.submit(asyncio.run, running).result()
        findings = [
            Finding(f"fnd_{claim.fingerprint}", claim, "toy", (report(call).evidence.id,)) for claim in result.claims
        ]
        return report(call, result.summary, result.output, findings)

    return lambda call: answered(call.tool, json.dumps(dict(call.arguments)))


@pytest.mark.parametrize("name", sorted(PLAYBOOKS))
async def test_every_playbook_of_ours_conforms(name, project):
    await check(Trial(PLAYBOOKS[name], brief_of(name), reading(project)))


@pytest.mark.sample(20)
@pytest.mark.parametrize("name", sorted(PLAYBOOKS))
@pytest.mark.parametrize(
    "other",
    [
        {"tools": ()},
        {"question": "does this make a NaN?"},
        {"task": Task("is b.py 2x faster than a.py?", ("train.py",), QuestionType.RECOMMENDATION, "faster")},
        {"task": Task("explain this", (), QuestionType.ADVICE, "explain")},
        {
            "handoff": Handoff(
                "toy", "profiler", "speed", "it knows", "seen", (), (), (OpenPart("toy", "x", "why?", ()),), (), (), 1
            )
        },
    ],
    ids=["reads only", "asked by another", "asked for a speed-up", "given nothing", "given a part"],
)
async def test_every_playbook_of_ours_conforms_whatever_it_begins_with(name, other, project):
    await check(Trial(PLAYBOOKS[name], replace(brief_of(name), **other), reading(project)))


async def test_the_reasoner_that_asks_claude_conforms(monkeypatch):
    def script(request):
        said = sum(each["role"] == "assistant" for each in request.body["messages"])
        turns = (
            [
                Think("hm"),
                ToolUseBlock("static-review", {"paths": ["train.py"]}),
                ToolUseBlock("read-file", {"path": "train.py"}),
            ],
            [Think("ask"), ToolUseBlock("consult", {"agent": "profiler", "question": "is it fast?"})],
            [ToolUseBlock("read-file", {"path": "train.py"}), Stop("max_tokens")],
            [Say("I have made no move.")],
            [Say("pausing"), Stop("pause_turn")],
        )
        return turns[said] if said < len(turns) else [Think("so"), ToolUseBlock("conclude", {"summary": "fine"})]

    with MessagesServer(script) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        model = ModelServer()
        desk = ModelClientConfig(model, load_models(), lambda: None)
        async with model.client:
            await check(Trial(claude_source(desk), BRIEF))
    assert not any(each.refusal for each in server.requests)


async def test_what_stands_in_where_there_is_no_playbook_conforms():
    await check(Trial(without_playbook(), BRIEF))


async def test_a_playbook_that_asks_people_and_agents_conforms():
    def play(brief):
        reports = yield LOOK
        said = yield Ask("shall it?", ("yes", "no"))
        asked = yield Consult("profiler", "is it fast?")
        words = [type(each).__name__ for each in (reports, said, asked)]
        return Conclude(", ".join(words))

    await check(trial_of(play))


class Model:
    """Decides like a model does: one tool call, then a conclusion, each at a price."""

    def __init__(self, **habits):
        self.habits = {"spent": {"tokens": 7, "money": 1}, "words": "I look.", **habits}

    async def next_move(self, turns, say):
        say(self.habits["words"])
        self.habits.get("acts", lambda: None)()
        is_done = len(turns) >= self.habits.get("turns", 1)
        return Decision(Conclude("done") if is_done else LOOK, {"spent": self.habits["spent"], "content": ["x"]})


def model_trial(**habits):
    return Trial(ReasonerSource("toy", "", "toys 1", lambda _: Model(**habits)), BRIEF)


async def test_a_reasoner_that_is_no_playbook_conforms():
    await check(model_trial())


def failing(trial):
    """Return the checks that a reasoner does not pass, with what they say."""

    async def run():
        found = {}
        for each in CHECKS:
            try:
                await each(trial)
            except AssertionError as error:
                found[each.__name__] = str(error)
        return found

    return run()


async def test_one_that_never_concludes_is_found():
    found = await failing(replace(model_trial(turns=10**9), most_turns=5))
    assert found["concludes"] == "it has not ended after 5 turns"


async def test_one_that_says_something_else_than_text_is_found():
    assert (await failing(model_trial(words=b"bytes"))).keys() == {"concludes"}


async def test_one_that_forgets_what_it_decided_is_found():
    def forgetful(brief):
        count.append(1)
        yield Ask(f"is this the frame number {len(count)}?")
        return Conclude("x")

    count = []
    assert "goes_on_from_the_record" in await failing(trial_of(forgetful))


async def test_one_that_acts_by_itself_is_found(tmp_path):
    def act():
        (tmp_path / "written").write_text("x")
        subprocess.run([sys.executable, "-c", ""], check=True)

    (said,) = (await failing(model_trial(acts=act))).items()
    assert said[0] == "touches_nothing"
    assert "written" in said[1]
    assert "subprocess.Popen" in said[1]


async def test_reading_a_file_and_importing_is_no_act(tmp_path):
    (tmp_path / "fresh_module.py").write_text("x = 1\n")

    def act():
        sys.path.insert(0, str(tmp_path))
        __import__("fresh_module")
        Path(__file__).read_bytes()
        sys.modules.pop("fresh_module")
        sys.path.remove(str(tmp_path))

    assert not await failing(model_trial(acts=act))


async def test_what_tools_do_meanwhile_is_not_held_against_a_reasoner(tmp_path):
    def writes(call):
        (tmp_path / "written").write_text("x")
        return report(call)

    assert not await failing(replace(model_trial(), tools=writes))


async def test_one_that_cannot_do_without_a_result_fails_loudly():
    def trusting(brief):
        reports = yield LOOK
        return Conclude(reports[0].evidence.output["passed"])

    with pytest.raises(KeyError):
        await conformance.survives_calls_that_fail(trial_of(trusting))


async def test_a_playbook_that_takes_a_refusal_for_a_result_ends_undecided():
    def deaf(brief):
        reports = yield LOOK
        return Conclude(reports[0].evidence.summary)

    played = await conformance.play(trial_of(deaf), refused_at=0)
    assert played.decisions[-1].move.stance is Stance.UNDECIDED
    assert "it cannot be carried out here" in played.decisions[-1].move.gaps[0].why
    await check(trial_of(deaf))


async def test_one_that_goes_on_from_any_turns_is_found_where_it_should_not():
    deterministic = replace(model_trial(), source=replace(model_trial().source, kind="playbook"))
    assert (await failing(deterministic)).keys() == {"notices_turns_that_are_not_its_own"}


@pytest.mark.parametrize("spent", [{}, {"tokens": 0}, {"tokens": 1.5}, {"tokens": -1}, {"tokens": True}])
async def test_one_that_does_not_say_what_it_costs_is_found(spent):
    assert (await failing(model_trial(spent=spent))).keys() == {"says_what_it_costs"}


async def test_one_whose_digest_is_not_that_of_its_source_is_found():
    trial = trial_of(lambda _: (yield LOOK) and Conclude("x"))
    broken = replace(trial, source=replace(trial.source, sha256="0" * 64, rebuild=None))
    assert (await failing(broken)).keys() == {"is_what_its_source_says"}


async def test_a_refused_move_is_answered_with_another():
    def stubborn(brief):
        while isinstance((yield LOOK), Refusal):
            pass
        return Conclude("x")

    await conformance.survives_refusals(trial_of(stubborn))
