"""Conditions of a filter with the index of each, and the order of dates."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from esper_agents.archive.search.column_conditions import KIND, REVISION, Columns
from esper_agents.archive.search.full_text import Words, full_text_of
from esper_agents.archive.search.posting_lists import (
    ABOVE_ALL,
    FIRST_LOOK,
    GROWTH,
    MOST_AT_ONCE,
    held_by_all,
    listed,
    place_by_place,
)
from esper_agents.archive.search_index import path_key, rule_key
from esper_agents.domain.status import statuses_of
from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.lazy_sql import sql, tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Column, ColumnElement, Connection, Select

    from esper_agents.archive.search.filters import Filter
    from esper_agents.archive.search.posting_lists import PostingList

# Conditions with at most this many matches are queried by position, others by time.
_FEW = 2000
_MOST_COMMITS = 50


@dataclass(frozen=True, slots=True)
class IndexedRows:
    """Archive positions in an index table whose column has a value, sorted by position.

    Attributes:
        connection: The archive.
        table: Index table.
        column: Column to compare.
        value: Required value.
    """

    run: ClassVar[int] = 2

    connection: Connection
    table: str
    column: str
    value: str

    def newest(self, below: int, count: int, low: int = 0) -> list[int]:
        """Return the newest positions below one, none lower than `low`."""
        given = {"value": self.value, "below": below, "low": low, "count": count}
        return _newest_rows(self.table, self.column).column(self.connection, given)

    def one_by_one(self, positions: Sequence[int]) -> set[int]:
        """Return the subset of positions that match."""
        wanted = _rows_among(self.table, self.column, self.connection.dialect.name)
        given = {"value": self.value, "positions": json.dumps(list(positions))}
        return set(wanted.column(self.connection, given))


@cache
def _newest_rows(table: str, column: str) -> Prepared:
    # A certificate may contain a metric several times.
    newest = f"SELECT DISTINCT position FROM {table} WHERE {column} = :value AND position < :below AND position >= :low"  # noqa: S608 - fixed names
    return Prepared(f"{newest} ORDER BY position DESC LIMIT :count")


@cache
def _rows_among(table: str, column: str, dialect: str) -> Prepared:
    return place_by_place(dialect, table, f"{column} = :value")


@dataclass(frozen=True, slots=True)
class SignatureTable:
    """Table with the key of each certificate, in a column `key_id`.

    Attributes:
        name: Name of the table.
        certificate: Column with the identifier of the certificate.
    """

    name: str
    certificate: str


LOGGED = SignatureTable("log_entry", "record_id")


@dataclass(frozen=True, slots=True)
class SignedRows:
    """Archive positions of the certificates that a key signed.

    Attributes:
        connection: The archive.
        signatures: Table that names the key of each certificate.
        key_id: Fingerprint of the key.
    """

    run: ClassVar[int] = 1

    connection: Connection
    signatures: SignatureTable
    key_id: str

    def newest(self, below: int, count: int, low: int = 0) -> list[int]:
        """Return the newest positions below one, none lower than `low`."""
        given = {"key": self.key_id, "below": below, "low": low, "count": count}
        # Few are sorted; of many, the archive is walked from its newest certificate on.
        few = _signed_by_few(self.signatures).column(self.connection, {"key": self.key_id, "most": _FEW + 1})
        wanted = _signed_few if len(few) <= _FEW else _signed_many
        return wanted(self.signatures).column(self.connection, given)

    def one_by_one(self, positions: Sequence[int]) -> set[int]:
        """Return the subset of positions that match."""
        wanted = place_by_place(self.connection.dialect.name, "certificate", _is_signed(self.signatures))
        return set(wanted.column(self.connection, {"key": self.key_id, "positions": json.dumps(list(positions))}))


_BETWEEN = "position < :below AND position >= :low ORDER BY position DESC LIMIT :count"


def _is_signed(signatures: SignatureTable) -> str:
    by_key = f"{signatures.certificate} = certificate.id AND key_id = :key"
    return f"EXISTS (SELECT 1 FROM {signatures.name} WHERE {by_key})"  # noqa: S608 - fixed names


@cache
def _signed_by_few(signatures: SignatureTable) -> Prepared:
    return Prepared(f"SELECT {signatures.certificate} FROM {signatures.name} WHERE key_id = :key LIMIT :most")  # noqa: S608 - fixed names


@cache
def _signed_few(signatures: SignatureTable) -> Prepared:
    signed = f"SELECT {signatures.certificate} FROM {signatures.name} WHERE key_id = :key"  # noqa: S608 - fixed names
    return Prepared(f"SELECT position FROM certificate WHERE id IN ({signed}) AND {_BETWEEN}")  # noqa: S608 - likewise


@cache
def _signed_many(signatures: SignatureTable) -> Prepared:
    return Prepared(f"SELECT position FROM certificate WHERE {_is_signed(signatures)} AND {_BETWEEN}")  # noqa: S608 - fixed names


def sources(
    connection: Connection, project_key: str, wanted: Filter, signatures: SignatureTable = LOGGED
) -> tuple[Columns, tuple[PostingList, ...]]:
    """Return the conditions of a filter except dates: on columns (including the project), and further ones.

    Args:
        connection: The archive.
        project_key: Key of the project.
        wanted: Filter.
        signatures: Table that names the key of each certificate.

    Raises:
        UsageError: The search words contain neither a letter nor a digit.
    """
    asked = _statuses(wanted)
    asked |= {"agent": (wanted.agent,)} if wanted.agent else {}
    asked |= {"component": (wanted.component,)} if wanted.component else {}
    if wanted.commit:
        commits = tuple(islice(_commits(connection, project_key, wanted.commit), _MOST_COMMITS))
        asked[REVISION] = commits or (wanted.commit,)
    rows = (
        ("certificate_file", "path", path_key(wanted.path)),
        ("certificate_rule", "rule", rule_key(wanted.rule)),
        ("certificate_metric", "name", wanted.metric),
    )
    found: list[PostingList] = [IndexedRows(connection, *row) for row in rows if row[-1]]
    if wanted.signer:
        found.append(SignedRows(connection, signatures, wanted.signer))
    if wanted.words:
        found.append(Words(connection, full_text_of(wanted.words)))
    return Columns(connection, project_key, asked), tuple(found)


def _statuses(wanted: Filter) -> dict[str, tuple[str, ...]]:
    """Return the conditions on status and question type; the index of statuses finds those of a type."""
    if wanted.kind is None:
        return {"status": tuple(map(str, wanted.statuses))} if wanted.statuses else {}
    possible = statuses_of(wanted.kind)
    statuses = tuple(str(each) for each in wanted.statuses or possible if each in possible)
    return {"status": statuses or ("",), KIND: (str(wanted.kind),)}


def in_common_by_time(
    columns: Columns, others: Sequence[PostingList], wanted: Filter, *, before: tuple[str, int] | None, limit: int
) -> list[int]:
    """Return the positions within a filter's dates that match all conditions, by time and position, newest first.

    Clocks may be wrong, so positions are not in the order of times.

    Args:
        columns: Conditions on columns.
        others: Further conditions.
        wanted: Filter with the dates.
        before: Time and position of the certificate that precedes the result in this order; None for the first page.
        limit: Maximum number of positions.
    """
    connection, dated = columns.connection, _dated(columns, wanted)
    few = _positions_of_few(columns, others)
    if few is not None:
        # Queried by position and sorted afterwards: a query by time would read all rows within the dates.
        rows = connection.execute(dated.where(tables.certificate.c.position.in_(listed(connection, few)))).all()
        times = sorted(((row.issued_at, row.position) for row in rows), reverse=True)
        return held_by_all(others, [time[1] for time in times if before is None or time < before])[:limit]
    dated = dated.order_by(tables.certificate.c.issued_at.desc(), tables.certificate.c.position.desc())
    found: list[int] = []
    count = max(limit, FIRST_LOOK) if others else limit
    while len(found) < limit:
        look = connection.execute((dated if before is None else _after(dated, *before)).limit(count)).all()
        found += held_by_all(others, [each.position for each in look])
        if len(look) < count:
            break
        before = (look[-1].issued_at, look[-1].position)
        count = min(GROWTH * count, max(MOST_AT_ONCE, limit))
    return found[:limit]


def _positions_of_few(columns: Columns, others: Sequence[PostingList]) -> list[int] | None:
    """Return all positions of the first condition with few matches; None if every condition has many."""
    for condition in others:
        places = condition.newest(ABOVE_ALL, _FEW + 1)
        if len(places) <= _FEW:
            return places
    return columns.few(_FEW)


def _dated(columns: Columns, wanted: Filter) -> Select[Any]:
    """Return a query of times and positions within a filter's dates, ordered by time."""
    dated = sql.select(tables.certificate.c.issued_at, tables.certificate.c.position).where(
        tables.certificate.c.project_key == columns.project_key
    )
    # Written so that no other index applies, which makes the database walk the index on time.
    dated = dated.where(*(_unindexed(tables.certificate.c[name]).in_(values) for name, values in columns.asked.items()))
    if wanted.since:
        dated = dated.where(tables.certificate.c.issued_at >= wanted.since)
    return dated.where(tables.certificate.c.issued_at < wanted.until) if wanted.until else dated


def _unindexed(column: Column[Any]) -> ColumnElement[str]:
    return sql.type_coerce(column, sql.Text).concat(sql.literal_column("''"))


def _after(dated: Select[Any], time: str, position: int) -> Select[Any]:
    # An index scan can start at the first condition only.
    return dated.where(
        tables.certificate.c.issued_at <= time,
        (tables.certificate.c.issued_at < time) | (tables.certificate.c.position < position),
    )


def _commits(connection: Connection, project_key: str, beginning: str) -> Iterator[str]:
    """Yield the commits with a prefix; each takes one index lookup, however many certificates it has."""
    last = ""
    while True:
        after = tables.certificate.c.revision > last if last else tables.certificate.c.revision >= beginning
        found = connection.scalar(
            sql.select(sql.func.min(tables.certificate.c.revision)).where(
                tables.certificate.c.project_key == project_key, after
            )
        )
        if found is None or not found.startswith(beginning):
            return
        last = found
        yield found
