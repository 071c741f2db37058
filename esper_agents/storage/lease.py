"""Leases: one owner a session, whose writes stop counting the moment another has claimed it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select, update

from esper_agents.errors import BusyError, LeaseLostError
from esper_agents.storage.owner import is_dead, this_process
from esper_agents.storage.tables import session

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from esper_agents.domain.session import SessionState
    from esper_agents.storage.store import Store, Transaction

LEASE_MS = 30_000


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write to one session.

    Attributes:
        session: `ses_` identifier.
        fence: Grows with every claim; a write under an older one is refused.
    """

    session: str
    fence: int


def claim(store: Store, session_id: str) -> Lease:
    """Take the lease of a session.

    A lease that has run out can be taken, and so can that of a process that has died on this machine.

    Raises:
        BusyError: A living owner has it.
    """
    with store.writing() as transaction:
        return claim_within(transaction, session_id)


def claim_within(transaction: Transaction, session_id: str) -> Lease:
    """Take the lease inside a transaction; see `claim`."""
    columns = select(session.c.owner, session.c.fence, session.c.expires_ms)
    held = transaction.connection.execute(columns.where(session.c.id == session_id).with_for_update()).one()
    if held.owner and held.expires_ms > transaction.now_ms and not is_dead(held.owner):
        raise BusyError(
            f"session {session_id} is being worked on by another process",
            remedy="wait for it to end, or run `esper sessions show " + session_id + "` to see how far it is",
        )
    transaction.connection.execute(
        update(session)
        .where(session.c.id == session_id)
        .values(
            owner=this_process(),
            fence=held.fence + 1,
            expires_ms=transaction.now_ms + LEASE_MS,
            attempts=session.c.attempts + 1,
        )
    )
    return Lease(session_id, held.fence + 1)


def beat(store: Store, lease: Lease) -> None:
    """Extend a lease; one that has run out is never revived.

    Raises:
        LeaseLostError: It has run out or another owner has it.
    """
    with store.writing() as transaction:
        check(transaction, lease)
        transaction.connection.execute(
            update(session).where(session.c.id == lease.session).values(expires_ms=transaction.now_ms + LEASE_MS)
        )


def release(store: Store, lease: Lease, state: SessionState) -> None:
    """Give a lease back and note where the session is; nothing happens where it is not ours any more."""
    with store.writing() as transaction:
        transaction.connection.execute(
            update(session)
            .where(session.c.id == lease.session, session.c.fence == lease.fence)
            .values(owner="", expires_ms=0, state=state)
        )


def check(transaction: Transaction, lease: Lease) -> bool:
    """Make sure that a transaction may write under a lease, and return whether the session is to be cancelled.

    Raises:
        LeaseLostError: The lease has run out or another owner has it.
    """
    # FOR SHARE (SQLite leaves it out): a claim may not slip in between this look and the commit.
    columns = select(session.c.fence, session.c.expires_ms, session.c.cancel_requested)
    wanted = columns.where(session.c.id == lease.session)
    held = transaction.connection.execute(wanted.with_for_update(read=True)).one_or_none()
    if held is None or held.fence != lease.fence or held.expires_ms <= transaction.now_ms:
        raise LeaseLostError(
            f"session {lease.session} was taken over by another process",
            remedy=f"let that process finish, or run `esper resume {lease.session}` later",
        )
    return bool(held.cancel_requested)


def is_owned(connection: Connection, session_id: str, now_ms: int) -> bool:
    """Return whether a living owner works on a session."""
    wanted = select(session.c.owner, session.c.expires_ms).where(session.c.id == session_id)
    held = connection.execute(wanted).one()
    return bool(held.owner) and held.expires_ms > now_ms and not is_dead(held.owner)
