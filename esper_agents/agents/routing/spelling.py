"""Finds the known word that a misspelt one was meant to be, when one slip of the fingers lies between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Shorter words have too many neighbours that are words themselves; two swapped letters are a safer sign.
_SHORTEST = 5
_SHORTEST_SWAPPED = 4


class Spelling:
    """A set of known words, looked up by what is left of them when one letter is struck out.

    One letter wrong, missing or too many, and two neighbours swapped, all leave such a remainder in common.
    """

    def __init__(self, targets: Iterable[str], *, known: Iterable[str]) -> None:
        """Enter the words to correct to, and the words to leave alone."""
        usable = {word for word in targets if word.isascii() and word.isalpha() and len(word) >= _SHORTEST_SWAPPED}
        self._known = frozenset(known) | usable
        self._longest = max(map(len, usable), default=0) + 1
        self._by_remainder: dict[str, list[str]] = {}
        for word in sorted(usable):
            for remainder in _remainders(word):
                self._by_remainder.setdefault(remainder, []).append(word)

    def corrected(self, word: str) -> str | None:
        """Return the known word that is meant, or None where the word is known, too short, or like none.

        Of several, the one that is nearest in length, then the first by the alphabet.
        """
        if (
            not _SHORTEST_SWAPPED <= len(word) <= self._longest
            or word in self._known
            or not (word.isascii() and word.isalpha())
        ):
            return None
        near = {other for remainder in _remainders(word) for other in self._by_remainder.get(remainder, ())}
        alike = sorted((abs(len(other) - len(word)), other) for other in near if _is_one_slip(word, other))
        return alike[0][1] if alike else None


def _remainders(word: str) -> Iterator[str]:
    yield word
    for at in range(len(word)):
        yield word[:at] + word[at + 1 :]


def _is_one_slip(word: str, other: str) -> bool:
    """Tell one slip from two; the first letter is seldom mistaken, and a short word only swaps."""
    if len(word) != len(other):
        return word[0] == other[0] and min(len(word), len(other)) >= _SHORTEST
    at = next(index for index, pair in enumerate(zip(word, other, strict=True)) if pair[0] != pair[1])
    swapped = word[:at] + word[at + 1 : at + 2] + word[at] + word[at + 2 :]
    if len(word) < _SHORTEST:
        return swapped == other and at > 0
    return swapped == other or (at > 0 and word[at + 1 :] == other[at + 1 :])
