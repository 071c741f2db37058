"""Events that a queue worker reports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from esper_agents.domain.session import SessionState

if TYPE_CHECKING:
    from esper_agents.api.session import SessionResult


class WorkerEventKind(StrEnum):
    """Kind of an event of a session or of the worker."""

    TAKEN = "taken"
    ENDED = "ended"
    WAITING = "waiting"
    GIVEN_BACK = "given back"
    LOST = "lost"
    FAILED = "failed"
    AWAY = "not here"
    TROUBLE = "trouble"
    # Of workers on a cluster.
    STARTED = "worker started"
    DIED = "worker died"


@dataclass(frozen=True, slots=True)
class WorkerEvent:
    """An event of a queue worker.

    Attributes:
        what: Kind of the event.
        name: The session; the project if it is not on this machine; empty for the database or a worker.
        text: Description of the event.
        remedy: A command or an edit that fixes it, or empty.
    """

    what: WorkerEventKind
    name: str
    text: str
    remedy: str = ""


def ended(outcome: SessionResult) -> WorkerEvent:
    """Return the event for a session that has ended or is waiting."""
    match outcome.state:
        case SessionState.WAITING:
            asked = "; ".join(question.text for question in outcome.questions)
            return WorkerEvent(
                WorkerEventKind.WAITING, outcome.session, asked, f"esper sessions show {outcome.session}"
            )
        case SessionState.DONE:
            status = str(outcome.certificate.status) if outcome.certificate else "done"
            return WorkerEvent(WorkerEventKind.ENDED, outcome.session, status)
        case SessionState.REFUSED | SessionState.CANCELLED | SessionState.OPEN:
            return WorkerEvent(WorkerEventKind.ENDED, outcome.session, str(outcome.state))
