"""Which of the targets that were found is meant: the one that was named, the only one, or the one a person chooses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from certificate_samples import evidence

from esper_agents.domain.agent import Agent
from esper_agents.domain.agent_action import Ask, ToolReport, UserAnswer
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.frame import Brief
from esper_agents.domain.project import GitRevision
from esper_agents.domain.status import QuestionType
from esper_agents.domain.task import Task
from esper_agents.reasoning.request_parser import parse_request
from esper_agents.reasoning.target_choice import GRAPH_FIRST, NONE_OF_THEM, WHOLE_FIRST, choose, pair

AGENT = Agent("toy", "", "inherit", None, (), "toys", (), (), (), (), "", "toy.md", "0" * 64, ())
BRIEF = Brief(
    agent=AGENT,
    task=Task("profile this", ("m.py",), QuestionType.ADVICE, "profile"),
    project="toy",
    revision=GitRevision("", "", "", "", is_git=False, dirty=()),
    handoff=None,
    chain=(),
    question="",
    findings=(),
    evidence=(),
    notes=(),
    tools=(),
    agents=("toy",),
)


def entry(target, kind="module", uses=(), needs=()):
    return {"target": target, "line": 1, "kind": kind, "needs": list(needs), "uses": list(uses)}


def named(*targets, said="x", kind="function", needs=()):
    return {"said": said, "targets": list(targets), "kind": kind, "line": 1, "needs": list(needs)}


def report(people=(), runnable=(), missing=(), **changes):
    output = {"named": list(people), "runnable": list(runnable), "missing": list(missing), "files": 1}
    return ToolReport(evidence(1, tool="torch-targets", output=output, **changes), ())


def chosen(found, *, kinds=WHOLE_FIRST, request="", answer=None, brief=BRIEF):
    """Return what is chosen; the question is answered where there is one, and returned where no answer is given."""
    generator = choose(brief, parse_request(request), found, kinds)
    try:
        question = next(generator)
        assert isinstance(question, Ask)
        if answer is None:
            return question
        generator.send(UserAnswer("qst_1", answer, "somebody"))
    except StopIteration as end:
        return end.value
    raise AssertionError("a second question")


def test_what_was_named_is_meant_whatever_else_can_be_run():
    found = report([named("m.py:f")], [entry("m.py:Net"), entry("m.py:step", "step")])
    assert (chosen(found).name, chosen(found).because) == ("m.py:f", "you named it")


def test_a_name_that_nothing_answers_to_is_no_name():
    assert chosen(report([named(said="PyTorch")], [entry("m.py:Net")])).name == "m.py:Net"


def test_the_whole_comes_first_for_a_run_and_the_module_for_a_graph():
    ready = [entry("m.py:Net"), entry("m.py:make_step", "step", ["m.py:Net"])]
    assert chosen(report((), ready)).name == "m.py:make_step"
    assert chosen(report((), ready), kinds=GRAPH_FIRST).name == "m.py:Net"


def test_of_those_that_use_one_another_the_outermost_is_meant():
    ready = [entry("m.py:Net"), entry("m.py:make_model", uses=["m.py:Net"])]
    assert chosen(report((), ready)).name == "m.py:make_model"


def test_where_several_may_be_meant_a_person_is_asked_and_may_say_none():
    found = report((), [entry("m.py:A"), entry("m.py:B")])
    question = chosen(found)
    assert question.options == ("m.py:A", "m.py:B", NONE_OF_THEM)
    assert chosen(found, answer="m.py:B").name == "m.py:B"
    assert chosen(found, answer="m.py:B").because == "somebody chose it"
    assert isinstance(chosen(found, answer=NONE_OF_THEM), InformationGap)


def test_a_bare_name_in_several_files_is_asked_about():
    assert chosen(report([named("a.py:f", "b.py:f")])).options == ("a.py:f", "b.py:f", NONE_OF_THEM)


def test_inputs_come_from_the_words_of_the_request():
    target = chosen(report([named("m.py:f", needs=["inputs: x"])]), request="run m.py:f on randn(3)")
    assert target.arguments == {"target": "m.py:f", "inputs": ["randn(3)"], "inputs_from": ""}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (report([named("m.py:f", needs=["inputs: x"])]), "m.py:f needs inputs: x"),
        (report((), (), [entry("m.py:Net", needs=["inputs: x"])]), "m.py:Net needs inputs: x"),
        (report(), "a function without arguments that returns the module or the training step"),
        (report(outcome=CallOutcome.FAILED, summary="there is no file 'x.py'"), "there is no file 'x.py'"),
    ],
)
def test_where_nothing_can_be_run_it_is_said_exactly_what_is_missing(found, words):
    gap = chosen(found)
    assert words in gap.what
    assert gap.command == 'esper submit "... FILE.py:NAME with randn(32,128)" m.py --agent toy'


def test_what_was_measured_before_is_not_asked_about_again():
    before = evidence(2, tool="torch-profile", arguments={"target": "m.py:B", "inputs": ["3"], "inputs_from": ""})
    found = report((), [entry("m.py:A"), entry("m.py:B")])
    target = chosen(found, brief=replace(BRIEF, evidence=(before,)))
    assert (target.name, target.inputs) == ("m.py:B", ("3",))


@pytest.mark.parametrize(
    ("request_text", "baseline"),
    [("compare m.py:a with m.py:b", "m.py:a"), ("is m.py:a faster than m.py:b", "m.py:b")],
)
def test_of_two_that_are_named_the_words_say_which_is_the_baseline(request_text, baseline):
    found = report([named("m.py:a"), named("m.py:b")])
    arms = pair(BRIEF, parse_request(request_text), found)
    assert arms[0].name == baseline


def test_one_that_is_named_is_no_pair():
    assert isinstance(pair(BRIEF, parse_request("compare m.py:a"), report([named("m.py:a")])), InformationGap)
