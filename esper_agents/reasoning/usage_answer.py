"""Answer to a direct question about an API or an option, before any other step."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from esper_agents.domain.agent_action import CallTools, Conclude, RiskAssessment, ToolCall
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.evidence import INSPECT, CallOutcome, facts_of
from esper_agents.domain.ledger import Refusal
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.status import QuestionType
from esper_agents.review.fact_query import Assessment
from esper_agents.review.usages.entries import usage_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from esper_agents.domain.agent_action import Move, ToolReport
    from esper_agents.domain.evidence import RecordedFact
    from esper_agents.domain.frame import Brief
    from esper_agents.domain.request import ParsedRequest
    from esper_agents.review.usages.entries import UsageEntry

_MOST_PLACES, _MOST_OTHERS = 6, 2
_LOW_RISK = RiskAssessment("Low", "Easy")
# Such a name is that of an API, and no ordinary word.
_IS_WRITTEN = re.compile(r"[_.=()]")


def usage_first(
    play: Callable[[Brief], Generator[Move, Any, Conclude]], brief: Brief
) -> Generator[Move, Any, Conclude]:
    """Answer a direct question about an API by the lines that use it; otherwise play the playbook.

    Args:
        play: Playbook of the agent.
        brief: Brief of the frame.
    """
    request = brief.request
    if request is None or not _is_asked(brief, request):
        return (yield from play(brief))
    given = yield CallTools(tuple(_call(brief, request, number) for number in range(len(request.usages))))
    if isinstance(given, Refusal) or any(each.evidence.outcome is not CallOutcome.COMPLETED for each in given):
        return (yield from play(brief))
    reports: tuple[ToolReport, ...] = given
    facts = [facts_of([report.evidence]) for report in reports]
    entries = [usage_entries()[usage.name] for usage in request.usages]
    if not any(facts):
        files = max(int(report.evidence.output.get("files", 0)) for report in reports)
        named = " and ".join(f"`{usage.words}`" for usage in request.usages)
        read = "the file" if files == 1 else f"the {number_of(files, 'file')}"
        first = f"No line of {read} read is about {named}, so that question stays open."
        is_written = any(_IS_WRITTEN.search(usage.words) for usage in request.usages)
        if is_written and not (request.symbols or request.grounded):
            return Conclude(summary=f"{first} {entries[0].does}", gaps=(_missing(request),), risks=_LOW_RISK)
        # Other words of the request may have an answer.
        conclusion = yield from play(brief)
        general = f"In general: {entries[0].does}"
        return replace(
            conclusion, summary=f"{conclusion.summary} {general}", gaps=(*conclusion.gaps, _missing(request))
        )
    return _conclusion(request, entries, facts)


def _is_asked(brief: Brief, request: ParsedRequest) -> bool:
    """Return whether the request is a direct question, and the agent has the tool and the code."""
    is_part = brief.handoff is not None or bool(brief.question) or brief.task.change is not None
    has_tool = any(tool.name == INSPECT for tool in brief.tools)
    is_advice = brief.task.kind in {QuestionType.ADVICE, QuestionType.APPROVAL, QuestionType.RECOMMENDATION}
    return bool(request.usages and brief.task.paths) and has_tool and is_advice and not is_part


def _missing(request: ParsedRequest) -> InformationGap:
    named = request.usages[0].words
    return InformationGap(f"the file that uses `{named}`", "no line of the files read does", "")


def _call(brief: Brief, request: ParsedRequest, number: int) -> ToolCall:
    usage = request.usages[number]
    paths = _named(request, brief.task.paths) if usage.line else list(brief.task.paths)
    symbols = [f"{symbol.path}:{symbol.name}" for symbol in request.symbols]
    arguments = {
        "paths": paths,
        "symbols": symbols,
        "usages": [f"{usage.name}:{usage.line}" if usage.line else usage.name],
        "statements": [f"{each.kind}={each.value} ({each.text})" for each in request.statements],
    }
    return ToolCall(INSPECT, {name: value for name, value in arguments.items() if value})


def _named(request: ParsedRequest, paths: Sequence[str]) -> list[str]:
    """Return the files that the request names a line of; without any, its paths."""
    named = [each.path for each in request.files if each.line]
    return list(dict.fromkeys(named)) or list(paths)


def _conclusion(
    request: ParsedRequest, entries: Sequence[UsageEntry], facts: Sequence[Sequence[RecordedFact]]
) -> Conclude:
    parts = [_answer(entry, found) for entry, found in zip(entries, facts, strict=True) if found]
    open_facts = [fact for found in facts for fact in found if fact.assessment == Assessment.OPEN]
    asked = {usage.name: usage.words for usage in request.usages}
    gaps = tuple(
        InformationGap(f"whether `{asked[entry.name]}` matters at {found[0].place}", entry.unknown, "")
        for entry, found in zip(entries, facts, strict=True)
        if found and all(fact.assessment == Assessment.OPEN for fact in found)
    )
    used = {
        each.kind
        for each in request.statements
        if any(f'"{each.text}"' in fact.text for found in facts for fact in found)
    }
    unused = [each.text for each in request.statements if each.kind not in used]
    if unused:
        parts.append(f"Not used for the answer: {', '.join(map(repr, unused))}.")
    settled = [fact for found in facts for fact in found if fact.remedy and fact not in open_facts]
    return Conclude(
        summary=" ".join(parts),
        gaps=gaps,
        caveats=("From the code read; nothing was run.",),
        next_steps=tuple(f"{fact.place}: {fact.remedy}" for fact in settled[:_MOST_PLACES]),
        risks=_LOW_RISK,
    )


def _answer(entry: UsageEntry, facts: Sequence[RecordedFact]) -> str:
    """Return the answer of one entry: the first place with those that have the same answer, then others."""
    first, *rest = facts
    alike = [fact for fact in rest if fact.assessment == first.assessment and fact.remedy == first.remedy]
    others = [fact for fact in rest if fact not in alike]
    sentences = [f"{first.place} {first.text}."]
    if first.remedy:
        sentences.append(f"{first.remedy.rstrip('.')}.")
    places = [place for place in dict.fromkeys(fact.place for fact in alike) if place != first.place]
    if places:
        more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
        sentences.insert(1, f"The same holds at {', '.join(places[:_MOST_PLACES])}{more}.")
    shown: dict[tuple[str, str], RecordedFact] = {}
    for fact in others:
        shown.setdefault((fact.assessment, fact.remedy), fact)
    sentences += [f"{fact.place} {fact.text}." for fact in list(shown.values())[:_MOST_OTHERS]]
    rest_count = len(others) - min(len(shown), _MOST_OTHERS)
    if rest_count > 0:
        sentences.append(f"The record of the inspection lists {number_of(rest_count, 'other place')}.")
    return " ".join((*sentences, f"In general: {entry.does}"))
