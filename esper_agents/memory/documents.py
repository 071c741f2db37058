"""Render an agent's notes as three Markdown documents."""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from esper_agents.domain.memory import NoteState
from esper_agents.jinja_environment import strict_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jinja2 import Environment

    from esper_agents.domain.memory import MemoryNote, NoteKind

_ESCAPED = str.maketrans({each: f"\\{each}" for each in "\\`*_{}[]<>#|!~&"})
NOTE, HEADING = "esper:note", "esper:memory"
# In JSON these characters occur only inside strings, where they may be escaped.
_ENDS = re.compile(r"[<>&]|-(?=-)")
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


def document(agent: str, kind: NoteKind, notes: Sequence[MemoryNote]) -> str:
    """Return one document as Markdown.

    In addition to the readable text, it contains every note in an invisible comment; `memory.document_parser` parses
    it.

    Args:
        agent: Name of the agent.
        kind: Kind of the document.
        notes: The agent's notes of that kind, newest first, in every state.
    """
    current = [note for note in notes if note.state is NoteState.CURRENT]
    past = [note for note in notes if note.state is not NoteState.CURRENT]
    heading = _Code(marked(HEADING, {"agent": agent, "kind": str(kind)}))
    template = _environment().get_template(f"{kind}.md.j2")
    return template.render(agent=agent, kind=str(kind), current=current, past=past, heading=heading)


@cache
def _environment() -> Environment:
    environment = strict_environment("memory", _shown)
    environment.filters |= {"code": _code, "items": _items, "line": _line, "source": _source}
    return environment


def marked(name: str, value: dict[str, Any]) -> str:
    """Return JSON as an invisible comment that none of its strings can terminate."""
    text = json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return f"<!-- {name} {_ENDS.sub(_escaped, text)} -->"


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"


class _Code(str):
    """Text that is already Markdown."""

    __slots__ = ()


def _code(text: str) -> _Code:
    """Return text between more backticks than it contains in a row, as code that can be copied unchanged."""
    line = _one_line(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    return _Code(f"{fence} {line} {fence}" if len(fence) > 1 else f"{fence}{line}{fence}")


def _items(notes: Sequence[MemoryNote], kind: str, between: str = "\n") -> _Code:
    """Return notes as the items of the document."""
    return _Code(between.join(_item(note, kind) for note in notes))


# Every certificate renders hundreds of unchanged notes again.
@lru_cache(maxsize=4096)
def _item(note: MemoryNote, kind: str) -> _Code:
    """Return a note as an item of the document."""
    return _Code(_environment().get_template(f"{kind}-item.md.j2").render(note=note))


def _line(note: MemoryNote) -> _Code:
    """Return all members of a note that documents contain; its session is valid in this database only."""
    kept = {
        "author": note.author,
        "certificate": note.certificate,
        "command": note.command,
        "commit": note.commit,
        "id": note.id,
        "sources": [[source.path, source.sha256] for source in note.sources],
        "state": str(note.state),
        "subject": note.subject,
        "text": note.text,
        "written_at": note.written_at,
    }
    return _Code(marked(NOTE, kept))


def _source(note: MemoryNote) -> str:
    """Return the source of a note: a certificate or an author."""
    return note.certificate or f"by {note.said_by}"


def _shown(value: object) -> str:
    """Return any text as one line without markup."""
    return value if isinstance(value, _Code) else _one_line(str(value)).translate(_ESCAPED)


def _one_line(text: str) -> str:
    if text.isascii() and text.isprintable():
        return " ".join(text.split())
    return " ".join("".join(each if unicodedata.category(each) not in _HIDDEN else " " for each in text).split())
