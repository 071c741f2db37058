"""Parse memory documents: generated notes become notes, all other text untrusted notes.

Such a document may be anybody's. What cannot be understood is kept as text; nothing of it is taken for true.
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
    """What a document says.

    Attributes:
        agent: Whose it is.
        kind: Which of the three.
        notes: The notes that we wrote into it, in order; without a session.
        texts: Everything else that stands in it, in order, each with whether it is an action that is done.
    """

    agent: str
    kind: NoteKind
    notes: tuple[MemoryNote, ...]
    texts: tuple[tuple[str, bool], ...]


def read_document(data: bytes, agent: str, kind: NoteKind) -> ParsedDocument:
    """Return what a document says.

    Args:
        data: Its bytes, in any encoding; what is no UTF-8 is shown by its bytes.
        agent: Whose it is, where it does not say so itself.
        kind: Which of the three, likewise.
    """
    lines = _text(data).split("\n")
    agent, kind = _heading(lines, agent, kind)
    found: dict[str, MemoryNote] = {}
    for line in lines:
        note = _note(line, agent, kind)
        # Of two with one name the second is text.
        if note is not None and note.id not in found:
            found[note.id] = note
    notes = tuple(found.values())
    ours = Counter(document(agent, kind, notes).split("\n"))
    # Where there is nothing of ours, no line is ours.
    said = list(_left(lines, ours)) if notes or _is_marked(lines) else [*lines]
    return ParsedDocument(agent, kind, notes, paragraphs(said, is_list=kind is NoteKind.ACTION))


def named(text: str) -> str:
    """Return a name as it is kept: one line, not too long."""
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
    """Return the JSON object of a comment of ours with some name; empty where the line is none."""
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
    """Return whether a comment has the members of a note, each as we would write it."""
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
    """Yield the lines that are not ours, an empty one in place of each that is: it ends what stands before it."""
    for line in lines:
        if ours[line]:
            ours[line] -= 1
            yield ""
        else:
            yield line
