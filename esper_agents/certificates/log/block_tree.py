"""Merkle tree recomputed from its leaves block by block, in bounded memory."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from esper_agents.certificates.log.merkle import SubtreeIndex, node_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BLOCK_LEVEL = 14
BLOCK = 1 << BLOCK_LEVEL


class SubtreeRun(NamedTuple):
    """Neighbouring complete subtrees.

    Attributes:
        level: Their level.
        first: The place of the first one on it.
        hashes: Their hashes.
    """

    level: int
    first: int
    hashes: list[bytes]


class BlockTree:
    """A tree that grows by blocks. It keeps the nodes of the newest block and, of those before, the upper levels.

    Attributes:
        size: How many leaves it has.
    """

    def __init__(self) -> None:
        self.size = 0
        self._first = 0
        self._levels: list[list[bytes]] = []
        self._above: dict[SubtreeIndex, bytes] = {}

    def add(self, leaves: list[bytes]) -> Iterator[SubtreeRun]:
        """Yield the complete subtrees over new leaves, from level 1 upward; take them all before the next block.

        Args:
            leaves: Their hashes, `BLOCK` of them; the last block may have fewer.
        """
        self._first, self._levels, self.size = self.size, [leaves], self.size + len(leaves)
        for level in range(1, BLOCK_LEVEL + 1):
            below = self._levels[-1]
            pairs = zip(below[::2], below[1::2], strict=False)
            # As merkle.node_hash, without the call: this is where the time goes.
            above = [sha256(b"\x01" + left + right).digest() for left, right in pairs]
            self._levels.append(above)
            if above:
                yield SubtreeRun(level, self._first >> level, above)
        if len(leaves) == BLOCK:
            yield from self._raise(SubtreeIndex(BLOCK_LEVEL, self._first >> BLOCK_LEVEL), self._levels[-1][0])

    def read(self, places: Sequence[SubtreeIndex]) -> list[bytes]:
        """Return the hashes at places that a tree over these leaves needs, if it ends in the newest block."""
        return [self._at(place) for place in places]

    def _raise(self, place: SubtreeIndex, found: bytes) -> Iterator[SubtreeRun]:
        self._above[place] = found
        while place.idx & 1:
            found = node_hash(self._above[SubtreeIndex(place.level, place.idx - 1)], found)
            place = SubtreeIndex(place.level + 1, place.idx >> 1)
            self._above[place] = found
            yield SubtreeRun(place.level, place.idx, [found])

    def _at(self, place: SubtreeIndex) -> bytes:
        if place.level <= BLOCK_LEVEL and place.idx >= self._first >> place.level:
            return self._levels[place.level][place.idx - (self._first >> place.level)]
        return self._above[place]
