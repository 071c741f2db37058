"""The conditions that a filter stands for, each with the index that it is found by, and the order of dates."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any

from sqlalchemy import Text, func, literal_column, select, type_coerce

from esper_agents.certificates.fulltext import Words, full_text_of
from esper_agents.certificates.index import path_key, rule_key
from esper_agents.certificates.places import (
    ABOVE_ALL,
    FIRST_LOOK,
    GROWTH,
    MOST_AT_ONCE,
    held_by_all,
    in_a_run,
    listed,
)
from esper_agents.storage.tables import certificate as table
from esper_agents.storage.tables import certificate_file, certificate_metric, certificate_rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Column, ColumnElement, Connection, Select

    from esper_agents.certificates.filters import Filter
    from esper_agents.certificates.places import Source

# Conditions that hold at no more places than these are asked by place where others are asked by time.
_FEW = 2000
_MOST_COMMITS = 50


@dataclass(frozen=True, slots=True)
class Columns:
    """Places of a project's certificates whose columns have certain values.

    Attributes:
        connection: The archive.
        project_key: The project.
        asked: Columns, each with an index in which its places are in order, and what each may be.
    """

    connection: Connection
    project_key: str
    asked: tuple[tuple[Column[Any], tuple[str, ...]], ...]

    def each(self) -> tuple[Source, ...]:
        """Return a condition for each of the columns; one that keeps to the project where there is none."""
        parts = self.asked or ((None, ("",)),)
        return tuple(OneColumn(self.connection, self.project_key, column, values) for column, values in parts)

    def few(self, most: int) -> list[int] | None:
        """Return the places at which one of the columns holds that holds at no more than so many; None if none does."""
        for condition in self.each() if self.asked else ():
            places = condition.newest(ABOVE_ALL, most + 1)
            if len(places) <= most:
                return places
        return None

    def dated(self, wanted: Filter) -> Select[Any]:
        """Return a selection of times and places within a filter's dates, which goes by time."""
        dated = select(table.c.issued_at, table.c.position)
        # In a form that no other index serves, so that the one by time is walked.
        asked = [_unindexed(column).in_([str(each) for each in values]) for column, values in self.asked]
        dated = dated.where(table.c.project_key == self.project_key, *asked)
        if wanted.since:
            dated = dated.where(table.c.issued_at >= wanted.since)
        return dated.where(table.c.issued_at < wanted.until) if wanted.until else dated


@dataclass(frozen=True, slots=True)
class OneColumn:
    """Places of a project's certificates one of whose columns has one of some values.

    Attributes:
        connection: The archive.
        project_key: The project.
        column: The column; None where every certificate of the project will do.
        values: What it may be.
    """

    connection: Connection
    project_key: str
    column: Column[Any] | None
    values: tuple[str, ...]

    def newest(self, below: int, count: int, low: int = 0) -> list[int]:
        """Return the newest places below one, none lower than `low`."""
        place = table.c.position
        own = select(place).where(table.c.project_key == self.project_key, place < below, place >= low)
        own = own.order_by(place.desc()).limit(count)
        if self.column is None:
            return list(self.connection.scalars(own).all())
        # One value at a time: of several at once the database would sort all there are.
        each = [list(self.connection.scalars(own.where(self.column == value)).all()) for value in self.values]
        return list(islice(merge(*each, reverse=True), count))

    def among(self, positions: Sequence[int]) -> set[int]:
        """Return which of some places it holds at."""
        return in_a_run(self.newest, self._one_by_one, positions)

    def _one_by_one(self, positions: Sequence[int]) -> set[int]:
        places = table.c.position.in_(listed(self.connection, positions))
        wanted = select(table.c.position).where(places, table.c.project_key == self.project_key)
        return set(
            self.connection.scalars(wanted if self.column is None else wanted.where(self.column.in_(self.values)))
        )


@dataclass(frozen=True, slots=True)
class Rows:
    """Places that rows beside the archive name, where their column has a value; of one value they are in order.

    Attributes:
        connection: The archive.
        position: The column that names places.
        column: The column that is asked.
        value: What it is to be.
    """

    connection: Connection
    position: Column[Any]
    column: Column[Any]
    value: str

    def newest(self, below: int, count: int, low: int = 0) -> list[int]:
        """Return the newest places below one, none lower than `low`."""
        # A certificate may have a number several times.
        wanted = select(self.position).distinct().where(self.column == self.value)
        wanted = wanted.where(self.position < below, self.position >= low)
        return list(self.connection.scalars(wanted.order_by(self.position.desc()).limit(count)).all())

    def among(self, positions: Sequence[int]) -> set[int]:
        """Return which of some places it holds at."""
        return in_a_run(self.newest, self._one_by_one, positions)

    def _one_by_one(self, positions: Sequence[int]) -> set[int]:
        places = self.position.in_(listed(self.connection, positions))
        return set(self.connection.scalars(select(self.position).where(self.column == self.value, places)).all())


def sources(connection: Connection, project_key: str, wanted: Filter) -> tuple[Columns, tuple[Source, ...]]:
    """Return the conditions that a filter stands for, dates apart: on columns, of the project alone, and further ones.

    Raises:
        UsageError: The words hold no letter and no digit.
    """
    columns: list[tuple[Column[Any], tuple[str, ...]]] = [
        (table.c.status, wanted.statuses),
        (table.c.agent, (wanted.agent,)),
        (table.c.component, (wanted.component,)),
    ]
    asked = [(column, values) for column, values in columns if any(values)]
    if wanted.commit:
        commits = tuple(islice(_commits(connection, project_key, wanted.commit), _MOST_COMMITS))
        asked.append((table.c.revision, commits))
    rows: list[tuple[Column[Any], Column[Any], str]] = [
        (certificate_file.c.position, certificate_file.c.path, path_key(wanted.path)),
        (certificate_rule.c.position, certificate_rule.c.rule, rule_key(wanted.rule)),
        (certificate_metric.c.position, certificate_metric.c.name, wanted.metric),
    ]
    found: list[Source] = [Rows(connection, *each) for each in rows if each[-1]]
    if wanted.words:
        found.append(Words(connection, full_text_of(wanted.words)))
    return Columns(connection, project_key, tuple(asked)), tuple(found)


def in_common_by_time(
    columns: Columns, others: Sequence[Source], wanted: Filter, *, before: tuple[str, int] | None, limit: int
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
    connection, dated = columns.connection, columns.dated(wanted)
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


def _positions_of_few(columns: Columns, others: Sequence[Source]) -> list[int] | None:
    """Return all places of the first condition that has few; None where each has many."""
    for condition in others:
        places = condition.newest(ABOVE_ALL, _FEW + 1)
        if len(places) <= _FEW:
            return places
    return columns.few(_FEW)


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
