"""Parse memory documents: generated notes become notes, all other text untrusted notes.

A document may come from any source. Text that cannot be parsed is kept as text; none of it is trusted.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from esper_agents.domain.memory import MemoryNote, NoteKind, NoteState, SourceDigest
from esper_agents.memory.documents import HEADING, NOTE, document
from esper_agents.memory.paragraphs import paragraphs
from esper_agents.memory.words import fit

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARKED = re.compile(r"\s*<!-- (\S+) (\{.*\}) -->\s*")
_ID = re.compile(r"mem_[0-9a-f]{32}")
_FIELDS = {
    "certificate": re.compile(r"(?:crt_[0-9a-f]{32})?"),
    "commit": re.compile(r"[0-9a-f]{0,64}"),
    "id": _ID,
    "written_at": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"),
}
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TEXTS = ("author", "command", "subject", "text")
_LONGEST_NAME = 200
_LONGEST_SUBJECT = 1000
_MOST_SOURCES = 100_000


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """The parsed content of a memory document.

    Attributes:
        agent: The agent that owns it.
        kind: Kind of the document.
        notes: The notes that this program wrote into it, in order; without a session.
        texts: All other text, in order, with flags for completed follow-ups.
    """

    agent: str
    kind: NoteKind
    notes: tuple[MemoryNote, ...]
    texts: tuple[tuple[str, bool], ...]


def read_document(data: bytes, agent: str, kind: NoteKind) -> ParsedDocument:
    """Return the parsed content of a memory document.

    Args:
        data: Its bytes, in any encoding; bytes that are not UTF-8 are escaped.
        agent: Name of the agent, if the document does not state one.
        kind: Kind of the document, if it does not state one.
    """
    lines = _text(data).split("\n")
    agent, kind = _heading(lines, agent, kind)
    found: dict[str, MemoryNote] = {}
    for line in lines:
        note = _note(line, agent, kind)
        # The second note with the same identifier is treated as text.
        if note is not None and note.id not in found:
            found[note.id] = note
    notes = tuple(found.values())
    ours = Counter(document(agent, kind, notes).split("\n"))
    # Without generated notes, no line counts as generated.
    said = list(_left(lines, ours)) if notes or _is_marked(lines) else [*lines]
    return ParsedDocument(agent, kind, notes, paragraphs(said, is_list=kind is NoteKind.ACTION))


def named(text: str) -> str:
    """Return a name in its stored form: one line of limited length."""
    return " ".join(fit(text).split())[:_LONGEST_NAME]


def _text(data: bytes) -> str:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return fit(data.decode("utf-16"))
        except UnicodeDecodeError:
            pass
    return fit(data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "backslashreplace"))


def _is_marked(lines: list[str]) -> bool:
    return any(_members(line, HEADING) for line in lines)


def _heading(lines: list[str], agent: str, kind: NoteKind) -> tuple[str, NoteKind]:
    for line in lines:
        if said := _members(line, HEADING):
            name, which = said.get("agent"), said.get("kind")
            if isinstance(name, str) and named(name) == name != "" and which in set(NoteKind):
                return name, NoteKind(str(which))
    return named(agent), kind


def _members(line: str, name: str) -> dict[str, Any]:
    """Return the JSON object of a generated comment with the given name; empty for any other line."""
    marked = _MARKED.fullmatch(line)
    if marked is None or marked[1] != name:
        return {}
    try:
        found = json.loads(marked[2])
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _note(line: str, agent: str, kind: NoteKind) -> MemoryNote | None:
    said = _members(line, NOTE)
    if not said or not _is_ours(said):
        return None
    return MemoryNote(
        id=said["id"],
        agent=agent,
        kind=kind,
        state=NoteState(said["state"]),
        subject=said["subject"],
        text=said["text"],
        command=said["command"],
        session="",
        certificate=said["certificate"],
        commit=said["commit"],
        sources=tuple(SourceDigest(path, digest) for path, digest in said["sources"]),
        written_at=said["written_at"],
        author=said["author"],
    )


def _is_ours(said: dict[str, Any]) -> bool:
    """Return whether a comment has the members of a note, in the form that this program writes."""
    if set(said) != {*_FIELDS, *_TEXTS, "state", "sources"}:
        return False
    texts = all(isinstance(said[each], str) and fit(said[each]) == said[each] for each in (*_FIELDS, *_TEXTS))
    return (
        texts
        and all(shape.fullmatch(said[name]) for name, shape in _FIELDS.items())
        and len(said["subject"].encode()) <= _LONGEST_SUBJECT
        and len(said["author"]) <= _LONGEST_NAME
        and isinstance(said["state"], str)
        and said["state"] in set(NoteState)
        and _are_sources(said["sources"])
    )


def _are_sources(said: object) -> bool:
    return (
        isinstance(said, list)
        and len(said) <= _MOST_SOURCES
        and all(
            isinstance(each, list)
            and [type(part) for part in each] == [str, str]
            and fit(each[0]) == each[0]
            and _SHA256.fullmatch(each[1])
            for each in said
        )
    )


def _left(lines: list[str], ours: Counter[str]) -> Iterator[str]:
    """Yield the lines that are not generated; an empty line, which ends a paragraph, replaces each generated one."""
    for line in lines:
        if ours[line]:
            ours[line] -= 1
            yield ""
        else:
            yield line
