"""Assumptions (confirmed, refuted or open) and information gaps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Tier(StrEnum):
    """Phase in which an assumption was made, in the terms of the completion drive."""

    PLAN = "PLAN_UNCERTAINTY"
    WORK = "COMPLETION_DRIVE"


class AssumptionState(StrEnum):
    """State of an assumption."""

    OPEN = "open"
    CONFIRMED = "confirmed"
    REFUTED = "refuted"


@dataclass(frozen=True, slots=True)
class Assumption:
    """A statement that an agent relied on.

    Attributes:
        text: The statement.
        tier: Made while planning or while working.
        is_critical: Whether the verdict would change if it were false.
        state: Whether it is open, confirmed or refuted.
        evidence: Identifiers of the evidence that confirmed or refuted it; empty while open.
        command: A command that would confirm or refute it.
    """

    text: str
    tier: Tier
    is_critical: bool
    state: AssumptionState
    evidence: tuple[str, ...]
    command: str


@dataclass(frozen=True, slots=True)
class InformationGap:
    """Missing information that limits the verdict.

    Attributes:
        what: The missing information.
        why: Why it is needed.
        command: The command that would provide it.
        blocks_approval: Whether the verdict stays undecided, or worse, while the gap is open.
    """

    what: str
    why: str
    command: str
    blocks_approval: bool = False
