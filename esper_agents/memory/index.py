"""What notes are found by: their words and their files, as SQLite and PostgreSQL each have them."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from sqlalchemy import delete, insert, text

from esper_agents.domain.memory import NoteState
from esper_agents.memory.rows import newest_ids
from esper_agents.memory.words import current_mark, id_mark, index_words, path_key
from esper_agents.storage.tables import note_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection, TextClause

    from esper_agents.domain.memory import Note

# Where a note stands in the full text: SQLite numbers its rows, PostgreSQL goes by the identifier.
Place: TypeAlias = "int | str"


def add(connection: Connection, project_key: str, notes: Iterable[Note]) -> None:
    """Write what notes are found by that have no rows yet."""
    said, files = [], []
    for each in notes:
        said.append({"id": each.id, "words": _given(connection, index_words(project_key, each))})
        files += _files(each)
    if said:
        connection.execute(_ADD[connection.dialect.name], said)
    if files:
        connection.execute(insert(note_file), files)


def renew(connection: Connection, project_key: str, note: Note) -> None:
    """Write what a note is found by again after it changed; its place among the newest stays.

    The files of what is no more current find nothing: it would stand before what is.
    """
    words = _given(connection, index_words(project_key, note))
    connection.execute(
        _RENEW[connection.dialect.name], {"id": note.id, "mark": f'"{id_mark(note.id)}"', "words": words}
    )
    connection.execute(delete(note_file).where(note_file.c.note_id == note.id))
    if files := _files(note):
        connection.execute(insert(note_file), files)


def remove(connection: Connection, identifier: str) -> None:
    """Let nothing find a note any more."""
    connection.execute(_REMOVE[connection.dialect.name], {"id": identifier, "mark": f'"{id_mark(identifier)}"'})
    connection.execute(delete(note_file).where(note_file.c.note_id == identifier))


def is_missing(connection: Connection) -> bool:
    """Return whether there are notes and nothing to find them by: they are from before they could be found."""
    return bool(connection.scalar(text("SELECT 1 FROM note LIMIT 1"))) and not connection.scalar(
        text("SELECT 1 FROM note_text LIMIT 1")
    )


def newest(connection: Connection, words: Sequence[str], limit: int, *, before: str = "") -> list[str]:
    """Return identifiers of the newest notes that have all of some words and marks.

    Args:
        connection: Where.
        words: As `index_words` writes them, the mark of the project among them.
        limit: At most so many.
        before: Only what is older than this one.
    """
    given = {"asked": _all_of(connection, words), "limit": limit, "before": before or "n", "few": max(1000, 4 * limit)}
    if connection.dialect.name == "sqlite":
        return list(connection.scalars(_NEWEST_SQLITE_BEFORE if before else _NEWEST_SQLITE, given).all())
    near = list(connection.scalars(_NEAR_POSTGRESQL, given).all())
    return near if len(near) == limit else list(connection.scalars(_NEWEST_POSTGRESQL, given).all())


def near(connection: Connection, project_key: str, agent: str, limit: int) -> list[Place]:
    """Return where the newest current notes of an agent stand, newest first."""
    if connection.dialect.name == "sqlite":
        mark = _all_of(connection, [current_mark(project_key, agent)])
        return list(connection.scalars(_PLACES, {"asked": mark, "limit": limit}).all())
    return [*newest_ids(connection, project_key, agent=agent, states=(NoteState.CURRENT,), limit=limit)]


def said(
    connection: Connection, mark: str, groups: Sequence[Sequence[str]], near: Sequence[Place], limit: int
) -> list[list[Place]]:
    """Return for each group of words where notes stand that say one of it: the newest, where many do.

    Args:
        connection: Where.
        mark: What the notes must have besides.
        groups: What is looked for.
        near: The newest notes with that mark, on PostgreSQL looked through first.
        limit: At most so many for each group.
    """
    found: list[list[Place]] = [[] for _ in groups]
    asked = [_one_of(connection, each, mark) for each in groups]
    if connection.dialect.name == "sqlite":
        given = {f"asked{number}": each for number, each in enumerate(asked)}
        rows = connection.execute(_of_each(len(asked)), {**given, "limit": limit}) if asked else ()
        for number, place in rows:
            found[number].append(place)
        return found
    for number, place in connection.execute(_NEAR_WORDS, {"near": list(near), "asked": asked}):
        found[number - 1].append(place)
    # What a few of the newest say is soon found by its index; what more of them say is no distinction.
    rare = [number for number, places in enumerate(found) if len(places) * 50 <= len(near)]
    if rare:
        given = {f"asked{place}": asked[number] for place, number in enumerate(rare)}
        for place, identifier in connection.execute(_some_of_each(len(rare)), {**given, "limit": limit}):
            if identifier not in found[rare[place]]:
                found[rare[place]].append(identifier)
    return [places[:limit] for places in found]


def named(connection: Connection, places: Sequence[Place]) -> list[str]:
    """Return the identifiers of the notes at some places, in their order."""
    if connection.dialect.name == "postgresql":
        return [str(each) for each in places]
    rows = connection.execute(_NAMED, {"places": json.dumps(list(places))})
    found = {place: str(name) for place, name in rows}
    return [found[each] for each in places if each in found]


def any_of(connection: Connection, words: Sequence[str], mark: str, limit: int) -> list[str]:
    """Return some notes that have one of some words, and a mark besides."""
    if not words:
        return []
    wanted = _NEWEST_SQLITE if connection.dialect.name == "sqlite" else _SOME_POSTGRESQL
    return list(connection.scalars(wanted, {"asked": _one_of(connection, words, mark), "limit": limit}).all())


def ending_with(connection: Connection, ending: str) -> list[str]:
    """Return some identifiers that end so, two at least if there are two.

    Args:
        connection: Where.
        ending: Hexadecimal digits.
    """
    mark = id_mark(ending)
    asked = f'"{mark}"*' if connection.dialect.name == "sqlite" else f"'{mark}':*"
    return list(connection.scalars(_ENDING[connection.dialect.name], {"asked": asked}).all())


@cache
def _some_of_each(count: int) -> TextClause:
    one = (
        "(SELECT {0} AS place, id FROM (SELECT id FROM note_text WHERE words @@ CAST(:asked{0} AS tsquery) LIMIT 2000)"
        " AS said ORDER BY id DESC LIMIT :limit)"
    )
    return text(" UNION ALL ".join(one.format(number) for number in range(count)))


def _one_of(connection: Connection, words: Sequence[str], mark: str) -> str:
    if connection.dialect.name == "sqlite":
        return f'({" OR ".join(map(_IN_QUOTES, words))}) AND "{mark}"'
    return f"({' | '.join(map(_IN_APOSTROPHES, words))}) & '{mark}'"


_IN_QUOTES, _IN_APOSTROPHES = '"{}"'.format, "'{}'".format


@cache
def _of_each(count: int) -> TextClause:
    """Return one statement for so many words: each by itself costs as much to send as to answer."""
    # The name of a note stands beside its words; its place is known without them.
    one = (
        "SELECT * FROM"
        " (SELECT {0}, rowid FROM note_text WHERE note_text MATCH :asked{0} ORDER BY rowid DESC LIMIT :limit)"
    )
    return text(" UNION ALL ".join(one.format(number) for number in range(count)))


def _files(note: Note) -> list[dict[str, str]]:
    if note.state is not NoteState.CURRENT:
        return []
    sources = {path_key(each.path): each.sha256 for each in note.sources}
    return [{"path": path, "note_id": note.id, "sha256": sha256} for path, sha256 in sorted(sources.items())]


def _given(connection: Connection, words: list[str]) -> object:
    return " ".join(words) if connection.dialect.name == "sqlite" else words


def _all_of(connection: Connection, words: Sequence[str]) -> str:
    """Return a query of letters and digits in quotes alone: nothing of it means anything to a database."""
    if connection.dialect.name == "sqlite":
        return " ".join(f'"{each}"' for each in words)
    return " & ".join(f"'{each}'" for each in words)


_ADD = {
    "sqlite": text("INSERT INTO note_text (id, words) VALUES (:id, :words)"),
    "postgresql": text("INSERT INTO note_text (id, words) VALUES (:id, array_to_tsvector(CAST(:words AS text[])))"),
}
_RENEW = {
    "sqlite": text(
        "UPDATE note_text SET words = :words WHERE rowid IN (SELECT rowid FROM note_text WHERE note_text MATCH :mark)"
    ),
    "postgresql": text("UPDATE note_text SET words = array_to_tsvector(CAST(:words AS text[])) WHERE id = :id"),
}
_REMOVE = {
    "sqlite": text("DELETE FROM note_text WHERE rowid IN (SELECT rowid FROM note_text WHERE note_text MATCH :mark)"),
    "postgresql": text("DELETE FROM note_text WHERE id = :id"),
}
_NEWEST_SQLITE = text("SELECT id FROM note_text WHERE note_text MATCH :asked ORDER BY rowid DESC LIMIT :limit")
_NEWEST_SQLITE_BEFORE = text(
    "SELECT id FROM note_text WHERE note_text MATCH :asked AND id < :before ORDER BY rowid DESC LIMIT :limit"
)
_PLACES = text("SELECT rowid FROM note_text WHERE note_text MATCH :asked ORDER BY rowid DESC LIMIT :limit")
_NAMED = text(
    "SELECT wanted.value, note_text.id FROM json_each(:places) AS wanted CROSS JOIN note_text"
    " WHERE note_text.rowid = wanted.value"
)
_NEAR_POSTGRESQL = text(
    "WITH near AS MATERIALIZED"
    " (SELECT id, words FROM note_text WHERE id < :before ORDER BY id DESC LIMIT :few)"
    " SELECT id FROM near WHERE words @@ CAST(:asked AS tsquery) ORDER BY id DESC LIMIT :limit"
)
# The join keeps the planner from walking all notes in order in the hope of meeting the words soon.
_NEWEST_POSTGRESQL = text(
    "WITH said AS MATERIALIZED (SELECT id FROM note_text WHERE words @@ CAST(:asked AS tsquery) AND id < :before)"
    " SELECT id FROM said ORDER BY id DESC LIMIT :limit"
)
_SOME_POSTGRESQL = text(
    "WITH said AS MATERIALIZED (SELECT id FROM note_text WHERE words @@ CAST(:asked AS tsquery) LIMIT 2000)"
    " SELECT id FROM said ORDER BY id DESC LIMIT :limit"
)
_NEAR_WORDS = text(
    "WITH near AS MATERIALIZED (SELECT id, words FROM note_text WHERE id = ANY(CAST(:near AS varchar[])))"
    " SELECT place, near.id FROM unnest(CAST(:asked AS text[])) WITH ORDINALITY AS wanted(asked, place)"
    " JOIN near ON near.words @@ CAST(wanted.asked AS tsquery) ORDER BY near.id DESC"
)
_ENDING = {
    "sqlite": text("SELECT id FROM note_text WHERE note_text MATCH :asked LIMIT 50"),
    "postgresql": text("SELECT id FROM note_text WHERE words @@ CAST(:asked AS tsquery) LIMIT 50"),
}
