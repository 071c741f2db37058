"""Routes: the agent selected for a task, with a readable explanation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RouteOutcome(StrEnum):
    """Outcome of routing."""

    ASSIGNED = "assigned"
    TRIAGE = "triage"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class RouteCandidate:
    """An agent considered by the router.

    Attributes:
        agent: Its name.
        score_milli: Share of the score in thousandths; comparable within one route only.
        because: Reasons for it, as phrases of the request.
        against: Reasons against it.
    """

    agent: str
    score_milli: int
    because: tuple[str, ...]
    against: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Route:
    """Selection of the agent for a task.

    Attributes:
        outcome: Assigned, sent to triage because no agent owns the subject, or refused.
        agent: The selected agent; empty if refused.
        candidates: The agents considered, best first, at most five.
        explanation: One line: "because: 'graph breaks', `torch.compile`; not: ...".
    """

    outcome: RouteOutcome
    agent: str
    candidates: tuple[RouteCandidate, ...]
    explanation: str
