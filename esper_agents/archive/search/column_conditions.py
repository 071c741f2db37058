"""Filter the archive by column values, driven by the index of the rarest value."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from esper_agents.archive.search.posting_lists import ABOVE_ALL, FIRST_LOOK, place_by_place
from esper_agents.storage.compiled_statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

REVISION = "revision"
# Has no index: it is always asked together with statuses, most of which have one kind only.
KIND = "kind"
# Column names with the number of accepted values.
_Shape: TypeAlias = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Columns:
    """Archive positions of a project's certificates with given column values.

    Attributes:
        connection: The archive.
        project_key: Key of the project.
        asked: Accepted values by column; every column but `kind` has an index sorted by position.
    """

    run: ClassVar[int] = 3

    connection: Connection
    project_key: str
    asked: Mapping[str, tuple[str, ...]]

    def newest(self, below: int, count: int, low: int = 0) -> list[int]:
        """Return the newest positions below one, none lower than `low`."""
        return self._newest(_shape(self.asked), self._rarest(below), below, count, low)

    def one_by_one(self, positions: Sequence[int]) -> set[int]:
        """Return the subset of positions that match."""
        wanted = _among(_shape(self.asked), self.connection.dialect.name)
        return set(wanted.column(self.connection, {**self._given(), "positions": json.dumps(list(positions))}))

    def few(self, most: int) -> list[int] | None:
        """Return the positions of the rarest column value; None if there are more than `most`."""
        if not self.asked:
            return None
        rarest = self._rarest(ABOVE_ALL)
        places = self._newest(_shape({rarest: self.asked[rarest]}), rarest, ABOVE_ALL, most + 1, 0)
        return places if len(places) <= most else None

    def _newest(self, shape: _Shape, rarest: str, below: int, count: int, low: int) -> list[int]:
        given = {**self._given(), "below": below, "count": count, "low": low}
        return _newest(shape, rarest).column(self.connection, given)

    def _rarest(self, below: int) -> str:
        """Return the column whose newest positions reach furthest down, which is the most selective one."""
        # A commit has few certificates.
        indexed = {name: values for name, values in self.asked.items() if name != KIND}
        if REVISION in indexed or len(indexed) <= 1:
            return REVISION if REVISION in indexed else next(iter(indexed), "")
        given = {**self._given(), "below": below, "skipped": FIRST_LOOK - 1}
        (found,) = _lowest(_shape(indexed)).rows(self.connection, given)
        lowest = iter(found)
        reached = {name: max(next(lowest) or -1 for _ in values) for name, values in indexed.items()}
        return min(reached, key=lambda name: reached[name])

    def _given(self) -> dict[str, Any]:
        values = ((f"{name}{number}", each) for name, some in self.asked.items() for number, each in enumerate(some))
        return {"project": self.project_key, **dict(values)}


def _shape(asked: Mapping[str, tuple[str, ...]]) -> _Shape:
    return tuple((name, len(values)) for name, values in asked.items())


@cache
def _newest(shape: _Shape, rarest: str) -> Prepared:
    # Written so that no index applies, which makes the database walk the index of the rarest column.
    others = "".join(f" AND {name} || '' IN ({_names(name, count)})" for name, count in shape if name != rarest)
    within = f"{others} AND position >= :low"
    if dict(shape).get(rarest, 1) == 1:
        return Prepared(f"{_walk(f'{rarest} = :{rarest}0' if rarest else '', within)} LIMIT :count")
    # One value at a time: for several values at once, the database would sort all matching rows.
    each = (f"{_walk(f'{rarest} = :{rarest}{number}', within)} LIMIT :count" for number in range(dict(shape)[rarest]))
    parts = " UNION ALL ".join(f"SELECT * FROM ({one}) AS part{number}" for number, one in enumerate(each))  # noqa: S608
    return Prepared(f"SELECT position FROM ({parts}) AS parts ORDER BY position DESC LIMIT :count")  # noqa: S608


@cache
def _lowest(shape: _Shape) -> Prepared:
    values = (f"{name} = :{name}{number}" for name, count in shape for number in range(count))
    return Prepared(f"SELECT {', '.join(f'({_walk(value)} LIMIT 1 OFFSET :skipped)' for value in values)}")


@cache
def _among(shape: _Shape, dialect: str) -> Prepared:
    asked = "".join(f" AND {name} IN ({_names(name, count)})" for name, count in shape)
    return place_by_place(dialect, "certificate", f"project_key = :project{asked}")


def _walk(condition: str, within: str = "") -> str:
    asked = f" AND {condition}" if condition else ""
    places = f"project_key = :project{asked} AND position < :below{within}"
    return f"SELECT position FROM certificate WHERE {places} ORDER BY position DESC"  # noqa: S608


def _names(name: str, count: int) -> str:
    return ", ".join(f":{name}{number}" for number in range(count))
