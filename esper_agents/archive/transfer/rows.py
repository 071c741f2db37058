"""Rows of one project: read from a database, checked, and inserted into another one."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error
from typing import TYPE_CHECKING, Any, NoReturn

from sqlalchemy import Enum, insert, select, update

from esper_agents.archive import search_index
from esper_agents.certificates.statement import parse
from esper_agents.certificates.views.file_names import accepted_view_names
from esper_agents.domain.memory import NoteState
from esper_agents.errors import IntegrityError
from esper_agents.memory import index as note_index
from esper_agents.memory.note_rows import fetched
from esper_agents.storage import session_search_index
from esper_agents.storage.tables import (
    certificate,
    exchange,
    imported,
    ledger,
    log,
    log_checkpoint,
    log_entry,
    log_node,
    note,
    project,
    session,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sqlalchemy import Column, Connection, Table

    from esper_agents.storage.store import Transaction

Row = dict[str, Any]
_AT_ONCE = 500
_BYTES = "base64"
# Columns that the receiving database assigns, by table; derived rows are made again from the records.
_ASSIGNED: dict[Table, frozenset[str]] = {
    session: frozenset(("project_key", "owner", "fence", "expires_ms", "queued")),
    ledger: frozenset(("seq",)),
    certificate: frozenset(("position", "project_key")),
    log: frozenset(("id",)),
    log_entry: frozenset(("log_id", "project_key")),
    log_node: frozenset(("log_id",)),
    log_checkpoint: frozenset(("log_id",)),
    imported: frozenset(("project_key",)),
    note: frozenset(("project_key",)),
    exchange: frozenset(("id", "project_key")),
}
TABLES = tuple(_ASSIGNED)
_OF_LOG = frozenset((log_entry, log_node, log_checkpoint))
_ORDER = {ledger: ledger.c.seq, certificate: certificate.c.position, exchange: exchange.c.id, note: note.c.id}


def exported_columns(table: Table) -> tuple[Column[Any], ...]:
    """Return the columns of a table that are transferred."""
    return tuple(column for column in table.c if column.name not in _ASSIGNED[table])


def rows_of(connection: Connection, project_key: str, log_id: int, table: Table) -> Iterator[Row]:
    """Yield the transferred rows of a project, in order.

    Args:
        connection: Connection that sees one snapshot of the database.
        project_key: Key of the project.
        log_id: Its transparency log; 0 if it has none.
        table: One of `TABLES`.
    """
    wanted = select(*exported_columns(table))
    if table is log:
        wanted = wanted.where(log.c.id == log_id)
    elif table in _OF_LOG:
        wanted = wanted.where(table.c.log_id == log_id)
    elif table is ledger:
        wanted = wanted.join(session, session.c.id == ledger.c.session_id).where(session.c.project_key == project_key)
    else:
        wanted = wanted.where(table.c.project_key == project_key)
    keys = (_ORDER[table],) if table in _ORDER else tuple(table.primary_key.columns)
    for row in connection.execute(wanted.order_by(*keys), execution_options={"yield_per": _AT_ONCE}).mappings():
        yield dict(row)


def as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as JSON values."""
    return {
        name: {_BYTES: b64encode(value).decode("ascii")} if isinstance(value, bytes) else value
        for name, value in row.items()
    }


def from_json(table: Table, value: object) -> Row:
    """Return the row of a table in a JSON value.

    Raises:
        IntegrityError: It has another member or a value of another type than the table.
    """
    columns = {column.name: column for column in exported_columns(table)}
    if not isinstance(value, dict) or set(value) != set(columns):
        _refuse(f"a row of {table.name} has other members")
    return {name: _value(columns[name], each) for name, each in value.items()}


def insert_rows(transaction: Transaction, project_key: str, log_id: int, rows: Iterable[tuple[Table, Row]]) -> None:
    """Insert the rows of a project, in the order of `TABLES`, with the rows that derive from them.

    Args:
        transaction: Transaction of the receiving database.
        project_key: Key of the project there; its row exists.
        log_id: Number of its log there.
        rows: Rows by table.

    Raises:
        IntegrityError: A certificate is not one, or has another name.
    """
    connection = transaction.connection
    given: dict[str, Any] = {"project_key": project_key, "log_id": log_id}
    for some in _batches(rows):
        table = some[0][0]
        if table is certificate:
            for _, row in some:
                _insert_certificate(connection, project_key, row)
        else:
            assigned = {name: each for name, each in given.items() if name in table.c}
            assigned |= {"id": log_id} if table is log else {}
            assigned |= _NO_LEASE if table is session else {}
            connection.execute(insert(table), [row | assigned for _, row in some])
    if connection.scalar(select(log.c.id).where(log.c.id == log_id)) is not None:
        connection.execute(update(project).where(project.c.key == project_key).values(log_id=log_id))
    _index(transaction, project_key)


_NO_LEASE: Row = {"owner": "", "fence": 0, "expires_ms": 0, "queued": False}


def _batches(rows: Iterable[tuple[Table, Row]]) -> Iterator[list[tuple[Table, Row]]]:
    some: list[tuple[Table, Row]] = []
    for table, row in rows:
        if some and (some[0][0] is not table or len(some) == _AT_ONCE):
            yield some
            some = []
        some.append((table, row))
    if some:
        yield some


def _insert_certificate(connection: Connection, project_key: str, row: Row) -> None:
    issued = parse(row["statement"])
    if issued.id != row["id"] or row["view_name"] not in accepted_view_names(issued):
        _refuse(f"the row of certificate {issued.id} belongs to another one")
    values = row | search_index.columns(issued) | {"project_key": project_key}
    position = connection.scalar(insert(certificate).values(values).returning(certificate.c.position))
    search_index.add(connection, int(position or 0), issued)


def _index(transaction: Transaction, project_key: str) -> None:
    """Write the search rows of sessions and notes."""
    connection = transaction.connection
    summaries = {
        str(each.session_id): parse(each.statement).summary
        for each in connection.execute(
            select(certificate.c.session_id, certificate.c.statement).where(certificate.c.project_key == project_key)
        )
    }
    for session_id in connection.scalars(select(session.c.id).where(session.c.project_key == project_key)).all():
        session_search_index.write(transaction, session_id, summaries.get(session_id, ""))
    named = connection.scalars(select(note.c.id).where(note.c.project_key == project_key).order_by(note.c.id)).all()
    for start in range(0, len(named), _AT_ONCE):
        notes = fetched(connection, project_key, named[start : start + _AT_ONCE])
        note_index.add(connection, project_key, [each for each in notes if each.state is not NoteState.FORGOTTEN])


def _value(column: Column[Any], value: object) -> Any:
    if value is None and column.nullable:
        return None
    if isinstance(column.type, Enum) and column.type.enum_class is not None and isinstance(value, str):
        try:
            return column.type.enum_class(value)
        except ValueError:
            _refuse(f"{value[:40]!a} is no value of {column}")
    wanted = column.type.python_type
    if wanted is bytes and isinstance(value, dict) and set(value) == {_BYTES}:
        try:
            return b64decode(str(value[_BYTES]), validate=True)
        except Error:
            _refuse(f"{column} is not base64")
    is_number = wanted is float and isinstance(value, int)
    if not (isinstance(value, wanted) or is_number) or (wanted is int and isinstance(value, bool)):
        _refuse(f"{column} has a value of another type")
    return value


def _refuse(problem: str) -> NoReturn:
    raise IntegrityError(f"not an archive: {problem}", remedy="export it again: esper archive export FILE")
