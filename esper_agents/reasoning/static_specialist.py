"""Shared steps of static specialists: review, read the context, conclude."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from esper_agents.domain.agent_action import CallTools, Conclude, HandOff, RiskAssessment, ToolCall
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.finding import counted
from esper_agents.reasoning.finding_ownership import failures, my_part, named, owner

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
        is_whole: Whether it owns every finding of its categories, whoever owns it in a review.
    """

    categories: tuple[Category, ...]
    searches: tuple[str, ...]
    meanings: Mapping[str, str]
    measured: tuple[tuple[str, str], ...]
    why_measure: str
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
    """

    mine: tuple[Finding, ...]
    others: tuple[ToolReport, ...]
    summary: str
    script: str
    failed: tuple[InformationGap, ...]
    evidence: tuple[Evidence, ...]


def review_call(brief: Brief, paths: Sequence[str], **more: object) -> ToolCall:
    """Return the call that reviews paths: of the change that the task is about, if it is about one."""
    since = {"since": brief.task.change.since} if brief.task.change else {}
    return ToolCall("static-review", {"paths": list(paths), **more, **since})


def look(brief: Brief, specialism: SpecialistProfile, *others: ToolCall) -> Generator[Move, Any, ReviewSummary]:
    """Review the agent's own part, make additional calls in the same turn, and read the context of the findings."""
    paths = list(brief.task.paths)
    calls = (
        review_call(brief, paths, categories=[str(each) for each in specialism.categories]),
        *(ToolCall("search-code", {"text": text, "paths": paths}) for text in (_SCRIPT, *specialism.searches)),
    )
    reports: tuple[ToolReport, ...] = yield CallTools((*calls, *others))
    looked = reports[: len(calls)]
    mine = my_part(brief) or tuple(
        each
        for report in looked
        for each in report.findings
        if specialism.is_whole or owner(each.claim) == brief.agent.name
    )
    read: tuple[ToolReport, ...] = (yield CallTools(_around(mine))) if mine else ()
    return ReviewSummary(
        mine=mine,
        others=reports[len(calls) :],
        summary=_summary(brief, specialism, mine, looked),
        script=_script(looked[1]) or paths[0],
        failed=failed_gaps((*looked, *read)),
        evidence=tuple(each.evidence for each in (*looked, *read)),
    )


def work(brief: Brief, specialism: SpecialistProfile) -> Generator[Move, Any, Conclude]:
    """Review the agent's own part of the task, hand off the parts of others, and conclude for the whole."""
    if not brief.task.paths:
        return without_code(brief, specialism)
    seen = yield from look(brief, specialism)
    gaps = (*_unmeasured(specialism, seen.script), *seen.failed)
    if move := rest_of(brief, seen.summary, gaps=gaps):
        yield move
    return Conclude(
        summary=seen.summary,
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
    return str(hits[0]["path"]) if hits else ""


def _around(findings: Sequence[Finding]) -> tuple[ToolCall, ...]:
    """Return calls that read the source around findings, without duplicate locations."""
    places = {
        (each.claim.location.path, max(1, each.claim.location.line - _CONTEXT_LINES)): each.claim.location
        for each in findings[:_MOST_PLACES]
    }
    return tuple(
        ToolCall("read-file", {"path": place.path, "first_line": first, "last_line": place.line + _CONTEXT_LINES})
        for (_, first), place in places.items()
    )


def _summary(brief: Brief, specialism: SpecialistProfile, mine: Sequence[Finding], looked: Sequence[ToolReport]) -> str:
    places = "; ".join(each.evidence.summary for each in looked[2:])
    if not mine:
        return f"{brief.agent.name}: no rule of {', '.join(specialism.categories)} found anything; {places}."
    meant = dict.fromkeys(
        specialism.meanings[each.claim.name] for each in mine if each.claim.name in specialism.meanings
    )
    counts = counted(each.claim.severity for each in mine)
    return " ".join((f"{brief.agent.name}: {counts}: {named(mine)}.", *meant, f"({places}.)"))


def _unmeasured(specialism: SpecialistProfile, path: str) -> tuple[InformationGap, ...]:
    return tuple(
        InformationGap(what, specialism.why_measure, command.format(path=path)) for what, command in specialism.measured
    )


def failed_gaps(reports: Sequence[ToolReport]) -> tuple[InformationGap, ...]:
    """Return information gaps for calls that did not complete."""
    return tuple(
        InformationGap(f"what {each.evidence.tool} would have said", each.evidence.summary, each.evidence.rerun)
        for each in failures(reports)
    )


def without_code(brief: Brief, specialism: SpecialistProfile) -> Conclude:
    """Return the conclusion of an agent that was given no files."""
    gaps = (
        InformationGap(
            "the code that the request is about",
            "nothing was attached, so no rule could look at it",
            'esper submit "REQUEST" PATH, naming the files',
            blocks_approval=True,
        ),
        *_unmeasured(specialism, "train.py"),
    )
    return Conclude(f"{brief.agent.name} was given no code, so nothing was examined.", gaps=gaps)
