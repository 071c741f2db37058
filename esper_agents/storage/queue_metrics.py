"""Numbers of sessions and certificates in a database, for monitoring."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import String, and_, func, select, true, type_coerce

from esper_agents.domain.session import SessionState
from esper_agents.storage.store import database_clock
from esper_agents.storage.tables import certificate, session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import ColumnElement

    from esper_agents.storage.store import Store


@dataclass(frozen=True, slots=True)
class QueueMetrics:
    """Numbers of one moment.

    Attributes:
        queued: Number of sessions that wait for a worker.
        oldest_s: Time since the last event of the session that waits longest, in seconds; 0 if none waits.
        running: Number of sessions with a lease that has not expired.
        abandoned: Number of open sessions whose lease has expired.
        waiting: Number of sessions that wait for a user.
        verdicts: Number of certificates by their status.
    """

    queued: int
    oldest_s: float
    running: int
    abandoned: int
    waiting: int
    verdicts: Mapping[str, int]


def queue_metrics(store: Store, project_key: str = "") -> QueueMetrics:
    """Return the numbers of a database.

    Args:
        store: The database.
        project_key: Only sessions and certificates of this project; of all if empty.
    """
    of_project = session.c.project_key == project_key if project_key else true()
    is_open = and_(session.c.state == SessionState.OPEN, of_project)
    is_owned = and_(is_open, session.c.owner != "")
    is_free = and_(is_open, session.c.queued, session.c.owner == "")
    with store.reading() as connection:

        def count(condition: ColumnElement[bool]) -> int:
            return connection.scalar(select(func.count()).select_from(session).where(condition)) or 0

        now_ms = database_clock(connection)
        since = connection.scalar(select(func.min(session.c.changed_at)).where(is_free))
        status = type_coerce(certificate.c.status, String)
        issued = select(status, func.count()).group_by(status).order_by(status)
        if project_key:
            issued = issued.where(certificate.c.project_key == project_key)
        verdicts = {str(name): int(number) for name, number in connection.execute(issued)}
        age_s = now_ms / 1000 - datetime.fromisoformat(since).timestamp() if since else 0.0
        return QueueMetrics(
            queued=count(is_free),
            oldest_s=max(age_s, 0.0),
            running=count(and_(is_owned, session.c.expires_ms > now_ms)),
            abandoned=count(and_(is_owned, session.c.expires_ms <= now_ms)),
            waiting=count(and_(session.c.state == SessionState.WAITING, of_project)),
            verdicts=verdicts,
        )
