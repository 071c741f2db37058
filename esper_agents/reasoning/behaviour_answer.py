"""Answer to a question about what code does, from calls of that code."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.domain.agent_action import ToolCall
from esper_agents.domain.evidence import OBSERVES_CALLS
from esper_agents.domain.request import ConstraintKind
from esper_agents.reasoning.completed_call import completed_call
from esper_agents.reasoning.target_choice import ChosenTarget, definition_target

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from esper_agents.domain.agent_action import Move
    from esper_agents.domain.evidence import Evidence, RecordedFact
    from esper_agents.domain.frame import Brief
    from esper_agents.domain.request import ParsedRequest

_TARGETS, _SCAFFOLD = "torch-targets", "torch-scaffold"
_MOST_CHARACTERS, _MOST_STATEMENTS, _MOST_OF_TOPIC, _MOST_WANTED = 1_500, 5, 2, 4
# Of a sentence in an answer.
_LONGEST = 360
# The definition at the beginning of a fact.
_OWNER = re.compile(r"`([^`]+)`")
_CLASS, _FUNCTION = "class", "function"


@dataclass(frozen=True, slots=True)
class ObservedAnswer:
    """Answer from calls.

    Attributes:
        text: The answer in sentences; empty if nothing was observed.
        caveat: What the answer depends on.
    """

    text: str = ""
    caveat: str = ""


@cache
def _topics() -> dict[str, re.Pattern[str]]:
    data = tomllib.loads(Path(__file__).with_name("behaviour_questions.toml").read_text(encoding="utf-8"))
    return {topic: re.compile(entry["words"], re.IGNORECASE) for topic, entry in data.items()}


def behaviour_topics(text: str) -> tuple[str, ...]:
    """Return the topics of `esper torch behaviour` that answer a question, in the order of its words."""
    found = {topic: match for topic, words in _topics().items() if (match := words.search(text[:_MOST_CHARACTERS]))}
    return tuple(sorted(found, key=lambda topic: found[topic].start()))


def observed_answer(brief: Brief, leads: Iterable[RecordedFact]) -> Generator[Move, Any, ObservedAnswer]:
    """Run the code that a question is about, and return what answers it.

    Args:
        brief: Brief of the frame.
        leads: Lines that the words of the question refer to.
    """
    request = brief.request
    topics = behaviour_topics(brief.task.request)
    if request is None or not topics or not _can_run(brief, request):
        return ObservedAnswer()
    wanted = tuple(dict.fromkeys(_wanted(request, leads)))[:_MOST_WANTED]
    target = (yield from _target(brief, wanted)) if wanted else None
    if target is None:
        return ObservedAnswer()
    report = yield from completed_call(ToolCall(OBSERVES_CALLS, {"target": target.name}))
    return _told(target, topics, report.evidence) if report is not None else ObservedAnswer()


def _target(brief: Brief, wanted: Sequence[str]) -> Generator[Move, Any, ChosenTarget | None]:
    """Return the first of certain definitions that runs; None if none does."""
    paths = list(dict.fromkeys(each.rpartition(":")[0] for each in wanted))
    found = yield from completed_call(ToolCall(_TARGETS, {"paths": paths, "named": list(wanted)}))
    target = (yield from definition_target(brief, found, wanted)) if found is not None else None
    return target if isinstance(target, ChosenTarget) else None


def _can_run(brief: Brief, request: ParsedRequest) -> bool:
    offered = {tool.name for tool in brief.tools}
    return {OBSERVES_CALLS, _TARGETS, _SCAFFOLD} <= offered and not request.restricts(ConstraintKind.NO_RUN)


def _wanted(request: ParsedRequest, leads: Iterable[RecordedFact]) -> Iterator[str]:
    """Yield the definitions that a question is about, as `FILE.py:NAME`: classes that it names, then the others."""
    named = [(each.path, each.name.partition(".")[0]) for each in request.symbols]
    yield from (f"{path}:{name}" for path, name in named if name[:1].isupper())
    yield from (f"{each.path}:{each.name}" for each in request.grounded if each.kind == _CLASS)
    yield from (f"{path}:{name}" for path, name in named)
    yield from (f"{each.path}:{each.name}" for each in request.grounded if each.kind == _FUNCTION)
    for fact in leads:
        if owner := _OWNER.match(fact.text):
            yield f"{fact.place.rpartition(':')[0]}:{owner[1].partition('.')[0].removesuffix('()')}"


def _told(target: ChosenTarget, topics: Iterable[str], evidence: Evidence) -> ObservedAnswer:
    statements = evidence.output.get("result", {}).get("statements", ())
    said = [
        text
        for topic in topics
        for text in [str(each["said"]) for each in statements if isinstance(each, dict) and each["topic"] == topic][
            :_MOST_OF_TOPIC
        ]
    ]
    if not said:
        return ObservedAnswer()
    name = target.shown.rpartition(":")[2]
    kept: list[str] = []
    for each in dict.fromkeys(said[:_MOST_STATEMENTS]):
        if kept and len("; ".join((*kept, each))) > _LONGEST:
            continue
        kept.append(each)
    text = f"Calls of `{name}` show: {'; '.join(kept)}."
    caveat = f"Observed in calls of {target.ran}; other arguments may take another path."
    return ObservedAnswer(text, caveat)
