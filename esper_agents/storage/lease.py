"""Leases: one owner per session; writes under an expired lease are rejected."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from esper_agents.domain.session import SessionState
from esper_agents.errors import BusyError, LeaseLostError
from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.owner import is_dead, this_process
from esper_agents.storage.queue_notices import announce

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from esper_agents.storage.store import Store, Transaction

LEASE_MS = 30_000
# Maximum wait for a session row that a suspended process has locked.
_PATIENCE_MS = 500
_LOCK_NOT_AVAILABLE = "55P03"
_SAID = "owner, fence, expires_ms, cancel_requested"
_READ = f"SELECT {_SAID} FROM session WHERE id = :wanted"  # noqa: S608 - a constant text
_HELD = {
    "sqlite": Prepared(_READ),
    # No claim may happen between this read and the commit. Not FOR SHARE: a heartbeat and a step that both hold it, and
    # then update the row, would deadlock.
    "postgresql": Prepared(f"{_READ} FOR NO KEY UPDATE"),
}


@cache
def _copying(columns: tuple[str, ...]) -> Prepared:
    """Return the statement that sets a session's copied columns and returns its lease; it locks like `_HELD`."""
    values = ", ".join(f"{column} = :{column}" for column in columns)
    return Prepared(f"UPDATE session SET {values} WHERE id = :wanted RETURNING {_SAID}")  # noqa: S608 - constant names


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write to one session.

    Attributes:
        session: `ses_` identifier.
        fence: Fencing token: increases with every claim; a write with an older one is rejected.
        owner: The process that claimed it.
        attempt: 1, plus the number of consecutive earlier owners that died or timed out without a release.
    """

    session: str
    fence: int
    owner: str = ""
    attempt: int = 1


def claim(store: Store, session_id: str) -> Lease:
    """Claim the lease of a session.

    An expired lease can be claimed, and so can the lease of a process that has died on this machine.

    Raises:
        BusyError: A live process owns it.
    """
    with store.writing() as transaction:
        held = _held(transaction, session_id)
        if not _is_owned(held, transaction.now_ms):
            return _taken(transaction, session_id, held)
        _limit(transaction, session_id, held)
    raise _busy(session_id)


def claim_within(transaction: Transaction, session_id: str) -> Lease:
    """Claim the lease inside a transaction; see `claim`."""
    held = _held(transaction, session_id)
    if _is_owned(held, transaction.now_ms):
        raise _busy(session_id)
    return _taken(transaction, session_id, held)


@dataclass(frozen=True, slots=True)
class _Held:
    """Lease columns of a session, unvalidated: SQLite stores values of any type."""

    owner: object
    fence: object
    expires_ms: object
    attempts: object = 0


_OWNERSHIP = "SELECT owner, fence, expires_ms, attempts FROM session WHERE id = :wanted"
_OWNED = {"sqlite": Prepared(_OWNERSHIP), "postgresql": Prepared(f"{_OWNERSHIP} FOR UPDATE")}
_WAIT_BRIEFLY = Prepared(f"SET LOCAL lock_timeout = {_PATIENCE_MS}")
_SET_END = Prepared("UPDATE session SET expires_ms = :expires_ms WHERE id = :wanted")
_NEWEST_FENCE = Prepared("SELECT fence FROM ledger WHERE session_id = :wanted ORDER BY seq DESC LIMIT 1")
_TAKE = Prepared(
    "UPDATE session SET owner = :owner, fence = :fence, expires_ms = :expires_ms, attempts = :attempts"
    " WHERE id = :wanted"
)


def _held(transaction: Transaction, session_id: str) -> _Held:
    connection = transaction.connection
    owned = _OWNED[connection.dialect.name]
    if connection.dialect.name == "sqlite":
        return _Held(*owned.rows(connection, {"wanted": session_id})[0])
    from sqlalchemy.exc import DBAPIError

    _WAIT_BRIEFLY.rows(connection, {})
    try:
        return _Held(*owned.rows(connection, {"wanted": session_id})[0])
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", "") != _LOCK_NOT_AVAILABLE:
            raise
        raise _busy(session_id) from error


def _taken(transaction: Transaction, session_id: str, held: _Held) -> Lease:
    newest = _NEWEST_FENCE.column(transaction.connection, {"wanted": session_id})
    # The ledger's newest token is included: after a reset of the column, an older owner could write again.
    fence = max(_whole(held.fence), *newest, 0) + 1
    taken = Lease(session_id, fence, this_process(), max(_whole(held.attempts), 1) + 1 if held.owner else 1)
    values = {
        "wanted": session_id,
        "owner": taken.owner,
        "fence": taken.fence,
        "expires_ms": transaction.now_ms + LEASE_MS,
        "attempts": taken.attempt,
    }
    _TAKE.rows(transaction.connection, values)
    return taken


def _limit(transaction: Transaction, session_id: str, held: Any) -> None:
    """Shorten a lease that ends later than any valid lease could end.

    This occurs if the clock was set back or the table was edited. A live owner soon extends its lease again.
    """
    latest = transaction.now_ms + LEASE_MS
    if _whole(held.expires_ms) > latest:
        _SET_END.rows(transaction.connection, {"wanted": session_id, "expires_ms": latest})


def _busy(session_id: str) -> BusyError:
    return BusyError(
        f"session {session_id} is being worked on by another process",
        remedy="wait for it to end, or run `esper sessions show " + session_id + "` to see its progress",
    )


def _whole(number: object) -> int:
    """Return a column as an integer, or 0 for other types, which SQLite may store."""
    return number if isinstance(number, int) else 0


def _is_owned(held: Any, now_ms: int) -> bool:
    return bool(held.owner) and _whole(held.expires_ms) > now_ms and not is_dead(str(held.owner))


def beat(store: Store, lease: Lease) -> None:
    """Extend a lease; an expired lease is never revived.

    Raises:
        LeaseLostError: The lease has expired or another process owns it.
    """
    with store.writing() as transaction:
        check(transaction, lease)
        extended = {"wanted": lease.session, "expires_ms": transaction.now_ms + LEASE_MS}
        _SET_END.rows(transaction.connection, extended)


def release(store: Store, lease: Lease, state: SessionState) -> None:
    """Release a lease and store the state of the session; does nothing if the lease was lost."""
    with store.writing() as transaction:
        values = {"wanted": lease.session, "held": lease.fence, "holder": lease.owner, "state": str(state)}
        _RELEASE.rows(transaction.connection, values)
        if state is SessionState.OPEN:
            announce(transaction)


_RELEASE = Prepared(
    "UPDATE session SET owner = '', expires_ms = 0, state = :state"
    " WHERE id = :wanted AND fence = :held AND owner = :holder"
)


def check(transaction: Transaction, lease: Lease) -> bool:
    """Check that a transaction may write under a lease, and return whether cancellation was requested.

    Raises:
        LeaseLostError: The lease has expired or another process owns it.
    """
    held = _HELD[transaction.connection.dialect.name].rows(transaction.connection, {"wanted": lease.session})
    return _is_cancelled(transaction, lease, held)


def note(transaction: Transaction, lease: Lease, copies: Mapping[str, object]) -> bool:
    """Set a session's copied columns under a lease; like `check`, but in one statement."""
    values = {name: str(each) for name, each in copies.items()}
    held = _copying(tuple(values)).rows(transaction.connection, {"wanted": lease.session, **values})
    return _is_cancelled(transaction, lease, held)


def _is_cancelled(transaction: Transaction, lease: Lease, held: list[tuple[Any, ...]]) -> bool:
    for owner, fence, expires_ms, cancel_requested in held:
        if (owner, fence) == (lease.owner, lease.fence) and _whole(expires_ms) > transaction.now_ms:
            return bool(cancel_requested)
        if (owner, fence) == (lease.owner, lease.fence):
            why = "this process was suspended or starved"
            raise LeaseLostError(
                f"session {lease.session} was not renewed for {LEASE_MS // 1000} s: {why}",
                remedy=f"run `esper resume {lease.session}`; no completed step is lost",
            )
    raise LeaseLostError(
        f"session {lease.session} was taken over by another process",
        remedy=f"let that process finish, or run `esper resume {lease.session}` later",
    )


def is_owned(connection: Connection, session_id: str, now_ms: int) -> bool:
    """Return whether a live process owns a session."""
    (found,) = _OWNED["sqlite"].rows(connection, {"wanted": session_id})
    return _is_owned(_Held(*found), now_ms)
