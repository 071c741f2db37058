"""IDs for shell completion, read without SQLAlchemy, which takes longer to load than a user waits."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_MOST = 30
_LONGEST = 50
_QUERIES = {
    "certificate": "SELECT id, status || ' ' || component FROM certificate WHERE project_key = ? "
    "ORDER BY position DESC LIMIT ?",
    "session": "SELECT id, state || ' ' || request FROM session WHERE project_key = ? ORDER BY changed_at DESC LIMIT ?",
}


def recent_ids(database: Path, project_key: str, kind: str) -> list[tuple[str, str]]:
    """Return the newest IDs, each with a description; none if there is no SQLite database that can be read.

    Args:
        database: The database of the project.
        project_key: `domain.project.Project.key`.
        kind: `certificate` or `session`.
    """
    if os.environ.get("ESPER_DATABASE_URL") or not database.is_file():
        return []
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=0.2)) as connection:
            rows = connection.execute(_QUERIES[kind], (project_key, _MOST)).fetchall()
    except sqlite3.Error:
        return []
    return [(str(name), _description(str(text))) for name, text in rows]


def _description(text: str) -> str:
    """Return a description on one line, of printable characters that no shell interprets."""
    shown = "".join(each if each.isalnum() or each in " _.,/-" else " " for each in text)
    return " ".join(shown.split())[:_LONGEST]
