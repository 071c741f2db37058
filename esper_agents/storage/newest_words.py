"""The newest rows of a full text on PostgreSQL that say some words: its index of words knows no order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from esper_agents.storage.prepared import Prepared

if TYPE_CHECKING:
    from sqlalchemy import Connection

# So many of the newest are looked through by themselves.
_NEAR, _FAR = 1_000, 8_000
# Of so many an index names those that are as new. It is joined with the one of the words before any row is read.
LATE, _LATEST = 16_000, 64_000


@dataclass(frozen=True, slots=True)
class FullText:
    """A full text.

    Attributes:
        table: Its name.
        key: The column that later rows have more of.
        form: The key in the form that has an index of its own beside the key's.
        query: The SQL that makes a query of `:asked`.
    """

    table: str
    key: str
    form: str
    query: str

    def newest(self, connection: Connection, asked: str, limit: int, below: Any) -> list[Any]:
        """Return the keys of the newest rows below one that say what is asked, newest first, at most so many."""
        found: list[Any] = []
        seen, size, above = 0, _NEAR, below
        while True:
            low = self.oldest(connection, size, above) if size <= _LATEST else None
            given = {"asked": asked, "above": above, "limit": limit - len(found)}
            given |= {} if low is None else {"low": low}
            found += _within(self, is_near=size <= _FAR, is_whole=low is None).column(connection, given)
            seen += size
            if len(found) >= limit or low is None:
                return found
            above = low
            # A word that many say is soon found among the newest; one that few say, by its index.
            likely = 2 * seen * (limit - len(found)) // len(found) if found else seen * LATE // _NEAR
            size = max(likely, seen)

    def oldest(self, connection: Connection, count: int, below: Any) -> Any:
        """Return the key of the oldest of so many newest rows below one; None where there are not so many."""
        found = _oldest(self).column(connection, {"above": below, "skipped": count - 1})
        return found[0] if found else None


@cache
def _oldest(of: FullText) -> Prepared:
    rows = f"{of.table} WHERE {of.key} < :above ORDER BY {of.key} DESC"
    return Prepared(text(f"SELECT {of.key} FROM {rows} OFFSET :skipped LIMIT 1"))  # noqa: S608 - names of ours


@cache
def _within(of: FullText, *, is_near: bool, is_whole: bool) -> Prepared:
    # By the key itself, the planner would walk all rows in order in the hope of meeting the words soon.
    key, rows = (of.key, "near") if is_near else (of.form, of.table)
    newer = "" if is_whole else f" AND {key} >= :low"
    last = f"ORDER BY {key} DESC LIMIT :limit"
    if not is_near:
        said = f"words @@ {of.query} AND {key} < :above{newer}"
        return Prepared(text(f"SELECT {of.key} FROM {rows} WHERE {said} {last}"))  # noqa: S608 - likewise
    near = f"SELECT {of.key}, words FROM {of.table} WHERE {key} < :above{newer}"  # noqa: S608 - likewise
    wanted = f"SELECT {of.key} FROM near WHERE words @@ {of.query} {last}"  # noqa: S608 - likewise
    return Prepared(text(f"WITH near AS MATERIALIZED ({near}) {wanted}"))
