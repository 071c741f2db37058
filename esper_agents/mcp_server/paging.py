"""Pages of long results: cursors bound to one query, and a limit in bytes."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Generic, TypeVar

from esper_agents.errors import UsageError
from esper_agents.mcp_server.results import MOST_BYTES, compact, json_text

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

# Bytes of a page's rows; the rest of a result fits beside them.
_PAGE_BYTES = MOST_BYTES - 4_000
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class ResultPage(Generic[T]):
    """Page of a result.

    Attributes:
        rows: Rows of the page.
        next_cursor: Cursor of the next page; empty on the last one.
    """

    rows: tuple[T, ...]
    next_cursor: str


def page_of(rows: Sequence[T], query: object, *, cursor: str, limit: int) -> ResultPage[T]:
    """Return the page of rows that a cursor names: at most `limit` rows, and as many as fit into a result.

    Args:
        rows: All rows.
        query: What the rows answer; a cursor of another query is refused.
        cursor: Cursor of the page; empty for the first one.
        limit: Maximum number of rows.

    Raises:
        UsageError: The cursor belongs to another query, or the result has changed since.
    """
    digest = sha256(repr((query, len(rows))).encode("utf-8", "backslashreplace")).hexdigest()[:_DIGITS]
    start = _offset(cursor, digest) if cursor else 0
    chosen: list[T] = []
    size = 0
    for row in rows[start : start + limit]:
        size += len(json_text(compact(row)).encode()) + 1
        if chosen and size > _PAGE_BYTES:
            break
        chosen.append(row)
    end = start + len(chosen)
    return ResultPage(tuple(chosen), _cursor(end, digest) if end < len(rows) else "")


def _cursor(offset: int, digest: str) -> str:
    return base64.urlsafe_b64encode(f"{offset}.{digest}".encode()).decode().rstrip("=")


def _offset(cursor: str, digest: str) -> int:
    problem = UsageError("the cursor belongs to another call", remedy="call again without a cursor")
    try:
        text = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode("ascii")
    except (ValueError, binascii.Error):
        raise problem from None
    offset, _, of = text.partition(".")
    if of != digest or not offset.isdecimal():
        raise problem
    return int(offset)
