"""Playbooks on the same code with different questions: the real rules and searches, without a session."""

from __future__ import annotations

import re
from dataclasses import replace

import briefs
import pytest

from esper_agents.agents.registry import load_registry
from esper_agents.domain.agent_action import CallTools, Conclude, Consult, HandOff, Panel, ToolReport
from esper_agents.domain.codec import canonical
from esper_agents.domain.finding import Finding
from esper_agents.domain.handoff import ConsultAnswer
from esper_agents.domain.status import QuestionType
from esper_agents.domain.task import Task
from esper_agents.reasoning.investigation import reads_only
from esper_agents.reasoning.playbook import load_playbooks
from esper_agents.reasoning.request_answer import by_relevance, request_searches, steps_asked
from esper_agents.requests.parsing import parse_request
from esper_agents.tools.registry import load_tools
from esper_agents.tools.tool import ToolContext

pytestmark = pytest.mark.anyio
CODE = """import torch
from torch import nn


class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.history = torch.compile(model), optimizer, []

    def fit(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            p = self.model(x).softmax(-1)
            loss = nn.functional.nll_loss(torch.log(p), y)
            loss.backward()
            self.optimizer.step()
            self.history.append(loss)
            print(loss.item())

    def evaluate(self, loader):
        hits = 0
        for x, y in loader:
            hits += (self.model(x).argmax(-1) == y).sum()
        return hits
"""
READING = ("static-review", "search-code", "read-file")
FIRST, SECOND = "why does memory grow 40 MB every epoch?", "is the evaluation in `Trainer.evaluate` deterministic?"


@pytest.fixture
def project(tmp_path):
    (tmp_path / "trainer.py").write_text(CODE)
    return tmp_path


def brief_for(project, agent, request):
    registry, tools = load_registry(project), load_tools()
    return briefs.brief(
        agent=registry.get(agent),
        task=Task(request, ("trainer.py",), QuestionType.ADVICE, ""),
        agents=tuple(registry.agents),
        tools=tuple(tools.get(name).use for name in READING),
        request=parse_request(request, project),
    )


async def play(project, brief):
    """Run a playbook with the real reading tools, and return its last action and the texts that it searched for."""
    tools, searched, count = load_tools(), [], 0
    reasoner = load_playbooks()[brief.agent.name].build(brief)
    turns = []
    while True:
        move = (await reasoner.next_move(turns, lambda _: None)).move
        match move:
            case CallTools(calls):
                reports = []
                for call in calls:
                    count += 1
                    tool = tools.get(call.tool)
                    done = await tool.function(ToolContext(project), **tool.validate(call.arguments))
                    record = briefs.evidence(count, output=done.output, summary=done.summary)
                    record = replace(record, tool=call.tool, arguments=call.arguments, examined=done.examined)
                    found = [Finding(f"fnd_{count}", claim, brief.agent.name, (record.id,)) for claim in done.claims]
                    reports.append(ToolReport(record, tuple(found)))
                    searched += [call.arguments["text"]] if call.tool == "search-code" else []
                result = tuple(reports)
            case Panel(consults):
                result = tuple([await consulted(project, brief, consult) for consult in consults])
            case _:
                return move, searched
        turns.append(briefs_turn(move, result))


def briefs_turn(move, result):
    from esper_agents.domain.frame import Turn

    return Turn(move, {}, result)


async def consulted(project, brief, consult: Consult):
    asked = replace(brief_for(project, consult.agent, brief.task.request), question=consult.question)
    move, _ = await play(project, asked)
    return ConsultAnswer(consult.agent, consult.question, move.summary, (), (), ())


def without_words(text, request):
    words = {word.casefold() for word in re.findall(r"\w+", request)}
    return [word for word in re.findall(r"\w+", text) if word.casefold() not in words]


PLAYBOOKS = sorted(load_playbooks())


@pytest.mark.parametrize("agent", PLAYBOOKS)
async def test_a_playbook_answers_two_questions_on_the_same_code_differently(project, agent):
    said = []
    for request in (FIRST, SECOND):
        move, _ = await play(project, brief_for(project, agent, request))
        assert isinstance(move, Conclude | HandOff)
        said.append(move.summary if isinstance(move, Conclude) else move.context)
    first, second = (without_words(text, f"{FIRST} {SECOND}") for text in said)
    assert canonical(first) != canonical(second)


async def test_the_finding_that_the_request_is_about_leads_and_its_words_are_named(project):
    move, searched = await play(project, brief_for(project, "memory-diagnostician", FIRST))
    assert move.summary.startswith(
        "Possible cause of memory growth (\"40 MB every epoch\"): trainer.py:16 'self.history' keeps"
    )
    assert "retain_graph" in searched
    assert move.next_steps[0].startswith("trainer.py:16")


async def test_a_question_about_something_else_says_that_no_finding_explains_it(project):
    request = "why does the checkpoint not load?"
    move, searched = await play(project, brief_for(project, "nan-debugger", request))
    assert move.summary.startswith("No finding explains checkpoints; 1 finding about something else.")
    assert "load_state_dict(" in searched


async def test_a_named_definition_decides_the_order_and_is_searched_for(project):
    brief = brief_for(project, "memory-diagnostician", "is Trainer.evaluate right?")
    move, searched = await play(project, brief)
    assert "evaluate(" in searched
    assert "Trainer.evaluate (trainer.py:19) contains" in move.summary


def test_sessions_without_a_parsed_request_act_as_before():
    brief = briefs.brief()
    findings = (briefs.finding(line=9), briefs.finding(line=1))
    assert by_relevance(brief, findings) == findings
    assert request_searches(brief, ()) == ()
    assert steps_asked(brief, 20, 500) == 20


def test_the_observed_steps_are_run_up_to_a_limit():
    for words, steps in (("nan after 400 updates", 440), ("nan after 3 steps", 20), ("nan after 90,000 steps", 500)):
        assert steps_asked(briefs.brief(request=parse_request(words)), 20, 500) == steps


def test_a_request_that_forbids_runs_is_only_read():
    measuring = replace(briefs.LOOK, name="torch-memory")
    task = Task("x", ("train.py",), QuestionType.ADVICE, "")
    brief = briefs.brief(task=task, tools=(measuring,), request=parse_request("why does it leak, don't run anything"))
    assert reads_only(brief)
    assert not reads_only(replace(brief, request=parse_request("why does it leak")))


def test_a_measurement_of_another_topic_is_not_run_where_the_code_answers():
    tools = (replace(briefs.LOOK, name="torch-explain"), replace(briefs.LOOK, name="inspect-code"))
    task = Task("x", ("train.py",), QuestionType.ADVICE, "")
    brief = briefs.brief(task=task, tools=tools, request=parse_request("what breaks with ddp on 8 gpus?"))
    assert reads_only(brief, ("torch.compile",))
    assert not reads_only(brief, ("distributed training",))
    assert not reads_only(replace(brief, request=parse_request("why is it bad?")), ("torch.compile",))
    assert not reads_only(replace(brief, request=parse_request("profile the ddp step")), ("torch.compile",))
