"""Format shares, times and sizes."""

from __future__ import annotations

_TENTH = 0.1


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
