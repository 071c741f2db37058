"""Facts that the user states in a request: ranges, versions, devices, batch size, precision."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from esper_agents.domain.request import Statement
from esper_agents.requests.vocabulary import request_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MOST_STATEMENTS = 8
_NUMBER = r"-?\d{1,9}(?:\.\d{1,6})?"
_BETWEEN = r"\.\.+|-|–|…|,\s*\.\.\.\s*,|,|to|bis|and|und"  # noqa: RUF001 - as people type it
_PLACEHOLDERS = {
    "NUMBER": rf"(?P<value>{_NUMBER})",
    "VERSION": r"v?(?P<value>\d{1,3}(?:\.\d{1,3}){1,2})",
    "RANGE": rf"[\[({{]?\s*(?P<low>{_NUMBER})\s*(?:{_BETWEEN})\s*(?P<high>{_NUMBER})\s*[\])}}]?",
}


def _possible(text: str) -> Iterator[tuple[str, str, re.Pattern[str]]]:
    """Yield kind, value and pattern of each form that a text can contain, by its words: compiling all takes long."""
    lowered = text.lower()
    for kind, value, form, words in _forms():
        # Beyond ASCII, more than the lower-case letters are equal if case is ignored.
        if not lowered.isascii() or all(word in lowered or not word.isascii() for word in words):
            yield kind, value, _pattern(form)


@cache
def _forms() -> tuple[tuple[str, str, str, tuple[str, ...]], ...]:
    """Return kind, value, text and words of each form in `prompts/request_words.toml`; an empty value is read."""
    tables: Mapping[str, Mapping[str, list[str]]] = request_words()["stated"]
    return tuple(
        (kind, value, form, tuple(word.lower() for word in form.split() if word not in _PLACEHOLDERS))
        for kind, values in tables.items()
        for value, forms in values.items()
        for form in forms
    )


@cache
def _pattern(form: str) -> re.Pattern[str]:
    parts = [_PLACEHOLDERS.get(word) or re.escape(word) for word in form.split()]
    return re.compile(rf"(?<![\w.]){_joined(parts)}(?!\w|\.\d)", re.IGNORECASE)


def _joined(parts: list[str]) -> str:
    return r"[\s=:_-]{1,3}".join(parts)


def statements(text: str) -> tuple[Statement, ...]:
    """Return what the user states, in the order of the words, one statement of each kind.

    The forms are in the table `stated` of `prompts/request_words.toml`.

    Args:
        text: Words of the request, without code and traces.
    """
    found: dict[str, tuple[int, Statement]] = {}
    for begin, statement in _found(text):
        if statement.kind not in found or begin < found[statement.kind][0]:
            found[statement.kind] = (begin, statement)
    ordered = sorted(found.values(), key=lambda each: each[0])
    return tuple(statement for _, statement in ordered)[:_MOST_STATEMENTS]


def _found(text: str) -> Iterator[tuple[int, Statement]]:
    for kind, value, pattern in _possible(text):
        match = pattern.search(text)
        if match is None:
            continue
        groups = match.groupdict()
        read = f"{groups['low']}..{groups['high']}" if groups.get("low") else groups.get("value")
        words = " ".join(match.group().split())
        yield match.start(), Statement(words, kind, (read or "") if value == "read" else value)
