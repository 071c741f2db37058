"""Resolve a session reference: an identifier, a unique part of one, or `latest`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.errors import NotFoundError, UsageError
from esper_agents.storage import session_search_index
from esper_agents.storage.compiled_statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

LATEST = "latest"
_LISTING = "esper sessions list"
_SHORTEST, _WHOLE = 6, 32
_BARE = re.compile(r"[0-9a-f]+")
_FEW = 100


def named(connection: Connection, project_key: str, wanted: str) -> str:
    """Return the identifier of the one session of a project that a reference means.

    Raises:
        NotFoundError: The project has no such session.
        UsageError: The reference is ambiguous, or the session belongs to another project.
    """
    given = {"project": project_key, "limit": 1}
    if wanted == LATEST:
        found: Sequence[str] = _NEWEST.column(connection, given)
    else:
        bare = wanted.removeprefix("ses_")
        found = _fitting(connection, project_key, bare) if _BARE.fullmatch(bare) and len(bare) >= _SHORTEST else []
    if len(found) == 1:
        return str(found[0])
    if found:
        some = " or ".join(sorted(found)[:3])
        raise UsageError(f"{wanted!r} matches {len(found)} sessions", remedy=f"use a longer part: {some}")
    _refuse_foreign(connection, wanted)
    known = _NEWEST.column(connection, {**given, "limit": _FEW})
    raise NotFoundError("session", wanted, known, listing=_LISTING)


def _fitting(connection: Connection, project_key: str, bare: str) -> Sequence[str]:
    first = f"ses_{bare}"
    if len(bare) >= _WHOLE:
        return _EXACTLY.column(connection, {"project": project_key, "wanted": first})
    beginning = {"project": project_key, "first": first, "end": f"{first}g", "limit": _FEW}
    found = {
        *_BEGINNING.column(connection, beginning),
        *session_search_index.ending(connection, project_key, bare),
    }
    return sorted(found)


def _refuse_foreign(connection: Connection, wanted: str) -> None:
    """Raise an error if a complete identifier belongs to a session of another project."""
    root = _ROOT.scalar(connection, {"wanted": wanted})
    if root is not None:
        raise UsageError(f"session {wanted} belongs to the project in {root!r}", remedy=f"use --project {root}")


_NEWEST = Prepared("SELECT id FROM session WHERE project_key = :project ORDER BY id DESC LIMIT :limit")
_EXACTLY = Prepared("SELECT id FROM session WHERE project_key = :project AND id = :wanted")
_BEGINNING = Prepared("SELECT id FROM session WHERE project_key = :project AND id >= :first AND id < :end LIMIT :limit")
_ROOT = Prepared(
    "SELECT project.root FROM project JOIN session ON session.project_key = project.key WHERE session.id = :wanted"
)
