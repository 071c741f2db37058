"""Locations that the message of a diagnostic names, such as `line 7` or `model.py:12`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.rule_codes import GUARD, TEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from esper_agents.domain.finding import Diagnostic

_NAMED = re.compile(
    r"\bline (?P<line>\d{1,7})\b(?! before)(?: of (?P<other>[^\s()`'\",;]+))?"
    r"|(?P<path>[^\s()`'\",;:]+\.(?:py|ipynb)):(?P<place>\d{1,7})\b"
)


@dataclass(frozen=True, slots=True)
class NamedLocation:
    """A location in the text of a message.

    Attributes:
        start: Index of its first character in the message.
        end: Index behind its last character.
        path: The file, relative to the project.
        line: The line, from 1.
    """

    start: int
    end: int
    path: str
    line: int


def locations_in(diagnostic: Diagnostic, lines: Mapping[str, int]) -> Iterator[NamedLocation]:
    """Yield the locations that a message names, other than that of the diagnostic.

    Args:
        diagnostic: The diagnostic.
        lines: Number of lines of each reviewed file; other files, and lines that they do not have, are no locations.
    """
    # The lines that these name are those of the old tree.
    if diagnostic.rule in {GUARD, TEST}:
        return
    here = diagnostic.location
    for found in _NAMED.finditer(diagnostic.message):
        path = found["path"] or (found["other"] if found["other"] in lines else here.path)
        line = int(found["line"] or found["place"])
        if (path, line) != (here.path, here.line) and 1 <= line <= lines.get(path, 0):
            yield NamedLocation(found.start(), found.end(), path, line)
