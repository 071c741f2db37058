"""Shared steps of measuring playbooks: runs, findings and conclusions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from esper_agents.domain.agent_action import CallTools, Conclude, HandOff, RiskAssessment, SupportedClaim, ToolReport
from esper_agents.domain.assumption import Assumption, InformationGap
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.domain.handoff import OpenPart
from esper_agents.domain.ledger import Refusal
from esper_agents.domain.request import ConstraintKind, Material, Wish
from esper_agents.domain.status import QuestionType
from esper_agents.reasoning.code_inspection import hypotheses_of, is_decided_by_reading, is_of_other_topics
from esper_agents.reasoning.finding_ownership import REVIEWER, failures, named
from esper_agents.reasoning.hypotheses import ranked
from esper_agents.reasoning.request_answer import answer, by_relevance, led_by_answer
from esper_agents.reasoning.static_specialist import failed_gaps, rest_of

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Sequence

    from esper_agents.domain.agent_action import Move, ToolCall
    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.finding import Finding
    from esper_agents.domain.frame import Brief
    from esper_agents.reasoning.hypotheses import Hypothesis
    from esper_agents.reasoning.static_specialist import ReviewSummary
    from esper_agents.requests.measurement_options import MeasurementRequest

ENGINEER = "pytorch-ultimate-performance-engineer"
MEASURING = "torch-"
_LAB = "LAB"
_LOW_RISK = RiskAssessment("Low", "Easy")
# Numerical rules concern the same problems in either of the two categories.
_NUMBERS = frozenset((Category.CORRECTNESS, Category.SILENT_CORRECTNESS))


def reads_only(brief: Brief, measured_topics: Collection[str] = ()) -> bool:
    """Return whether an agent should only review and not measure.

    This is so if it has no code or no measurement tools, if the request says that nothing may run, if the code answers
    its topics and the agent's measurement none of them, or if the agent received part of a review: there the reviewer's
    question decides, which is about the code.

    Args:
        brief: Brief of the task.
        measured_topics: Topics that the agent's measurement is about; empty for any.
    """
    if is_of_other_topics(brief, measured_topics) or _asks_about_other_error(brief, measured_topics):
        return True
    offered = {each.name for each in brief.tools}
    if brief.request and brief.request.restricts(ConstraintKind.NO_RUN):
        return True
    if is_decided_by_reading(brief.request):
        return True
    is_reviewers = any(each.sender == REVIEWER for each in brief.chain)
    return not brief.task.paths or is_reviewers or not any(name.startswith(MEASURING) for name in offered)


def _asks_about_other_error(brief: Brief, measured_topics: Collection[str]) -> bool:
    """Return whether a request contains a stack trace and names no topic of the agent's measurement."""
    request = brief.request
    if request is None or not measured_topics or Material.TRACE not in request.materials:
        return False
    return not any(topic.name in measured_topics for topic in request.topics)


def speed_claim(brief: Brief, asked: MeasurementRequest) -> HandOff | None:
    """Return the handoff of a speed-up question to the performance engineer, or None.

    Advice about speed certifies nothing, so every agent may give it.
    """
    is_cause = brief.request is not None and brief.request.wish is Wish.FIND_CAUSE
    judges = brief.task.kind is not QuestionType.ADVICE and not is_cause
    if not (asked.speed_up and judges and ENGINEER in brief.agents and brief.agent.name != ENGINEER):
        return None
    if any(each.receiver == ENGINEER for each in brief.chain):
        return None
    return HandOff(
        agent=ENGINEER,
        domain="measured speed-up",
        reason=f"a speed-up is in question ({asked.speed_up!r}), which only the performance engineer may certify",
        context=f"{brief.agent.name} has measured nothing yet.",
        open_parts=(OpenPart(ENGINEER, "measured speed-up", brief.task.request, ()),),
    )


def run(brief: Brief, *calls: ToolCall) -> Generator[Move, Any, tuple[ToolReport, ...]]:
    """Return the reports of calls, in order; measurements of earlier agents are reused.

    Nothing is returned if the action was refused.
    """
    known = {number: report for number, each in enumerate(calls) if (report := _known(brief, each))}
    fresh = [each for number, each in enumerate(calls) if number not in known]
    given = (yield CallTools(tuple(fresh))) if fresh else ()
    if isinstance(given, Refusal):
        return ()
    reports = iter(given)
    return tuple(known[number] if number in known else next(reports) for number in range(len(calls)))


def _known(brief: Brief, call: ToolCall) -> ToolReport | None:
    for each in brief.evidence:
        if (each.tool, each.arguments, each.outcome) == (call.tool, call.arguments, CallOutcome.COMPLETED):
            return ToolReport(each, tuple(found for found in brief.findings if each.id in found.evidence))
    return None


def completed(reports: Iterable[ToolReport], tool: str) -> ToolReport | None:
    """Return the first report of a tool with a completed call."""
    done = (each for each in reports if each.evidence.tool == tool)
    return next((each for each in done if each.evidence.outcome is CallOutcome.COMPLETED), None)


