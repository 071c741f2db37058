"""Index of notes by words and files, for SQLite and PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.memory import NoteState
from esper_agents.memory.words import id_mark, index_words, path_key
from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.postgres_full_text import FullText
from esper_agents.storage.schema_names import NOTE_TEXT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from esper_agents.domain.memory import MemoryNote

# Sorts after every identifier in any collation.
_ABOVE_ALL = "n"


def add(connection: Connection, project_key: str, notes: Iterable[MemoryNote]) -> None:
    """Add notes to the index that are not indexed yet."""
    said, files = [], []
    for note in notes:
        said.append({"id": note.id, "words": _given(connection, index_words(project_key, note))})
        files += _files(note)
    _every(connection, _ADD[connection.dialect.name], said)
    _every(connection, _ADD_FILE, files)


def renew(connection: Connection, project_key: str, note: MemoryNote) -> None:
    """Update the index of a changed note; its position among the newest notes is kept.

    File marks of notes that are not current are removed, so that they do not rank before current ones.
    """
    words = _given(connection, index_words(project_key, note))
    _RENEW[connection.dialect.name].rows(connection, {"id": note.id, "mark": f'"{id_mark(note.id)}"', "words": words})
    _REMOVE_FILES.rows(connection, {"id": note.id})
    _every(connection, _ADD_FILE, _files(note))


def remove(connection: Connection, identifier: str) -> None:
    """Remove a note from the index."""
    _REMOVE[connection.dialect.name].rows(connection, {"id": identifier, "mark": f'"{id_mark(identifier)}"'})
    _REMOVE_FILES.rows(connection, {"id": identifier})


def is_missing(connection: Connection) -> bool:
    """Return whether there are notes but no index: they were written before the index existed."""
    return bool(_ANY_NOTE.rows(connection, {})) and not _ANY_WORDS.rows(connection, {})


def newest(
    connection: Connection, words: Sequence[str], limit: int, *, marks: Sequence[str] = (), before: str = ""
) -> list[str]:
    """Return identifiers of the newest notes that have all given words and marks.

    Args:
        connection: The connection.
        words: Words as written by `index_words`, at least one of them rare.
        limit: Maximum number of notes.
        marks: Marks to match in addition; most notes may have them.
        before: Only notes older than this one.
    """
    if connection.dialect.name == "sqlite":
        given = {"asked": all_of(connection, [*words, *marks]), "limit": limit, "before": before}
        return (_NEWEST_SQLITE_BEFORE if before else _NEWEST_SQLITE).column(connection, given)
    asked, besides = all_of(connection, words), all_of(connection, marks)
    return _POSTGRESQL.newest(connection, asked, limit, before or _ABOVE_ALL, besides=besides)


def any_of(connection: Connection, words: Sequence[str], mark: str, limit: int) -> list[str]:
    """Return some notes that have one of the given words, and a mark."""
    if not words:
        return []
    wanted = _NEWEST_SQLITE if connection.dialect.name == "sqlite" else _SOME_POSTGRESQL
    return wanted.column(connection, {"asked": one_of(connection, words, mark), "limit": limit})


def ending_with(connection: Connection, ending: str) -> list[str]:
    """Return some identifiers with a suffix, at least two if there are two.

    Args:
        connection: The connection.
        ending: The suffix; hexadecimal digits.
    """
    mark = id_mark(ending)
    asked = f'"{mark}"*' if connection.dialect.name == "sqlite" else f"'{mark}':*"
    return _ENDING[connection.dialect.name].column(connection, {"asked": asked})


def one_of(connection: Connection, words: Sequence[str], mark: str) -> str:
    """Return a query for one of the given words, and a mark."""
    if connection.dialect.name == "sqlite":
        return f'({" OR ".join(map(_IN_QUOTES, words))}) AND "{mark}"'
    return f"({' | '.join(map(_IN_APOSTROPHES, words))}) & '{mark}'"


_IN_QUOTES, _IN_APOSTROPHES = '"{}"'.format, "'{}'".format


def _every(connection: Connection, statement: Prepared, rows: Iterable[Mapping[str, object]]) -> None:
    for row in rows:
        statement.rows(connection, row)


def _files(note: MemoryNote) -> list[dict[str, str]]:
    if note.state is not NoteState.CURRENT:
        return []
    sources = {path_key(source.path): source.sha256 for source in note.sources}
    return [{"path": path, "note_id": note.id, "sha256": sha256} for path, sha256 in sorted(sources.items())]


def _given(connection: Connection, words: list[str]) -> object:
    return " ".join(words) if connection.dialect.name == "sqlite" else words


def all_of(connection: Connection, words: Sequence[str]) -> str:
    """Return a query of quoted letters and digits, without operators of the database."""
    if connection.dialect.name == "sqlite":
        return " ".join(f'"{word}"' for word in words)
    return " & ".join(f"'{word}'" for word in words)


_ADD = {
    "sqlite": Prepared("INSERT INTO note_text (id, words) VALUES (:id, :words)"),
    "postgresql": Prepared("INSERT INTO note_text (id, words) VALUES (:id, array_to_tsvector(CAST(:words AS text[])))"),
}
_RENEW = {
    "sqlite": Prepared(
        "UPDATE note_text SET words = :words WHERE rowid IN (SELECT rowid FROM note_text WHERE note_text MATCH :mark)"
    ),
    "postgresql": Prepared("UPDATE note_text SET words = array_to_tsvector(CAST(:words AS text[])) WHERE id = :id"),
}
_REMOVE = {
    "sqlite": Prepared(
        "DELETE FROM note_text WHERE rowid IN (SELECT rowid FROM note_text WHERE note_text MATCH :mark)"
    ),
    "postgresql": Prepared("DELETE FROM note_text WHERE id = :id"),
}
_ANY_NOTE = Prepared("SELECT 1 FROM note LIMIT 1")
_ANY_WORDS = Prepared("SELECT 1 FROM note_text LIMIT 1")
_ADD_FILE = Prepared("INSERT INTO note_file (path, note_id, sha256) VALUES (:path, :note_id, :sha256)")
_REMOVE_FILES = Prepared("DELETE FROM note_file WHERE note_id = :id")
_NEWEST_SQLITE = Prepared("SELECT id FROM note_text WHERE note_text MATCH :asked ORDER BY rowid DESC LIMIT :limit")
_NEWEST_SQLITE_BEFORE = Prepared(
    "SELECT id FROM note_text WHERE note_text MATCH :asked AND id < :before ORDER BY rowid DESC LIMIT :limit"
)
_SOME_POSTGRESQL = Prepared(
    "WITH said AS MATERIALIZED (SELECT id FROM note_text WHERE words @@ CAST(:asked AS tsquery) LIMIT 2000)"
    " SELECT id FROM said ORDER BY id DESC LIMIT :limit"
)
_POSTGRESQL = FullText(NOTE_TEXT, "id", "id || ''", "CAST(:asked AS tsquery)")
_ENDING = {
    "sqlite": Prepared("SELECT id FROM note_text WHERE note_text MATCH :asked LIMIT 50"),
    "postgresql": Prepared("SELECT id FROM note_text WHERE words @@ CAST(:asked AS tsquery) LIMIT 50"),
}
