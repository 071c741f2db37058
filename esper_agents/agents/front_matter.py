"""Find the front matter of a definition; parse it as YAML or else line by line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.agents.loose_yaml import KEY_LINE, read_loosely
from esper_agents.agents.strict_yaml import FrontMatterField, NotStrictError, read_strictly

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from esper_agents.agents.definition_warnings import DefinitionWarnings

_FENCE_LINE = re.compile(r"-{3,}\s*$")
_CLOSING_LINE = re.compile(r"(?:-{3,}|\.{3})\s*$")
_HEADING = re.compile(r"#{1,6}\s")
_NOT_PROSE = re.compile(r"[\s#\-*>|]")


@dataclass(frozen=True, slots=True)
class FrontMatterDocument:
    """A definition split into front matter and body.

    Attributes:
        fields: The front matter; empty if there is none.
        body: The text below it.
    """

    fields: Mapping[str, FrontMatterField]
    body: str


@dataclass(frozen=True, slots=True)
class _Parts:
    front: Sequence[str]
    first_line: int
    body: Sequence[str]


def read_document(text: str, notes: DefinitionWarnings) -> FrontMatterDocument:
    """Return the fields and the body of a definition; accepts any text without an error."""
    parts = _take_apart(text.split("\n"), notes)
    front = _without_tabs(parts.front, parts.first_line, notes)
    return FrontMatterDocument(_read_fields(front, parts.first_line, notes), "\n".join(parts.body).strip("\n"))


def _read_fields(front: Sequence[str], first_line: int, notes: DefinitionWarnings) -> Mapping[str, FrontMatterField]:
    text = "\n".join(front)
    if not text.strip():
        return {}
    try:
        strict = read_strictly(text, first_line)
    except NotStrictError as error:
        notes.add(
            error.line, f"front matter {error.problem}; read line by line", "quote the text, or put it in a `>-` block"
        )
        loose = read_loosely(front, first_line)
        notes.extend_from(loose.oddities)
        return loose.fields
    notes.extend_from(strict.oddities)
    return strict.fields


def _take_apart(lines: Sequence[str], notes: DefinitionWarnings) -> _Parts:
    start = next((index for index, line in enumerate(lines) if line.strip()), 0)
    if lines[start].startswith("```") and _FENCE_LINE.match(_after(lines, start)):
        return _with_opening(_unfenced(lines, start, notes), start + 1, notes)
    if not _FENCE_LINE.match(lines[start]):
        return _without_opening(lines, start, notes)
    if start:
        notes.add(1, "there is text above the front matter", "start the file with its opening `---`")
    return _with_opening(lines, start, notes)


def _after(lines: Sequence[str], index: int) -> str:
    return lines[index + 1] if index + 1 < len(lines) else ""


def _unfenced(lines: Sequence[str], start: int, notes: DefinitionWarnings) -> Sequence[str]:
    notes.add(start + 1, "the whole definition is inside a code fence", "delete the line with the fence, and its end")
    last = max(index for index, line in enumerate(lines) if line.strip())
    closes = lines[last].startswith("```") and last > start
    return ["" if index == start or (closes and index == last) else line for index, line in enumerate(lines)]


def _without_opening(lines: Sequence[str], start: int, notes: DefinitionWarnings) -> _Parts:
    key = KEY_LINE.match(lines[start])
    if key and key["key"].lower() in ("name", "description"):
        notes.add(start + 1, "front matter has no opening `---`", "put a line `---` above it")
        return _closed(lines, start, notes)
    notes.add(1, "no front matter", "start the file with `---`, name, description and `---`")
    return _Parts([], 1, lines)


def _with_opening(lines: Sequence[str], start: int, notes: DefinitionWarnings) -> _Parts:
    if _FENCE_LINE.match(_after(lines, start)):
        return _Parts([], start + 2, lines[start + 2 :])
    parts = _closed(lines, start + 1, notes)
    if any(KEY_LINE.match(line) for line in parts.front):
        return parts
    notes.add(start + 1, "the front matter has no `name:` or other field", "write name and description into it")
    return _Parts([], start + 1, lines)


def _closed(lines: Sequence[str], first: int, notes: DefinitionWarnings) -> _Parts:
    """Return the parts of a file whose front matter begins at line `first`, with or without a closing line."""
    end = next((index for index in range(first, len(lines)) if _CLOSING_LINE.match(lines[index])), None)
    if end is not None and not _runs_into_body(lines[first:end]):
        return _Parts(lines[first:end], first + 1, lines[end + 1 :])
    notes.add(first + 1, "front matter has no closing `---`", "put a line `---` below its last field")
    end = next((index for index in range(first, len(lines)) if _is_end(lines[index])), len(lines))
    return _Parts(lines[first:end], first + 1, lines[end:])


def _is_end(line: str) -> bool:
    return not line.strip() or _HEADING.match(line) is not None


def _runs_into_body(front: Sequence[str]) -> bool:
    """Return whether the closing `---` is a rule of the body: it follows a heading after a gap, and prose."""
    for index in range(1, len(front)):
        if _HEADING.match(front[index]) and not front[index - 1].strip():
            below = [line for line in front[index + 1 :] if line.strip()]
            return any(not KEY_LINE.match(line) and not _NOT_PROSE.match(line) for line in below)
    return False


def _without_tabs(front: Sequence[str], first_line: int, notes: DefinitionWarnings) -> Sequence[str]:
    indents = [len(line) - len(line.lstrip()) for line in front]
    tabbed = [index for index, line in enumerate(front) if "\t" in line[: indents[index]]]
    if tabbed:
        notes.add(first_line + tabbed[0], "front matter is indented with tabs", "indent it with spaces")
    return [line[:indent].replace("\t", "  ") + line[indent:] for line, indent in zip(front, indents, strict=True)]
