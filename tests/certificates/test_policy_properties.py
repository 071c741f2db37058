from __future__ import annotations

from dataclasses import replace

from certificate_samples import critical, evidence, finding, source
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.certificates.policy.question_type import speed_up_asked
from esper_agents.certificates.policy.verdict_ceiling import (
    apply_ceiling,
    ceiling,
    load_policy,
    verdict_levels,
    worst,
)
from esper_agents.domain.agent_action import RiskAssessment
from esper_agents.domain.assumption import Assumption, AssumptionState, InformationGap, Tier
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.domain.status import QuestionType, Stance, Status, status_for

POLICY = load_policy()
TEXTS = st.text(max_size=8)

findings = st.builds(
    lambda number, severity, confidence, category, name, agent: replace(
        finding(number, severity=severity, confidence=confidence, category=category, name=name), agent=agent
    ),
    st.integers(1, 12),
    st.sampled_from(Severity),
    st.sampled_from(Confidence),
    st.sampled_from(Category),
    st.sampled_from(["loss-kept-with-its-graph", "checkpoint-runs-commands"]) | TEXTS,
    TEXTS,
)
evidences = st.builds(
    lambda number, tool, outcome, files, digest, came_to: evidence(
        number,
        tool=tool,
        outcome=outcome,
        examined=files,
        arguments_sha256=digest,
        output={"outcome": came_to, "coverage": [{"path": "examples/train.py", "lines": 7, "executed": 1}]},
    ),
    st.integers(1, 5),
    st.sampled_from(["static-review", "torch-compare", "run-tests", "read-file"]) | TEXTS,
    st.sampled_from(CallOutcome),
    st.sampled_from([(), (source(),), (source(text=""),)]),
    st.sampled_from(["a", "b"]),
    st.sampled_from(["faster as claimed", "not shown", "wrong", "passed", "failed", None]) | TEXTS,
)
assumptions = st.builds(
    Assumption,
    TEXTS,
    st.sampled_from(Tier),
    st.booleans(),
    st.sampled_from(AssumptionState),
    st.lists(st.sampled_from([f"ev_{1:032x}", f"ev_{2:032x}", "ev_none"]), max_size=2).map(tuple),
    TEXTS,
)
open_assumptions = assumptions.map(lambda each: replace(each, state=AssumptionState.OPEN))
gaps = st.builds(InformationGap, TEXTS, TEXTS, TEXTS, st.booleans())
risks = st.builds(
    RiskAssessment,
    st.sampled_from(["Low", "Medium", "High", "Critical"]),
    st.sampled_from(["Easy", "Moderate", "Difficult", "Irreversible"]),
)
facts = st.fixed_dictionaries(
    {
        "findings": st.lists(findings, max_size=7),
        "evidence": st.lists(evidences, max_size=5),
        "assumptions": st.lists(assumptions, max_size=3),
        "gaps": st.lists(gaps, max_size=3),
        "examined_lines": st.integers(-1, 20),
        "risks": risks,
        "request": st.sampled_from(["review this", "is it faster?", "1.3x", "may I merge?"]) | TEXTS,
        "agent": st.sampled_from(["pytorch-ultimate-performance-engineer", "torch-specialist"]) | TEXTS,
    }
)
kinds = st.sampled_from(QuestionType)
stances = st.sampled_from(Stance)


def is_no_better(kind, one, other):
    return worst(kind, one, other) is one


@given(kinds, facts, findings, gaps, open_assumptions)
def test_another_finding_gap_or_open_assumption_never_raises_the_ceiling(kind, known, new_finding, gap, assumption):
    before = ceiling(POLICY, kind, **known).stance
    for member, more in (("findings", new_finding), ("gaps", gap), ("assumptions", assumption)):
        for longer in ([*known[member], more], [more, *known[member]]):
            assert is_no_better(kind, ceiling(POLICY, kind, **(known | {member: longer})).stance, before)


