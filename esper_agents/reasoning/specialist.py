"""The line of work that the static specialists share: look at one's own part, read around it, say what it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.finding import counted
from esper_agents.domain.move import Conclude, HandOff, RiskAssessment, ToolCall, UseTools
from esper_agents.reasoning.parts import failures, my_part, named, owner

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from esper_agents.domain.finding import Category, Finding
    from esper_agents.domain.frame import Brief
    from esper_agents.domain.move import Move, ToolReport

_CONTEXT_LINES = 12
_SCRIPT = "__main__"
_MOST_PLACES = 8


@dataclass(frozen=True, slots=True)
class Specialism:
    """What makes one static specialist differ from another.

    Attributes:
        categories: The categories of rules it looks at itself.
        searches: Strings whose places it wants to see, such as `torch.compile`.
        meanings: What a finding of a rule means here, by the rule's name; said in the summary.
        measured: What only running can tell, and the command that would; `{path}` is the script that is run.
        why_measure: Why that would help.
    """

    categories: tuple[Category, ...]
    searches: tuple[str, ...]
    meanings: Mapping[str, str]
    measured: tuple[tuple[str, str], ...]
    why_measure: str


def work(brief: Brief, specialism: Specialism) -> Generator[Move, Any, Conclude]:
    """Look at one's own part of the task, pass on the parts of others, conclude for the whole."""
    paths = list(brief.task.paths)
    if not paths:
        return _without_code(brief, specialism)
    looked: tuple[ToolReport, ...] = yield UseTools(
        (
            ToolCall("static-review", {"paths": paths, "categories": [str(each) for each in specialism.categories]}),
            *(ToolCall("search-code", {"text": text, "paths": paths}) for text in (_SCRIPT, *specialism.searches)),
        )
    )
    mine = my_part(brief) or tuple(
        each for report in looked for each in report.findings if owner(each.claim) == brief.agent.name
    )
    read: tuple[ToolReport, ...] = (yield UseTools(_around(mine))) if mine else ()
    summary = _summary(brief, specialism, mine, looked)
    gaps = _gaps(specialism, _script(looked[1]) or paths[0], (*looked, *read))
    if brief.handoff and (rest := brief.handoff.open_parts[1:]):
        yield HandOff(
            agent=rest[0].agent,
            domain=rest[0].domain,
            reason=f"{rest[0].agent} owns the rest: {rest[0].question}",
            context=summary,
            open_parts=rest,
            gaps=gaps,
        )
    return Conclude(
        summary=summary,
        gaps=gaps,
        caveats=("Seen in the code and not measured: sizes and frequencies are not known.",),
        next_steps=tuple(f"{each.claim.location}: {each.claim.remedy}" for each in mine),
        risks=RiskAssessment("Low", "Easy"),
    )


def _script(search: ToolReport) -> str:
    """Return the first file that can be run as a script, or an empty string."""
    hits = search.evidence.output.get("hits", [])
    return str(hits[0]["path"]) if hits else ""


def _around(findings: Sequence[Finding]) -> tuple[ToolCall, ...]:
    """Return calls that read the source around findings, each place once."""
    places = {
        (each.claim.location.path, max(1, each.claim.location.line - _CONTEXT_LINES)): each.claim.location
        for each in findings[:_MOST_PLACES]
    }
    return tuple(
        ToolCall("read-file", {"path": place.path, "first_line": first, "last_line": place.line + _CONTEXT_LINES})
        for (_, first), place in places.items()
    )


def _summary(brief: Brief, specialism: Specialism, mine: Sequence[Finding], looked: Sequence[ToolReport]) -> str:
    places = "; ".join(each.evidence.summary for each in looked[2:])
    if not mine:
        return f"{brief.agent.name}: no rule of {', '.join(specialism.categories)} found anything; {places}."
    meant = dict.fromkeys(
        specialism.meanings[each.claim.name] for each in mine if each.claim.name in specialism.meanings
    )
    counts = counted(each.claim.severity for each in mine)
    return " ".join((f"{brief.agent.name}: {counts}: {named(mine)}.", *meant, f"({places}.)"))


def _gaps(specialism: Specialism, path: str, reports: Sequence[ToolReport]) -> tuple[InformationGap, ...]:
    measured = [
        InformationGap(what, specialism.why_measure, command.format(path=path)) for what, command in specialism.measured
    ]
    failed = [
        InformationGap(f"what {each.evidence.tool} would have said", each.evidence.summary, each.evidence.rerun)
        for each in failures(reports)
    ]
    return (*measured, *failed)


def _without_code(brief: Brief, specialism: Specialism) -> Conclude:
    gaps = (
        InformationGap(
            "the code that the request is about",
            "nothing was attached, so no rule could look at it",
            'esper submit "REQUEST" PATH, naming the files',
            blocks_approval=True,
        ),
        *_gaps(specialism, "train.py", ()),
    )
    return Conclude(f"{brief.agent.name} was given no code, so nothing was examined.", gaps=gaps)
