"""Archive positions, newest first, that satisfy several indexed conditions.

Each condition returns its newest positions below a limit, and tests given positions; both use an index.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.lazy_sql import sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Select

# Above every possible position, but still an 8-byte integer.
ABOVE_ALL = 2**62
FIRST_LOOK = 20
GROWTH = 16
MOST_AT_ONCE = 4096
# Query that returns each `place` of the JSON text `:positions`.
LISTED = {
    "sqlite": "SELECT value AS place FROM json_each(:positions)",
    "postgresql": "SELECT CAST(json_array_elements_text(CAST(:positions AS json)) AS bigint) AS place",
}


class PostingList(Protocol):
    """Indexed condition on archive positions.

    Attributes:
        run: Number of consecutive index positions that cost as much as one single lookup.
    """

    run: ClassVar[int]

    @property
    def connection(self) -> Connection:
        """Connection to the archive."""

    def newest(self, below: int, count: int, low: int = 0) -> list[int]:
        """Return up to `count` matching positions below `below` and not lower than `low`, newest first."""

    def one_by_one(self, positions: Sequence[int]) -> set[int]:
        """Return the subset of positions that match; each is looked up."""


def in_common(conditions: Sequence[PostingList], *, below: int = ABOVE_ALL, limit: int) -> list[int]:
    """Return up to `limit` positions below `below` that match all conditions, newest first."""
    if len(conditions) == 1:
        return conditions[0].newest(below, limit)
    found: list[int] = []
    first, others = conditions[0], conditions[1:]
    few = count = max(limit, FIRST_LOOK)
    seen, is_open = 0, True
    while len(found) < limit:
        look: list[int] | None = None
        # The condition that reaches furthest down is the most selective: it has no other match above its last position.
        if is_open and count < max(MOST_AT_ONCE, limit):
            looks = [(condition.newest(below, few), condition) for condition in conditions]
            look, first = min(looks, key=lambda one: one[0][-1] if len(one[0]) == few else -1)
            others = [condition for condition in conditions if condition is not first]
        if look is None or count > few:
            look = first.newest(below, count)
        held = held_by_all(others, look)
        found += held
        if len(look) < count:
            break
        below, seen = look[-1], seen + count
        likely = 2 * seen * (limit - len(found)) // max(len(found), 1)
        count = min(max(likely, few), GROWTH * count, max(MOST_AT_ONCE, limit))
        # If it excluded nothing, another condition may reach further down from there.
        is_open = not held
    return found[:limit]


def held_by_all(conditions: Sequence[PostingList], positions: list[int]) -> list[int]:
    """Return the subset of positions that match all conditions, in their order."""
    # Conditions with expensive single lookups run last, when few positions remain.
    for condition in sorted(conditions, key=lambda each: each.run):
        holds = _held(condition, positions) if positions else set()
        positions = [position for position in positions if position in holds]
    return positions


def _held(condition: PostingList, positions: Sequence[int]) -> set[int]:
    """Return the subset of positions that match a condition.

    A run of positions costs less than single lookups if the database is in this process; if the run becomes too
    long, the remaining positions are looked up one by one.
    """
    if condition.connection.dialect.name == "postgresql":
        return condition.one_by_one(positions)
    low, high, most = min(positions), max(positions), condition.run * len(positions)
    if len(positions) > FIRST_LOOK:
        first = condition.newest(high + 1, FIRST_LOOK, low)
        # At this density the run would become too long.
        if len(first) == FIRST_LOOK and (high - low) * FIRST_LOOK > most * (high - first[-1] + 1):
            return condition.one_by_one(positions)
    run = condition.newest(high + 1, most, low)
    held = set(run).intersection(positions)
    rest = [position for position in positions if position < run[-1]] if len(run) == most else []
    return held | condition.one_by_one(rest) if rest else held


def listed(connection: Connection, positions: Sequence[int]) -> Select[Any]:
    """Return a query for given positions: one bound text, regardless of their number."""
    given = json.dumps(list(positions))
    if connection.dialect.name == "sqlite":
        return sql.select(sql.func.json_each(given).table_valued("value").c.value)
    each = sql.func.json_array_elements_text(sql.cast(sql.literal(given, sql.Text), sql.JSON)).column_valued("each")
    return sql.select(sql.cast(each, sql.BigInteger))


def place_by_place(dialect: str, table: str, condition: str) -> Prepared:
    """Return a query for those of `:positions` at which rows of a table satisfy a condition."""
    if dialect == "postgresql":
        # With an array parameter, the index is scanned once for all positions.
        among = f"position = ANY (ARRAY({LISTED[dialect]}))"
        return Prepared(f"SELECT position FROM {table} WHERE {condition} AND {among}")  # noqa: S608 - fixed names
    # As a scalar subquery per position: the planner would start a join from the wrong side.
    one = f"(SELECT 1 FROM {table} WHERE position = place AND {condition} LIMIT 1)"  # noqa: S608 - likewise
    return Prepared(f"SELECT place FROM ({LISTED[dialect]}) AS listed WHERE {one} = 1")  # noqa: S608 - likewise
