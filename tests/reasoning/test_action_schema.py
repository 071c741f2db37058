"""What a model says when it makes a move, read strictly into the move."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.domain.agent_action import Ask, Conclude, Consult, HandOff, ModelCitation, RiskRow
from esper_agents.domain.assumption import AssumptionState, Tier
from esper_agents.domain.codec import checked
from esper_agents.domain.finding import Confidence, Severity, Standing
from esper_agents.domain.ledger import ActionDecided
from esper_agents.domain.reasoner_names import SECOND_OPINION
from esper_agents.domain.status import Stance
from esper_agents.reasoning.action_schema import (
    MOVES,
    RULE,
    ActionContext,
    InvalidActionError,
    move_tools,
    parse_action,
)

SPEAKER = ActionContext("worker", lambda name: f"ev_{name}")
FINDING = {
    "name": "gradients-not-clipped",
    "severity": "warning",
    "category": "correctness",
    "path": "train.py",
    "line": 7,
    "message": "Gradients are not clipped.",
    "remedy": "Clip them.",
    "confidence": "Moderate",
    "basis": "seen in one function",
    "evidence": ["1"],
}
SAID = {
    "consult": {"agent": "profiler", "question": "is it fast?"},
    "second_opinion": {"question": "is it worth it?", "position": "yes"},
    "ask_person": {"question": "which?", "options": ["a", "b"]},
    "hand_off": {
        "agent": "profiler",
        "domain": "speed",
        "reason": "theirs",
        "context": "all seen",
        "findings": [FINDING],
    },
    "conclude": {"summary": "fine", "findings": [FINDING]},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def said(name, **changed):
    return parse_action(name, {**SAID[name], **changed}, SPEAKER)


def test_every_move_has_a_tool_of_its_own_in_an_order_that_never_changes():
    names = [move_tool["name"] for move_tool in move_tools()]
    assert names == sorted(MOVES) == sorted(SAID)
    assert "$ref" not in json.dumps(move_tools())


@pytest.mark.parametrize("tool", move_tools(), ids=lambda each: each["name"])
def test_what_a_tool_asks_for_is_what_is_read(tool):
    schema = tool["input_schema"]
    assert schema["additionalProperties"] is False
    given = SAID[tool["name"]]
    assert set(schema["required"]) <= set(given) <= set(schema["properties"])
    for name in schema["required"]:
        with pytest.raises(InvalidActionError, match=name):
            parse_action(tool["name"], {key: part for key, part in given.items() if key != name}, SPEAKER)


def test_a_conclusion_is_read_with_all_that_it_says():
    move = said(
        "conclude",
        stance="conditional",
        conditions=["clip them"],
        assumptions=[{"text": "one GPU", "is_critical": True, "state": "confirmed", "evidence": ["1"]}],
        gaps=[{"what": "speed", "why": "not run", "command": "esper torch profile train.py", "blocks_approval": True}],
        implementation_risk="High",
        risks=[{"risk": "slower", "severity": "Low", "likelihood": "High", "mitigation": "measure"}],
    )
    assert isinstance(move, Conclude)
    assert (move.stance, move.conditions) == (Stance.CONDITIONAL, ("clip them",))
    (assumed,) = move.assumptions
    assert (assumed.tier, assumed.state) == (Tier.WORK, AssumptionState.CONFIRMED)
    assert move.gaps[0].blocks_approval
    assert move.risks.implementation_risk == "High"
    assert move.risks.rows == (RiskRow("slower", "Low", "High", "measure"),)
    assert checked(ActionDecided, ActionDecided(move, {})).move == move


def test_a_finding_is_a_claim_under_a_rule_of_its_own_with_what_the_model_cites():
    (supported,) = said("conclude", findings=[{**FINDING, "line": "7-9", "quote": "x = 1", "symbol": "f"}]).claims
    claim = supported.claim
    assert (claim.rule, claim.name, claim.excerpt) == (RULE, "gradients-not-clipped", "")
    assert (claim.severity, claim.confidence) == (Severity.WARNING, Confidence.MODERATE)
    assert (str(claim.location), supported.evidence) == ("train.py:7", ("ev_1",))
    assert supported.cited == ModelCitation("train.py", "7-9", "x = 1", "f")
    assert supported.standing is Standing.RECORDED


@pytest.mark.parametrize(
    "changed",
    [
        {"severity": "Warning"},
        {"severity": "medium"},
        {"category": "Correctness"},
        {"category": "bug"},
        {"confidence": "medium"},
        {"confidence": 0.6},
        {"line": [7]},
        {"line": 7.0},
        {"evidence": "1"},
        {"path": {"path": "train.py", "line": 7}},
    ],
)
def test_the_usual_values_of_models_mean_what_the_schema_says(changed):
    assert said("conclude", findings=[{**FINDING, **changed}]) == said("conclude")


def test_the_usual_names_of_models_mean_those_of_the_schema():
    names = {"path": "file", "line": "line_number", "message": "description", "remedy": "fix", "basis": "reasoning"}
    renamed = {names.get(name, name): value for name, value in FINDING.items()}
    both = {**FINDING, "fix": "Clip nothing.", "description": "Nothing."}
    for findings in ([renamed], renamed, json.dumps([renamed]), [both]):
        assert said("conclude", findings=findings) == said("conclude")


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ({"line": 7, "end_line": 9}, "7-9"),
        ({"start_line": 7, "end_line": 9}, "7-9"),
        ({"line": {"start": 7, "end": 9}}, "7-9"),
        ({"lines": [7, 9]}, "7, 9"),
        ({"line": "lines 7 to 9"}, "lines 7 to 9"),
        ({"line": None}, "0"),
        ({}, "0"),
    ],
)
def test_lines_are_read_in_every_usual_form(line, lines):
    bare = {name: value for name, value in FINDING.items() if name != "line"}
    (supported,) = said("conclude", findings=[{**bare, **line}]).claims
    assert supported.cited.lines == lines


def test_a_malformed_finding_is_refused_in_words_that_name_it_and_left_out_where_the_rest_is_kept():
    given = {"summary": "fine", "findings": [FINDING, {"severity": 7}], "status": "APPROVED", "stance": "splendid"}
    with pytest.raises(InvalidActionError, match=r"findings\.1\."):
        parse_action("conclude", {"summary": "fine", "findings": given["findings"]}, SPEAKER)
    assert parse_action("conclude", given, SPEAKER, is_salvage=True) == said("conclude")
    assert parse_action("conclude", {"summary": 3}, SPEAKER, is_salvage=True) == Conclude("")
    extra = {"summary": "fine", "findings": [{**FINDING, "rule": "ESP101"}]}
    assert parse_action("conclude", extra, SPEAKER, is_salvage=True) == said("conclude")


def test_a_handoff_carries_its_findings_and_questions():
    move = said("hand_off", questions=["why?"])
    assert isinstance(move, HandOff)
    assert (move.agent, move.questions, len(move.claims)) == ("profiler", ("why?",), 1)


def test_a_question_goes_to_who_is_asked():
    assert said("consult") == Consult("profiler", "is it fast?")
    assert said("ask_person") == Ask("which?", ("a", "b"))


def test_a_second_opinion_is_a_consult_of_the_agent_itself_with_another_model():
    move = said("second_opinion")
    assert (move.agent, move.reasoner) == ("worker", SECOND_OPINION)
    assert "is it worth it?" in move.question
    assert "Argue the other side" in move.question


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("conclude", {"summary": 5}),
        ("conclude", {"stance": "splendid"}),
        ("conclude", {"status": "APPROVED"}),
        ("conclude", {"findings": [{**FINDING, "rule": "ESP101"}]}),
        ("conclude", {"findings": [{**FINDING, "severity": "mild"}]}),
        ("conclude", {"findings": [{**FINDING, "line": [1.5]}]}),
        ("conclude", {"findings": [3]}),
        ("conclude", {"implementation_risk": "None"}),
        ("hand_off", {"agent": None}),
        ("consult", {"reasoner": "playbook"}),
        ("ask_person", {"options": "a"}),
    ],
)
def test_what_does_not_fit_is_refused_in_words_that_name_the_place(name, changed):
    with pytest.raises(InvalidActionError, match=next(iter(changed))) as raised:
        said(name, **changed)
    assert str(raised.value).startswith(f"{name} was called with arguments that do not fit its schema: ")


@given(st.sampled_from(sorted(MOVES)), JSON | st.fixed_dictionaries({}, optional={"summary": JSON, "findings": JSON}))
def test_any_arguments_are_a_move_or_are_refused_in_words(name, given):
    try:
        move = parse_action(name, given, SPEAKER)
    except InvalidActionError:
        return
    assert checked(ActionDecided, ActionDecided(move, {})).move == move


def test_text_that_utf_8_cannot_carry_is_refused_in_words():
    with pytest.raises(InvalidActionError, match="surrogate"):
        said("conclude", summary="a\udcff")
