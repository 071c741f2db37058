"""Find the sessions a queue worker may claim: queued ones and those whose owner died."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import and_, or_, select, update

from esper_agents.domain.session import SessionState
from esper_agents.storage.lease import Lease, claim_within
from esper_agents.storage.owner import is_dead
from esper_agents.storage.store import database_clock
from esper_agents.storage.tables import project, session

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import ColumnElement, Connection

    from esper_agents.storage.store import Store


@dataclass(frozen=True, slots=True)
class QueuedProject:
    """A project in which something is to be done.

    Attributes:
        key: What names it.
        root: The folder that it was in when it was opened first.
    """

    key: str
    root: str


@dataclass(frozen=True, slots=True)
class ClaimedSession:
    """A session that was claimed.

    Attributes:
        lease: The right to write to it.
        project_key: Whose it is.
        request: What was asked.
    """

    lease: Lease
    project_key: str
    request: str


def queued_projects(store: Store, *, passed_over: Collection[str] = ()) -> tuple[QueuedProject, ...]:
    """Return the projects that have sessions which a worker may take.

    Args:
        store: Where.
        passed_over: Sessions that do not count.
    """
    with store.reading() as connection:
        free = _free(connection, database_clock(connection))
        wanted = select(session.c.id).where(session.c.project_key == project.c.key, free)
        if passed_over:
            wanted = wanted.where(session.c.id.not_in(passed_over))
        found = select(project.c.key, project.c.root).where(wanted.exists()).order_by(project.c.key)
        return tuple(QueuedProject(*each) for each in connection.execute(found))


def claim_next(store: Store, keys: Collection[str], *, passed_over: Collection[str] = ()) -> ClaimedSession | None:
    """Claim the oldest session of some projects that a worker may take; None where there is none.

    On PostgreSQL a row that another worker looks at is passed over; on SQLite writers take turns.

    Args:
        store: Where.
        keys: Of these projects.
        passed_over: None of these sessions.
    """
    with store.writing() as transaction:
        free = _free(transaction.connection, transaction.now_ms)
        wanted = select(session.c.id, session.c.project_key, session.c.request)
        wanted = wanted.where(session.c.project_key.in_(keys), free).order_by(session.c.id).limit(1)
        if passed_over:
            wanted = wanted.where(session.c.id.not_in(passed_over))
        found = transaction.connection.execute(wanted.with_for_update(skip_locked=True)).one_or_none()
        if found is None:
            return None
        return ClaimedSession(claim_within(transaction, found.id), found.project_key, found.request)


def dequeue(store: Store, session_id: str) -> None:
    """Let no worker take a session any more; a person can still go on with it."""
    with store.writing() as transaction:
        transaction.connection.execute(update(session).where(session.c.id == session_id).values(queued=False))


def _free(connection: Connection, now_ms: int) -> ColumnElement[bool]:
    """Return what is so of a session that a worker may take."""
    is_held = and_(session.c.owner != "", session.c.expires_ms > now_ms)
    working = select(session.c.owner).distinct().where(session.c.state == SessionState.OPEN, is_held)
    # A lease that still runs counts for nothing where its owner is known to be dead.
    dead = [each for each in connection.scalars(working) if is_dead(each)]
    is_abandoned = and_(session.c.owner != "", or_(session.c.expires_ms <= now_ms, session.c.owner.in_(dead)))
    is_waiting_for_one = and_(session.c.queued, session.c.owner == "")
    return and_(session.c.state == SessionState.OPEN, or_(is_waiting_for_one, is_abandoned))
