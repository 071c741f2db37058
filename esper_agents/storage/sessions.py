"""Sessions in SQL: create, list and cancel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from esper_agents.domain.origin import SUBMITTED, OriginKind, SessionOrigin
from esper_agents.domain.session import SessionState, SessionSummary
from esper_agents.storage import session_search_index
from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.lazy_sql import sql, tables
from esper_agents.storage.owner import is_dead
from esper_agents.storage.queue_notices import announce
from esper_agents.storage.session_lookup import named
from esper_agents.storage.store import database_clock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from esper_agents.domain.project import Project
    from esper_agents.domain.session import Submission
    from esper_agents.storage.lease import Lease
    from esper_agents.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Filter for sessions.

    Attributes:
        states: Only sessions in one of these states; any if empty.
        agent: Only sessions whose task this agent has, or had last.
        since: Only sessions with an event since this time, as `YYYY-MM-DDTHH:MM:SS.mmmZ` or a prefix of it.
    """

    states: tuple[SessionState, ...] = ()
    agent: str = ""
    since: str = ""


def create(store: Store, where: Project, submission: Submission, *, origin: SessionOrigin = SUBMITTED) -> Lease:
    """Create a session with its first event, and return its lease."""
    with store.writing() as transaction:
        return _create(transaction, where, submission, origin)


def enqueue(store: Store, where: Project, submission: Submission, *, origin: SessionOrigin = SUBMITTED) -> str:
    """Create an unowned session with its first event for any worker to claim, and return its identifier."""
    with store.writing() as transaction:
        lease = _create(transaction, where, submission, origin)
        given_back = {"owner": "", "expires_ms": 0, "attempts": 0}
        transaction.connection.execute(
            sql.update(tables.session).where(tables.session.c.id == lease.session).values(queued=True, **given_back)
        )
        announce(transaction)
    return lease.session


def fork(
    store: Store, where: Project, submission: Submission, origin: SessionOrigin, copied: Collection[int], *, agent: str
) -> Lease:
    """Create a session that begins with copies of another one's events, and return its lease.

    Args:
        store: The store.
        where: The project.
        submission: Its submission, which replaces the one of the other session.
        origin: The other session.
        copied: Sequence numbers of the events to copy, in order and with their times.
        agent: The agent that has the task.
    """
    with store.writing() as transaction:
        lease = _create(transaction, where, submission, origin)
        same = (
            tables.ledger.c.frame,
            tables.ledger.c.step,
            tables.ledger.c.call,
            tables.ledger.c.kind,
            tables.ledger.c.at,
            tables.ledger.c.body,
        )
        wanted = sql.select(sql.literal(lease.session), sql.literal(lease.fence), *same).order_by(tables.ledger.c.seq)
        wanted = wanted.where(
            tables.ledger.c.session_id == origin.session,
            tables.ledger.c.seq.in_(sorted(copied)) if copied else sql.literal(value=False),
        )
        names = ["session_id", "fence", *(each.name for each in same)]
        transaction.connection.execute(sql.insert(tables.ledger).from_select(names, wanted))
        transaction.connection.execute(
            sql.update(tables.session).where(tables.session.c.id == lease.session).values(agent=agent)
        )
        session_search_index.write(transaction, lease.session)
    return lease


def _create(transaction: Transaction, where: Project, submission: Submission, origin: SessionOrigin) -> Lease:
    from esper_agents.domain.identifier import Prefix, new_id
    from esper_agents.domain.ledger import RowKey, RowKind
    from esper_agents.storage import ledger
    from esper_agents.storage.lease import claim_within
    from esper_agents.storage.projects import note_project

    session_id = new_id(Prefix.SESSION)
    note_project(transaction, where)
    values = {
        "id": session_id,
        "project_key": where.key,
        "request": submission.task.request,
        "created_at": transaction.at,
        "changed_at": transaction.at,
        "origin_id": origin.session,
        "origin_kind": str(origin.kind),
        **_OPEN,
        **_NOBODYS,
    }
    _INSERT.rows(transaction.connection, values)
    lease = claim_within(transaction, session_id)
    ledger.append_within(transaction, lease, [(RowKey(0, 0, 0, RowKind.SUBMITTED), submission)])
    session_search_index.write(transaction, session_id)
    return lease


_OPEN = {"state": str(SessionState.OPEN), "agent": "", "certificate_id": "", "cancel_requested": False}
_NOBODYS = {"owner": "", "fence": 0, "expires_ms": 0, "attempts": 0}
_INSERT = Prepared(
    "INSERT INTO session (id, project_key, request, state, agent, certificate_id, created_at, changed_at, owner, fence,"
    " expires_ms, cancel_requested, attempts, origin_id, origin_kind) VALUES (:id, :project_key, :request, :state,"
    " :agent, :certificate_id, :created_at, :changed_at, :owner, :fence, :expires_ms, :cancel_requested, :attempts,"
    " :origin_id, :origin_kind)"
)

