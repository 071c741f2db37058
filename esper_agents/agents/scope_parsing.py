"""Parse scope out of a definition's text: what it handles, declines, and its neighbours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_ITEMS = 60
_MOST_CHARACTERS = 200
# The search for clauses takes time quadratic in this length.
_MOST_READ = 4_000

_HEADING = re.compile(r"(?P<marks>#{1,6})\s+(?P<text>.+)$")
_BOLD_LABEL = re.compile(r"\*\*(?P<text>[^*]{2,80})\*\*\s*:?\s*$")
_PLAIN_LABEL = re.compile(r"(?P<text>[A-Za-z][^.:]{2,80}):\s*$")
_ITEM = re.compile(r"(?:[-*+]|\d{1,2}[.)])\s+(?P<text>.+)$")
_MARKUP = re.compile(r"\*\*|__|`")

_DECLINES = re.compile(
    r"\b(?:not|n['\u2019]t)\s+(?:handle|use|for|do|activate|cover|review|responsible|invoke|my)\b"
    r"|out[ -]of[ -]scope|outside\s+(?:my|the|your)?\s*scope|\bdeclines?\b|\bwhen\s+not\b|\bnon-goals\b",
    re.IGNORECASE,
)
_HANDLES = re.compile(
    r"\b(?:I|you)\s+(?:review|handle|cover|own|do)\b|\bhandles\b|use\s+(?:this|the)\s+agent|\bwhen\s+to\s+(?:use|invoke|activate)\b"
    r"|responsibilit|expertise|speciali[sz]ation|capabilit|\bin\s+scope\b|focus\s+areas|what\s+(?:I|you)\s+do\b",
    re.IGNORECASE,
)
_SKILLS = re.compile(r"\bskills?\b.*\b(?:load|use)\b|\b(?:load|use)\b.*\bskills?\b", re.IGNORECASE)
_USE_FOR = re.compile(
    r"\buse(?:\s+this\s+agent|\s+it|\s+proactively)*\s+(?:whenever|when|for|to|after)\b\s*", re.IGNORECASE
)
_NOT_FOR = re.compile(
    r"(?:\bnot\s+for|\bdo(?:es)?\s+not\s+use(?:\s+\w+){0,2}\s+(?:for|when|to))\b\s*:?\s*", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"\.(?:\s|$)|\n")
_EXAMPLES_BEGIN = re.compile(r"<example|\bexamples?\s*:", re.IGNORECASE)
_COMMA = re.compile(r"[,;]\s*(?:and\s+|or\s+|especially\s+)?(?![^()]*\))")

_SKILL_REFERENCE = re.compile(r"`([a-z0-9-]{2,64}:[a-z0-9-]{2,64})`")
_SKILL_FILE = re.compile(r"\bskills/([A-Za-z0-9_-]{1,64})/SKILL\.md")


class _Sort(StrEnum):
    """Sort of the items below a label."""

    HANDLES = "handles"
    DECLINES = "declines"
    SKILLS = "skills"


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of an agent as stated in its text.

    Attributes:
        handles: Tasks that it accepts.
        declines: Tasks that it does not accept.
    """

    handles: tuple[str, ...]
    declines: tuple[str, ...]


def read_scope(description: str, body: str) -> Scope:
    """Return the accepted and declined tasks stated in the sections of the body and in the description."""
    handles, declines = _clauses(description, _USE_FOR, unless=_NOT_FOR), _clauses(description, _NOT_FOR)
    for line in _sorted_lines(body):
        if line.sort is _Sort.HANDLES:
            handles.append(line.text)
        elif line.sort is _Sort.DECLINES:
            declines.append(line.text)
    return Scope(_tidied(handles), _tidied(declines))


def read_skills(body: str) -> tuple[str, ...]:
    """Return the names of the skills that a body tells its agent to load."""
    named = [
        name for line in _sorted_lines(body) if line.sort is _Sort.SKILLS for name in _SKILL_REFERENCE.findall(line.raw)
    ]
    return _tidied([*named, *_SKILL_FILE.findall(body)])


@dataclass(frozen=True, slots=True)
class _Line:
    sort: _Sort | None
    text: str
    raw: str


def _sorted_lines(body: str) -> Iterator[_Line]:
    """Yield the labels and list items of a body, without code, with the sort of their section."""
    label, section, section_level, in_code = None, None, 0, False
    for raw in body.split("\n"):
        if raw.lstrip().startswith(("```", "~~~")):
            in_code = not in_code
        if in_code:
            continue
        line = raw.rstrip()
        if heading := _HEADING.match(line):
            label, level, sort = None, len(heading["marks"]), _sort_of(heading["text"])
            if section and level > section_level and sort in (None, section):
                yield _Line(section, heading["text"], raw)
            else:
                section, section_level = sort, level
        elif (bold := _BOLD_LABEL.match(line) or _PLAIN_LABEL.match(line)) and not _ITEM.match(line):
            label = _sort_of(bold["text"])
        elif item := _ITEM.match(line):
            yield _Line(label or section, item["text"], raw)
        elif line:
            yield _Line(_Sort.SKILLS if section is _Sort.SKILLS else None, line, raw)


def _sort_of(written: str) -> _Sort | None:
    label = written[:_MOST_CHARACTERS]
    if _SKILLS.search(label):
        return _Sort.SKILLS
    if _DECLINES.search(label):
        return _Sort.DECLINES
    return _Sort.HANDLES if _HANDLES.search(label) else None


def _clauses(description: str, start: re.Pattern[str], *, unless: re.Pattern[str] | None = None) -> list[str]:
    begin = _EXAMPLES_BEGIN.search(description)
    text = (description[: begin.start()] if begin else description)[:_MOST_READ]
    found: list[str] = []
    for match in start.finditer(text):
        sentence = _SENTENCE_END.split(text[match.end() :], maxsplit=1)[0]
        before = text[max(0, match.start() - len("do not ")) : match.end()]
        if not (unless and unless.search(before)):
            listed = sentence.split(":", 1)[-1] if ":" in sentence else sentence
            found.extend(_COMMA.split(listed))
        if len(found) > _MOST_ITEMS:
            break
    return found


def _tidied(items: Sequence[str]) -> tuple[str, ...]:
    plain = (" ".join(_MARKUP.sub("", item).split()).strip(" .:;,") for item in items[: 4 * _MOST_ITEMS])
    return tuple(dict.fromkeys(item[:_MOST_CHARACTERS] for item in plain if item))[:_MOST_ITEMS]
