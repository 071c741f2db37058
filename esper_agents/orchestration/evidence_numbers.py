"""Numbers with units in evidence, and matching of stated numbers against them.

If both sides name a unit, the units must agree: 1.3 ms does not support 1.3 s. A number without a unit supports any
unit that fits, because any could be meant.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


class _Kind(StrEnum):
    NONE = ""
    TEXT = "text"
    PRINTED = "printed"
    TIME = "time"
    BYTES = "bytes"
    COUNT = "count"
    RATIO = "ratio"
    SHARE = "share"


class Direction(StrEnum):
    """Direction of a stated speed-up."""

    FASTER = "faster"
    SLOWER = "slower"


_SECOND = r"milliseconds?|microseconds?|nanoseconds?|ms|[u\u00b5\u03bc]s|ns|s(?!\w)|sec(?:onds?)?(?!\w)"
UNIT = (
    rf"%|per ?cent|x(?!\w)|\u00d7|{_SECOND}|min(?:utes?)?(?!\w)|h(?:ours?)?(?!\w)"
    r"|[KMGT]i?B|kB|bytes?|[kKMG](?!\w)"
)
_QUANTITY = re.compile(rf"(?<![\w.])(\d+(?:,\d{{3}})*(?:\.\d+)?(?:[eE][+-]?\d+)?)(?:[ \u00a0]?({UNIT})(?!\w))?")
# Units derived from the last part of a name; for `bytes_per_s` the part before it counts.
_RATE = re.compile(r"_per_\w+$")
_NAMED = re.compile(
    r"(?:^|_)(ns|us|ms|s|seconds?|bytes?|[kmgt]i?b|percent|pct|share|fraction|drop|ratio|speedup|factor)$",
    re.IGNORECASE,
)
# Unit of a number in a text that names none, such as a version: it is no measurement.
_BARE = "~"
# Unit of a number in a printed line that names none: it can be any, in the form in which it was printed.
_PRINTED = "?"
# Units as words of their own before a number, such as `bytes held: 6029312`; a letter alone is no unit there.
_UNIT_BEFORE = re.compile(
    r"(?<![\w.%])(?<!\d )(%|per ?cent|milliseconds?|microseconds?|nanoseconds?|seconds?|minutes?|hours?"
    r"|ms|[u\u00b5\u03bc]s|ns|sec|[KMGT]i?B|kB|bytes?|speed-?up|ratio|factor|share|fraction)(?!\w)",
    re.IGNORECASE,
)
_LARGE = 10_000
_HUNDRED = Decimal(100)
_KIB, _KB = Decimal(1024), Decimal(1000)
_TIMES = tuple(Decimal(10) ** each for each in (-9, -6, -3, 0, 3, 6, 9))


class _Unit(NamedTuple):
    """Unit: its dimension, and its size in seconds, bytes or parts of 1; KB has two readings."""

    kind: _Kind
    scales: tuple[Decimal, ...] = (Decimal(1),)


def _units() -> Iterator[tuple[str, _Unit]]:
    """Yield units by the names that follow a number or end a member name."""
    yield "", _Unit(_Kind.NONE)
    yield _BARE, _Unit(_Kind.TEXT)
    yield _PRINTED, _Unit(_Kind.PRINTED)
    times = {
        "ns nanosecond nanoseconds": _TIMES[0],
        "us \u03bcs microsecond microseconds": _TIMES[1],
        "ms millisecond milliseconds": _TIMES[2],
        "s sec second seconds": _TIMES[3],
        "min minute minutes": Decimal(60),
        "h hour hours": Decimal(3600),
    }
    for names, scale in times.items():
        yield from ((each, _Unit(_Kind.TIME, (scale,))) for each in names.split())
    yield from ((each, _Unit(_Kind.BYTES)) for each in ("byte", "bytes"))
    for power, each in enumerate("kmgt", start=1):
        yield each, _Unit(_Kind.COUNT, (_KB**power,))
        yield f"{each}b", _Unit(_Kind.BYTES, (_KB**power, _KIB**power))
        yield f"{each}ib", _Unit(_Kind.BYTES, (_KIB**power,))
    yield from ((each, _Unit(_Kind.SHARE, (1 / _HUNDRED,))) for each in ("%", "percent", "pct"))
    yield from ((each, _Unit(_Kind.SHARE)) for each in ("share", "fraction", "drop"))
    yield from ((each, _Unit(_Kind.RATIO)) for each in ("ratio", "speedup", "factor", "x", "\u00d7"))


_UNITS = dict(_units())


def _unit(name: str) -> _Unit:
    return _UNITS[name.casefold().replace(" ", "")]


def decimal(text: str) -> Decimal | None:
    """Return the number of a text, or None if it is not a plausible measured value."""
    try:
        value = Decimal(text.replace(",", ""))
    except InvalidOperation:
        return None
    is_usual = value.is_finite() and abs(value.adjusted()) < 30  # noqa: PLR2004 - no measured quantity is larger
    return value if is_usual else None


class Quantities:
    """Recorded numbers, matched in any unit that fits."""

    def __init__(self, *parts: Any, printed: Iterable[str] = (), is_code: bool = False) -> None:
        """Read strings and JSON values.

        Args:
            parts: The values.
            printed: Output of programs, whose lines can name the unit before the number or not at all.
            is_code: Whether texts are source, whose numbers can have any unit.
        """
        read = (*(each for part in parts for each in _read(part, "")), *_read_lines(printed))
        self._known = frozenset((value, "" if is_code and unit == _BARE else unit) for value, unit in read)
        self._made: dict[tuple[str, Direction | None], list[Decimal]] = {}

    def has(self, value: Decimal, unit: str, direction: Direction | None = None) -> bool:
        """Return whether a recorded number equals a value, rounded to the precision of that value.

        Args:
            value: The stated value.
            unit: Its unit; empty if it has none.
            direction: Which side is said to be faster; a measured speed-up of the other direction does not count.
        """
        if (unit, direction) not in self._made:
            wanted = _unit(unit)
            self._made[unit, direction] = sorted(
                made
                for one, of in self._known
                if direction is None or _agrees(one, _unit(of), direction)
                for made in _forms(one, _unit(of), wanted)
            )
        made, exponent = self._made[unit, direction], value.as_tuple().exponent
        reach = Decimal(10) ** (exponent if isinstance(exponent, int) else 0) / 2
        first = bisect_left(made, value - reach)
        return first < len(made) and made[first] <= value + reach


def _read(part: Any, unit: str) -> Iterator[tuple[Decimal, str]]:
    """Yield each number with its unit; in JSON the unit comes from the nearest member name with one."""
    match part:
        case str():
            for found in _QUANTITY.finditer(part):
                if (value := decimal(found[1])) is not None:
                    yield value, found[2] or _BARE
        case bool():
            return
        case int() | float():
            if (value := decimal(str(part))) is not None:
                yield abs(value), unit
        case dict():
            yield from _named(part, unit)
        case list() | tuple():
            for each in part:
                yield from _read(each, unit)
        case _:
            return


def _read_lines(texts: Iterable[str]) -> Iterator[tuple[Decimal, str]]:
    """Yield the numbers of printed lines that no unit follows, with each unit before them in the line."""
    for line in (line for text in texts for line in text.splitlines()):
        units = [(found.end(), _name_of(found[1])) for found in _UNIT_BEFORE.finditer(line)]
        for found in _QUANTITY.finditer(line):
            value = decimal(found[1])
            if value is None or found[2]:
                continue
            before = [unit for end, unit in units if end <= found.start()]
            yield from ((value, unit) for unit in before)
            exponent = value.as_tuple().exponent
            if not units and isinstance(exponent, int) and exponent < 0:
                yield value, _PRINTED


def _name_of(unit: str) -> str:
    return unit.casefold().replace("-", "")


def _named(parts: Mapping[str, Any], unit: str) -> Iterator[tuple[Decimal, str]]:
    for name, each in parts.items():
        yield from _read(name, "")
        own = _NAMED.search(_RATE.sub("", name))
        yield from _read(each, own[1] if own else unit)


def _forms(one: Decimal, of: _Unit, wanted: _Unit) -> Iterable[Decimal]:
    """Return a number converted to a unit; empty if it has another dimension."""
    if wanted.kind is _Kind.NONE or of.kind is _Kind.PRINTED:
        return (one,)
    if of.kind is _Kind.TEXT and wanted.kind in {_Kind.TIME, _Kind.BYTES}:
        # So many digits are the same number, whatever the word for its unit.
        return (one,) if one >= _LARGE and not _is_broken(one) else ()
    if of.kind is wanted.kind and wanted.kind in {_Kind.TIME, _Kind.BYTES}:
        return (one * own / scale for own in of.scales for scale in wanted.scales)
    make = _FORMS.get((of.kind, wanted.kind))
    return make(one * of.scales[0]) if make else ()


def _agrees(one: Decimal, of: _Unit, direction: Direction) -> bool:
    """Return whether a recorded number can say what is faster; a ratio below 1 says slower."""
    if of.kind is not _Kind.RATIO:
        return True
    return one >= 1 if direction is Direction.FASTER else one <= 1


def _sizes(one: Decimal) -> tuple[Decimal, ...]:
    return tuple(one / base**each for base in (_KIB, _KB) for each in range(5))


def _counts(one: Decimal) -> tuple[Decimal, ...]:
    return tuple(one / _KB**each for each in range(5))


def _is_broken(one: Decimal) -> bool:
    # A whole number without a unit is a count, of which every output has many.
    return one != one.to_integral_value()


def _ratios(one: Decimal) -> tuple[Decimal, ...]:
    return (one, 1 / one) if one else (one,)


def _percent(one: Decimal) -> tuple[Decimal, ...]:
    return one * _HUNDRED, (1 - one) * _HUNDRED


def _changes(one: Decimal) -> tuple[Decimal, ...]:
    less = (1 - 1 / one) * _HUNDRED if one else one
    return one, *_percent(one), (one - 1) * _HUNDRED, less


_FORMS: Mapping[tuple[_Kind, _Kind], Callable[[Decimal], tuple[Decimal, ...]]] = {
    (_Kind.NONE, _Kind.TIME): lambda one: tuple(one * time for time in _TIMES),
    (_Kind.NONE, _Kind.BYTES): _sizes,
    (_Kind.NONE, _Kind.COUNT): _counts,
    (_Kind.COUNT, _Kind.COUNT): _counts,
    (_Kind.BYTES, _Kind.COUNT): _counts,
    (_Kind.NONE, _Kind.RATIO): lambda one: _ratios(one) if _is_broken(one) else (),
    (_Kind.RATIO, _Kind.RATIO): _ratios,
    (_Kind.NONE, _Kind.SHARE): lambda one: _changes(one) if _is_broken(one) else (),
    (_Kind.RATIO, _Kind.SHARE): _changes,
    (_Kind.SHARE, _Kind.SHARE): _percent,
}