_ANY = SessionFilter()
_STATES = {str(each): each for each in SessionState}
# Text, not values, for states and kinds: a project has thousands of sessions.
_SHOWN = (
    "SELECT id, request, state, agent, certificate_id, created_at, changed_at, owner, expires_ms, origin_id,"
    " origin_kind, queued FROM session WHERE "
)


def listing(
    store: Store, project_key: str, *, wanted: SessionFilter = _ANY, before: str = "", limit: int = 50
) -> tuple[SessionSummary, ...]:
    """Return a project's sessions, newest first; with a start time, ordered by their latest event.

    Args:
        store: The store.
        project_key: Key of the project.
        wanted: Filter.
        before: Only sessions submitted before this one; all if empty.
        limit: Maximum number of sessions.
    """
    given = {"project": project_key, "agent": wanted.agent, "since": wanted.since, "limit": limit, "before": before}
    # One query per state: for several states in one query, the database would scan all sessions for a rare one.
    states = dict.fromkeys(str(each) for each in wanted.states) or {"": None}
    found: list[SessionSummary] = []
    with store.reading() as connection:
        for state in states:
            asked = _listed_by(
                agent=bool(wanted.agent), since=bool(wanted.since), state=bool(state), before=bool(before)
            )
            found += _summaries(asked.rows(connection, {**given, "state": state}), database_clock(connection))
    if len(states) > 1:
        found.sort(key=lambda each: (each.changed_at, each.id) if wanted.since else ("", each.id), reverse=True)
    return tuple(found[:limit])


@cache
def _listed_by(*, agent: bool, since: bool, state: bool, before: bool) -> Prepared:
    """Return the statement for the newest sessions of a project, filtered by agent, time, state or place."""
    asked = f"{_SHOWN}project_key = :project"
    asked += " AND agent = :agent" if agent else ""
    asked += " AND state = :state" if state else ""
    asked += " AND id < :before" if before else ""
    asked += " AND changed_at >= :since ORDER BY changed_at DESC, id DESC" if since else " ORDER BY id DESC"
    return Prepared(f"{asked} LIMIT :limit")


def search(store: Store, project_key: str, words: str, *, limit: int = 20) -> tuple[SessionSummary, ...]:
    """Return the sessions that contain all words in request, agent or conclusion, newest first.

    Raises:
        UsageError: The text contains no word.
    """
    make_complete(store, project_key)
    with store.reading() as connection:
        found = session_search_index.newest(connection, project_key, words, limit)
        rows = [row for session_id in found for row in _NAMED.rows(connection, {"wanted": session_id})]
        rows.sort(key=lambda row: str(row[0]), reverse=True)
        return _summaries(rows, database_clock(connection))


def make_complete(store: Store, project_key: str) -> None:
    """Index the sessions of a project that were created before the index existed."""
    with store.reading() as connection:
        if session_search_index.is_complete(connection, project_key):
            return
    with store.writing() as transaction:
        session_search_index.rebuild(transaction)


def _summaries(rows: Iterable[Sequence[Any]], now_ms: int) -> tuple[SessionSummary, ...]:
    # Unpacked by position: by name takes twice as long, and a project has thousands of sessions.
    return tuple(
        SessionSummary(
            session_id,
            request,
            _STATES[state],
            agent,
            certificate,
            created_at,
            changed_at,
            bool(owner) and _is_after(expires_ms, now_ms) and not is_dead(str(owner)),
            SessionOrigin(OriginKind(kind), origin) if origin else SUBMITTED,
            bool(queued),
        )
        for (
            session_id,
            request,
            state,
            agent,
            certificate,
            created_at,
            changed_at,
            owner,
            expires_ms,
            origin,
            kind,
            queued,
        ) in rows
    )


def _is_after(expires_ms: object, now_ms: int) -> bool:
    # SQLite stores values of any type.
    return isinstance(expires_ms, int) and expires_ms > now_ms


def request_cancel(store: Store, session_id: str) -> None:
    """Request cancellation: the owner of the session stops at the next step boundary."""
    with store.writing() as transaction:
        transaction.connection.execute(
            sql.update(tables.session).where(tables.session.c.id == session_id).values(cancel_requested=True)
        )


def find(store: Store, project_key: str, session_id: str) -> SessionSummary:
    """Return one session of a project; see `session_lookup.named`.

    Raises:
        NotFoundError: The project has no such session.
        UsageError: The reference is ambiguous, or the session belongs to another project.
    """
    make_complete(store, project_key)
    with store.reading() as connection:
        chosen = named(connection, project_key, session_id)
        rows = _NAMED.rows(connection, {"wanted": chosen})
        return _summaries(rows, database_clock(connection))[0]


_NAMED = Prepared(f"{_SHOWN}id = :wanted")
