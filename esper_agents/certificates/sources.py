"""Conditions of a filter with the index of each, and the order of dates."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from sqlalchemy import Text, func, literal_column, select, text, type_coerce

from esper_agents.certificates.columns import REVISION, Columns
from esper_agents.certificates.fulltext import Words, full_text_of
from esper_agents.certificates.index import path_key, rule_key
from esper_agents.certificates.places import (
    ABOVE_ALL,
    FIRST_LOOK,
    GROWTH,
    MOST_AT_ONCE,
    held_by_all,
    listed,
    place_by_place,
)
from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.tables import certificate as table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Column, ColumnElement, Connection, Select

    from esper_agents.certificates.filters import Filter
    from esper_agents.certificates.places import PostingList

# Conditions that hold at no more places than these are asked by place where others are asked by time.
_FEW = 2000
_MOST_COMMITS = 50


@dataclass(frozen=True, slots=True)
class IndexedRows:
    """Places that rows beside the archive name, where their column has a value; of one value they are in order.

    Attributes:
        connection: The archive.
        table: The rows.
        column: The column that is asked.
        value: What it is to be.
    """

    run: ClassVar[int] = 2

    connection: Connection
    table: str
    column: str
    value: str

    def newest(self, below: int, count: int, low: int = 0) -> list[int]:
        """Return the newest places below one, none lower than `low`."""
        given = {"value": self.value, "below": below, "low": low, "count": count}
        return _newest_rows(self.table, self.column).column(self.connection, given)

    def one_by_one(self, positions: Sequence[int]) -> set[int]:
        """Return which of some places it holds at."""
        wanted = _rows_among(self.table, self.column, self.connection.dialect.name)
        given = {"value": self.value, "positions": json.dumps(list(positions))}
        return set(wanted.column(self.connection, given))


@cache
def _newest_rows(table: str, column: str) -> Prepared:
    # A certificate may have a number several times.
    newest = f"SELECT DISTINCT position FROM {table} WHERE {column} = :value AND position < :below AND position >= :low"  # noqa: S608 - names of ours
    return Prepared(text(f"{newest} ORDER BY position DESC LIMIT :count"))


@cache
def _rows_among(table: str, column: str, dialect: str) -> Prepared:
    return place_by_place(dialect, table, f"{column} = :value")


def sources(connection: Connection, project_key: str, wanted: Filter) -> tuple[Columns, tuple[PostingList, ...]]:
    """Return the conditions that a filter stands for, dates apart: on columns, of the project alone, and further ones.

    Raises:
        UsageError: The words hold no letter and no digit.
    """
    asked: dict[str, tuple[str, ...]] = {"status": tuple(map(str, wanted.statuses))} if wanted.statuses else {}
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
    found: list[PostingList] = [IndexedRows(connection, *each) for each in rows if each[-1]]
    if wanted.words:
        found.append(Words(connection, full_text_of(wanted.words)))
    return Columns(connection, project_key, asked), tuple(found)


def in_common_by_time(
    columns: Columns, others: Sequence[PostingList], wanted: Filter, *, before: tuple[str, int] | None, limit: int
) -> list[int]:
    """Return the places within a filter's dates at which all conditions hold, by time and then place, newest first.

    Clocks go wrong, so places are not in the order of times.

    Args:
        columns: Conditions on columns.
        others: Further conditions.
        wanted: The dates.
        before: Time and place of the certificate that those returned stand after in this order; None for the first.
        limit: At most so many.
    """
    connection, dated = columns.connection, _dated(columns, wanted)
    few = _positions_of_few(columns, others)
    if few is not None:
        # Asked by place and put in order afterwards: by time it would go through all within the dates.
        rows = connection.execute(dated.where(table.c.position.in_(listed(connection, few)))).all()
        times = sorted(((each.issued_at, each.position) for each in rows), reverse=True)
        return held_by_all(others, [each[1] for each in times if before is None or each < before])[:limit]
    dated = dated.order_by(table.c.issued_at.desc(), table.c.position.desc())
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
    """Return all places of the first condition that has few; None where each has many."""
    for condition in others:
        places = condition.newest(ABOVE_ALL, _FEW + 1)
        if len(places) <= _FEW:
            return places
    return columns.few(_FEW)


def _dated(columns: Columns, wanted: Filter) -> Select[Any]:
    """Return a selection of times and places within a filter's dates, which goes by time."""
    dated = select(table.c.issued_at, table.c.position).where(table.c.project_key == columns.project_key)
    # In a form that no other index serves, so that the one by time is walked.
    dated = dated.where(*(_unindexed(table.c[name]).in_(values) for name, values in columns.asked.items()))
    if wanted.since:
        dated = dated.where(table.c.issued_at >= wanted.since)
    return dated.where(table.c.issued_at < wanted.until) if wanted.until else dated


def _unindexed(column: Column[Any]) -> ColumnElement[str]:
    return type_coerce(column, Text).concat(literal_column("''"))


def _after(dated: Select[Any], time: str, position: int) -> Select[Any]:
    # The first condition alone is one that an index can begin at.
    return dated.where(table.c.issued_at <= time, (table.c.issued_at < time) | (table.c.position < position))


def _commits(connection: Connection, project_key: str, beginning: str) -> Iterator[str]:
    """Yield the commits that begin so; each is one look into an index, however many certificates it has."""
    last = ""
    while True:
        after = table.c.revision > last if last else table.c.revision >= beginning
        found = connection.scalar(select(func.min(table.c.revision)).where(table.c.project_key == project_key, after))
        if found is None or not found.startswith(beginning):
            return
        last = found
        yield found
