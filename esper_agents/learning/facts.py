"""Numbered facts of a report, for a model to put into words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from esper_agents.certificates.views.escaping import shortened, visible
from esper_agents.domain.status import Status
from esper_agents.learning.report import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from esper_agents.domain.codec import JsonObject
    from esper_agents.learning.report import Insight, RecurringViolation, Retrospect
    from esper_agents.learning.session_summary import SourceRef

_LONGEST, _LONGEST_TITLE = 600, 240
_MOST_SOURCES = 10
# A unit that may be separated from its number, or letters directly after it.
_UNIT = r"%|percent\b|[x\u00d7]\b|[KMGT]?i?B\b|[mun\u00b5\u03bc]?s\b"
_NUMBER = re.compile(rf"(?<!\w)(?<!\w\.)(\.?\d+(?:[.,]\d+)*)(?:[ \u00a0]?({_UNIT})|([^\W\d_]+))?")
_WORDS = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen"
    " nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred hundreds thousand thousands million"
    " millions billion billions dozen dozens twice thrice percent"
)
_WORD = re.compile(rf"\b(?:{_WORDS.replace(' ', '|')})\b", re.IGNORECASE)
# Names: rule codes and similar codes, statuses, URLs, source files.
_NAME = re.compile(
    rf"\b(?:[A-Za-z]|[A-Z]{{2,}}|esp|lab)[0-9]\w*|\b(?:{'|'.join(sorted(Status, key=len, reverse=True))})\b"
    r"|\S*(?://|www\.)\S*|[\w./-]+\.(?:py|ipynb|toml|sh|md|ya?ml|json)\b"
)


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact counted by the program.

    Attributes:
        id: Its identifier in the report.
        title: Its title, in one line.
        content: The text for the model.
        sources: The sessions that support it.
    """

    id: str
    title: str
    content: JsonObject
    sources: tuple[SourceRef, ...]


def facts_of(found: Retrospect) -> dict[str, Fact]:
    """Return the facts of a report by identifier, in report order."""
    facts = (*map(_of_habit, found.habits), *map(_of_insight, found.insights))
    return {fact.id: fact for fact in facts}


def _of_habit(habit: RecurringViolation) -> Fact:
    content = {
        "what": "a rule that is broken again and again",
        "rule": f"{habit.rule} {habit.name}",
        "category": str(habit.category),
        "severity": str(habit.severity),
        "message": _cut(habit.message),
        "remedy": _cut(habit.remedy),
        "places": [_cut(place) for place in habit.places],
        "findings": habit.tally.findings,
        "states_of_the_code": habit.tally.states,
    }
    return _fact(habit.id, f"{habit.rule} {habit.name}: {habit.tally}", content, habit.sources)


def _of_insight(insight: Insight) -> Fact:
    content = {"what": insight.heading, "text": _cut(insight.text), "advice": _cut(insight.advice)}
    title = f"{insight.heading}: {shortened(visible(insight.text), _LONGEST_TITLE)}"
    return _fact(insight.id, title, content, insight.sources)


def _fact(name: str, title: str, content: JsonObject, sources: tuple[SourceRef, ...]) -> Fact:
    rests_on = [source.certificate or source.session for source in sources[:_MOST_SOURCES]]
    return Fact(name, title, {"fact": name, **content, "sessions": counted(sources), "rests_on": rests_on}, sources)


def _cut(text: str) -> str:
    return shortened(visible(text), _LONGEST)


def is_supported(text: str, facts: Iterable[Fact]) -> bool:
    """Return whether every number and every name in a text occurs in one of the facts, or is the name of one."""
    known = {each for fact in facts for each in (fact.id, *_marks(_words(fact)))}
    return known.issuperset(_marks(text))


def _words(fact: Fact) -> str:
    """Return all text of a fact, without its identifier and those of sessions."""
    said = [each for name, each in fact.content.items() if name not in {"fact", "rests_on"}]
    return " \n".join(str(one) for each in said for one in (each if isinstance(each, list) else [each]))


def _marks(text: str) -> Iterator[str]:
    """Yield the numbers with their units, and the names, of a text in normalized form."""
    yield from _NAME.findall(text)
    nameless = _NAME.sub(" ", text)
    for found in _NUMBER.finditer(nameless):
        number, spaced, joined = found.groups()
        yield f"{_value(number)}{(spaced or joined or '').replace('percent', '%')}"
    yield from (each.casefold() for each in _WORD.findall(_NUMBER.sub(" ", nameless)))
    # Fractions, superscripts and numerals of other scripts.
    yield from (each for each in text if each.isnumeric() and not each.isascii())


def _value(number: str) -> str:
    try:
        return f"{Decimal(number.replace(',', '')).normalize():f}"
    except InvalidOperation:
        return number
