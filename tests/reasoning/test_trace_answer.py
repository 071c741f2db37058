"""Tests of `esper_agents.reasoning.trace_answer`."""

from __future__ import annotations

import pytest
from briefs import LOOK, brief, evidence

from esper_agents.domain.agent_action import CallTools, Conclude, ToolReport, ToolUse
from esper_agents.domain.evidence import Risk
from esper_agents.domain.status import QuestionType
from esper_agents.domain.task import Task
from esper_agents.reasoning.trace_answer import answer_first

EXPLAIN = ToolUse("explain-trace", "Explain.", {"type": "object"}, Risk.LOW, is_repeatable=True)
TRACE = (
    'help\n  File "net.py", line 9, in forward\n    y = f(x)\nRuntimeError: CUDA error: device-side assert triggered\n'
)
OUTPUT = {
    "family": "device-side-assert",
    "is_certain": True,
    "answer": "net.py:9: a label is out of range.",
    "fix": "Check the labels.",
    "why": "a kernel read an index out of range",
    "alternatives": [],
    "location": "net.py:9",
    "also": ["net.py:20"],
    "frames": [],
    "sources": [],
}


SCAFFOLD = ToolUse("torch-scaffold", "Find arguments.", {"type": "object"}, Risk.LOW, is_repeatable=True)
ERROR = "RuntimeError: expected input[8, 1, 28, 28] to have 3 channels, but got 1 channels instead"


def play(_brief):
    yield CallTools(())
    return Conclude("played")


def task(request=TRACE, kind=QuestionType.ADVICE, because=""):
    return Task(request, ("net.py",), kind, because)


def ended(given, output=OUTPUT):
    """Return the first action and the conclusion for a brief."""
    steps = answer_first(play, given)
    first = next(steps)
    try:
        steps.send((ToolReport(evidence(output=output), ()),))
        steps.send(())
    except StopIteration as end:
        return first, end.value
    raise AssertionError


def test_a_known_error_is_answered_before_anything_else() -> None:
    first, conclusion = ended(brief(task=task(), tools=(LOOK, EXPLAIN)))
    assert first.calls[0].arguments == {"text": TRACE}
    assert conclusion.summary.startswith("net.py:9: a label is out of range. Check the labels.")
    assert conclusion.next_steps == ("net.py:9: Check the labels.", "net.py:20: the same pattern")


def test_other_causes_are_caveats_and_are_to_be_confirmed() -> None:
    output = {**OUTPUT, "is_certain": False, "alternatives": ["it may be an embedding"]}
    _, conclusion = ended(brief(task=task(), tools=(EXPLAIN,)), output)
    assert "Another possible cause: it may be an embedding" in conclusion.caveats
    assert conclusion.next_steps[-1] == "confirm the cause before the change"


@pytest.mark.parametrize(
    "given",
    [
        brief(task=task("review this"), tools=(EXPLAIN,)),
        brief(task=task(), tools=(LOOK,)),
        brief(task=task(), tools=(EXPLAIN,), question="is it slow?"),
    ],
    ids=["no error", "no tool", "consult"],
)
def test_the_playbook_runs_at_once_without_an_error_or_the_tool(given) -> None:
    steps = answer_first(play, given)
    assert next(steps) == CallTools(())


@pytest.mark.parametrize(
    ("given", "output"),
    [(task(), {**OUTPUT, "family": ""}), (task(kind=QuestionType.GO, because="ship"), OUTPUT)],
    ids=["unknown error", "verdict on code"],
)
def test_the_playbook_follows_if_the_error_is_unknown_or_a_verdict_is_wanted(given, output) -> None:
    first, conclusion = ended(brief(task=given, tools=(EXPLAIN,)), output)
    assert first.calls[0].tool == "explain-trace"
    assert conclusion.summary.endswith("played")
    is_named = conclusion.summary.startswith("The error is raised at net.py:9: a label is out of range; ")
    assert is_named == (not output["family"])


def repeated(found, **more):
    """Return the call of the search for arguments and the conclusion, for its output."""
    output = {**OUTPUT, "error": ERROR, "target": "net.py:Net", **more}
    steps = answer_first(play, brief(task=task(), tools=(EXPLAIN, SCAFFOLD)))
    next(steps)
    call = steps.send((ToolReport(evidence(output=output), ()),)).calls[0]
    try:
        steps.send((ToolReport(evidence(2, output=found), ()),))
    except StopIteration as end:
        return call, end.value
    raise AssertionError


def test_the_code_at_the_line_is_run_with_the_shape_of_the_message() -> None:
    call, conclusion = repeated({"runnable": "h.py:make", "first_error": ERROR}, shape="8,1,28,28")
    assert (call.tool, call.arguments["target"], call.arguments["shape"]) == (
        "torch-scaffold",
        "net.py:Net",
        "8,1,28,28",
    )
    assert call.arguments["seconds"] <= 20
    assert (
        "Reproduced: net.py:Net fails with the same error for an input of shape [8, 1, 28, 28]." in conclusion.summary
    )
    assert any(step.startswith("confirm the change: ") for step in conclusion.next_steps)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ({"runnable": "h.py:make", "backward_error": ERROR.replace("8", "2")}, "Reproduced: net.py:Net fails with"),
        ({"runnable": "", "error": ERROR.replace("8", "2")}, "Reproduced: net.py:Net fails with"),
        ({"runnable": "h.py:make", "first_error": ERROR.replace("8", "2")}, "Not reproduced: net.py:Net runs with"),
        ({"runnable": "h.py:make", "backward_error": "RuntimeError: other"}, "Not reproduced: net.py:Net runs with"),
    ],
    ids=["in backward", "with all arguments", "only with other sizes", "another error"],
)
def test_an_error_counts_as_reproduced_only_if_it_is_the_same(found, sentence) -> None:
    _, conclusion = repeated(found)
    assert sentence in conclusion.summary
    assert any("your program was not" in caveat for caveat in conclusion.caveats)


def test_a_run_that_says_nothing_is_not_mentioned() -> None:
    _, conclusion = repeated({"runnable": "", "error": "TypeError: other"})
    assert "eproduced" not in conclusion.summary


def test_words_about_a_change_do_not_hide_the_answer() -> None:
    given = Task(TRACE, ("net.py",), QuestionType.ADVICE, "", options={"diff": "main", "change-base": "a" * 40})
    _, conclusion = ended(brief(task=given, tools=(EXPLAIN,)))
    assert conclusion.summary.startswith("net.py:9")