def unmeasured(brief: Brief, seen: ReviewSummary, gaps: Sequence[InformationGap]) -> Generator[Move, Any, Conclude]:
    """Conclude from the review alone; undecided if it found nothing.

    Args:
        brief: Brief of the task.
        seen: Result of the review.
        gaps: Reasons why nothing was measured, with the missing inputs.
    """
    first, *others = gaps
    all_gaps = (replace(first, blocks_approval=first.blocks_approval or not seen.mine), *others, *seen.failed)
    missing = first.what.removeprefix("what to run: ")
    is_clause = " needs " in missing or ", searched without" in missing
    missing = missing.replace("arguments for", "no arguments were found for", 1).replace(
        ", searched without a result", ""
    )
    missing = missing if is_clause else f"it needs {missing}"
    summary = f"{seen.summary.removesuffix('; nothing was run.').rstrip('.')}. Nothing was measured: {missing}."
    assumptions = ranked(hypotheses_of(seen.inspected))
    if move := rest_of(brief, summary, gaps=all_gaps, assumptions=assumptions):
        yield move
    return Conclude(
        summary=summary,
        assumptions=assumptions,
        gaps=all_gaps,
        caveats=("From static analysis only: sizes and frequencies were not measured.",),
        next_steps=remedies(seen.mine),
        risks=_LOW_RISK,
    )


def missing_gaps(reports: Iterable[ToolReport]) -> tuple[InformationGap, ...]:
    """Return gaps for inconclusive measurements and failed calls."""
    reports = tuple(reports)
    told = [
        InformationGap(
            f"{each['what']} of {report.evidence.arguments.get('target', '')}", each["why"], report.evidence.rerun
        )
        for report in reports
        if report.evidence.outcome is CallOutcome.COMPLETED
        for each in report.evidence.output.get("result", {}).get("missing", ())
        if isinstance(each, dict)
    ]
    return (*failed_gaps(reports), *told)


def remedies(findings: Sequence[Finding], *, most: int = 8) -> tuple[str, ...]:
    """Return the remedies of findings in order, without duplicates."""
    return tuple(dict.fromkeys(f"{each.claim.location}: {each.claim.remedy}" for each in findings))[:most]


def measured(reports: Iterable[ToolReport]) -> tuple[Finding, ...]:
    """Return the findings of measurements."""
    return tuple(each for report in reports for each in report.findings if each.claim.rule.startswith(_LAB))


def corroborated(findings: Iterable[Finding], evidence: Iterable[Evidence]) -> tuple[SupportedClaim, ...]:
    """Return measured claims that another tool confirms on the same line, now High, with the evidence of both.

    Static analysis and measurement are independent of each other; two runs of one tool are not.
    """
    tools = {each.id: each.tool for each in evidence}
    by_line: dict[tuple[str, int, str], list[Finding]] = defaultdict(list)
    for each in findings:
        place, category = each.claim.location, each.claim.category
        by_line[place.path, place.line, "numbers" if category in _NUMBERS else category.value].append(each)
    claims = []
    for group in by_line.values():
        ids = tuple(dict.fromkeys(id_ for each in group for id_ in each.evidence if id_ in tools))
        seen = sorted({tools[id_] for id_ in ids})
        if len(seen) < 2:  # noqa: PLR2004 - independent means that there are two
            continue
        for each in group:
            if each.claim.rule.startswith(_LAB) and each.claim.confidence is not Confidence.HIGH:
                basis = f"{each.claim.basis}; confirmed by {', '.join(seen)}"
                claims.append(SupportedClaim(replace(each.claim, confidence=Confidence.HIGH, basis=basis), ids))
    return tuple(claims)


@dataclass(frozen=True, slots=True)
class InvestigationState:
    """State of a specialist's investigation.

    Attributes:
        seen: Result of the review.
        reports: Reports of the measurements.
        hypotheses: Hypotheses with their states.
        summary: Result as text.
        gaps: Gaps in addition to those of the reports.
    """

    seen: ReviewSummary
    reports: tuple[ToolReport, ...]
    hypotheses: tuple[Hypothesis, ...]
    summary: str
    gaps: tuple[InformationGap, ...] = ()

    def claims(self, brief: Brief) -> tuple[SupportedClaim, ...]:
        """Return measured claims that another tool confirms."""
        found = (*brief.findings, *self.seen.mine, *measured(self.reports))
        evidence = (*brief.evidence, *(each.evidence for each in self.reports), *self.seen.evidence)
        return corroborated(found, evidence)

    @property
    def all_gaps(self) -> tuple[InformationGap, ...]:
        """All information gaps."""
        return (*self.gaps, *missing_gaps(self.reports), *self.seen.failed)


