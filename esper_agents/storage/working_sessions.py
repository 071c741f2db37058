"""Sessions that processes work on, with their owners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select

from esper_agents.domain.session import SessionState
from esper_agents.storage.owner import is_dead
from esper_agents.storage.store import database_clock
from esper_agents.storage.tables import session

if TYPE_CHECKING:
    from esper_agents.storage.store import Store


@dataclass(frozen=True, slots=True)
class WorkingSession:
    """An open session with an owner.

    Attributes:
        session: `ses_` identifier.
        project_key: Key of its project.
        machine: Name of the owner's machine.
        process_id: Process id of the owner on that machine.
        expires_s: Time until the lease ends, in seconds; negative if it has ended.
        is_abandoned: Whether the lease has expired, or its owner is known to be dead.
    """

    session: str
    project_key: str
    machine: str
    process_id: int
    expires_s: float
    is_abandoned: bool


def working_sessions(store: Store, limit: int) -> tuple[WorkingSession, ...]:
    """Return the open sessions with an owner, oldest first.

    Args:
        store: The database.
        limit: Maximum number.
    """
    with store.reading() as connection:
        now_ms = database_clock(connection)
        wanted = select(session.c.id, session.c.project_key, session.c.owner, session.c.expires_ms)
        wanted = wanted.where(session.c.state == SessionState.OPEN, session.c.owner != "").order_by(session.c.id)
        found = []
        for name, key, owner, expires_ms in connection.execute(wanted.limit(limit)):
            machine, _, rest = owner.partition("|")
            number = rest.rsplit("|", 2)[-2] if rest.count("|") > 1 else ""
            found.append(
                WorkingSession(
                    name,
                    key,
                    machine,
                    int(number) if number.isdecimal() else 0,
                    (expires_ms - now_ms) / 1000,
                    expires_ms <= now_ms or is_dead(owner),
                )
            )
        return tuple(found)
