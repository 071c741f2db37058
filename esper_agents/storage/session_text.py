"""What sessions are found by: the words of request, agent and conclusion. All of it can be made from other rows."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select, text

from esper_agents.domain.ledger import RowKind
from esper_agents.storage.tables import SESSION_TEXT, certificate, ledger, session
from esper_agents.storage.words import asked, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from esper_agents.storage.store import Transaction

_AT_ONCE = 500
# A word that many say is found among the newest; the index knows the others.
_NEAR = 2000


def write(transaction: Transaction, session_id: str, summary: str = "") -> None:
    """Write what a session is found by, in place of what it was found by before.

    Args:
        transaction: Where its row is written.
        session_id: `ses_` identifier.
        summary: The words of who concluded; empty before.
    """
    columns = select(session.c.project_key, session.c.request, session.c.agent).where(session.c.id == session_id)
    project_key, request, agent = transaction.connection.execute(columns).one()
    words = index_words(project_key, session_id, f"{request} {agent} {summary}")
    given: dict[str, Any] = {"id": session_id, "words": words}
    connection = transaction.connection
    if connection.dialect.name == "sqlite":
        # The number of a session's first row is the row's own: it finds it again, and later sessions have greater ones.
        given["place"] = connection.scalar(_first_row(session_id))
    for each in _WRITE[connection.dialect.name]:
        connection.execute(text(each), given)


def index_words(project_key: str, session_id: str, said: str) -> str:
    """Return the words that a session is found by: its project's, the one of its name, and those that are said."""
    return " ".join((_mark(project_key), ending_word(session_id), *words_of(said)))


def rebuild(transaction: Transaction) -> int:
    """Write what every session is found by, and return how many there are; twice in a row changes nothing."""
    transaction.connection.execute(text(f"DELETE FROM {SESSION_TEXT}"))  # noqa: S608 - a name of ours
    last, count = "", 0
    wanted = select(session.c.id, certificate.c.statement).outerjoin(
        certificate, certificate.c.id == session.c.certificate_id
    )
    while rows := transaction.connection.execute(
        wanted.where(session.c.id > last).order_by(session.c.id).limit(_AT_ONCE)
    ).all():
        for session_id, statement in rows:
            write(transaction, session_id, _summary(statement))
        last, count = rows[-1].id, count + len(rows)
    return count


def is_complete(connection: Connection, project_key: str) -> bool:
    """Return whether the oldest session of a project has its words, as one from before there were any has not."""
    oldest = connection.scalar(
        select(session.c.id).where(session.c.project_key == project_key).order_by(session.c.id).limit(1)
    )
    if oldest is None:
        return True
    if connection.dialect.name == "sqlite":
        place = connection.scalar(_first_row(oldest))
        return connection.scalar(text("SELECT 1 FROM session_text WHERE rowid = :place"), {"place": place}) is not None
    return connection.scalar(text("SELECT 1 FROM session_text WHERE id = :id"), {"id": oldest}) is not None


def newest(connection: Connection, project_key: str, words: str, limit: int) -> Sequence[str]:
    """Return the sessions of a project that say all of some words, newest first.

    Raises:
        UsageError: There is no word in them.
    """
    given = {"asked": f'"{_mark(project_key)}" {asked(words)}', "count": limit, "near": max(_NEAR, 4 * limit)}
    if connection.dialect.name == "sqlite":
        return connection.scalars(_NEWEST_SQLITE, given).all()
    near = connection.scalars(_NEAR_POSTGRESQL, given).all()
    return near if len(near) == limit else connection.scalars(_NEWEST_POSTGRESQL, given).all()


def ending(connection: Connection, project_key: str, end: str) -> Sequence[str]:
    """Return some sessions of a project, two at least if there are two, whose identifiers end so.

    Args:
        connection: Where.
        project_key: Whose.
        end: Letters and digits of ASCII only.
    """
    word, mark = ending_word(end), _mark(project_key)
    given = {"sqlite": f'"{mark}" "{word}"*', "postgresql": f"{mark} & {word}:*"}[connection.dialect.name]
    return connection.scalars(_ENDING[connection.dialect.name], {"asked": given}).all()


def ending_word(identifier: str) -> str:
    """Return the word whose beginnings are the ends of an identifier: words can be found by how they begin."""
    return f"z{identifier.removeprefix('ses_')[::-1]}"


def _mark(project_key: str) -> str:
    """Return the word that all sessions of a project share, and that nobody types."""
    return f"zz{sha256(project_key.encode()).hexdigest()[:24]}"


def _first_row(session_id: str) -> Any:
    return select(func.min(ledger.c.seq)).where(
        ledger.c.session_id == session_id, ledger.c.frame == 0, ledger.c.kind == RowKind.SUBMITTED
    )


def _summary(statement: bytes | None) -> str:
    try:
        said = json.loads(statement or b"{}").get("predicate", {}).get("summary", "")
    except (ValueError, RecursionError, AttributeError):
        return ""
    return said if isinstance(said, str) else ""


_WRITE = {
    "sqlite": (
        "DELETE FROM session_text WHERE rowid = :place",
        "INSERT INTO session_text (rowid, id, words) VALUES (:place, :id, :words)",
    ),
    "postgresql": (
        (
            "INSERT INTO session_text (id, words) VALUES (:id, to_tsvector('simple', :words))"
            " ON CONFLICT (id) DO UPDATE SET words = excluded.words"
        ),
    ),
}
_NEWEST_SQLITE = text("SELECT id FROM session_text WHERE session_text MATCH :asked ORDER BY rowid DESC LIMIT :count")
_NEAR_POSTGRESQL = text(
    "WITH near AS MATERIALIZED (SELECT id, words FROM session_text ORDER BY id DESC LIMIT :near)"
    " SELECT id FROM near WHERE words @@ websearch_to_tsquery('simple', :asked) ORDER BY id DESC LIMIT :count"
)
# The concatenation keeps the planner from walking all sessions in order in the hope of meeting the words soon.
_NEWEST_POSTGRESQL = text(
    "SELECT id FROM session_text WHERE words @@ websearch_to_tsquery('simple', :asked)"
    " ORDER BY id || '' DESC LIMIT :count"
)
_ENDING = {
    "sqlite": text("SELECT id FROM session_text WHERE session_text MATCH :asked LIMIT 50"),
    "postgresql": text("SELECT id FROM session_text WHERE words @@ to_tsquery('simple', :asked) LIMIT 50"),
}