def conclude(
    brief: Brief,
    work: InvestigationState,
    *,
    caveats: tuple[str, ...],
    next_steps: tuple[str, ...] = (),
    risks: RiskAssessment = _LOW_RISK,
    assumptions: tuple[Assumption, ...] = (),
    has_suggestions: bool = True,
    **stance: Any,
) -> Generator[Move, Any, Conclude]:
    """Hand off the parts that other agents own if there are any, and conclude otherwise.

    Args:
        brief: Brief of the task.
        work: State of the investigation.
        caveats: Statements that must be verified.
        next_steps: Next steps in addition to the remedies of the findings.
        risks: Risks of following the advice.
        assumptions: Assumptions in addition to the hypotheses.
        has_suggestions: Whether remedies of suggestions are next steps, too.
        stance: Stance below the ceiling, if any: `stance` and `below_ceiling`.
    """
    claims, taken = work.claims(brief), (*assumptions, *ranked((*work.hypotheses, *hypotheses_of(work.seen.inspected))))
    if move := rest_of(brief, work.summary, gaps=work.all_gaps, assumptions=taken, claims=claims):
        yield move
    found = by_relevance(brief, (*measured(work.reports), *work.seen.mine))
    wanted = [each for each in found if has_suggestions or each.claim.severity is not Severity.SUGGESTION]
    first = answer(brief, found, work.seen.searched, [each.evidence for each in work.seen.inspected])
    return Conclude(
        summary=f"{first} {work.summary}".lstrip(),
        claims=claims,
        assumptions=taken,
        gaps=work.all_gaps,
        caveats=(*caveats, *_caveats_of_measurements(work.reports)),
        next_steps=(*next_steps, *remedies(wanted)),
        risks=risks,
        **stance,
    )


def _caveats_of_measurements(reports: Sequence[ToolReport]) -> tuple[str, ...]:
    return (*_synthetic_caveats(reports), *_interpreter_caveats(reports), *_import_caveats(reports))


def _synthetic_caveats(reports: Iterable[ToolReport]) -> tuple[str, ...]:
    targets = [
        str(each.evidence.arguments.get("target", "")) for each in reports if each.evidence.output.get("synthetic")
    ]
    return tuple(
        f"The inputs were synthetic: the program chose them. Edit {target.rpartition(':')[0]} and repeat the run "
        "with real sizes and data."
        for target in dict.fromkeys(targets)
    )


def _interpreter_caveats(reports: Iterable[ToolReport]) -> tuple[str, ...]:
    named = (str(each.evidence.output.get("interpreter", "")) for each in reports)
    return tuple(f"Measured with {text}." for text in dict.fromkeys(filter(None, named)))


def _import_caveats(reports: Iterable[ToolReport]) -> tuple[str, ...]:
    named = [text for each in reports for text in each.evidence.output.get("packages_not_run", ())]
    return tuple(f"Measured {text}." for text in dict.fromkeys(map(str, named)))


def build_handoff(brief: Brief, work: InvestigationState, parts: tuple[OpenPart, ...], reason: str) -> HandOff:
    """Return the handoff of parts that other agents own, with all findings."""
    return HandOff(
        agent=parts[0].agent,
        domain=parts[0].domain,
        reason=reason,
        context=work.summary,
        open_parts=parts,
        gaps=work.all_gaps,
        assumptions=ranked(work.hypotheses),
        claims=work.claims(brief),
    )


def has_returned(brief: Brief) -> bool:
    """Return whether an agent has handed off parts of the task before and now has the whole task again."""
    return brief.handoff is not None and any(each.sender == brief.agent.name for each in brief.chain)


def overall_conclusion(brief: Brief) -> Conclude:
    """Return the conclusion of an agent that has the whole task again: its own findings, then those of the others."""
    mine = next(each.context for each in brief.chain if each.sender == brief.agent.name)
    others = [each.context for each in brief.chain if each.sender != brief.agent.name]
    weighty = [each for each in brief.findings if each.claim.rule.startswith(_LAB)] or list(brief.findings)
    return Conclude(
        summary=led_by_answer(brief, " ".join((mine, *others)), brief.findings),
        caveats=(f"Parts reviewed by their owners: {', '.join(dict.fromkeys(each.sender for each in brief.chain))}.",),
        next_steps=remedies(weighty),
        risks=_LOW_RISK,
    )


def part_for(brief: Brief, agent: str, domain: str, findings: Sequence[Finding]) -> tuple[OpenPart, ...]:
    """Return the parts of a handoff: the other agent's, then the whole for this one; empty if it is not possible.

    An agent that already had the task does not receive it again.
    """
    if agent not in brief.agents or agent == brief.agent.name or any(each.receiver == agent for each in brief.chain):
        return ()
    question = f"what does this mean: {named(findings)}?" if findings else f"what is to be said of {domain} here?"
    marks = tuple(each.claim.fingerprint for each in findings)
    whole = OpenPart(brief.agent.name, brief.agent.domain, "what is the verdict on the whole?", ())
    return (OpenPart(agent, domain, question, marks), whole, *(brief.handoff.open_parts[1:] if brief.handoff else ()))


def has_failed(reports: Sequence[ToolReport]) -> bool:
    """Return whether no call succeeded."""
    return not reports or len(failures(reports)) == len(reports)
