"""Notes in SQL: written once a session, recalled at the start of the next, superseded ones kept and marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import insert, select, update

from esper_agents.domain.codec import decode, encode
from esper_agents.domain.memory import Note, NoteKind, NoteState, SourceDigest
from esper_agents.storage.tables import note

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import Row

    from esper_agents.storage.store import Store, Transaction

RECALLED = 40


def write(transaction: Transaction, project_key: str, notes: Sequence[Note]) -> None:
    """Write the notes of a session; each supersedes the current one of its agent, kind and subject."""
    for each in notes:
        transaction.connection.execute(
            update(note)
            .where(
                note.c.project_key == project_key,
                note.c.agent == each.agent,
                note.c.kind == each.kind,
                note.c.subject == each.subject,
                note.c.state == NoteState.CURRENT,
            )
            .values(state=NoteState.SUPERSEDED)
        )
        transaction.connection.execute(insert(note).values(**_columns(each), project_key=project_key))


def close_actions(
    transaction: Transaction,
    project_key: str,
    *,
    agents: Collection[str],
    examined: Collection[str],
    standing: Collection[str],
) -> None:
    """Mark open actions done whose finding is gone from files that were all examined again by who looks for it.

    Args:
        transaction: Where.
        project_key: Whose.
        agents: Who took part; what others have found they may not have looked for.
        examined: Paths of the files that were examined.
        standing: Fingerprints of the findings that still stand.
    """
    wanted = select(note.c.id, note.c.subject, note.c.sources).where(
        note.c.project_key == project_key,
        note.c.kind == NoteKind.ACTION,
        note.c.state == NoteState.CURRENT,
        note.c.agent.in_(agents),
    )
    for each in transaction.connection.execute(wanted).all():
        sources = {source.path for source in decode(tuple[SourceDigest, ...], each.sources)}
        if sources and sources <= set(examined) and each.subject not in standing:
            transaction.connection.execute(update(note).where(note.c.id == each.id).values(state=NoteState.DONE))


def recall(store: Store, project_key: str, agent: str, paths: Sequence[str]) -> tuple[Note, ...]:
    """Return what an agent remembers of a project: first what speaks of the paths at hand, then newest first.

    At most `RECALLED` notes are returned.
    """
    current = listing(store, project_key, agent=agent, states=(NoteState.CURRENT,), limit=RECALLED * 5)
    return tuple(sorted(current, key=lambda each: not _speaks_of(each, paths))[:RECALLED])


def _speaks_of(each: Note, paths: Sequence[str]) -> bool:
    return any(
        path in (".", source.path) or source.path.startswith(f"{path}/") for source in each.sources for path in paths
    )


def listing(
    store: Store,
    project_key: str,
    *,
    agent: str = "",
    kind: NoteKind | None = None,
    states: Collection[NoteState] = tuple(NoteState),
    limit: int = 500,
) -> tuple[Note, ...]:
    """Return notes of a project, newest first; of all agents and kinds where none is named."""
    wanted = select(note).where(note.c.project_key == project_key, note.c.state.in_(states))
    if agent:
        wanted = wanted.where(note.c.agent == agent)
    if kind is not None:
        wanted = wanted.where(note.c.kind == kind)
    with store.reading() as connection:
        found = connection.execute(wanted.order_by(note.c.id.desc()).limit(limit))
        return tuple(_note(each) for each in found)


def _columns(each: Note) -> dict[str, object]:
    return {
        "id": each.id,
        "agent": each.agent,
        "kind": each.kind,
        "state": each.state,
        "subject": each.subject,
        "text": each.text,
        "command": each.command,
        "session_id": each.session,
        "certificate_id": each.certificate,
        "revision": each.commit,
        "sources": encode(each.sources, tuple[SourceDigest, ...]),
        "written_at": each.written_at,
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
        session=each.session_id,
        certificate=each.certificate_id,
        commit=each.revision,
        sources=decode(tuple[SourceDigest, ...], each.sources),
        written_at=each.written_at,
    )
