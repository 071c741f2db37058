"""Name the differences between log entries and the leaves that were logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.certificates.log.faults import MOST_OF_A_KIND, FaultKind, Faults
from esper_agents.certificates.log.merkle import HASH_BYTES, node_hash

if TYPE_CHECKING:
    from esper_agents.certificates.log.rows import LogRows


class EntryDiff:
    """Comparison of log entries with logged leaves.

    Attributes:
        has_shifted: Whether entries were removed and later ones moved up; after that, every entry differs.
    """

    def __init__(self, rows: LogRows, faults: Faults, size: int) -> None:
        """Take the stored rows, the collector of faults and the number of entries."""
        self._rows = rows
        self._faults = faults
        self._size = size
        self._logged = rows.leaves_logged()
        self._looked_for = 0
        self.has_shifted = False

    def name(self, first: int, last: int) -> list[bytes]:
        """Report faults of a range of leaves; return the leaves for the tree, as logged if that is known.

        Args:
            first: Index of the first leaf.
            last: Index after the last leaf.
        """
        entered, logged = self._rows.entered(first, last), self._rows.level(0, first, last)
        parents = self._rows.level(1, first >> 1, last >> 1)
        leaves = []
        for idx in range(first, last):
            leaf, node = entered.get(idx, b""), logged.get(idx, b"")
            if not leaf:
                if not self.has_shifted:
                    self._faults.add(FaultKind.MIDDLE_REMOVED, f"entry {idx}", "entry is missing, but later ones exist")
            elif leaf != node:
                pair = (entered.get(idx & ~1, b""), entered.get(idx | 1, b""))
                if parents.get(idx >> 1) == node_hash(*pair):
                    self._name_node(idx, is_there=bool(node))
                    node = leaf
                elif not self.has_shifted:
                    self._name_leaf(idx, leaf, has_node=bool(node))
            leaves.append(node or leaf or bytes(HASH_BYTES))
        return leaves

    def _name_node(self, idx: int, *, is_there: bool) -> None:
        where = f"node {idx} on level 0"
        if is_there:
            self._faults.add(FaultKind.NODE_CHANGED, where, "node is not the hash of its entry")
        else:
            self._faults.add(FaultKind.NODE_MISSING, where, "node is missing")

    def _name_leaf(self, idx: int, leaf: bytes, *, has_node: bool) -> None:
        where = f"entry {idx}"
        place = self._place_of(leaf)
        if place is None and not has_node:
            self._name_node(idx, is_there=False)
        elif place is None:
            self._faults.add(FaultKind.ENTRY_CHANGED, where, "entry differs from the logged leaf")
        elif place > idx and self._have_moved_up(idx, place):
            detail = f"logged entries {idx} to {place - 1} are missing, and later ones moved up"
            self._faults.add(FaultKind.MIDDLE_REMOVED, where, detail)
            self.has_shifted = True
        elif self._rows.leaf(place) == leaf:
            self._faults.add(FaultKind.DUPLICATED, where, f"duplicate of entry {place}")
        else:
            self._faults.add(FaultKind.REORDERED, where, f"logged as entry {place}")

    def _have_moved_up(self, idx: int, place: int) -> bool:
        return self._size < self._logged and self._rows.leaf(idx + 1) in {b"", self._rows.node(place + 1)}

    def _place_of(self, leaf: bytes) -> int | None:
        # The search reads a whole level: after enough reported faults, the rest count as changed.
        self._looked_for += 1
        return self._rows.place_logged(leaf) if self._looked_for <= 2 * MOST_OF_A_KIND else None
