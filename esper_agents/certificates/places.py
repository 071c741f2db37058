"""Places in the archive, newest first, that several conditions have in common; none of them read as a whole.

Each condition can name its newest places below one, and which of some places it holds at; both by an index.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import JSON, BigInteger, Text, cast, func, literal, select

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, Select

# Beyond every place there can be, and still an integer of 8 bytes.
ABOVE_ALL = 2**62
FIRST_LOOK = 64
GROWTH = 8
MOST_AT_ONCE = 4096
# How many places in a run of an index cost as much as one by itself.
_RUN = 2


class Source(Protocol):
    """A condition."""

    def newest(self, below: int, count: int, low: int = 0) -> list[int]:
        """Return its newest places below one and not lower than `low`, newest first, at most so many."""

    def among(self, positions: Sequence[int]) -> set[int]:
        """Return which of some places it holds at."""


def in_common(conditions: Sequence[Source], *, below: int = ABOVE_ALL, limit: int) -> list[int]:
    """Return the newest places below one at which all conditions hold, newest first, at most so many."""
    if len(conditions) == 1:
        return conditions[0].newest(below, limit)
    found: list[int] = []
    ordered = list(conditions)
    count = max(limit, FIRST_LOOK)
    while len(found) < limit:
        # The one that reaches furthest down settles most: above its last place there is no other of its own.
        if count < MOST_AT_ONCE:
            ordered = sorted(conditions, key=partial(_reach, below=below))
        first, *others = ordered
        look = first.newest(below, count)
        found += held_by_all(others, look)
        if len(look) < count:
            break
        below = look[-1]
        count = min(GROWTH * count, max(MOST_AT_ONCE, limit))
    return found[:limit]


def _reach(condition: Source, below: int) -> int:
    """Return how far down the first few places of a condition reach."""
    places = condition.newest(below, FIRST_LOOK)
    return places[-1] if len(places) == FIRST_LOOK else -1


def in_a_run(
    newest: Callable[[int, int, int], list[int]],
    one_by_one: Callable[[Sequence[int]], set[int]],
    positions: Sequence[int],
    times: int = _RUN,
) -> set[int]:
    """Return at which of some places a condition holds.

    Many in a run cost less than each by itself; where there are too many of them, the rest is asked one by one.
    """
    low, high, most = min(positions), max(positions), times * len(positions)
    if len(positions) > FIRST_LOOK:
        first = newest(high + 1, FIRST_LOOK, low)
        # As dense as it begins, the run would be too long.
        if len(first) == FIRST_LOOK and (high - low) * FIRST_LOOK > most * (high - first[-1] + 1):
            return one_by_one(positions)
    run = newest(high + 1, most, low)
    held = set(run).intersection(positions)
    rest = [each for each in positions if each < run[-1]] if len(run) == most else []
    return held | one_by_one(rest) if rest else held


def held_by_all(conditions: Sequence[Source], positions: list[int]) -> list[int]:
    """Return at which of some places all conditions hold, in their order."""
    for each in conditions:
        holds = each.among(positions) if positions else set()
        positions = [position for position in positions if position in holds]
    return positions


def listed(connection: Connection, positions: Sequence[int]) -> Select[Any]:
    """Return a selection of given places: one text, however many there are."""
    given = json.dumps(list(positions))
    if connection.dialect.name == "sqlite":
        return select(func.json_each(given).table_valued("value").c.value)
    each = func.json_array_elements_text(cast(literal(given, Text), JSON)).column_valued("each")
    return select(cast(each, BigInteger))
