"""Notes as rows: read, written, counted from the newest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select, union_all

from esper_agents.domain.codec import decode, encode
from esper_agents.domain.memory import Note, NoteKind, NoteState, SourceDigest
from esper_agents.storage.tables import note

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import Connection, Row

_AT_ONCE = 500


def newest_ids(
    connection: Connection,
    project_key: str,
    *,
    agent: str = "",
    kinds: Collection[NoteKind] = tuple(NoteKind),
    states: Collection[NoteState] = tuple(NoteState),
    limit: int,
) -> list[str]:
    """Return the newest notes of a project, newest first; of all agents where none is named."""
    runs = []
    for kind in kinds:
        for state in states:
            run = select(note.c.id).where(note.c.project_key == project_key, note.c.kind == kind, note.c.state == state)
            run = run.where(note.c.agent == agent) if agent else run
            runs.append(select(run.order_by(note.c.id.desc()).limit(limit).subquery()))
    if not runs:
        return []
    # Each run stands in its index in order, so that it is never sorted whole.
    found = connection.scalars(union_all(*runs)).all()
    return sorted(found, reverse=True)[:limit]


def fetched(connection: Connection, project_key: str, identifiers: Sequence[str]) -> tuple[Note, ...]:
    """Return the notes of a project with some identifiers, in their order; those of others are left out."""
    found: dict[str, Note] = {}
    for start in range(0, len(identifiers), _AT_ONCE):
        some = identifiers[start : start + _AT_ONCE]
        # By nothing but their names: asked for the project too, SQLite goes through all that it has.
        rows = connection.execute(select(note).where(note.c.id.in_(some)))
        found |= {each.id: _note(each) for each in rows if each.project_key == project_key}
    return tuple(found[each] for each in identifiers if each in found)


def columns(each: Note) -> dict[str, object]:
    """Return a note as the columns of its row."""
    return {
        "id": each.id,
        "agent": each.agent,
        "kind": each.kind,
        "state": each.state,
        "subject": each.subject,
        "text": each.text,
        "command": each.command,
        "session_id": each.session or None,
        "certificate_id": each.certificate,
        "revision": each.commit,
        "sources": encode(each.sources, tuple[SourceDigest, ...]),
        "written_at": each.written_at,
        "author": each.author,
    }


def _note(each: Row[tuple[object, ...]]) -> Note:
    return Note(
        id=each.id,
        agent=each.agent,
        kind=each.kind,
        state=each.state,
        subject=each.subject,
        text=each.text,
        command=each.command,
        session=each.session_id or "",
        certificate=each.certificate_id,
        commit=each.revision,
        sources=decode(tuple[SourceDigest, ...], each.sources),
        written_at=each.written_at,
        author=each.author,
    )
