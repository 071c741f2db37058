"""Notes in SQL: written once per session; superseded ones are marked, not deleted."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.domain.memory import MemoryNote, NoteKind, NoteState
from esper_agents.errors import NotFoundError, UsageError
from esper_agents.memory import index
from esper_agents.memory.note_rows import COLUMNS, columns, fetched, newest_by_kind, newest_ids
from esper_agents.memory.words import path_key
from esper_agents.storage.compiled_statements import Prepared, among

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from sqlalchemy import Connection

    from esper_agents.storage.store import Store, Transaction

_AT_ONCE = 500
# Of each kind, in the documents of an agent, which every certificate renders again.
_MOST_CURRENT, _MOST_PAST = 100, 25
# Identifiers of one certificate's notes differ only in their last digits.
_END = re.compile(r"(?:mem_)?([0-9a-f]{1,32})")
# Uses the index of current notes: a text search would scan the whole history of a subject.
_SUPERSEDED = Prepared(
    "SELECT id FROM note WHERE project_key = :project AND agent = :agent AND kind = :kind AND subject = :subject"  # noqa: S608 - constants
    f" AND state = '{NoteState.CURRENT}'"
)
_ADD = Prepared(
    f"INSERT INTO note ({', '.join(COLUMNS)}, project_key) VALUES (:{', :'.join(COLUMNS)}, :project_key)"  # noqa: S608 - constant names
)
_CHANGE = Prepared(
    f"UPDATE note SET {', '.join(f'{name} = :{name}' for name in COLUMNS)} WHERE id = :changed"  # noqa: S608 - likewise
)
_SPEAKING_OF = {
    dialect: Prepared(
        "SELECT DISTINCT note_file.note_id FROM note_file JOIN note ON note.id = note_file.note_id"  # noqa: S608 - constants
        f" WHERE note_file.path {paths} AND note.kind = '{NoteKind.ACTION}'"
    )
    for dialect, paths in among("paths").items()
}
_NEXT_AGENT = Prepared("SELECT agent FROM note WHERE project_key = :project AND agent > :last ORDER BY agent LIMIT 1")
_EXISTS = Prepared("SELECT id FROM note WHERE id = :wanted")
_AFTER = Prepared("SELECT id, project_key FROM note WHERE id > :last ORDER BY id LIMIT :count")
_ACTION_STATES = frozenset((NoteState.CURRENT, NoteState.DONE, NoteState.DROPPED))


def write(transaction: Transaction, project_key: str, notes: Sequence[MemoryNote]) -> None:
    """Write the notes of a session; each supersedes the current one of its agent, kind and subject."""
    complete_index(transaction)
    connection = transaction.connection
    for each in notes:
        wanted = {"project": project_key, "agent": each.agent, "kind": str(each.kind), "subject": each.subject}
        for before in fetched(connection, project_key, _SUPERSEDED.column(connection, wanted)):
            change(transaction, project_key, replace(before, state=NoteState.SUPERSEDED))
        add(transaction, project_key, [each])


def add(transaction: Transaction, project_key: str, notes: Sequence[MemoryNote]) -> None:
    """Write notes in addition to the existing ones."""
    if notes:
        for each in notes:
            _ADD.rows(transaction.connection, {**columns(each), "project_key": project_key})
        index.add(transaction.connection, project_key, notes)


def change(transaction: Transaction, project_key: str, changed: MemoryNote) -> None:
    """Update a stored note."""
    _CHANGE.rows(transaction.connection, {**columns(changed), "changed": changed.id})
    if changed.state is NoteState.FORGOTTEN:
        index.remove(transaction.connection, changed.id)
    else:
        index.renew(transaction.connection, project_key, changed)


def close_actions(
    transaction: Transaction,
    project_key: str,
    *,
    agents: Collection[str],
    examined: Collection[str],
    standing: Collection[str],
    was_checked: Callable[[MemoryNote], bool],
) -> None:
    """Mark open follow-ups as done whose finding is gone, if its agent examined all of the files for it again.

    Args:
        transaction: The transaction.
        project_key: Key of the project.
        agents: The agents that took part; findings of other agents were possibly not checked.
        examined: Paths of the files that were examined.
        standing: Fingerprints of the findings that still exist.
        was_checked: Returns whether the files were checked again for the finding of a follow-up.
    """
    complete_index(transaction)
    connection = transaction.connection
    known = sorted(_speaking_of(connection, {path_key(each) for each in examined}))
    for each in fetched(connection, project_key, known):
        is_open = each.kind is NoteKind.ACTION and each.state is NoteState.CURRENT and each.agent in agents
        was_examined = {source.path for source in each.sources} <= set(examined)
        if is_open and was_examined and each.subject not in standing and was_checked(each):
            change(transaction, project_key, replace(each, state=NoteState.DONE))


def close_gap(transaction: Transaction, project_key: str, identifier: str, *, still_open: Collection[str]) -> None:
    """Mark the follow-up of a session as done if its information is now known.

    A follow-up for a finding is done when the finding is gone; see `close_actions`.

    Args:
        transaction: The transaction.
        project_key: Key of the project.
        identifier: Identifier of the follow-up.
        still_open: The texts of the follow-ups for the session's own gaps.
    """
    for each in fetched(transaction.connection, project_key, [identifier]):
        is_open = each.kind is NoteKind.ACTION and each.state is NoteState.CURRENT
        if is_open and each.subject.startswith("gap:") and each.text not in still_open:
            change(transaction, project_key, replace(each, state=NoteState.DONE))


def _speaking_of(connection: Connection, paths: Collection[str]) -> Iterator[str]:
    """Yield the open follow-ups that refer to one of the given files."""
    wanted = sorted(paths)
    for start in range(0, len(wanted), _AT_ONCE):
        given = {"paths": json.dumps(wanted[start : start + _AT_ONCE])}
        yield from _SPEAKING_OF[connection.dialect.name].column(connection, given)


def listing(
    store: Store,
    project_key: str,
    *,
    agent: str = "",
    kind: NoteKind | None = None,
    states: Collection[NoteState] = tuple(NoteState),
    limit: int = 500,
) -> tuple[MemoryNote, ...]:
    """Return notes of a project, newest first; of all agents and kinds if none is given."""
    kinds = (kind,) if kind else tuple(NoteKind)
    with store.reading() as connection:
        found = newest_ids(connection, project_key, agent=agent, kinds=kinds, states=states, limit=limit)
        return fetched(connection, project_key, found)


def of_agent(store: Store, project_key: str, agent: str) -> dict[NoteKind, tuple[MemoryNote, ...]]:
    """Return the newest notes of an agent by kind, newest first: up to 100 current and 25 past ones per kind."""
    with store.reading() as connection:
        return newest_by_kind(connection, project_key, agent, current=_MOST_CURRENT, past=_MOST_PAST)


def agents(store: Store, project_key: str) -> tuple[str, ...]:
    """Return the agents with notes about a project."""
    found: list[str] = []
    with store.reading() as connection:
        # One index lookup per agent, not one per note.
        while name := _NEXT_AGENT.scalar(connection, {"project": project_key, "last": found[-1] if found else ""}):
            found.append(name)
    return tuple(found)


def find(store: Store, project_key: str, wanted: str) -> MemoryNote:
    """Return one note, by its identifier or a suffix of it.

    Raises:
        NotFoundError: The project has no such note.
        UsageError: The suffix is ambiguous.
    """
    end = _END.fullmatch(wanted.strip().lower())
    with store.reading() as connection:
        found: tuple[MemoryNote, ...] = ()
        if end:
            found = fetched(connection, project_key, _ending(connection, end[1]))
        if len(found) > 1:
            problem = f"more than one note ends in {wanted!r}, such as {found[0].id} and {found[1].id}"
            raise UsageError(problem, remedy="use a longer part of the identifier")
        if found:
            return found[0]
        known = newest_ids(connection, project_key, limit=50)
    raise NotFoundError("note", wanted, known, listing="esper memory list")


def _ending(connection: Connection, end: str) -> list[str]:
    whole = _EXISTS.column(connection, {"wanted": f"mem_{end}"})
    if whole or len(end) == len("0" * 32):
        return whole
    return index.ending_with(connection, end)


def settle_action(store: Store, project_key: str, wanted: str, state: NoteState) -> MemoryNote:
    """Mark a follow-up as done, dropped or open again.

    Raises:
        NotFoundError: There is no such note.
        UsageError: The note is not a follow-up, or is superseded or forgotten.
    """
    found = find(store, project_key, wanted)
    if found.kind is not NoteKind.ACTION:
        raise UsageError(
            f"{found.id} is not a follow-up", remedy="list follow-ups: esper memory list --kind next-actions"
        )
    if found.state not in _ACTION_STATES:
        raise UsageError(f"follow-up {found.id} is {found.state}", remedy="list the open ones: esper memory list")
    changed = replace(found, state=state)
    with store.writing() as transaction:
        complete_index(transaction)
        change(transaction, project_key, changed)
    return changed


def complete_index(transaction: Transaction) -> None:
    """Index the notes that were written before the index existed."""
    if not index.is_missing(transaction.connection):
        return
    last = ""
    while rows := _AFTER.rows(transaction.connection, {"last": last, "count": _AT_ONCE}):
        for key in {of_project for _, of_project in rows}:
            wanted = [identifier for identifier, of_project in rows if of_project == key]
            kept = fetched(transaction.connection, key, wanted)
            index.add(transaction.connection, key, [each for each in kept if each.state is not NoteState.FORGOTTEN])
        last = rows[-1][0]
