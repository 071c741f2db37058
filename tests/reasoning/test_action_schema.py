"""What a model says when it makes a move, read strictly into the move."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.domain.agent_action import Ask, Conclude, Consult, HandOff, RiskRow
from esper_agents.domain.assumption import AssumptionState, Tier
from esper_agents.domain.certificate import SECOND_OPINION
from esper_agents.domain.codec import checked
from esper_agents.domain.finding import Confidence, Severity
from esper_agents.domain.ledger import ActionDecided
from esper_agents.domain.status import Stance
from esper_agents.reasoning.action_schema import (
    MOVES,
    RULE,
    ActionContext,
    InvalidActionError,
    move_tools,
    parse_action,
)

SPEAKER = ActionContext("worker", lambda path, line: f"{path} {line}" if path == "train.py" else "")
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
    "evidence": ["ev_1"],
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
    names = [each["name"] for each in move_tools()]
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
        assumptions=[{"text": "one GPU", "is_critical": True, "state": "confirmed", "evidence": ["ev_1"]}],
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


def test_a_finding_is_a_claim_under_a_rule_of_its_own_with_the_line_that_the_project_has_there():
    (supported,) = said("conclude").claims
    claim = supported.claim
    assert (claim.rule, claim.name, claim.excerpt) == (RULE, "gradients-not-clipped", "train.py 7")
    assert (claim.severity, claim.confidence) == (Severity.WARNING, Confidence.MODERATE)
    assert (str(claim.location), supported.evidence) == ("train.py:7", ("ev_1",))


def test_the_same_finding_keeps_its_fingerprint_where_its_words_change_and_another_has_another():
    def mark(**changed):
        return said("conclude", findings=[{**FINDING, **changed}]).claims[0].claim.fingerprint

    assert mark() == mark(message="They are not.", severity="critical")
    assert len({mark(), mark(name="another"), mark(line=8), mark(path="model.py")}) == 4


@pytest.mark.parametrize("line", [0, -5])
def test_a_line_that_no_file_has_stays_one_that_no_file_has(line):
    (supported,) = said("conclude", findings=[{**FINDING, "line": line}]).claims
    assert supported.claim.location.line == 0


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
        ("conclude", {"findings": [{**FINDING, "line": "seven"}]}),
        ("conclude", {"findings": FINDING}),
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
