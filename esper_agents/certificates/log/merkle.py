"""Merkle trees of RFC 6962 over a reader of complete, immutable subtrees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import accumulate
from typing import NamedTuple

EMPTY_ROOT = sha256(b"").digest()
HASH_BYTES = 32


class SubtreeIndex(NamedTuple):
    """Index of a complete subtree: over the leaves from `idx * 2**level` on; a leaf has level 0."""

    level: int
    idx: int


# Returns the hashes at the given indexes, in their order.
Reader = Callable[[Sequence[SubtreeIndex]], Sequence[bytes]]


def leaf_hash(leaf: bytes) -> bytes:
    """Return the hash of a leaf."""
    return sha256(b"\x00" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node."""
    return sha256(b"\x01" + left + right).digest()


def peaks(size: int) -> list[SubtreeIndex]:
    """Return the largest complete subtrees that cover a tree, from left to right."""
    return _cover(0, size)


def folded(hashes: Sequence[bytes]) -> bytes:
    """Return the root over the hashes of adjacent complete subtrees of decreasing size, from left to right."""
    if not hashes:
        return EMPTY_ROOT
    *_, root_hash = accumulate(reversed(hashes), lambda right, left: node_hash(left, right))
    return root_hash


def root(size: int, read: Reader) -> bytes:
    """Return the root of the tree over the first `size` leaves."""
    return folded(read(peaks(size)))


def appended(size: int, leaf: bytes, read: Reader) -> dict[SubtreeIndex, bytes]:
    """Return the subtrees that a new leaf completes, including the leaf itself, from the leaf upward.

    Args:
        size: Number of leaves before it.
        leaf: Hash of the leaf.
        read: Reader of the existing complete subtrees.
    """
    level = _trailing_ones(size)
    filled = {SubtreeIndex(0, size): leaf}
    left = read([SubtreeIndex(each, (size >> each) - 1) for each in range(level)])
    for each, sibling in enumerate(left):
        leaf = node_hash(sibling, leaf)
        filled[SubtreeIndex(each + 1, size >> (each + 1))] = leaf
    return filled


def inclusion(idx: int, size: int, read: Reader) -> list[bytes]:
    """Return the inclusion proof of a leaf, from its sibling to the child of the root.

    Args:
        idx: Index of the leaf, below `size`.
        size: Number of leaves of the tree.
        read: Reader of complete subtrees.
    """
    low, high, ranges = 0, size, []
    while high - low > 1:
        middle = low + _split(high - low)
        if idx < middle:
            ranges.append((middle, high))
            high = middle
        else:
            ranges.append((low, middle))
            low = middle
    return _hashes(ranges[::-1], read)


def consistency(old: int, new: int, read: Reader) -> list[bytes]:
    """Return the consistency proof between the trees over the first `old` and the first `new` leaves.

    It is empty if `old` is 0 or equal to `new`.
    """
    if old in {0, new}:
        return []
    low, high, ranges = 0, new, []
    while high != old:
        middle = low + _split(high - low)
        if old <= middle:
            ranges.append((middle, high))
            high = middle
        else:
            ranges.append((low, middle))
            low = middle
    if low:
        ranges.append((low, high))
    return _hashes(ranges[::-1], read)


def check_inclusion(leaf: bytes, idx: int, size: int, proof: Sequence[bytes], tree: bytes) -> bool:
    """Return whether an inclusion proof is valid.

    Args:
        leaf: Hash of the leaf.
        idx: Index of the leaf.
        size: Number of leaves of the tree.
        proof: Hashes as returned by `inclusion`.
        tree: Root of the tree.

    Source:
        RFC 9162, 2.1.3.2.
    """
    if not 0 <= idx < size:
        return False
    node, last, found = idx, size - 1, leaf
    for each in proof:
        if last == 0:
            return False
        if node & 1 or node == last:
            found = node_hash(each, found)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            found = node_hash(found, each)
        node, last = node >> 1, last >> 1
    return last == 0 and found == tree


def check_consistency(old: int, old_tree: bytes, new: int, new_tree: bytes, proof: Sequence[bytes]) -> bool:
    """Return whether a consistency proof is valid.

    Args:
        old: Number of leaves of the older tree.
        old_tree: Root of the older tree.
        new: Number of leaves of the newer tree.
        new_tree: Root of the newer tree.
        proof: Hashes as returned by `consistency`.

    Source:
        RFC 9162, 2.1.4.2; the empty tree is consistent with every other.
    """
    if not 0 <= old <= new:
        return False
    if old == 0:
        return not proof and old_tree == EMPTY_ROOT and (new > 0 or new_tree == EMPTY_ROOT)
    if old == new:
        return not proof and old_tree == new_tree
    hashes = [old_tree, *proof] if old & (old - 1) == 0 else list(proof)
    if not hashes:
        return False
    shift = _trailing_ones(old - 1)
    node, last = (old - 1) >> shift, (new - 1) >> shift
    found_old = found_new = hashes[0]
    for digest in hashes[1:]:
        if last == 0:
            return False
        if node & 1 or node == last:
            found_old, found_new = node_hash(digest, found_old), node_hash(digest, found_new)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            found_new = node_hash(found_new, digest)
        node, last = node >> 1, last >> 1
    return last == 0 and found_old == old_tree and found_new == new_tree


def _split(width: int) -> int:
    return 1 << ((width - 1).bit_length() - 1)


def _trailing_ones(number: int) -> int:
    return (~number & (number + 1)).bit_length() - 1


def _cover(low: int, high: int) -> list[SubtreeIndex]:
    places = []
    while low < high:
        level = (high - low).bit_length() - 1
        places.append(SubtreeIndex(level, low >> level))
        low += 1 << level
    return places


def _hashes(ranges: Sequence[tuple[int, int]], read: Reader) -> list[bytes]:
    covers = [_cover(low, high) for low, high in ranges]
    found: Iterator[bytes] = iter(read([place for cover in covers for place in cover]))
    return [folded([next(found) for _ in cover]) for cover in covers]
