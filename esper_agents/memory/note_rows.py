"""Read, write and count note rows, newest first."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from esper_agents.domain.codec import decode, encode
from esper_agents.domain.memory import MemoryNote, NoteKind, NoteState, SourceDigest
from esper_agents.storage.compiled_statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import Connection


def newest_ids(
    connection: Connection,
    project_key: str,
    *,
    agent: str = "",
    kinds: Collection[NoteKind] = tuple(NoteKind),
    states: Collection[NoteState] = tuple(NoteState),
    limit: int,
) -> list[str]:
    """Return the newest notes of a project, newest first; of all agents if none is given."""
    if not kinds or not states:
        return []
    found = _newest_per_run(connection, project_key, agent=agent, kinds=kinds, states=states, limit=limit)
    return sorted(found, reverse=True)[:limit]


def newest_by_kind(
    connection: Connection, project_key: str, agent: str, *, current: int, past: int
) -> dict[NoteKind, tuple[MemoryNote, ...]]:
    """Return the newest notes of an agent by kind, newest first, up to a number of current and of past ones."""
    kinds, others = tuple(NoteKind), tuple(each for each in NoteState if each is not NoteState.CURRENT)
    wanted: list[str] = []
    for states, limit in (((NoteState.CURRENT,), current), (others, past)):
        wanted += _newest_per_run(connection, project_key, agent=agent, kinds=kinds, states=states, limit=limit)
    found: dict[NoteKind, list[MemoryNote]] = {each: [] for each in kinds}
    count: Counter[tuple[NoteKind, bool]] = Counter()
    for each in fetched(connection, project_key, sorted(wanted, reverse=True)):
        is_current = each.state is NoteState.CURRENT
        count[each.kind, is_current] += 1
        if count[each.kind, is_current] <= (current if is_current else past):
            found[each.kind].append(each)
    return {kind: tuple(kept) for kind, kept in found.items()}


def _newest_per_run(
    connection: Connection,
    project_key: str,
    *,
    agent: str,
    kinds: Collection[NoteKind],
    states: Collection[NoteState],
    limit: int,
) -> list[str]:
    """Return the newest notes of every combination of kind and state, each up to the limit."""
    given: dict[str, object] = {"project": project_key, "agent": agent, "limit": limit}
    given |= {f"kind{number}": str(each) for number, each in enumerate(kinds)}
    given |= {f"state{number}": str(each) for number, each in enumerate(states)}
    return _runs(len(kinds), len(states), of_agent=bool(agent)).column(connection, given)


@cache
def _runs(kinds: int, states: int, *, of_agent: bool) -> Prepared:
    """Return the statement for the newest notes per kind and state, read from the index in order and not sorted."""
    own = "project_key = :project AND agent = :agent" if of_agent else "project_key = :project"
    runs = (
        f"SELECT id FROM (SELECT id FROM note WHERE {own} AND kind = :kind{kind} AND state = :state{state}"  # noqa: S608 - constants
        f" ORDER BY id DESC LIMIT :limit) AS run{kind}_{state}"
        for kind in range(kinds)
        for state in range(states)
    )
    return Prepared(" UNION ALL ".join(runs))


def fetched(connection: Connection, project_key: str, identifiers: Sequence[str]) -> tuple[MemoryNote, ...]:
    """Return the project's notes with the given identifiers, in the same order; notes of other projects are omitted."""
    if not identifiers:
        return ()
    is_sqlite = connection.dialect.name == "sqlite"
    wanted = json.dumps(list(identifiers)) if is_sqlite else list(identifiers)
    rows = _FETCHED[connection.dialect.name].rows(connection, {"wanted": wanted})
    found = {row[0]: _note(row) for row in rows if row[-1] == project_key}
    return tuple(found[identifier] for identifier in identifiers if identifier in found)


# By identifier only: with a condition on the project, SQLite scans all notes of the project.
_WANTED = {
    "sqlite": "note.id IN (SELECT value FROM json_each(:wanted))",
    "postgresql": "note.id = ANY(CAST(:wanted AS varchar[]))",
}
COLUMNS = (
    *("id", "agent", "kind", "state", "subject", "text", "command"),
    *("session_id", "certificate_id", "revision", "sources", "written_at", "author"),
)
_FETCHED = {
    name: Prepared(f"SELECT {', '.join(COLUMNS)}, project_key FROM note WHERE {wanted}")  # noqa: S608 - constants
    for name, wanted in _WANTED.items()
}


def columns(each: MemoryNote) -> dict[str, object]:
    """Return a note as the column values of its row."""
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


# Documents show the same hundreds of notes again after every certificate.
@lru_cache(maxsize=4096)
def _note(row: tuple[Any, ...]) -> MemoryNote:
    identifier, agent, kind, state, subject, said, command, session, certificate, commit, sources, at, author, _ = row
    return MemoryNote(
        id=identifier,
        agent=agent,
        kind=NoteKind(kind),
        state=NoteState(state),
        subject=subject,
        text=said,
        command=command,
        session=session or "",
        certificate=certificate,
        commit=commit,
        sources=decode(tuple[SourceDigest, ...], sources),
        written_at=at,
        author=author,
    )
