"""Read and format numbers and words of recorded evidence, treated as untrusted input."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Context, Decimal
from math import isfinite
from typing import Any

MOST_ROWS = 24
_NUMBER = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:e[+-]?[0-9]{1,3})?")
_CUT = re.compile(r"and [0-9]{1,12} more")
_NOT_FINITE = ("nan", "inf", "-inf")
_LOGARITHMS = Context(prec=9)


def found_in(thing: object, *names: str) -> Any:
    """Return the value at a path of nested objects, or None."""
    for name in names:
        thing = thing.get(name) if isinstance(thing, Mapping) else None
    return thing


def mapping_in(thing: object, *names: str) -> Mapping[str, Any]:
    """Return the object at a path; an empty object if there is none."""
    found = found_in(thing, *names)
    return found if isinstance(found, Mapping) else {}


def list_in(thing: object, *names: str) -> list[Any]:
    """Return the first entries of the list at a path; empty if there is no list."""
    found = found_in(thing, *names)
    return found[:MOST_ROWS] if isinstance(found, list) else []


def left_out_of(entries: object) -> str:
    """Return a description of the list entries that are not shown, or an empty string."""
    if not isinstance(entries, list) or not entries:
        return ""
    said = entries[-1]
    if isinstance(said, str) and _CUT.fullmatch(said):
        return f"{said}, in the artifact of this measurement"
    return f"and {len(entries) - MOST_ROWS} more, see the record" if len(entries) > MOST_ROWS else ""


def numbers_of(entries: object) -> tuple[list[float], str]:
    """Return the leading numbers of a list, and a description of the omitted entries."""
    found = []
    for each in entries[:MOST_ROWS] if isinstance(entries, list) else []:
        number = number_of(each)
        if number is None:
            break
        found.append(number)
    left_out = left_out_of(entries)
    if not left_out and isinstance(entries, list) and len(found) < len(entries):
        left_out = f"from entry {len(found) + 1} on they are no numbers, see the record"
    return found, left_out


def number_of(thing: object) -> float | None:
    """Return a number recorded as an integer or a decimal string; None for anything else."""
    if isinstance(thing, bool) or not isinstance(thing, int | str):
        return None
    text = str(thing) if not isinstance(thing, int) or abs(thing) < 10**20 else ""
    number = float(text) if _NUMBER.fullmatch(text) else None
    return number if number is not None and isfinite(number) else None


def word_of(thing: object, otherwise: str = "not recorded") -> str:
    """Return a string or an integer as text, and a placeholder for anything else."""
    return str(thing) if isinstance(thing, int | str) else otherwise


def watched_number(thing: object) -> float | str | None:
    """Return a number, or the word for a non-finite one; None for anything else."""
    return str(thing) if thing in _NOT_FINITE else number_of(thing)


def power_of(number: float) -> float:
    """Return the decimal logarithm of a positive number."""
    # The last digits of math.log10 differ between C libraries; these do not.
    return float(Decimal(number).log10(_LOGARITHMS))


def count_text(number: float | None) -> str:
    """Format a count."""
    return "not recorded" if number is None else f"{number:.0f}"


def ratio_text(ratio: float) -> str:
    """Format a ratio, such as `1.196x`."""
    return f"{ratio:.4g}x"


def percent(share: float) -> str:
    """Format a fraction of 1 as a percentage, such as `37.1 %`."""
    return f"{100 * share:.1f} %"


def bytes_text(size: float) -> str:
    """Format a number of bytes in a suitable unit."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(size) >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size:.0f} B"
