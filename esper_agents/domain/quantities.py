"""Format shares, times and sizes, and read sizes."""

from __future__ import annotations

import re

from esper_agents.errors import UsageError

_TENTH = 0.1
_SIZE = re.compile(r"(\d{1,15}(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def percent(share: float) -> str:
    """Return a share of 1 in words, such as `37 %`; small shares have one more digit."""
    digits = 0 if share >= _TENTH or not share else 1
    return f"{100 * share:.{digits}f} %"


def time_text(ns: float) -> str:
    """Return nanoseconds in a suitable unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"


def bytes_text(size: float) -> str:
    """Return bytes in a suitable unit."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} B"


def size_in_bytes(size: str) -> int:
    """Return a size in bytes; the text is a number with an optional unit K, M, G or T.

    Raises:
        UsageError: The text is not a valid size.
    """
    found = _SIZE.fullmatch(size.strip())
    if not found or not (counted := int(float(found[1]) * _UNITS[found[2].upper()])):
        raise UsageError(f"invalid size {size!r}", remedy="use a value such as 500M or 16G")
    return counted
