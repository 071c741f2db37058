"""The ledger in SQL: events are appended under a lease and never changed."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from esper_agents.domain.codec import encode
from esper_agents.domain.ledger import LedgerRow, RowKey, RowKind
from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.lease import note

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from esper_agents.storage.lease import Lease
    from esper_agents.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Appended:
    """Result of an append.

    Attributes:
        rows: The rows as stored in the ledger.
        is_cancel_requested: Whether cancellation of the session was requested.
    """

    rows: tuple[LedgerRow, ...]
    is_cancel_requested: bool


def append(
    store: Store,
    lease: Lease,
    entries: Sequence[tuple[RowKey, object]],
    *,
    beginning: Sequence[tuple[RowKey, object]] = (),
    **index: object,
) -> Appended:
    """Append events atomically in one transaction, with their bodies as JSON.

    Args:
        store: The store.
        lease: The right to write to the session.
        entries: Key and body of every event.
        beginning: Additional events for the next action; omitted if cancellation was requested.
        index: New values of the session's copied columns, such as `state`.

    Raises:
        LeaseLostError: Another process owns the session.
    """
    with store.writing() as transaction:
        return append_within(transaction, lease, entries, beginning=beginning, **index)


def append_within(
    transaction: Transaction,
    lease: Lease,
    entries: Sequence[tuple[RowKey, object]],
    *,
    beginning: Sequence[tuple[RowKey, object]] = (),
    **index: object,
) -> Appended:
    """Append events inside a transaction; see `append`."""
    is_cancel_requested = note(transaction, lease, {"changed_at": transaction.at, **index})
    wanted = entries if is_cancel_requested else (*entries, *beginning)
    rows = tuple(_insert(transaction, lease, key, encode(body)) for key, body in wanted)
    return Appended(rows, is_cancel_requested)


def event_digest(frame: int, step: int, call: int, kind: str, at: str, body: str) -> bytes:  # noqa: PLR0917 - a row
    """Return the digest of one event; its sequence number and fencing token are not included."""
    head = f"{frame}.{step}.{call}.{kind}.{at}\n"
    return sha256((head + body).encode("utf-8", "surrogatepass")).digest()


def part_digest(events: Iterable[bytes]) -> str:
    """Return the digest of one part of a session's events, given their digests in order."""
    return sha256(b"".join(events)).hexdigest()


def events_digest(of_session: str, of_agents: str) -> str:
    """Return the digest of a session's events.

    Args:
        of_session: `part_digest` of the session's own events, which are never pruned.
        of_agents: `part_digest` of the frames' events, which `db prune` removes.
    """
    return sha256(f"{of_session}\n{of_agents}\n".encode()).hexdigest()


def _insert(transaction: Transaction, lease: Lease, key: RowKey, body: str) -> LedgerRow:
    values = {
        "session_id": lease.session,
        "frame": key.frame,
        "step": key.step,
        "call": key.call,
        "kind": key.kind.value,
        "fence": lease.fence,
        "at": transaction.at,
        "body": body,
    }
    ((seq,),) = _INSERT.rows(transaction.connection, values)
    return LedgerRow(seq, key, transaction.at, body)


_INSERT = Prepared(
    "INSERT INTO ledger (session_id, frame, step, call, kind, fence, at, body)"
    " VALUES (:session_id, :frame, :step, :call, :kind, :fence, :at, :body) RETURNING seq"
)


def rows(connection: Connection, session_id: str, *, after: int = 0) -> tuple[LedgerRow, ...]:
    """Return a session's events in order, those with a greater sequence number than `after`."""
    found = _ROWS.rows(connection, {"wanted": session_id, "after": after})
    return tuple(
        [
            LedgerRow(seq, RowKey(frame, step, call, _KINDS[kind]), at, body)
            for seq, frame, step, call, kind, at, body in found
        ]
    )


_KINDS = {each.value: each for each in RowKind}
_ROWS = Prepared(
    "SELECT seq, frame, step, call, kind, at, body FROM ledger WHERE session_id = :wanted AND seq > :after ORDER BY seq"
)


def read(store: Store, session_id: str, after: int = 0) -> tuple[LedgerRow, ...]:
    """Return a session's events from a store; see `rows`."""
    with store.reading() as connection:
        return rows(connection, session_id, after=after)


def count(connection: Connection, session_id: str) -> int:
    """Return the number of events of a session."""
    return int(_COUNT.scalar(connection, {"wanted": session_id}))


_COUNT = Prepared("SELECT count(*) FROM ledger WHERE session_id = :wanted")
