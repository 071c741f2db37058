"""Find candidate notes for a task on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from esper_agents.domain.memory import NoteKind, NoteState
from esper_agents.memory.index import all_of, one_of
from esper_agents.memory.words import current_mark
from esper_agents.storage.compiled_statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

# Key of a note in the full-text table: the rowid on SQLite, the identifier on PostgreSQL.
Place: TypeAlias = "int | str"
_NEAR = 500
# Words that this many of the newest notes contain are common; rarer words are looked up in the index.
_ENOUGH = 2


@dataclass(frozen=True, slots=True)
class Candidates:
    """Current notes of an agent that may be relevant.

    Attributes:
        newest: The newest notes, newest first.
        saying: For every group of words, the notes that contain one of them; only the newest if there are many.
    """

    newest: list[Place]
    saying: list[list[Place]]


def candidates(
    connection: Connection, project_key: str, agent: str, groups: Sequence[Sequence[str]], limit: int
) -> Candidates:
    """Return the current notes of an agent that are new or contain one of the given words.

    Args:
        connection: The connection.
        project_key: Key of the project.
        agent: Name of the agent.
        groups: Groups of words to look for, at most 63.
        limit: Maximum number of notes per group.
    """
    mark = current_mark(project_key, agent)
    if connection.dialect.name == "sqlite":
        newest = _PLACES.column(connection, {"asked": all_of(connection, [mark]), "limit": _NEAR})
        return Candidates(newest, _saying_sqlite(connection, mark, groups, limit))
    asked = [" | ".join(f"'{word}'" for word in group) for group in groups]
    given = {"project": project_key, "agent": agent, "limit": _NEAR, "asked": asked}
    near = _NEAR_SAYING.rows(connection, given)
    found = _of_each_group(near, len(groups))
    rare = [number for number, places in enumerate(found) if len(places) < _ENOUGH]
    if rare:
        words = [word for number in rare for word in groups[number]]
        wanted = {"any": one_of(connection, words, mark), "asked": [asked[number] for number in rare]}
        for number, places in zip(rare, _of_each_group(_SAYING.rows(connection, wanted), len(rare)), strict=True):
            found[number] = sorted({*found[number], *places}, reverse=True)
    return Candidates([place for place, _ in near], [places[:limit] for places in found])


def named(connection: Connection, places: Sequence[Place]) -> list[str]:
    """Return the identifiers of the notes with the given keys, in the same order."""
    if connection.dialect.name == "postgresql":
        return [str(each) for each in places]
    rows = _NAMED.rows(connection, {"places": json.dumps(list(places))})
    found = {place: str(name) for place, name in rows}
    return [found[each] for each in places if each in found]


def _of_each_group(rows: Sequence[tuple[str, int]], count: int) -> list[list[Place]]:
    """Return the keys that match the groups; a row has one bit per group."""
    return [[place for place, said in rows if said >> number & 1] for number in range(count)]


def _saying_sqlite(connection: Connection, mark: str, groups: Sequence[Sequence[str]], limit: int) -> list[list[Place]]:
    found: list[list[Place]] = [[] for _ in groups]
    given = {f"asked{number}": one_of(connection, each, mark) for number, each in enumerate(groups)}
    for number, place in _of_each(len(groups)).rows(connection, {**given, "limit": limit}) if groups else ():
        found[number].append(place)
    return found


@cache
def _of_each(count: int) -> Prepared:
    """Return one statement for all groups, because the overhead of a statement equals its execution time."""
    # The identifier is stored with the words and needs a row access; the rowid does not.
    one = (
        "SELECT * FROM"
        " (SELECT {0}, rowid FROM note_text WHERE note_text MATCH :asked{0} ORDER BY rowid DESC LIMIT :limit)"
    )
    return Prepared(" UNION ALL ".join(one.format(number) for number in range(count)))


_PLACES = Prepared("SELECT rowid FROM note_text WHERE note_text MATCH :asked ORDER BY rowid DESC LIMIT :limit")
_NAMED = Prepared(
    "SELECT wanted.value, note_text.id FROM json_each(:places) AS wanted CROSS JOIN note_text"
    " WHERE note_text.rowid = wanted.value"
)
_CURRENT = " UNION ALL ".join(
    "(SELECT id FROM note WHERE project_key = :project AND agent = :agent"  # noqa: S608 - constant words
    f" AND kind = '{kind}' AND state = '{NoteState.CURRENT}' ORDER BY id DESC LIMIT :limit)"
    for kind in NoteKind
)
_NEWEST = f"near AS MATERIALIZED (SELECT id FROM ({_CURRENT}) AS current ORDER BY id DESC LIMIT :limit)"  # noqa: S608
_WANTED = (
    "wanted AS MATERIALIZED (SELECT query, CAST(1 AS bigint) << CAST(place - 1 AS integer) AS bit"
    " FROM unnest(CAST(CAST(:asked AS text[]) AS tsquery[])) WITH ORDINALITY AS asked(query, place))"
)
# Per row: a join with the queries would scan the words of all notes once per query.
_SAID = "(SELECT coalesce(bit_or(bit), 0) FROM wanted WHERE words @@ query)"
_NEAR_SAYING = Prepared(
    f"WITH {_NEWEST}, {_WANTED} SELECT near.id, {_SAID}"  # noqa: S608 - likewise
    " FROM near LEFT JOIN note_text ON note_text.id = near.id ORDER BY near.id DESC"
)
_SAYING = Prepared(
    f"WITH {_WANTED} SELECT id, {_SAID} FROM note_text"  # noqa: S608 - likewise
    " WHERE words @@ CAST(:any AS tsquery) LIMIT 500"
)
