"""Find the sessions a queue worker may claim: queued ones and those whose owner died."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import and_, or_, select, update

from esper_agents.domain.codec import decode
from esper_agents.domain.ledger import RowKind
from esper_agents.domain.session import SessionState
from esper_agents.storage.lease import Lease, claim_within
from esper_agents.storage.owner import is_dead
from esper_agents.storage.store import database_clock
from esper_agents.storage.tables import ledger, project, session

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
        root: The project's folder when it was first opened.
        snapshot: Digest of the artifact that it reads instead of that folder, or empty.
    """

    lease: Lease
    project_key: str
    request: str
    root: str = ""
    snapshot: str = ""


@dataclass(frozen=True, slots=True)
class _SnapshotReference:
    """The part of a submission that the queue reads."""

    snapshot: str = ""


_IS_SUBMISSION = and_(ledger.c.frame == 0, ledger.c.kind == RowKind.SUBMITTED)
_SUBMISSION = (
    select(ledger.c.body, project.c.root)
    .join(session, session.c.id == ledger.c.session_id)
    .join(project, project.c.key == session.c.project_key)
    .where(_IS_SUBMISSION)
)
# The body is compact JSON. A request that contains this text has its quotation marks escaped.
_READS_SNAPSHOT = (
    select(ledger.c.seq)
    .where(ledger.c.session_id == session.c.id, _IS_SUBMISSION, ledger.c.body.regexp_match('"snapshot":"[0-9a-f]{64}"'))
    .exists()
)


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


def claim_next(
    store: Store, keys: Collection[str], *, passed_over: Collection[str] = (), away: Collection[str] = ()
) -> ClaimedSession | None:
    """Claim the oldest claimable session of the given projects; None if there is none.

    On PostgreSQL a row locked by another worker is skipped; on SQLite writers take turns.

    Args:
        store: The store.
        keys: Keys of the projects.
        passed_over: Sessions to ignore.
        away: Keys of projects that are not on this machine: of these, only sessions that read a snapshot.
    """
    with store.writing() as transaction:
        free = _free(transaction.connection, transaction.now_ms)
        wanted = select(session.c.id, session.c.project_key, session.c.request)
        here: ColumnElement[bool] = session.c.project_key.in_(keys)
        if away:
            here = or_(here, and_(session.c.project_key.in_(away), _READS_SNAPSHOT))
        wanted = wanted.where(here, free).order_by(session.c.id).limit(1)
        if passed_over:
            wanted = wanted.where(session.c.id.not_in(passed_over))
        found = transaction.connection.execute(wanted.with_for_update(skip_locked=True)).one_or_none()
        if found is None:
            return None
        claimed = claim_within(transaction, found.id)
        submitted = transaction.connection.execute(_SUBMISSION.where(ledger.c.session_id == found.id)).one()
        snapshot = decode(_SnapshotReference, submitted.body).snapshot
        return ClaimedSession(claimed, found.project_key, found.request, submitted.root, snapshot)


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
