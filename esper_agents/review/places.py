"""The places where a value may live, how they add up, and what it means when values from two places meet."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable

    from esper_agents.review.tables import Function


# Methods that need their arguments where their tensor is.
MIXING = frozenset(
    {"masked_fill", "masked_fill_", "gather", "scatter", "scatter_", "scatter_add", "scatter_add_", "index_select"}
    | {"add", "add_", "sub", "mul", "mul_", "div", "matmul", "mm", "bmm", "where", "lerp", "index_add", "index_add_"}
    | {"eq", "ne", "dot", "baddbmm", "masked_select", "take_along_dim", "maximum", "minimum", "index_fill", "addcmul"}
    | {"logical_and", "logical_or", "bitwise_and", "div_", "sub_", "index_copy_", "masked_scatter", "scatter_reduce"}
    | {"gt", "lt", "ge", "le", "cross", "outer", "ger", "isin", "addmm", "mv", "fmod", "remainder", "pow", "take"}
)


class Where(Enum):
    """Where a value lives."""

    HOST = auto()
    DEVICE = auto()
    NUMBER = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value lives, and what put it there.

    Attributes:
        where: Where it lives.
        source: For a tensor on the host, the expression that made it.
        function: The function that expression stands in.
    """

    where: Where
    source: ast.expr | None = None
    function: Function | None = None


NUMBER, DEVICE, UNKNOWN = Place(Where.NUMBER), Place(Where.DEVICE), Place(Where.UNKNOWN)


def joined(places: Iterable[Place]) -> Place:
    """Return where the result of an operation on several values lives, taking for granted that it succeeds."""
    by_where = {place.where: place for place in reversed(list(places))}
    for where in (Where.DEVICE, Where.HOST, Where.UNKNOWN):
        if where in by_where:
            return by_where[where]
    return NUMBER


def agreed(places: list[Place]) -> Place:
    """Return where a value lives that comes from one of several; unknown unless all agree."""
    return places[0] if places and len({place.where for place in places}) == 1 else UNKNOWN


def of_callers(places: list[Place]) -> Place:
    """Return where a value lives that callers hand over: what some surely put on the device breaks there."""
    others = {place.where for place in places} - {Where.DEVICE}
    if others == {Where.UNKNOWN}:
        return next((place for place in places if place.where is Where.DEVICE), UNKNOWN)
    return agreed(places)


def of_all(places: Iterable[Place]) -> Place:
    """Return the first of several places where all are the host."""
    found = list(places)
    return found[0] if found and all(each.where is Where.HOST for each in found) else UNKNOWN


class Effect(Enum):
    """What comes of a meeting: the run breaks, values are left on the host, or an index is copied every time."""

    BREAKS = auto()
    LEAVES = auto()
    RETURNS = auto()
    COPIES = auto()


@dataclass(frozen=True, slots=True)
class Meeting:
    """A tensor on the host that meets one on the device.

    Attributes:
        host: Where the one lives.
        device: Where the other lives.
        effect: What comes of it.
    """

    host: Place
    device: Place
    effect: Effect = Effect.BREAKS


def mixed(places: list[Place]) -> Meeting | None:
    """Return the meeting of the one on the host with the one on the device, if both are there."""
    devices = [place for place in places if place.where is Where.DEVICE]
    host = next((place for place in places if place.where is Where.HOST), None)
    if host is None or not devices:
        return None
    return Meeting(host, next((device for device in devices if device.source is not None), devices[0]))
