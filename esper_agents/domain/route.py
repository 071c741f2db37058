"""Routes: the agent selected for a task, with a readable explanation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RouteOutcome(StrEnum):
    """How routing ended."""

    ASSIGNED = "assigned"
    TRIAGE = "triage"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class RouteCandidate:
    """An agent that was weighed.

    Attributes:
        agent: Its name.
        score_milli: How well it fits, in thousandths; comparable within one route only.
        because: What spoke for it, each as it stands in the request.
        against: What spoke against it.
    """

    agent: str
    score_milli: int
    because: tuple[str, ...]
    against: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Route:
    """Who is given a task.

    Attributes:
        outcome: Assigned, sent to triage because nobody owns it, or refused.
        agent: Who; empty where refused.
        candidates: The agents that were weighed, best first, at most five.
        explanation: One line: "because: 'graph breaks', `torch.compile`; not: ...".
    """

    outcome: RouteOutcome
    agent: str
    candidates: tuple[RouteCandidate, ...]
    explanation: str
