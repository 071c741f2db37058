"""Strict JSON parser that rejects input which two parsers could read differently."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NoReturn

from esper_agents.errors import IntegrityError

MOST_BYTES = 64 * 2**20
MOST_DEPTH = 64
# RFC 8785 uses IEEE doubles, which represent every integer up to here.
LARGEST_INTEGER = 2**53 - 1
_MOST_INTEGERS = 10_000
_SURELY_SHORT = len(str(LARGEST_INTEGER))


def refuse(problem: str) -> NoReturn:
    """Raise an error that bytes are not a certificate."""
    raise IntegrityError(
        f"not a certificate: {problem}", remedy="fetch it from the archive; `esper certificates list` lists them"
    )


def loads(data: bytes) -> Any:
    """Parse strict JSON.

    Raises:
        IntegrityError: Over 64 MiB, not UTF-8, not JSON, a duplicate member in an object, a number that is not an
            integer of at most 53 bits, or nested deeper than 64.
    """
    if len(data) > MOST_BYTES:
        refuse(f"it has {len(data)} bytes; the maximum is {MOST_BYTES}")
    try:
        text = data.decode("utf-8")
        value = _DECODER.decode(text)
    except UnicodeDecodeError as error:
        refuse(f"byte {error.start} is not UTF-8")
    except RecursionError:
        refuse(f"it nests deeper than {MOST_DEPTH}")
    except json.JSONDecodeError as error:
        refuse(f"line {error.lineno}, column {error.colno} is not JSON")
    _check_depth(value)
    return value


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) != len(members):
        names = Counter(name for name, _ in members)
        refuse(f"member {names.most_common(1)[0][0][:60]!a} occurs twice in one object")
    return found


def _integer(digits: str) -> int:
    if len(digits) < _SURELY_SHORT and digits != "-0":
        return int(digits)
    if len(digits) > len(str(-LARGEST_INTEGER)) or abs(int(digits)) > LARGEST_INTEGER or digits == "-0":
        refuse(f"{digits[:20]} is not an integer of at most 53 bits")
    return int(digits)


class _Integers(dict[str, int]):
    """Integers by their digits: a certificate repeats most of its numbers, and a lookup is faster than a call."""

    def __missing__(self, digits: str) -> int:
        number = _integer(digits)
        if len(self) < _MOST_INTEGERS:
            self[digits] = number
        return number


def _float(digits: str) -> NoReturn:
    refuse(f"{digits[:20]} is not an integer")


def _check_depth(value: object) -> None:
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        # json.loads returns exactly these types, and comparing types is several times as fast as isinstance.
        nested = [each for each in level if each.__class__ is dict or each.__class__ is list]
        if not nested:
            return
        level = [inner for each in nested for inner in (each.values() if isinstance(each, dict) else each)]
    refuse(f"it nests deeper than {MOST_DEPTH}")


# Created once: json.loads creates a decoder per call if it is given hooks.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_Integers().__getitem__, parse_float=_float, parse_constant=_float
)
