"""Resolve a session reference: an identifier, a unique part of one, or `latest`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlalchemy import select

from esper_agents.errors import NotFoundError, UsageError
from esper_agents.storage import session_search_index
from esper_agents.storage.tables import project, session

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
    mine = select(session.c.id).where(session.c.project_key == project_key)
    if wanted == LATEST:
        found: Sequence[str] = connection.scalars(mine.order_by(session.c.id.desc()).limit(1)).all()
    else:
        bare = wanted.removeprefix("ses_")
        found = _fitting(connection, project_key, bare) if _BARE.fullmatch(bare) and len(bare) >= _SHORTEST else []
    if len(found) == 1:
        return str(found[0])
    if found:
        some = " or ".join(sorted(found)[:3])
        raise UsageError(f"{wanted!r} matches {len(found)} sessions", remedy=f"use a longer part: {some}")
    _refuse_foreign(connection, wanted)
    known = connection.scalars(mine.order_by(session.c.id.desc()).limit(_FEW)).all()
    raise NotFoundError("session", wanted, known, listing=_LISTING)


def _fitting(connection: Connection, project_key: str, bare: str) -> Sequence[str]:
    mine = select(session.c.id).where(session.c.project_key == project_key)
    if len(bare) >= _WHOLE:
        return connection.scalars(mine.where(session.c.id == f"ses_{bare}")).all()
    beginning = mine.where(session.c.id >= f"ses_{bare}", session.c.id < f"ses_{bare}g")
    found = {*connection.scalars(beginning.limit(_FEW)), *session_search_index.ending(connection, project_key, bare)}
    return sorted(found)


def _refuse_foreign(connection: Connection, wanted: str) -> None:
    """Raise an error if a complete identifier belongs to a session of another project."""
    columns = select(project.c.root).join(session, session.c.project_key == project.c.key)
    root = connection.scalar(columns.where(session.c.id == wanted))
    if root is not None:
        raise UsageError(f"session {wanted} belongs to the project in {root!r}", remedy=f"use --project {root}")
