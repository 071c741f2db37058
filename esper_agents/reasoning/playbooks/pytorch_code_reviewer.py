"""The offline reviewer: static review, the parts of others to their owners, and the verdict on the whole."""

from __future__ import annotations

import re
from shlex import quote
from typing import TYPE_CHECKING, Any

from esper_agents.domain.agent_action import Conclude, HandOff, RiskAssessment, RiskRow, ToolCall
from esper_agents.domain.assumption import Assumption, AssumptionState, InformationGap, Tier
from esper_agents.domain.evidence import VERSIONS, CallOutcome, tests_told
from esper_agents.domain.finding import Confidence, Severity
from esper_agents.domain.handoff import OpenPart
from esper_agents.domain.status import QuestionType
from esper_agents.reasoning.code_inspection import gaps_of, hypotheses_of, inspection_calls
from esper_agents.reasoning.confirmation_runs import attempts, confirmed
from esper_agents.reasoning.finding_ownership import failures, named, parts_of
from esper_agents.reasoning.hypotheses import ranked
from esper_agents.reasoning.investigation import completed, run
from esper_agents.reasoning.request_answer import answer, by_relevance
from esper_agents.reasoning.static_specialist import review_call
from esper_agents.reasoning.target_choice import looking
from esper_agents.reasoning.testing import is_test_file, testing_gaps, tests_to_run
from esper_agents.reasoning.trial_runs import trial_calls, trial_gaps
from esper_agents.reasoning.version_runs import version_calls, version_gaps
from esper_agents.requests.measurement_options import measurement_options

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from esper_agents.domain.agent_action import Likelihood, Move, RiskLevel, ToolReport
    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.finding import Finding
    from esper_agents.domain.frame import Brief
    from esper_agents.reasoning.confirmation_runs import ConfirmedFindings
    from esper_agents.requests.measurement_options import MeasurementRequest

_ASKS_FOR_TESTS = re.compile(r"\b(run|execute|with)\b[^.]{0,40}\btests?\b|\btests? pass", re.IGNORECASE)


_TARGETS = "torch-targets"
_MOST_NAMED = 5
_NOT_RUN, _HIDDEN = "Rules read the code and did not run it", "what depends on data or devices can stay hidden"
_SEVERITY: dict[Severity, RiskLevel] = {
    Severity.CRITICAL: "Critical",
    Severity.WARNING: "Medium",
    Severity.SUGGESTION: "Low",
}
_LIKELIHOOD: dict[Confidence, Likelihood] = {
    Confidence.HIGH: "High",
    Confidence.MODERATE: "Medium",
    Confidence.LOW: "Low",
    Confidence.INSUFFICIENT_DATA: "Low",
}


def play(brief: Brief) -> Generator[Move, Any, Conclude]:
    """Review what the task is about and hand on what others own; they hand back, and the verdict is on the whole."""
    if brief.handoff and any(each.sender == brief.agent.name for each in brief.chain):
        return _verdict_on_the_whole(brief)
    paths = list(brief.task.paths)
    if not paths:
        return _nothing_attached(brief)
    asked = measurement_options(brief.task.request)
    around = yield from run(brief, *_around(brief, asked, paths))
    wanted = [review_call(brief, paths, related=_related(around))]
    wanted += tests_to_run(brief, around, is_asked=bool(_ASKS_FOR_TESTS.search(brief.task.request)))
    reviewed = yield from run(brief, *wanted)
    targets = completed(around, _TARGETS)
    tries = (*attempts(brief, asked, reviewed[0], targets), *trial_calls(brief, targets), *version_calls(brief))
    runs = yield from run(brief, *tries)
    versions = [report for report in runs if report.evidence.tool == VERSIONS]
    found = confirmed([each for report in (*reviewed, *around, *versions) for each in report.findings], runs)
    return (yield from _conclusion(brief, (*reviewed, *around, *runs), found))


def _conclusion(
    brief: Brief, reports: tuple[ToolReport, ...], found: ConfirmedFindings
) -> Generator[Move, Any, Conclude]:
    """Hand on what others own; conclude where that is nothing."""
    review, findings = reports[0], by_relevance(brief, found.findings)
    assumptions = (*_assumptions(review), *found.assumptions, *ranked(hypotheses_of(reports)))
    gaps = (*_gaps(brief, reports), *found.gaps, *gaps_of(reports), *trial_gaps(reports), *version_gaps(reports))
    if parts := parts_of(findings, brief):
        first, whole = parts[0], OpenPart(brief.agent.name, "code review", "what is the verdict on the whole?", ())
        yield HandOff(
            agent=first.agent,
            domain=first.domain,
            reason=f"{len(first.findings)} findings are about {first.domain}, which {first.agent} owns",
            context=_sentences(f"{review.evidence.summary}.", found.summary, f"{named(findings)}."),
            open_parts=(*parts, whole),
            gaps=gaps,
            assumptions=assumptions,
        )
    return Conclude(
        summary=_sentences(
            _answer(brief, findings, reports), f"Static review: {review.evidence.summary}.", found.summary
        ),
        assumptions=assumptions,
        gaps=gaps,
        caveats=_caveats([report.evidence for report in reports]),
        next_steps=_next_steps(findings),
        risks=_risks(findings),
    )


