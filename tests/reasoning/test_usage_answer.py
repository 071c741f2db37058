"""Tests of `esper_agents.reasoning.usage_answer`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from briefs import LOOK, brief, evidence

from esper_agents.domain.agent_action import CallTools, Conclude, ToolReport, ToolUse
from esper_agents.domain.certificate import FLOOR_QUESTION
from esper_agents.domain.evidence import Risk
from esper_agents.domain.frame import Turn
from esper_agents.domain.request import ParsedRequest, Statement, UsageReference
from esper_agents.domain.status import QuestionType
from esper_agents.domain.task import Task
from esper_agents.reasoning.playbook import PlaybookReasoner
from esper_agents.reasoning.usage_answer import usage_first

INSPECT = ToolUse("inspect-code", "Inspect.", {"type": "object"}, Risk.LOW, is_repeatable=True)
REQUEST = ParsedRequest(
    usages=(UsageReference("retain_graph", "retain-graph", 0),), statements=(Statement("torch 2.4", "torch", "2.4"),)
)


def play(_brief):
    yield CallTools(())
    return Conclude("played")


def fact(line, assessment="should check", text="it is not needed", remedy="Remove it"):
    fixed = {"path": "net.py", "rule": "", "name": "usage-questions", "end_line": line}
    return {"assessment": assessment, "line": line, "text": text, "remedy": remedy, **fixed}


def asked(facts, request=REQUEST, kind=QuestionType.ADVICE):
    """Return the first action and the conclusion of a direct question."""
    given = replace(brief(task=Task("needed?", ("net.py",), kind, ""), tools=(LOOK, INSPECT)), request=request)
    steps = usage_first(play, given)
    first = next(steps)
    output = {"queries": [{"name": "usage-questions", "facts": facts}], "files": 1}
    try:
        steps.send((ToolReport(replace(evidence(output=output), tool="inspect-code"), ()),))
        steps.send(())
    except StopIteration as end:
        return first, end.value
    raise AssertionError


def test_the_first_sentence_answers_and_equal_places_follow() -> None:
    first, conclusion = asked([fact(3), fact(9)])
    assert first.calls[0].arguments["usages"] == ["retain-graph"]
    assert conclusion.summary.startswith("net.py:3 it is not needed. The same holds at net.py:9. Remove it.")


def test_a_statement_that_decided_nothing_is_named() -> None:
    assert "Not used for the answer: 'torch 2.4'." in asked([fact(3)])[1].summary
    assert "Not used" not in asked([fact(3, text='it is needed (you say "torch 2.4")')])[1].summary


def test_an_undecided_question_leaves_a_gap() -> None:
    (gap,) = asked([fact(3, "open")])[1].gaps
    assert gap.what == "whether `retain_graph` matters at net.py:3"


def test_a_question_about_what_no_line_uses_says_so_and_reviews_nothing_else() -> None:
    _, conclusion = asked([])
    assert conclusion.summary.startswith("No line of the file read is about `retain_graph`")
    assert conclusion.gaps[0].what == "the file that uses `retain_graph`"


def test_a_question_about_a_merge_is_not_taken_over() -> None:
    first, conclusion = (
        next(
            usage_first(
                play,
                replace(brief(task=Task("ok?", ("net.py",), QuestionType.GO, ""), tools=(INSPECT,)), request=REQUEST),
            )
        ),
        None,
    )
    assert first == CallTools(())
    assert conclusion is None


@pytest.mark.anyio
async def test_what_prepares_a_model_answers_directly_and_plays_the_playbook() -> None:
    given = brief(task=Task("needed?", ("net.py",), QuestionType.ADVICE, ""), tools=(LOOK, INSPECT))
    given = replace(given, request=REQUEST, question=FLOOR_QUESTION)
    output = {"queries": [{"name": "usage-questions", "facts": [fact(3)]}], "files": 1}
    inspected = (ToolReport(replace(evidence(output=output), tool="inspect-code"), ()),)
    turns: list[Turn] = []
    for result in (inspected, ()):
        made = await PlaybookReasoner(play, given).next_move(turns, lambda _: None)
        turns.append(Turn(made.move, {}, result))
    concluded = (await PlaybookReasoner(play, given).next_move(turns, lambda _: None)).move
    assert turns[0].move.calls[0].arguments["usages"] == ["retain-graph"]
    assert concluded.summary.startswith("net.py:3 it is not needed.")
    assert concluded.summary.endswith(" played")
