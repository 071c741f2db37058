"""Search index over the request, agent and conclusion of sessions; derived from other rows."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.lazy_sql import sql, tables
from esper_agents.storage.postgres_full_text import FullText
from esper_agents.storage.schema_names import SESSION_TEXT
from esper_agents.storage.search_terms import search_query, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from esper_agents.storage.store import Transaction

_AT_ONCE = 500
# Sorts after every identifier in any collation.
_ABOVE_ALL = "t"


def write(transaction: Transaction, session_id: str, summary: str = "") -> None:
    """Write the index words of a session, replacing earlier ones.

    Args:
        transaction: The transaction that writes the session's row.
        session_id: `ses_` identifier.
        summary: Summary by the concluding agent; empty before the conclusion.
    """
    connection = transaction.connection
    ((project_key, request, agent),) = _SAID.rows(connection, {"wanted": session_id})
    words = index_words(project_key, session_id, f"{request} {agent} {summary}")
    given: dict[str, Any] = {"id": session_id, "words": words}
    if connection.dialect.name == "sqlite":
        # The rowid is the sequence number of the session's first event: it finds the row again, and grows with time.
        given["place"] = _first_row(connection, session_id)
    for each in _WRITE[connection.dialect.name]:
        each.rows(connection, given)


def index_words(project_key: str, session_id: str, said: str) -> str:
    """Return the index words of a session: its project's word, the word of its identifier, and those of a text."""
    return " ".join((_mark(project_key), ending_word(session_id), *words_of(said)))


def rebuild(transaction: Transaction) -> int:
    """Rebuild the index of all sessions, and return their number; the operation is idempotent."""
    transaction.connection.execute(sql.text(f"DELETE FROM {SESSION_TEXT}"))  # noqa: S608 - a constant name
    last, count = "", 0
    wanted = sql.select(tables.session.c.id, tables.certificate.c.statement).outerjoin(
        tables.certificate, tables.certificate.c.id == tables.session.c.certificate_id
    )
    while rows := transaction.connection.execute(
        wanted.where(tables.session.c.id > last).order_by(tables.session.c.id).limit(_AT_ONCE)
    ).all():
        for session_id, statement in rows:
            write(transaction, session_id, _summary(statement))
        last, count = rows[-1].id, count + len(rows)
    return count


def is_complete(connection: Connection, project_key: str) -> bool:
    """Return whether the oldest session of a project is indexed; sessions of version 0.1.0 may not be."""
    oldest = _OLDEST.scalar(connection, {"project": project_key})
    if oldest is None:
        return True
    given = {"id": oldest}
    if connection.dialect.name == "sqlite":
        given = {"place": _first_row(connection, oldest)}
    return bool(_IS_INDEXED[connection.dialect.name].rows(connection, given))


def newest(connection: Connection, project_key: str, words: str, limit: int) -> Sequence[str]:
    """Return the sessions of a project that contain all given words, newest first.

    Raises:
        UsageError: The text contains no word.
    """
    wanted = f'"{_mark(project_key)}" {search_query(words)}'
    if connection.dialect.name == "sqlite":
        return _NEWEST_SQLITE.column(connection, {"asked": wanted, "count": limit})
    return _POSTGRESQL.newest(connection, wanted, limit, _ABOVE_ALL)


def ending(connection: Connection, project_key: str, end: str) -> Sequence[str]:
    """Return some sessions of a project whose identifiers end with a suffix, at least two if there are two.

    Args:
        connection: The connection.
        project_key: Key of the project.
        end: The suffix; ASCII letters and digits only.
    """
    word, mark = ending_word(end), _mark(project_key)
    given = {"sqlite": f'"{mark}" "{word}"*', "postgresql": f"{mark} & {word}:*"}[connection.dialect.name]
    return _ENDING[connection.dialect.name].column(connection, {"asked": given})


def ending_word(identifier: str) -> str:
    """Return the reversed identifier as a word, because full text can match prefixes but not suffixes."""
    return f"z{identifier.removeprefix('ses_')[::-1]}"


def _mark(project_key: str) -> str:
    """Return the word shared by all sessions of a project; users do not type it."""
    return f"zz{sha256(project_key.encode()).hexdigest()[:24]}"


def _first_row(connection: Connection, session_id: str) -> int | None:
    """Return the sequence number of a session's first event."""
    found: list[int | None] = _FIRST_ROW.column(connection, {"wanted": session_id})
    return found[0]


def _summary(statement: bytes | None) -> str:
    try:
        said = json.loads(statement or b"{}").get("predicate", {}).get("summary", "")
    except (ValueError, RecursionError, AttributeError):
        return ""
    return said if isinstance(said, str) else ""


_OLDEST = Prepared("SELECT id FROM session WHERE project_key = :project ORDER BY id LIMIT 1")
_IS_INDEXED = {
    "sqlite": Prepared("SELECT 1 FROM session_text WHERE rowid = :place"),
    "postgresql": Prepared("SELECT 1 FROM session_text WHERE id = :id"),
}
_SAID = Prepared("SELECT project_key, request, agent FROM session WHERE id = :wanted")
_FIRST_ROW = Prepared("SELECT min(seq) FROM ledger WHERE session_id = :wanted AND frame = 0 AND kind = 'submitted'")
_WRITE = {
    "sqlite": (
        Prepared("DELETE FROM session_text WHERE rowid = :place"),
        Prepared("INSERT INTO session_text (rowid, id, words) VALUES (:place, :id, :words)"),
    ),
    "postgresql": (
        Prepared(
            "INSERT INTO session_text (id, words) VALUES (:id, to_tsvector('simple', :words))"
            " ON CONFLICT (id) DO UPDATE SET words = excluded.words"
        ),
    ),
}
_NEWEST_SQLITE = Prepared(
    "SELECT id FROM session_text WHERE session_text MATCH :asked ORDER BY rowid DESC LIMIT :count"
)
_POSTGRESQL = FullText(SESSION_TEXT, "id", "id || ''", "websearch_to_tsquery('simple', :asked)")
_ENDING = {
    "sqlite": Prepared("SELECT id FROM session_text WHERE session_text MATCH :asked LIMIT 50"),
    "postgresql": Prepared("SELECT id FROM session_text WHERE words @@ to_tsquery('simple', :asked) LIMIT 50"),
}