def _around(brief: Brief, asked: MeasurementRequest, paths: Sequence[str]) -> tuple[ToolCall, ...]:
    """Return what is looked at before the review: the tree, what belongs to the files, and what of them can be run."""
    since = {"since": brief.task.change.since} if brief.task.change else {}
    related = ToolCall("related-code", {"paths": list(paths), **since})
    calls = (ToolCall("git-state", {}), related, looking(brief, asked), *inspection_calls(brief))
    offered = {tool.name for tool in brief.tools}
    return tuple(call for call in calls if call.tool in offered)


def _answer(brief: Brief, findings: Sequence[Finding], reports: Sequence[ToolReport]) -> str:
    return answer(brief, findings, inspected=[report.evidence for report in reports])


def _related(around: Sequence[ToolReport]) -> list[str]:
    """Return the callers and the tests of what is reviewed: what they do decides what is wrong with it."""
    known = completed(around, "related-code")
    return [] if known is None else [*known.evidence.output["callers"], *known.evidence.output["tests"]]


def _sentences(*each: str) -> str:
    return " ".join(filter(None, each))


def _verdict_on_the_whole(brief: Brief) -> Conclude:
    """Conclude on what all found, once those who own a part have handed back."""
    others = [each for each in brief.chain if each.sender != brief.agent.name]
    mine = next(each.context for each in brief.chain if each.sender == brief.agent.name)
    findings = by_relevance(brief, brief.findings)
    return Conclude(
        summary=_sentences(answer(brief, findings, inspected=brief.evidence), mine, *(each.context for each in others)),
        caveats=_caveats(brief.evidence),
        next_steps=_next_steps(findings),
        risks=_risks(findings),
    )


def _caveats(evidence: Sequence[Evidence]) -> tuple[str, ...]:
    return (f"{tests_told(evidence) or _NOT_RUN}; {_HIDDEN}.",)


def _next_steps(findings: Sequence[Finding]) -> tuple[str, ...]:
    weighty = [finding for finding in findings if finding.claim.severity is not Severity.SUGGESTION]
    return tuple(f"{each.claim.location}: {each.claim.remedy}" for each in weighty)[:10]


def _risks(findings: Sequence[Finding]) -> RiskAssessment:
    rows = tuple(
        RiskRow(
            risk=f"{finding.claim.location}: {finding.claim.message}",
            severity=_SEVERITY[finding.claim.severity],
            likelihood=_LIKELIHOOD[finding.claim.confidence],
            mitigation=finding.claim.remedy,
        )
        for finding in findings[:10]
    )
    return RiskAssessment("Low", "Easy", rows)


def _assumptions(review: ToolReport) -> tuple[Assumption, ...]:
    """The review reads only what it is given; that this is all there is must be said, and checked where it can be."""
    unread = review.evidence.output.get("unreadable", [])
    is_settled = review.evidence.outcome is CallOutcome.COMPLETED and not unread
    return (
        Assumption(
            text="every Python file of the task could be read and parsed",
            tier=Tier.PLAN,
            is_critical=False,
            state=AssumptionState.CONFIRMED if is_settled else AssumptionState.REFUTED,
            evidence=(review.evidence.id,),
            command=review.evidence.rerun,
        ),
    )


def _gaps(brief: Brief, reports: Sequence[ToolReport]) -> tuple[InformationGap, ...]:
    unread = [
        InformationGap(
            f"what stands in {each['path']}: {each['problem']}",
            "a file that was not read can hold anything",
            str(each["remedy"]).removeprefix("run `").removesuffix("`"),
        )
        for each in reports[0].evidence.output.get("unreadable", [])
    ]
    not_run = [
        InformationGap(
            f"what {failure.evidence.tool} would have said: {failure.evidence.summary}",
            "the verdict rests on less than was asked for",
            failure.evidence.rerun,
        )
        for failure in failures(reports)
    ]
    deleted = [each for each in brief.task.change.deleted if is_test_file(each)] if brief.task.change else []
    gone = [
        InformationGap(
            f"what checks now what {each} checked, which the change deletes",
            "the tests that remain can pass although what it protected is broken",
            f"git log -1 -p -- {quote(each)}",
            blocks_approval=True,
        )
        for each in deleted
    ]
    change = brief.task.change
    others = change.others if change else ()
    more = " ..." if len(others) > _MOST_NAMED else ""
    unjudged = [
        InformationGap(
            f"what the change does in {', '.join(others[:_MOST_NAMED])}{more}",
            "no rule reads these files, and settings can change what the code does",
            f"git diff {change.since if change else ''} -- {' '.join(map(quote, others[:_MOST_NAMED]))}",
        )
    ] * bool(others)
    judges = brief.task.kind is not QuestionType.ADVICE or _ASKS_FOR_TESTS.search(brief.task.request)
    tests = testing_gaps(brief, reports, reports) if judges else ()
    return (*unread, *not_run, *gone, *unjudged, *tests)


def _nothing_attached(brief: Brief) -> Conclude:
    gap = InformationGap(
        "the code that the request is about",
        "nothing was attached, and the folder is under no git",
        brief.task.command("PATH"),
        blocks_approval=True,
    )
    return Conclude("No code was attached, so nothing was reviewed.", gaps=(gap,))
