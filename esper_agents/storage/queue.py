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
    """A project with claimable sessions.

    Attributes:
        key: Key of the project.
        root: The project's folder when it was first opened.
    """

    key: str
    root: str


@dataclass(frozen=True, slots=True)
class ClaimedSession:
    """A claimed session.

    Attributes:
        lease: The right to write to it.
        project_key: Key of its project.
        request: The user's request.
    """

    lease: Lease
    project_key: str
    request: str


def queued_projects(store: Store, *, passed_over: Collection[str] = ()) -> tuple[QueuedProject, ...]:
    """Return the projects with sessions that a worker may claim.

    Args:
        store: The store.
        passed_over: Sessions to ignore.
    """
    with store.reading() as connection:
        free = _free(connection, database_clock(connection))
        wanted = select(session.c.id).where(session.c.project_key == project.c.key, free)
        if passed_over:
            wanted = wanted.where(session.c.id.not_in(passed_over))
        found = select(project.c.key, project.c.root).where(wanted.exists()).order_by(project.c.key)
        return tuple(QueuedProject(*each) for each in connection.execute(found))


def claim_next(store: Store, keys: Collection[str], *, passed_over: Collection[str] = ()) -> ClaimedSession | None:
    """Claim the oldest claimable session of the given projects; None if there is none.

    On PostgreSQL a row locked by another worker is skipped; on SQLite writers take turns.

    Args:
        store: The store.
        keys: Keys of the projects.
        passed_over: Sessions to ignore.
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
    """Remove a session from the queue; a user can still resume it."""
    with store.writing() as transaction:
        transaction.connection.execute(update(session).where(session.c.id == session_id).values(queued=False))


def _free(connection: Connection, now_ms: int) -> ColumnElement[bool]:
    """Return the condition under which a worker may claim a session."""
    is_held = and_(session.c.owner != "", session.c.expires_ms > now_ms)
    working = select(session.c.owner).distinct().where(session.c.state == SessionState.OPEN, is_held)
    # An unexpired lease does not count if its owner is known to be dead.
    dead = [each for each in connection.scalars(working) if is_dead(each)]
    is_abandoned = and_(session.c.owner != "", or_(session.c.expires_ms <= now_ms, session.c.owner.in_(dead)))
    is_waiting_for_one = and_(session.c.queued, session.c.owner == "")
    return and_(session.c.state == SessionState.OPEN, or_(is_waiting_for_one, is_abandoned))
