"""Events that a queue worker reports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from esper_agents.domain.session import SessionState

if TYPE_CHECKING:
    from esper_agents.api.session import SessionResult


class WorkerEventKind(StrEnum):
    """What became of a session, or of the worker."""

    TAKEN = "taken"
    ENDED = "ended"
    WAITING = "waiting"
    GIVEN_BACK = "given back"
    LOST = "lost"
    FAILED = "failed"
    AWAY = "not here"
    TROUBLE = "trouble"


@dataclass(frozen=True, slots=True)
class WorkerEvent:
    """Something that happened at a worker.

    Attributes:
        what: What.
        name: The session; the project where that is not on this machine; empty where it is about the database.
        text: In words.
        remedy: What can be done about it, or empty.
    """

    what: WorkerEventKind
    name: str
    text: str
    remedy: str = ""


def ended(outcome: SessionResult) -> WorkerEvent:
    """Return what is told of a session that has run as far as it goes."""
    match outcome.state:
        case SessionState.WAITING:
            asked = "; ".join(each.text for each in outcome.questions)
            return WorkerEvent(
                WorkerEventKind.WAITING, outcome.session, asked, f"esper sessions show {outcome.session}"
            )
        case SessionState.DONE:
            status = str(outcome.certificate.status) if outcome.certificate else "done"
            return WorkerEvent(WorkerEventKind.ENDED, outcome.session, status)
        case SessionState.REFUSED | SessionState.CANCELLED | SessionState.OPEN:
            return WorkerEvent(WorkerEventKind.ENDED, outcome.session, str(outcome.state))
