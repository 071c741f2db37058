"""Shared steps of static specialists: review, read the context, conclude."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from esper_agents.domain.agent_action import CallTools, Conclude, HandOff, RiskAssessment, ToolCall
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.evidence import faults_asked_about
from esper_agents.domain.finding import counted
from esper_agents.domain.pluralize import number_of
from esper_agents.reasoning.code_inspection import (
    document_calls,
    gaps_of,
    hypotheses_of,
    inspection_calls,
    is_decided_by_reading,
    is_of_other_topics,
)
from esper_agents.reasoning.finding_ownership import failures, my_part, named, owner
from esper_agents.reasoning.hypotheses import ranked
from esper_agents.reasoning.request_answer import answer, by_relevance, of_faults, request_searches

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from esper_agents.domain.agent_action import Move, SupportedClaim, ToolReport
    from esper_agents.domain.assumption import Assumption
    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.finding import Category, Finding
    from esper_agents.domain.frame import Brief

_CONTEXT_LINES = 12
_SCRIPT = "__main__"
_MOST_PLACES = 8


@dataclass(frozen=True, slots=True)
class SpecialistProfile:
    """Properties in which static specialists differ.

    Attributes:
        categories: Rule categories that it reviews itself.
        searches: Strings to search for, such as `torch.compile`.
        meanings: Meaning of a rule's findings for this specialist, by rule name; used in the summary.
        measured: Information gap that only a run can close, and its command; `{path}` is the script to run.
        why_measure: Reason why that would help.
        topics: Topics that its measurement is about; empty for any.
        is_whole: Whether it owns every finding of its categories, whoever owns it in a review.
    """

    categories: tuple[Category, ...]
    searches: tuple[str, ...]
    meanings: Mapping[str, str]
    measured: tuple[tuple[str, str], ...]
    why_measure: str
    topics: tuple[str, ...] = ()
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class ReviewSummary:
    """Result of a specialist's review.

    Attributes:
        mine: Findings that it owns.
        others: Reports of its additional calls, in the requested order.
        summary: Result as text.
        script: File that can be run as a script, or the first path.
        failed: Reports of failed calls.
        evidence: Evidence of the review.
        searched: Reports of the searches that the request added.
        inspected: Reports of the inspection of the request's topics.
    """

    mine: tuple[Finding, ...]
    others: tuple[ToolReport, ...]
    summary: str
    script: str
    failed: tuple[InformationGap, ...]
    evidence: tuple[Evidence, ...]
    searched: tuple[ToolReport, ...] = ()
    inspected: tuple[ToolReport, ...] = ()


def review_call(brief: Brief, paths: Sequence[str], **more: object) -> ToolCall:
    """Return the call that reviews paths: of the change that the task is about, if it is about one."""
    since = {"since": brief.task.change.since} if brief.task.change else {}
    return ToolCall("static-review", {"paths": list(paths), **more, **since})


def look(
    brief: Brief, specialism: SpecialistProfile, *others: ToolCall, inspects: bool = True
) -> Generator[Move, Any, ReviewSummary]:
    """Review the agent's own part, make additional calls in the same turn, and read the context of the findings.

    Args:
        brief: Brief of the task.
        specialism: Properties of the agent.
        others: Additional calls.
        inspects: Whether to inspect the code for the topics of the request.
    """
    paths = list(brief.task.paths)
    added = request_searches(brief, specialism.searches)
    calls = (
        review_call(brief, paths, categories=[str(category) for category in specialism.categories]),
        *(ToolCall("search-code", {"text": text, "paths": paths}) for text in (_SCRIPT, *specialism.searches, *added)),
    )
    # A part that another agent handed off names its findings; the agent's own topics were not asked about.
    inspections = inspection_calls(brief, () if my_part(brief) else specialism.topics[:2]) if inspects else ()
    inspections = (*inspections, *document_calls(brief)) if inspects else ()
    reports: tuple[ToolReport, ...] = yield CallTools((*calls, *others, *inspections))
    inspected = reports[len(reports) - len(inspections) :]
    looked, searched = reports[: len(calls)], reports[len(calls) - len(added) : len(calls)]
    mine = my_part(brief) or tuple(
        finding
        for report in looked
        for finding in report.findings
        if specialism.is_whole or owner(finding.claim) == brief.agent.name
    )
    stated = tuple(finding for report in inspected for finding in report.findings)
    # A rule's finding keeps the evidence of the review that reported it.
    known = {each.claim.fingerprint: each for each in (*stated, *mine)}
    mine = of_faults(mine, faults_asked_about(report.evidence for report in inspected)) if not my_part(brief) else mine
    mine = by_relevance(
        brief, [known[mark] for mark in dict.fromkeys(each.claim.fingerprint for each in (*mine, *stated))]
    )
    first = answer(brief, mine, searched, [report.evidence for report in inspected])
    own = looked[: len(looked) - len(added)]
    read: tuple[ToolReport, ...] = (yield CallTools(_around(mine))) if mine else ()
    return ReviewSummary(
        mine=mine,
        others=reports[len(calls) : len(calls) + len(others)],
        summary=f"{first} {_summary(brief, specialism, mine, own, is_answered=bool(first))}".strip(),
        script=_script(looked[1]),
        failed=(*failed_gaps((*looked, *inspected, *read)), *gaps_of(inspected)),
        evidence=tuple(each.evidence for each in (*looked, *inspected, *read)),
        searched=tuple(searched),
        inspected=tuple(inspected),
    )


def work(brief: Brief, specialism: SpecialistProfile) -> Generator[Move, Any, Conclude]:
    """Review the agent's own part of the task, hand off the parts of others, and conclude for the whole."""
    if not brief.task.paths:
        return without_code(brief, specialism)
    seen = yield from look(brief, specialism)
    return (yield from conclude_from(brief, specialism, seen))


