"""Sessions in SQL: made together with their first row, listed from copied columns, cancelled by a flag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import insert, select, update

from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.ledger import RowKey, RowKind
from esper_agents.domain.session import SessionState, SessionSummary
from esper_agents.errors import NotFoundError
from esper_agents.storage import ledger
from esper_agents.storage.lease import Lease, claim_within
from esper_agents.storage.owner import is_dead
from esper_agents.storage.store import database_clock
from esper_agents.storage.tables import project, session

if TYPE_CHECKING:
    from sqlalchemy import Row

    from esper_agents.domain.project import Project
    from esper_agents.domain.session import Submission
    from esper_agents.storage.store import Store, Transaction


def create(store: Store, where: Project, submission: Submission) -> Lease:
    """Make a session with its first row, and return its lease."""
    session_id = new_id(Prefix.SESSION)
    with store.writing() as transaction:
        _note_project(transaction, where)
        transaction.connection.execute(
            insert(session).values(
                id=session_id,
                project_key=where.key,
                request=submission.task.request,
                created_at=transaction.at,
                changed_at=transaction.at,
                state=SessionState.OPEN,
                agent="",
                certificate_id="",
                owner="",
                fence=0,
                expires_ms=0,
                attempts=0,
                cancel_requested=False,
            )
        )
        lease = claim_within(transaction, session_id)
        ledger.append_within(transaction, lease, [(RowKey(0, 0, 0, RowKind.SUBMITTED), submission)])
    return lease


def _note_project(transaction: Transaction, where: Project) -> None:
    known = transaction.connection.scalar(select(project.c.key).where(project.c.key == where.key))
    if known is None:
        transaction.connection.execute(
            insert(project).values(key=where.key, root=where.root, name=where.name, opened_at=transaction.at)
        )


def listing(store: Store, project_key: str, *, limit: int = 50) -> tuple[SessionSummary, ...]:
    """Return a project's sessions, newest first."""
    wanted = select(session).where(session.c.project_key == project_key).order_by(session.c.id.desc()).limit(limit)
    with store.reading() as connection:
        now_ms = database_clock(connection)
        return tuple(_summary(each, now_ms) for each in connection.execute(wanted))


def find(store: Store, project_key: str, session_id: str) -> SessionSummary:
    """Return one session of a project, by its identifier or the unmistakable beginning or end of it.

    Raises:
        NotFoundError: The project has none that is named so, or several.
    """
    with store.reading() as connection:
        known = connection.scalars(select(session.c.id).where(session.c.project_key == project_key)).all()
        matches = [each for each in known if session_id in (each, "latest") or _abbreviates(session_id, each)]
        chosen = max(matches, default="") if session_id == "latest" or len(matches) == 1 else ""
        if not chosen:
            raise NotFoundError("session", session_id, known, listing="esper sessions list")
        found = connection.execute(select(session).where(session.c.id == chosen)).one()
        return _summary(found, database_clock(connection))


_SHORTEST = 6


def _abbreviates(short: str, identifier: str) -> bool:
    bare = short.removeprefix("ses_")
    return len(bare) >= _SHORTEST and (identifier.startswith(f"ses_{bare}") or identifier.endswith(bare))


def _summary(each: Row[tuple[object, ...]], now_ms: int) -> SessionSummary:
    return SessionSummary(
        id=each.id,
        request=each.request,
        state=each.state,
        agent=each.agent,
        certificate=each.certificate_id,
        created_at=each.created_at,
        changed_at=each.changed_at,
        is_owned=bool(each.owner) and each.expires_ms > now_ms and not is_dead(each.owner),
    )


def request_cancel(store: Store, session_id: str) -> None:
    """Ask the owner of a session to stop at the next step boundary."""
    with store.writing() as transaction:
        transaction.connection.execute(update(session).where(session.c.id == session_id).values(cancel_requested=True))
