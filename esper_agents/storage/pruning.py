"""Prune the agent events of old sessions that have a certificate.

The session's own events remain (request, route and result), and so does everything in the archive and in the
transparency log. One additional event records the pruning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, Any

from sqlalchemy import String, and_, delete, func, insert, select, type_coerce

from esper_agents.domain.codec import decode, encode
from esper_agents.domain.ledger import CertificateIssued, RowKind, RowsPruned
from esper_agents.domain.session import SessionState
from esper_agents.storage.ledger import event_digest, part_digest
from esper_agents.storage.owner import is_dead
from esper_agents.storage.store import database_clock, timestamp
from esper_agents.storage.tables import certificate, ledger, log_entry, note, note_file, session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import ColumnElement, Connection, Select

    from esper_agents.storage.store import Store

_DAY_MS = 86_400_000
_AT_ONCE = 200
_DIGEST = re.compile(r"[0-9a-f]{64}")
_OVER = (SessionState.DONE, SessionState.REFUSED, SessionState.CANCELLED)
_UNFINISHED = (SessionState.OPEN, SessionState.WAITING)


@dataclass(frozen=True, slots=True)
class Old:
    """A finished session that can be pruned.

    Attributes:
        id: `ses_` identifier.
        rows: Number of events to remove.
        characters: Total length of their bodies.
    """

    id: str
    rows: int
    characters: int


def old_sessions(store: Store, project_key: str, *, days: int) -> tuple[Old, ...]:
    """Return the finished sessions of a project with prunable events, oldest first.

    A session is skipped while a process works on it, while an unfinished session derives from it, and if its
    certificate is not in the archive as recorded in the ledger: the ledger is then its only remaining record.

    Args:
        store: The store.
        project_key: Key of the project.
        days: Only sessions without an event for this many days, by the clock of the database.
    """
    with store.reading() as connection:
        return _old(connection, project_key, database_clock(connection) - days * _DAY_MS)


def prune(store: Store, project_key: str, sessions: Sequence[str], *, days: int, by: str) -> tuple[Old, ...]:
    """Prune the agent events of those sessions that `old_sessions` still lists, and return them.

    Args:
        store: The store.
        project_key: Key of the project.
        sessions: Identifiers of the sessions.
        days: As for `old_sessions`.
        by: Name of the user who requested it.
    """
    done: list[Old] = []
    for start in range(0, len(sessions), _AT_ONCE):
        with store.writing() as transaction:
            some = sessions[start : start + _AT_ONCE]
            connection = transaction.connection
            connection.execute(select(session.c.id).where(session.c.id.in_(some)).with_for_update())
            found = _old(connection, project_key, transaction.now_ms - days * _DAY_MS, some)
            for each in found:
                removed = part_digest(event_digest(*row) for row in connection.execute(_of_agents(each.id)))
                connection.execute(delete(ledger).where(ledger.c.session_id == each.id, ledger.c.frame > 0))
                fence = select(session.c.fence).where(session.c.id == each.id).scalar_subquery()
                connection.execute(
                    insert(ledger).values(
                        session_id=each.id,
                        frame=0,
                        step=0,
                        call=0,
                        kind=RowKind.PRUNED,
                        fence=fence,
                        at=transaction.at,
                        body=encode(RowsPruned(each.rows, by, removed)),
                    )
                )
            done.extend(found)
    return tuple(done)


def _of_agents(session_id: str) -> Select[Any]:
    columns = ledger.c.frame, ledger.c.step, ledger.c.call, type_coerce(ledger.c.kind, String), ledger.c.at
    wanted = select(*columns, ledger.c.body).where(ledger.c.session_id == session_id, ledger.c.frame > 0)
    return wanted.order_by(ledger.c.seq)


def named_digests(store: Store, project_key: str, *, without: Sequence[str] = ()) -> frozenset[str]:
    """Return every digest referenced by a ledger, certificate, notice or note of a project.

    Args:
        store: The store.
        project_key: Key of the project.
        without: Sessions whose agent events are ignored.
    """
    gone = frozenset(without)
    with store.reading() as connection:
        return frozenset(digest for text in _texts(connection, project_key, gone) for digest in _DIGEST.findall(text))


def _texts(connection: Connection, project_key: str, gone: frozenset[str]) -> Iterator[str]:
    # In batches: a ledger may be larger than the available memory.
    streamed = connection.execution_options(yield_per=1000)
    mine = select(ledger.c.session_id, ledger.c.frame, ledger.c.body).join(session, session.c.id == ledger.c.session_id)
    for session_id, frame, body in streamed.execute(mine.where(session.c.project_key == project_key)):
        if not (frame and session_id in gone):
            yield body
    certified = select(certificate.c.statement).where(certificate.c.project_key == project_key)
    entered = select(log_entry.c.statement).where(log_entry.c.project_key == project_key)
    for statement in chain(streamed.scalars(certified), streamed.scalars(entered)):
        yield bytes(statement).decode("utf-8", "replace")
    yield from streamed.scalars(select(note.c.sources).where(note.c.project_key == project_key))
    files = select(note_file.c.sha256).join(note, note.c.id == note_file.c.note_id)
    yield from streamed.scalars(files.where(note.c.project_key == project_key))


def _old(connection: Connection, project_key: str, before_ms: int, only: Sequence[str] = ()) -> tuple[Old, ...]:
    now_ms = database_clock(connection)
    of_agents = and_(ledger.c.session_id == session.c.id, ledger.c.frame > 0)
    columns = session.c.id, session.c.owner, session.c.expires_ms, func.count(), func.sum(func.length(ledger.c.body))
    wanted = (
        select(*columns)
        .join(ledger, of_agents)
        .where(
            session.c.project_key == project_key,
            session.c.state.in_(_OVER),
            session.c.changed_at < timestamp(max(before_ms, 0)),
            ~_has_unfinished_heirs(),
        )
        .group_by(session.c.id, session.c.owner, session.c.expires_ms)
        .order_by(session.c.id)
    )
    if only:
        wanted = wanted.where(session.c.id.in_(only))
    return tuple(
        Old(name, rows, int(characters))
        for name, owner, expires_ms, rows, characters in connection.execute(wanted).all()
        if not (owner and expires_ms > now_ms and not is_dead(owner)) and _is_told_by_its_certificate(connection, name)
    )


def _is_told_by_its_certificate(connection: Connection, session_id: str) -> bool:
    """Return whether no certificate was issued, or the archived one matches the ledger."""
    wanted = select(ledger.c.body).where(ledger.c.session_id == session_id, ledger.c.frame == 0)
    body = connection.scalar(wanted.where(ledger.c.kind == RowKind.CERTIFIED))
    if body is None:
        state = connection.scalar(select(session.c.state).where(session.c.id == session_id))
        return state is not SessionState.DONE
    said = decode(CertificateIssued, body)
    statement = connection.scalar(select(certificate.c.statement).where(certificate.c.id == said.certificate))
    return statement is not None and sha256(statement).hexdigest() == said.sha256


def _has_unfinished_heirs() -> ColumnElement[bool]:
    heir = session.alias("heir")
    return select(heir.c.id).where(heir.c.origin_id == session.c.id, heir.c.state.in_(_UNFINISHED)).exists()
