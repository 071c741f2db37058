"""What notes are found by: their words and their files, as SQLite and PostgreSQL each have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, text

from esper_agents.domain.memory import NoteState
from esper_agents.memory.words import id_mark, index_words, path_key
from esper_agents.storage.tables import note_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from esper_agents.domain.memory import Note


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


def said_most(
    connection: Connection, marks: Sequence[str], words: Sequence[str], near: Sequence[str], limit: int
) -> dict[str, list[str]]:
    """Return for each word identifiers of notes that say it: the newest ones of a word that many say.

    Args:
        connection: Where.
        marks: What the notes must have besides.
        words: What is looked for.
        near: The newest notes with those marks, on PostgreSQL looked through first.
        limit: At most so many for each word.
    """
    if connection.dialect.name == "sqlite":
        return {each: newest(connection, [each, *marks], limit) for each in words}
    said: dict[str, list[str]] = {each: [] for each in words}
    for word, identifier in connection.execute(_NEAR_WORDS, {"near": list(near), "words": list(words)}):
        said[word].append(identifier)
    # What a few of the newest say is soon found by its index; what more of them say is no distinction.
    rare = [word for word, found in said.items() if len(found) * 50 <= len(near)]
    for word in rare:
        found = connection.scalars(_SOME_POSTGRESQL, {"asked": _all_of(connection, [word, *marks]), "limit": limit})
        said[word] = [*dict.fromkeys((*said[word], *found))]
    return {word: found[:limit] for word, found in said.items()}


def any_of(connection: Connection, words: Sequence[str], marks: Sequence[str], limit: int) -> list[str]:
    """Return some notes that have one of some words and all of some marks."""
    if not words:
        return []
    if connection.dialect.name == "sqlite":
        either, rest = " OR ".join(map('"{}"'.format, words)), " AND ".join(map('"{}"'.format, marks))
        return list(connection.scalars(_NEWEST_SQLITE, {"asked": f"({either}) AND {rest}", "limit": limit}).all())
    either = " | ".join(map("'{}'".format, words))
    asked = f"({either}) & {_all_of(connection, marks)}"
    return list(connection.scalars(_SOME_POSTGRESQL, {"asked": asked, "limit": limit}).all())


def ending_with(connection: Connection, ending: str) -> list[str]:
    """Return some identifiers that end so, two at least if there are two.

    Args:
        connection: Where.
        ending: Hexadecimal digits.
    """
    mark = id_mark(ending)
    asked = f'"{mark}"*' if connection.dialect.name == "sqlite" else f"'{mark}':*"
    return list(connection.scalars(_ENDING[connection.dialect.name], {"asked": asked}).all())


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
    " SELECT word, near.id FROM unnest(CAST(:words AS text[])) AS word"
    " JOIN near ON near.words @@ CAST(quote_literal(word) AS tsquery) ORDER BY near.id DESC"
)
_ENDING = {
    "sqlite": text("SELECT id FROM note_text WHERE note_text MATCH :asked LIMIT 50"),
    "postgresql": text("SELECT id FROM note_text WHERE words @@ CAST(:asked AS tsquery) LIMIT 50"),
}
