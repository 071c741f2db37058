"""Which of the targets that were found is meant: the one that was named, the only one, or the one a person chooses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from certificate_samples import evidence

from esper_agents.domain.agent import Agent
from esper_agents.domain.agent_action import Ask, ToolReport, ToolUse, UserAnswer
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.evidence import CallOutcome, Risk
from esper_agents.domain.frame import Brief
from esper_agents.domain.project import GitRevision
from esper_agents.domain.request import ParsedRequest, SymbolReference
from esper_agents.domain.status import QuestionType
from esper_agents.domain.task import Task
from esper_agents.reasoning.target_choice import GRAPH_FIRST, NONE_OF_THEM, WHOLE_FIRST, choose, looking, pair
from esper_agents.requests.measurement_options import measurement_options

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
    generator = choose(brief, measurement_options(request), found, kinds)
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
    target = words.partition(" needs ")[0] if "needs" in words else ""
    command = f"esper submit 'profile this? Run {target} with INPUTS' m.py --agent toy"
    added = "esper submit 'profile this' m.py --agent toy # after adding a function without arguments"
    assert gap.command == command if target else gap.command.startswith(added if "function" in words else "")


def test_a_request_that_names_a_target_already_is_not_wrapped_again():
    once = "profile this? Run m.py:Net with INPUTS"
    brief = replace(BRIEF, task=replace(BRIEF.task, request=once))
    gap = chosen(report((), (), [entry("m.py:Net", needs=["inputs: x"])]), brief=brief)

    assert gap.command == "esper submit 'profile this? Run m.py:Net with INPUTS' m.py --agent toy"


def scaffolds(found, *outputs, **given):
    """Return the choice, and the targets for which arguments were searched; each search has one of the outputs."""
    brief = replace(BRIEF, tools=(ToolUse("torch-scaffold", "", {}, Risk.LOW, is_repeatable=True),), **given)
    generator = choose(brief, measurement_options(""), found, WHOLE_FIRST)
    tried, answer = [], None
    try:
        while True:
            (call,) = generator.send(answer).calls
            assert call.tool == "torch-scaffold"
            tried.append(call.arguments["target"])
            known = outputs[len(tried) - 1]
            answer = (ToolReport(evidence(3, tool="torch-scaffold", output=known, arguments=call.arguments), ()),)
    except StopIteration as end:
        return end.value, tried


FOUND = {"runnable": ".esper/harness/m_B.py:make", "synthetic": True, "trains": True, "error": ""}
NONE = {"runnable": "", "error": "ValueError: no", "trains": False}


def test_arguments_are_searched_for_what_needs_them_until_one_runs():
    missing = [entry(f"m.py:{each}", needs=["inputs: x"]) for each in "ABC"]
    target, tried = scaffolds(report((), (), missing), NONE, FOUND)
    assert tried == ["m.py:A", "m.py:B"]
    assert (target.name, target.kind) == (".esper/harness/m_B.py:make", "module")
    assert target.because == "m.py:B with arguments made by the program (synthetic)"


@pytest.mark.parametrize("ended", ["edited", "captured"])
def test_a_harness_of_the_project_is_named_as_one(ended):
    own = {**FOUND, "synthetic": False, "result": {"ended": ended}}
    target, _ = scaffolds(report((), (), [entry("m.py:B", needs=["inputs: x"])]), own)
    assert target.because == "m.py:B by the project's own harness, which is not checked"


def test_what_the_request_names_is_tried_first_and_at_most_five_are():
    missing = [entry(f"m.py:{each}", needs=["inputs: x"]) for each in "ABCDEFG"]
    request = ParsedRequest(symbols=(SymbolReference("F", "F.forward", "m.py", 1, 2),))
    gap, tried = scaffolds(report((), (), missing), *[NONE] * 5, request=request)
    assert tried == ["m.py:F", "m.py:A", "m.py:B", "m.py:C", "m.py:D"]
    assert gap.what.startswith(
        "what to run: arguments for 5 targets, searched without a result: m.py:F: ValueError: no;"
    )


def test_a_missing_package_ends_the_search_because_every_target_imports_it():
    missing = [entry(f"m.py:{each}", needs=["inputs: x"]) for each in "AB"]
    gap, tried = scaffolds(
        report((), (), missing), {"runnable": "", "error": "ModuleNotFoundError: No module named 'jax.np'"}
    )
    assert tried == ["m.py:A"]
    assert "the package 'jax', which m.py:A imports" in gap.what
    assert gap.command.endswith("# after activating the environment that has jax")


def test_code_that_the_request_is_not_about_and_code_that_computes_nothing_are_not_measured():
    missing = [
        {**entry(f"m.py:{name}", needs=["inputs: x"]), "relevance": relevance}
        for name, relevance in (("A", "3"), ("B", "2"), ("C", "0.5"))
    ]
    loader = {**FOUND, "result": {"output": "DataLoader"}}
    gap, tried = scaffolds(report((), (), missing), loader, NONE)
    assert tried == ["m.py:A", "m.py:B"]
    assert "m.py:A: it returns DataLoader, so that it is not the code to measure; m.py:B: ValueError: no" in gap.what


def test_no_target_is_run_that_has_nothing_to_do_with_the_code_that_the_request_names():
    missing = [{**entry("paths.py:is_inside", needs=["inputs: x"]), "relevance": "0"}]
    request = ParsedRequest(symbols=(SymbolReference("Evaluator", "Evaluator", "m.py", 1, 2),))
    gap, tried = scaffolds(report((), (), missing), request=request)
    assert tried == []
    assert gap.what.startswith("what to run: a function without arguments")


def test_the_words_of_the_request_decide_between_targets_that_run():
    ready = [{**entry("m.py:A"), "relevance": "1"}, {**entry("m.py:B"), "relevance": "2.5"}]
    target = chosen(report((), ready))
    assert (target.name, target.because) == (
        "m.py:B",
        "of 2 that can be run without asking, it fits the words of the request best",
    )


def test_the_search_for_targets_gets_the_words_and_names_of_the_request():
    request = ParsedRequest(symbols=(SymbolReference("F", "F.forward", "m.py", 1, 2),))
    task = replace(BRIEF.task, request="why is the MemoryBank of F slow")
    call = looking(replace(BRIEF, task=task, request=request), measurement_options(""))
    assert call.arguments["about"] == ["m.py:F", "why", "the", "memory", "bank", "slow"]
    assert "about" not in looking(BRIEF, measurement_options("")).arguments


def test_a_named_target_without_inputs_is_the_only_one_that_is_tried():
    found = report([named("m.py:f", needs=["inputs: x"])], (), [entry("m.py:A", needs=["inputs: x"])])
    target, tried = scaffolds(found, {**FOUND, "trains": False})
    assert tried == ["m.py:f"]
    assert target.kind == "step"


def test_a_search_for_arguments_is_no_measurement_that_was_made_before():
    before = evidence(2, tool="torch-scaffold", arguments={"target": "m.py:A"}, output=FOUND)
    brief = replace(BRIEF, evidence=(before,))
    assert chosen(report((), [entry("m.py:B")]), brief=brief).name == "m.py:B"


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
    arms = pair(BRIEF, measurement_options(request_text), found)
    assert arms[0].name == baseline


def test_one_that_is_named_is_no_pair():
    assert isinstance(pair(BRIEF, measurement_options("compare m.py:a"), report([named("m.py:a")])), InformationGap)
