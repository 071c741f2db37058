"""Compute the ceiling set by the evidence, and the verdict that an agent may reach."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.certificates.policy.condition_matching import match_condition
from esper_agents.certificates.policy.conditions import ConditionMatch, Facts
from esper_agents.certificates.policy.policy_file import Policy, PolicyRule, load_policy, policy_text
from esper_agents.domain.agent_action import RiskAssessment
from esper_agents.domain.finding import UNCONFIRMED
from esper_agents.domain.status import QuestionType, Stance, status_for
from esper_agents.domain.verdict import AppliedPolicyRule, Ceiling, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.assumption import Assumption, InformationGap
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.change import TaskChange
    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.finding import Finding
    from esper_agents.domain.risk_acknowledgement import RiskAcknowledgement

__all__ = ["Policy", "apply_ceiling", "ceiling", "ceiling_of", "load_policy", "policy_text", "verdict_levels", "worst"]

NO_REASON = "no reason was given"
_NO_RISKS = RiskAssessment("Low", "Easy")
_PLACES_NAMED = 3
_BLANK = re.compile(r"(\{count\}|\{places\})")


def verdict_levels(kind: QuestionType) -> tuple[Stance, ...]:
    """Return the stances of a question type from best to worst.

    Advice cannot be negative, so `against` and `rejected` still give advice, which ranks above undecided.
    """
    match kind:
        case QuestionType.APPROVAL | QuestionType.GO | QuestionType.RECOMMENDATION:
            return tuple(Stance)
        case QuestionType.ADVICE:
            return (
                Stance.FOR,
                Stance.CONDITIONAL,
                Stance.AGAINST,
                Stance.REJECTED,
                Stance.UNDECIDED,
                Stance.EMERGENCY,
            )


def worst(kind: QuestionType, *stances: Stance) -> Stance:
    """Return the least favourable stance; `for` if none is given."""
    return max(stances, key=verdict_levels(kind).index, default=Stance.FOR)


def ceiling(  # noqa: PLR0913 - one for each thing on record
    policy: Policy,
    kind: QuestionType,
    *,
    findings: Sequence[Finding],
    evidence: Sequence[Evidence],
    assumptions: Sequence[Assumption],
    gaps: Sequence[InformationGap],
    examined_lines: int,
    risks: RiskAssessment = _NO_RISKS,
    request: str = "",
    agent: str = "",
    agreements: Sequence[RiskAcknowledgement] = (),
    paths: Sequence[str] = (),
    change: TaskChange | None = None,
) -> Ceiling:
    """Return the best stance that the evidence allows: the worst of the policy rules that apply, else `for`.

    Pure and total. Another finding, gap or open assumption never raises it; a risk acknowledgement may.
    """
    facts = Facts(
        findings, evidence, assumptions, gaps, examined_lines, risks, request, agent, agreements, paths, change
    )
    asked = (line for line in policy.lines if kind in line.kinds)
    applied = [_applied(line, kind, found) for line in asked if (found := match_condition(line.condition, facts))]
    applied.sort(key=lambda line: verdict_levels(kind).index(line.stance), reverse=True)
    stance = worst(kind, *(line.stance for line in applied))
    return Ceiling(stance, status_for(kind, stance), tuple(applied), policy.sha256)


def ceiling_of(policy: Policy, certificate: Certificate) -> Ceiling:
    """Return the ceiling that a policy sets for the recorded facts of a certificate."""
    return ceiling(
        policy,
        certificate.verdict.kind,
        findings=certificate.findings,
        evidence=certificate.evidence,
        assumptions=certificate.assumptions,
        gaps=certificate.gaps,
        examined_lines=sum(file.lines for file in certificate.examined if certificate.task.is_about(file.path)),
        risks=certificate.risks,
        request=certificate.task.request,
        agent=certificate.agent,
        agreements=certificate.agreements,
        paths=certificate.task.paths,
        change=certificate.task.change,
    )


def apply_ceiling(
    policy_ceiling: Ceiling,
    kind: QuestionType,
    *,
    wanted: Stance | None,
    reason: str,
    rationale: str,
    conditions: tuple[str, ...],
    findings: Sequence[Finding] = (),
) -> Verdict:
    """Return the verdict: the agent's stance, limited to the ceiling.

    It is never better than the ceiling and never better than the agent's stance. A stance below the ceiling is valid
    even without a written reason; the record then states that there was none. Conditions make an unconditional
    verdict conditional, and a conditional verdict has at least one condition: the agent's own, and one for each item
    that set the ceiling. A go/no-go question has no conditional answer: a condition leaves it undecided.

    Args:
        policy_ceiling: Result of `ceiling`.
        kind: Question type, the same as that of the ceiling.
        wanted: Stance of the agent; None takes the ceiling.
        reason: Reason for a stance below the ceiling.
        rationale: Rationale of the agent; if empty, the reasons of the ceiling are used.
        conditions: Conditions named by the agent.
        findings: Recorded findings, so that conditions can name their locations.
    """
    own = tuple(dict.fromkeys(text for text in (condition.strip() for condition in conditions) if text))
    said = worst(kind, policy_ceiling.stance, wanted or Stance.FOR)
    stance = worst(kind, said, Stance.CONDITIONAL if own else Stance.FOR)
    if kind is QuestionType.GO and stance is Stance.CONDITIONAL:
        stance = Stance.UNDECIDED
    silent = NO_REASON if stance is said or not own else "conditions were named"
    below = "" if stance is policy_ceiling.stance else reason.strip() or silent
    if stance is Stance.CONDITIONAL:
        derived = _conditions(policy_ceiling, findings)
        own = tuple(dict.fromkeys(own + derived)) or (f"meet what this rests on: {below}",)
    return Verdict(
        kind=kind,
        ceiling=policy_ceiling,
        stance=stance,
        status=status_for(kind, stance),
        rationale=_rationale(policy_ceiling, kind, wanted, rationale),
        conditions=own,
        below_ceiling=below,
    )


def _applied(line: PolicyRule, kind: QuestionType, found: ConditionMatch) -> AppliedPolicyRule:
    named = list(found.places[:_PLACES_NAMED])
    if len(found.places) > _PLACES_NAMED:
        named.append(f"and {len(found.places) - _PLACES_NAMED} more")
    sentence = line.because if found.count == 1 else line.because_many
    filled = {"{count}": str(found.count), "{places}": ", ".join(named)}
    because = "".join(filled.get(part, part) for part in _BLANK.split(sentence))
    return AppliedPolicyRule(line.name, line.stance_of(kind), because, found.findings)


def _conditions(policy_ceiling: Ceiling, findings: Sequence[Finding]) -> tuple[str, ...]:
    known = {finding.claim.fingerprint: finding for finding in findings}
    texts: list[str] = []
    for line in policy_ceiling.lines:
        named = [known[each] for each in line.findings if each in known]
        texts.extend(_condition(each) for each in named)
        if not named:
            texts.append(f"settle first: {line.because}")
    return tuple(texts)


def _condition(finding: Finding) -> str:
    claim = finding.claim
    # Nothing but a model says that there is anything to fix.
    if finding.standing in UNCONFIRMED:
        return f"confirm or refute {claim.name} at {claim.location}"
    return f"mend {claim.rule} at {claim.location}"


def _rationale(policy_ceiling: Ceiling, kind: QuestionType, wanted: Stance | None, rationale: str) -> str:
    said = rationale.strip() or "; ".join(line.because for line in policy_ceiling.lines)
    said = said or "what was examined gives no reason against it"
    if wanted is None or worst(kind, wanted, policy_ceiling.stance) is wanted:
        return said
    return f"{said} (The agent's own stance was {wanted!s}; the evidence allows at most {policy_ceiling.stance!s}.)"
