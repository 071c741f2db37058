"""Source line of a finding, with a mark under its location."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from esper_agents.cli.terminal import clean

_CUT = "..."
_OPENING = "([{"
_CLOSING = ")]}"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Source line with the position of its mark.

    Attributes:
        line: Source line, truncated if it is too long.
        mark: Line below: spaces, then a caret for each marked column; empty without a mark.
    """

    line: str
    mark: str


def excerpt(text: str, column: int, columns: int) -> Excerpt:
    """Return a line of source and the mark under it.

    Args:
        text: Source line.
        column: Start column of the finding, in characters from 1.
        columns: Available width in columns.
    """
    start = column - 1
    if not 0 <= start < len(text):
        return Excerpt(_cut(text, 0, columns), "")
    first = _window(text, start, columns)
    lead = _CUT if first else ""
    shown = _cut(text[first:], len(lead), columns)
    end = min(_end(text, start), first + len(shown.removesuffix(_CUT)))
    indent = " " * len(lead) + "".join("\t" if each == "\t" else " " * _cells(each) for each in text[first:start])
    return Excerpt(lead + shown, indent + "^" * max(1, sum(_cells(each) for each in text[start:end])))


_QUOTED = re.compile(r"""(["'])(?:\\.|(?!\1).)*(?:\1|$)""")
_NAME = re.compile(r"[\w.@]+")


def _end(text: str, start: int) -> int:
    """Return the end column of the expression that starts at a column, at most the end of the line."""
    whole = len(text.rstrip())
    depth, place = 0, start if text[start] != "#" else whole
    while place < whole:
        if text[place] in _CLOSING and not depth:
            break
        depth += (text[place] in _OPENING) - (text[place] in _CLOSING)
        taken = _QUOTED.match(text, place) or _NAME.match(text, place)
        if taken is None and not depth and text[place] not in _CLOSING:
            break
        place = taken.end() if taken else place + 1
    return max(start + 1, min(place, whole))


def _cells(character: str) -> int:
    """Return the display width of a character in columns."""
    shown = clean(character)
    if len(shown) > 1:
        return len(shown)
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def _window(text: str, start: int, columns: int) -> int:
    """Return the first character to show, so that the marked column is visible."""
    if sum(_cells(each) for each in text[:start]) < columns * 2 // 3:
        return 0
    room = columns // 2
    first = start
    while first and room > 0:
        first -= 1
        room -= _cells(text[first])
    return first


def _cut(text: str, used: int, columns: int) -> str:
    room = columns - used
    for place, each in enumerate(text):
        room -= _cells(each)
        if room < len(_CUT) and sum(_cells(one) for one in text[place + 1 : place + columns]) > room:
            return text[:place] + _CUT
    return text
