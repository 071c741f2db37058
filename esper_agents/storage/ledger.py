"""The ledger in SQL: rows are appended under a lease and never rewritten."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, func, insert, select, update

from esper_agents.domain.codec import encode
from esper_agents.domain.ledger import Row, RowKey
from esper_agents.storage.lease import check
from esper_agents.storage.tables import ledger, session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Update

    from esper_agents.storage.lease import Lease
    from esper_agents.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Appended:
    """What an append did.

    Attributes:
        rows: The rows as they stand in the ledger.
        is_cancel_requested: Whether somebody has asked for the session to be cancelled.
    """

    rows: tuple[Row, ...]
    is_cancel_requested: bool


def append(store: Store, lease: Lease, entries: Sequence[tuple[RowKey, object]], **index: object) -> Appended:
    """Append rows in one transaction, each body as JSON, all or none.

    Args:
        store: Where.
        lease: The right to write to the session.
        entries: Key and body of each row.
        index: New values of the session's copied columns, such as `state`.

    Raises:
        LeaseLostError: Another owner has the session.
    """
    with store.writing() as transaction:
        return append_within(transaction, lease, entries, **index)


def append_within(
    transaction: Transaction, lease: Lease, entries: Sequence[tuple[RowKey, object]], **index: object
) -> Appended:
    """Append rows inside a transaction; see `append`."""
    is_cancel_requested = check(transaction, lease)
    rows = tuple(_insert(transaction, lease, key, body) for key, body in entries)
    values = {"changed_at": transaction.at, **index}
    transaction.connection.execute(_copies(tuple(values)), {"wanted": lease.session, **values})
    return Appended(rows, is_cancel_requested)


def _insert(transaction: Transaction, lease: Lease, key: RowKey, body: object) -> Row:
    text = encode(body)
    values: dict[str, Any] = {
        "session_id": lease.session,
        "frame": key.frame,
        "step": key.step,
        "call": key.call,
        "kind": key.kind,
        "fence": lease.fence,
        "at": transaction.at,
        "body": text,
    }
    inserted = transaction.connection.execute(_INSERT, values)
    return Row(int(inserted.scalar_one()), key, transaction.at, text)


# Made once: building a statement anew takes longer than the database does for it.
_INSERT = insert(ledger).returning(ledger.c.seq)


@cache
def _copies(columns: tuple[str, ...]) -> Update:
    """Return the statement that sets a session's copied columns."""
    values: dict[str, Any] = {each: bindparam(each) for each in columns}
    return update(session).where(session.c.id == bindparam("wanted")).values(values)


def rows(connection: Connection, session_id: str, *, after: int = 0) -> tuple[Row, ...]:
    """Return a session's rows in order, those with a greater number than `after`."""
    wanted = select(*_ROW).where(ledger.c.session_id == session_id, ledger.c.seq > after).order_by(ledger.c.seq)
    # Taken apart by place, all at once: by name takes twice as long, and a session has thousands.
    return tuple(
        Row(seq, RowKey(frame, step, call, kind), at, body)
        for seq, frame, step, call, kind, at, body in connection.execute(wanted).all()
    )


_ROW = (ledger.c.seq, ledger.c.frame, ledger.c.step, ledger.c.call, ledger.c.kind, ledger.c.at, ledger.c.body)


def count(connection: Connection, session_id: str) -> int:
    """Return how many rows a session has."""
    wanted = select(func.count()).select_from(ledger).where(ledger.c.session_id == session_id)
    return int(connection.scalar(wanted) or 0)
