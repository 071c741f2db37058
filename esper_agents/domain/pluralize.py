"""Format counts with the singular or plural noun."""

from __future__ import annotations


def number_of(count: int, thing: str, things: str = "") -> str:
    """Return how many there are of a thing, in words: `1 file`, `2 files`.

    Args:
        count: How many.
        thing: What one of them is called.
        things: What several are called; with an `s` at its end where left out.
    """
    return f"{count:,} {thing if count == 1 else things or f'{thing}s'}"
