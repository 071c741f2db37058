"""Find the newest rows that match a full-text query on PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from esper_agents.storage.compiled_statements import Prepared

if TYPE_CHECKING:
    from sqlalchemy import Connection

# Number of the newest rows to scan first; above the second number, the full-text index selects matching rows in the
# range.
_NEAR, _FAR = 1_000, 4_000
# Relative costs: scanning one row equals 8 index entries of a word. Reading one row separately equals scanning 4 rows
# in sequence, or locating the start of a window of 40 rows.
_NAMED, _READ, _BEGUN = 8, 4, 40
# Place of the check of the additional words.
_Besides: TypeAlias = Literal["nowhere", "index", "row"]


@dataclass(frozen=True, slots=True)
class FullText:
    """A full-text column of a table.

    Attributes:
        table: Name of the table.
        key: The column by which rows are ordered; it increases with time.
        form: An expression of the key that has an index of its own, separate from the key's index.
        query: SQL expression that builds a text query from `:asked`.
        is_dense: Whether keys are integers with few gaps.
    """

    table: str
    key: str
    form: str
    query: str
    is_dense: bool = False

    def newest(self, connection: Connection, asked: str, limit: int, below: Any, *, besides: str = "") -> list[Any]:
        """Return the keys of the newest rows below `below` that match, newest first, at most `limit`.

        Args:
            connection: The connection.
            asked: The words to match.
            limit: Maximum number of keys.
            below: Exclusive upper bound of the keys.
            besides: Additional words to match; if most rows contain them, an index scan would visit all of those rows.
        """
        found: list[Any] = []
        seen, above, rows, saying, common = 0, below, 0, 0, 0
        size, at = _NEAR, "index" if besides else "nowhere"
        while size and (low := self.oldest(connection, size, above)) is not None:
            by = "row" if at == "index" and _READ * size * saying * _NAMED < rows * common else at
            named = rows * (saying + (common if by == "index" else 0)) // _NEAR
            window = _near(self, at) if size <= _FAR + named // _NAMED else _late(self, by)
            given = {"asked": asked, "besides": besides, "above": above, "low": low}
            found += window.column(connection, {**given, "limit": limit - len(found)})
            if len(found) >= limit:
                return found
            if not seen:
                ((rows, saying, common),) = _known(self, at).rows(connection, given)
                at = "row" if 2 * common > size else at
            seen, above = seen + size, low
            # Even if no row matches so far, assume that one more row would.
            likely = max(len(found), 1)
            said = rows * likely // seen
            size = max(2 * seen * (limit - len(found)) // likely, _NEAR)
            # If few matches are expected, read them all at once.
            size = size if said > size // _BEGUN else 0
        given = {"asked": asked, "besides": besides, "above": above, "limit": limit - len(found)}
        return found + _whole(self, at).column(connection, given)

    def oldest(self, connection: Connection, count: int, below: Any) -> Any:
        """Return the key of the oldest of about `count` newest rows below a key; None if there are fewer rows."""
        found = _oldest(self).column(connection, {"above": below, "skipped": count - 1})
        return found[0] if found else None


@cache
def _oldest(of: FullText) -> Prepared:
    rows = f"{of.table} WHERE {of.key} < :above"
    if of.is_dense:
        newest = f"max({of.key})"
        return Prepared(f"SELECT {newest} - :skipped FROM {rows} HAVING {newest} > :skipped")  # noqa: S608 - constant names
    return Prepared(f"SELECT {of.key} FROM {rows} ORDER BY {of.key} DESC OFFSET :skipped LIMIT 1")  # noqa: S608 - likewise


@cache
def _known(of: FullText, at: _Besides) -> Prepared:
    """Return a statement that estimates the row count and counts the matches of both queries in a window."""
    rows = f"SELECT CAST(greatest(reltuples, 0) AS bigint) FROM pg_class WHERE oid = CAST('{of.table}' AS regclass)"  # noqa: S608 - likewise
    saying = f"SELECT count(*) FROM near WHERE words @@ {_query(of, 'asked')}"  # noqa: S608 - likewise
    common = "0" if at == "nowhere" else f"SELECT count(*) FROM near WHERE words @@ {_query(of, 'besides')}"  # noqa: S608 - likewise
    return Prepared(
        f"WITH near AS MATERIALIZED (SELECT words {_WINDOW.format(of=of)}) SELECT ({rows}), ({saying}), ({common})"
    )


@cache
def _near(of: FullText, at: _Besides) -> Prepared:
    besides = "" if at == "nowhere" else f" AND words @@ {_query(of, 'besides')}"
    wanted = f"words @@ {_query(of, 'asked')}{besides} {_LAST.format(of=of)}"
    # An ordered subquery of its own: the scan stops at the last needed row, and never leaves the window.
    near = f"SELECT {of.key}, words {_WINDOW.format(of=of)} ORDER BY {of.key} DESC OFFSET 0"
    return Prepared(f"SELECT {of.key} FROM ({near}) AS near WHERE {wanted}")  # noqa: S608 - likewise


@cache
def _late(of: FullText, at: _Besides) -> Prepared:
    return _by_index(of, at, f" AND {of.form} < :above AND {of.form} >= :low")


@cache
def _whole(of: FullText, at: _Besides) -> Prepared:
    return _by_index(of, at, "")


def _by_index(of: FullText, at: _Besides, window: str) -> Prepared:
    besides = f" AND words @@ {_query(of, 'besides')}"
    within = f"words @@ {_query(of, 'asked')}{besides if at == 'index' else ''}{window}"
    # OFFSET 0 keeps the outer condition out of the index scan.
    said = f"SELECT {of.key}, words FROM {of.table} WHERE {within} OFFSET 0"  # noqa: S608 - likewise
    wanted = f"{of.key} < :above{besides if at == 'row' else ''} {_LAST.format(of=of)}"
    return Prepared(f"SELECT {of.key} FROM ({said}) AS said WHERE {wanted}")  # noqa: S608 - likewise


_WINDOW = "FROM {of.table} WHERE {of.key} < :above AND {of.key} >= :low"
_LAST = "ORDER BY {of.key} DESC LIMIT :limit"


def _query(of: FullText, name: str) -> str:
    # Evaluated once per statement and not per row, whatever the query plan.
    return f"(SELECT {of.query.replace(':asked', f':{name}')})"