@given(kinds, facts)
def test_a_ceiling_is_the_worst_of_its_lines_spelled_in_the_words_of_the_kind(kind, known):
    found = ceiling(POLICY, kind, **known)
    assert found.stance is worst(kind, *(line.stance for line in found.lines))
    assert found.status is status_for(kind, found.stance)
    assert found == ceiling(POLICY, kind, **known)
    order = [verdict_levels(kind).index(line.stance) for line in found.lines]
    assert order == sorted(order, reverse=True)


@given(facts)
def test_advice_ends_in_one_of_three_statuses(known):
    found = ceiling(POLICY, QuestionType.ADVICE, **known)
    assert found.status in {Status.ADVISORY_ONLY, Status.NEEDS_FURTHER_REVIEW, Status.EMERGENCY_STOP}


@given(facts)
def test_a_recommendation_is_never_for_anything_without_a_measurement(known):
    found = ceiling(POLICY, QuestionType.RECOMMENDATION, **known)
    measured = any(each.tool == "torch-compare" and each.outcome is CallOutcome.COMPLETED for each in known["evidence"])
    assert measured or found.status is not Status.RECOMMEND


@given(st.sampled_from([QuestionType.APPROVAL, QuestionType.GO]), facts)
def test_nothing_is_approved_or_go_without_tests_that_passed_or_a_comparison(kind, known):
    found = ceiling(POLICY, kind, **known)
    shown = [
        each
        for each in known["evidence"]
        if (each.tool, str(each.output["outcome"])) == ("run-tests", "passed") or each.tool == "torch-compare"
    ]
    assert found.stance is not Stance.FOR or any(each.outcome is CallOutcome.COMPLETED for each in shown)
    assert kind is not QuestionType.GO or found.stance is not Stance.CONDITIONAL


@given(kinds, facts)
def test_a_speed_up_is_certified_by_one_agent_and_only_where_every_comparison_came_out_as_claimed(kind, known):
    found = ceiling(POLICY, kind, **known)
    engineer = known["agent"] == "pytorch-ultimate-performance-engineer"
    compared = [
        each for each in known["evidence"] if each.tool == "torch-compare" and each.outcome is CallOutcome.COMPLETED
    ]
    is_shown = bool(compared) and all(each.output["outcome"] == "faster as claimed" for each in compared)
    if found.status in {Status.RECOMMEND, Status.APPROVED, Status.GO} and found.stance is Stance.FOR:
        assert is_shown if engineer else not speed_up_asked(known["request"])


@given(kinds, facts, stances | st.none(), st.tuples(TEXTS, TEXTS), st.lists(TEXTS, max_size=3).map(tuple))
def test_a_verdict_is_never_above_the_ceiling_nor_better_than_the_agent_wanted(kind, known, wanted, texts, conditions):
    reason, rationale = texts
    top = ceiling(POLICY, kind, **known)
    verdict = apply_ceiling(
        top, kind, wanted=wanted, reason=reason, rationale=rationale, conditions=conditions, findings=known["findings"]
    )
    assert is_no_better(kind, verdict.stance, top.stance)
    assert wanted is None or is_no_better(kind, verdict.stance, wanted)
    assert verdict.status is status_for(kind, verdict.stance)
    assert verdict.rationale
    assert (verdict.below_ceiling != "") is (verdict.stance is not top.stance)
    assert verdict.conditions or verdict.stance is not Stance.CONDITIONAL
    assert not verdict.conditions or verdict.stance is not Stance.FOR


@given(kinds, facts, findings)
def test_every_finding_that_made_it_conditional_is_a_condition(kind, known, new_finding):
    known = known | {"findings": [*known["findings"], new_finding, critical(99)]}
    top = ceiling(POLICY, kind, **known)
    verdict = apply_ceiling(top, kind, wanted=None, reason="", rationale="", conditions=(), findings=known["findings"])
    if verdict.stance is Stance.CONDITIONAL:
        places = {f"mend {each.claim.rule} at {each.claim.location}" for each in known["findings"]}
        named = {each for line in top.lines for each in line.findings}
        asked = {
            f"mend {each.claim.rule} at {each.claim.location}"
            for each in known["findings"]
            if each.claim.fingerprint in named
        }
        assert asked <= set(verdict.conditions)
        assert {condition for condition in verdict.conditions if condition.startswith("mend ")} <= places
