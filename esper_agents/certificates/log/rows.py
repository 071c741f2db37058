"""Read the stored rows of one log in ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection


class LogRows:
    """Stored rows of a log."""

    def __init__(self, connection: Connection, log_id: int) -> None:
        self._connection = connection
        self._log_id = log_id

    def entries(self) -> int:
        """Return the number of entries."""
        return self._number("SELECT count(*) FROM log_entry WHERE log_id = :log")

    def first_entry(self) -> int:
        """Return the index of the first entry, which is 0 in an intact log."""
        return self._number("SELECT min(idx) FROM log_entry WHERE log_id = :log")

    def leaves_logged(self) -> int:
        """Return the number of leaves with nodes, from the index of the last one."""
        return self._number("SELECT max(idx) + 1 FROM log_node WHERE log_id = :log AND level = 0")

    def nodes(self) -> int:
        """Return the number of nodes."""
        return self._number("SELECT count(*) FROM log_node WHERE log_id = :log")

    def checkpoints(self) -> list[tuple[int, str]]:
        """Return every checkpoint with the size it is stored under."""
        wanted = "SELECT size, note FROM log_checkpoint WHERE log_id = :log ORDER BY size"
        rows = self._connection.execute(text(wanted), {"log": self._log_id})
        return [(int(size), str(note)) for size, note in rows]

    def leaves(self, first: int, last: int) -> list[bytes]:
        """Return the leaf hashes of `entered` as a list: if none is missing, that takes a third of the time."""
        wanted = "SELECT leaf_hash FROM log_entry WHERE log_id = :log AND idx >= :first AND idx < :last ORDER BY idx"
        return self._hashes(wanted, first=first, last=last)

    def hashes(self, level: int, first: int, last: int) -> list[bytes]:
        """Return the hashes of `level` as a list, for the same reason."""
        wanted = (
            "SELECT hash FROM log_node"
            " WHERE log_id = :log AND level = :level AND idx >= :first AND idx < :last ORDER BY idx"
        )
        return self._hashes(wanted, level=level, first=first, last=last)

    def entered(self, first: int, last: int) -> dict[int, bytes]:
        """Return the leaf hashes of the entries from `first` to before `last`, by index."""
        wanted = (
            "SELECT idx, leaf_hash FROM log_entry WHERE log_id = :log AND idx >= :first AND idx < :last ORDER BY idx"
        )
        return self._range(wanted, first=first, last=last)

    def level(self, level: int, first: int, last: int) -> dict[int, bytes]:
        """Return the nodes of a level from `first` to before `last`, by index."""
        wanted = (
            "SELECT idx, hash FROM log_node"
            " WHERE log_id = :log AND level = :level AND idx >= :first AND idx < :last ORDER BY idx"
        )
        return self._range(wanted, level=level, first=first, last=last)

    def leaf(self, idx: int) -> bytes:
        """Return the leaf hash of an entry; empty if there is none."""
        return self.entered(idx, idx + 1).get(idx, b"")

    def node(self, idx: int) -> bytes:
        """Return the node of a leaf; empty if there is none."""
        return self.level(0, idx, idx + 1).get(idx, b"")

    def place_logged(self, leaf: bytes) -> int | None:
        """Return the index of the node with a leaf hash, or None; reads the whole level."""
        wanted = text("SELECT min(idx) FROM log_node WHERE log_id = :log AND level = 0 AND hash = :leaf")
        found = self._connection.scalar(wanted, {"leaf": leaf, "log": self._log_id})
        return None if found is None else int(found)

    def entries_without_certificate(self, most: int) -> list[tuple[str, int]]:
        """Return certificate entries whose certificate is not in the archive, each with its log index."""
        wanted = (
            "SELECT record_id, idx FROM log_entry WHERE log_id = :log AND kind = 'certificate' AND NOT EXISTS"
            " (SELECT 1 FROM certificate WHERE certificate.id = log_entry.record_id) LIMIT :most"
        )
        return [(str(name), int(idx)) for name, idx in self._some(wanted, most)]

    def certificates_without_entry(self, most: int, project_key: str) -> list[str]:
        """Return archived certificates without an entry, of the log's projects and of one that may not name it."""
        wanted = (
            "SELECT id FROM certificate WHERE (project_key = :project OR project_key IN"
            " (SELECT key FROM project WHERE log_id = :log AND log_id <> 0)) AND NOT EXISTS"
            " (SELECT 1 FROM log_entry WHERE log_entry.record_id = certificate.id AND log_entry.log_id = :log)"
            " LIMIT :most"
        )
        return [str(name) for (name,) in self._some(wanted, most, project=project_key)]

    def entered_twice(self, most: int) -> list[tuple[int, int]]:
        """Return the indexes of duplicate entries, each with the index of the first copy."""
        wanted = (
            "SELECT max(idx), min(idx) FROM log_entry WHERE log_id = :log"
            " GROUP BY leaf_hash HAVING count(*) > 1 ORDER BY 1 LIMIT :most"
        )
        return [(int(later), int(earlier)) for later, earlier in self._some(wanted, most)]

    def entered_before_their_time(self, most: int) -> list[int]:
        """Return the indexes of entries whose time is earlier than that of the preceding entry."""
        wanted = (
            "SELECT idx FROM (SELECT idx, at, lag(at) OVER (ORDER BY idx) AS earlier FROM log_entry"
            " WHERE log_id = :log) AS pairs WHERE at < earlier ORDER BY idx LIMIT :most"
        )
        return [int(idx) for (idx,) in self._some(wanted, most)]

    def _some(self, wanted: str, most: int, **more: str) -> Iterable[Any]:
        return self._connection.execute(text(wanted), {"log": self._log_id, "most": most, **more})

    def _hashes(self, wanted: str, **limits: int) -> list[bytes]:
        result = self._connection.execute(text(wanted), {"log": self._log_id, **limits})
        # Read from the driver: creating a named row per entry costs more than reading millions of them.
        rows = result.cursor.fetchall()
        result.close()
        return [found for (found,) in rows]

    def _range(self, wanted: str, **limits: int) -> dict[int, bytes]:
        rows = self._connection.execute(text(wanted), {"log": self._log_id, **limits})
        return {idx: bytes(found) for idx, found in rows}

    def _number(self, wanted: str) -> int:
        return int(self._connection.scalar(text(wanted), {"log": self._log_id}) or 0)
