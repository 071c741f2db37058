"""Format counts with the singular or plural noun."""

from __future__ import annotations


def number_of(count: int, thing: str, things: str = "") -> str:
    """Return a count with its noun in the singular or plural: `1 file`, `2 files`.

    Args:
        count: The count.
        thing: The noun in the singular.
        things: The noun in the plural; if omitted, the singular with an `s`.
    """
    return f"{count:,} {thing if count == 1 else things or f'{thing}s'}"
