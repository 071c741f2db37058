"""Tests of `esper_agents.reasoning.question_answer`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from briefs import LOOK, brief, evidence

from esper_agents.domain.agent_action import CallTools, Conclude, ToolReport, ToolUse
from esper_agents.domain.evidence import Risk
from esper_agents.domain.request import GroundedName, Material, ParsedRequest, RequestTopic, SymbolReference, Wish
from esper_agents.domain.status import QuestionType
from esper_agents.domain.task import Task
from esper_agents.reasoning.question_answer import question_first

INSPECT = ToolUse("inspect-code", "Inspect.", {"type": "object"}, Risk.LOW, is_repeatable=True)
REQUEST = ParsedRequest(wish=Wish.EXPLAIN, grounded=(GroundedName("ghost rows", "ghost_rows", "parameter", "a.py", 3),))
LEAD = "`Net.forward` sets `y = x.chunk(2)`: the last piece is smaller"


def play(_brief):
    yield CallTools(())
    return Conclude("played")


play.__module__ = "esper_agents.reasoning.playbooks.player"


def fact(text, assessment="description", query="question-answers"):
    fixed = {"path": "net.py", "rule": "", "name": query, "end_line": 3, "remedy": ""}
    return {"assessment": assessment, "line": 3, "text": text, **fixed}


def report(query, *facts):
    output = {"queries": [{"name": query, "facts": list(facts)}], "files": 1}
    return ToolReport(replace(evidence(output=output), tool="inspect-code"), ())


def asked(request=REQUEST, leads=(LEAD,), topic=(), kind=QuestionType.ADVICE):
    """Return the first action and the conclusion of a question; `topic` is what the playbook's inspection finds."""
    given = replace(brief(task=Task("what?", ("net.py",), kind, ""), tools=(LOOK, INSPECT)), request=request)
    steps = question_first(play, given)
    first = next(steps)
    try:
        if first.calls:
            steps.send((report("question-answers", *map(fact, leads)),))
        steps.send((report("topic", *topic),))
    except StopIteration as end:
        return first, end.value
    raise AssertionError


def test_the_decisive_line_is_the_whole_answer_to_a_question_about_code():
    first, conclusion = asked()
    assert first.calls[0].arguments == {"paths": ["net.py"], "question": "what?"}
    assert conclusion.summary == "`Net.forward` (net.py:3) sets `y = x.chunk(2)`: the last piece is smaller."


def test_what_no_line_does_has_no_place():
    assert asked(leads=("no line of the 3 files that were read clips gradients",))[1].summary == (
        "No line of the 3 files that were read clips gradients."
    )


def test_without_a_decisive_line_the_playbook_answers():
    assert asked(leads=())[1].summary == "played"


def test_faults_of_the_topic_come_before_the_lines_of_the_words():
    request = replace(REQUEST, wish=Wish.FIND_CAUSE, topics=(RequestTopic("memory growth", ("grows",)),))
    found = asked(request, topic=(fact("it keeps the graph", "must change", "topic"),))[1]
    assert found.summary.startswith("played `Net.forward`")
    assert asked(request)[1].summary.startswith("`Net.forward`")


@pytest.mark.parametrize(
    "request_",
    [
        replace(REQUEST, wish=Wish.WRITE),
        replace(REQUEST, wish=Wish.MEASURE),
        replace(REQUEST, materials=(Material.TRACE,)),
        replace(REQUEST, grounded=()),
        replace(
            REQUEST,
            wish=Wish.COMPARE,
            symbols=tuple(SymbolReference(name, name, "a.py", 1, 2) for name in ("old", "new")),
        ),
    ],
    ids=["writing", "measuring", "trace", "nothing grounded", "choice of two definitions"],
)
def test_other_requests_are_played_as_before(request_):
    first, conclusion = asked(request_)
    assert first == CallTools(())
    assert conclusion.summary == "played"


def test_a_playbook_of_another_package_answers_by_itself():
    def other(_brief):
        yield CallTools(())
        return Conclude("of another package")

    given = brief(task=Task("what?", ("net.py",), QuestionType.ADVICE, ""), tools=(LOOK, INSPECT))
    steps = question_first(other, replace(given, request=REQUEST))
    assert next(steps) == CallTools(())
    with pytest.raises(StopIteration) as ended:
        steps.send((report("question-answers", fact(LEAD)),))
    assert ended.value.value.summary == "of another package"