def conclude_from(brief: Brief, specialism: SpecialistProfile, seen: ReviewSummary) -> Generator[Move, Any, Conclude]:
    """Hand off the parts of others, and conclude for the whole from a review.

    Args:
        brief: Brief of the task.
        specialism: Properties of the agent.
        seen: Result of its review.
    """
    is_read = is_decided_by_reading(brief.request) or is_of_other_topics(brief, specialism.topics)
    unmeasured = () if is_read else _unmeasured(specialism, seen.script)
    gaps = (*unmeasured, *seen.failed)
    assumptions = ranked(hypotheses_of(seen.inspected))
    if move := rest_of(brief, seen.summary, gaps=gaps, assumptions=assumptions):
        yield move
    return Conclude(
        summary=seen.summary,
        assumptions=assumptions,
        gaps=gaps,
        caveats=("From static analysis only: sizes and frequencies were not measured.",),
        next_steps=tuple(f"{each.claim.location}: {each.claim.remedy}" for each in seen.mine),
        risks=RiskAssessment("Low", "Easy"),
    )


def rest_of(
    brief: Brief,
    context: str,
    *,
    gaps: tuple[InformationGap, ...] = (),
    assumptions: tuple[Assumption, ...] = (),
    claims: tuple[SupportedClaim, ...] = (),
) -> HandOff | None:
    """Return the handoff to the owner of the next part, if this agent received one part of several."""
    rest = brief.handoff.open_parts[1:] if brief.handoff else ()
    if not rest:
        return None
    return HandOff(
        agent=rest[0].agent,
        domain=rest[0].domain,
        reason=f"{rest[0].agent} owns the rest: {rest[0].question}",
        context=context,
        open_parts=rest,
        gaps=gaps,
        assumptions=assumptions,
        claims=claims,
    )


def _script(search: ToolReport) -> str:
    """Return the first file that can be run as a script, or an empty string."""
    hits = search.evidence.output.get("hits", [])
    return next((str(hit["path"]) for hit in hits if str(hit.get("text", "")).startswith("if __name__")), "")


def _around(findings: Sequence[Finding]) -> tuple[ToolCall, ...]:
    """Return calls that read the source around findings, without duplicate locations."""
    places = {
        (finding.claim.location.path, max(1, finding.claim.location.line - _CONTEXT_LINES)): finding.claim.location
        for finding in findings[:_MOST_PLACES]
    }
    return tuple(
        ToolCall("read-file", {"path": place.path, "first_line": first, "last_line": place.line + _CONTEXT_LINES})
        for (_, first), place in places.items()
    )


def _summary(
    brief: Brief,
    specialism: SpecialistProfile,
    mine: Sequence[Finding],
    looked: Sequence[ToolReport],
    *,
    is_answered: bool,
) -> str:
    """Return the result of the review; after an answer, without what was not found."""
    # What an inspection states stands in the answer already.
    if is_answered and all(each.claim.rule == each.claim.name for each in mine):
        return ""
    if not mine:
        files = number_of(int(looked[0].evidence.output.get("files", 0)), "file")
        rules = ", ".join(specialism.categories)
        return f"{brief.agent.name}: the rules of {rules} found nothing in {files}; nothing was run."
    meant = dict.fromkeys(
        specialism.meanings[each.claim.name] for each in mine if each.claim.name in specialism.meanings
    )
    if is_answered:
        # The answer names the findings.
        return " ".join(meant)
    counts = counted(each.claim.severity for each in mine)
    return " ".join((f"{brief.agent.name}: {counts}: {named(mine)}.", *meant))


def _unmeasured(specialism: SpecialistProfile, path: str) -> tuple[InformationGap, ...]:
    """Return what only a run can tell; without a script there is no command that would."""
    return tuple(
        InformationGap(what, specialism.why_measure, command.format(path=path) if path else "")
        for what, command in specialism.measured
    )


def failed_gaps(reports: Sequence[ToolReport]) -> tuple[InformationGap, ...]:
    """Return information gaps for calls that did not complete."""
    return tuple(
        InformationGap(
            f"what {failure.evidence.tool} would have said", failure.evidence.summary, failure.evidence.rerun
        )
        for failure in failures(reports)
    )


def without_code(brief: Brief, specialism: SpecialistProfile) -> Conclude:
    """Return the conclusion of an agent that was given no files."""
    gaps = (
        InformationGap(
            "the code that the request is about",
            "nothing was attached, so no rule could look at it",
            brief.task.command("PATH"),
            blocks_approval=True,
        ),
        *_unmeasured(specialism, "train.py"),
    )
    return Conclude(f"{brief.agent.name} was given no code, so nothing was examined.", gaps=gaps)
