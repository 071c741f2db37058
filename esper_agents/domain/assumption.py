"""Assumptions (confirmed, refuted or open) and information gaps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Tier(StrEnum):
    """Where an assumption was made, in the words of the completion drive."""

    PLAN = "PLAN_UNCERTAINTY"
    WORK = "COMPLETION_DRIVE"


class AssumptionState(StrEnum):
    """What became of an assumption."""

    OPEN = "open"
    CONFIRMED = "confirmed"
    REFUTED = "refuted"


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something taken for granted on the way.

    Attributes:
        text: What is assumed, as a claim.
        tier: Made while planning or while working.
        is_critical: Whether the verdict would change if it were false.
        state: What became of it.
        evidence: Identifiers of the evidence that settled it; empty while open.
        command: A command that would settle it.
    """

    text: str
    tier: Tier
    is_critical: bool
    state: AssumptionState
    evidence: tuple[str, ...]
    command: str


@dataclass(frozen=True, slots=True)
class InformationGap:
    """Something that was not found or could not be known.

    Attributes:
        what: What is missing.
        why: Why it would help.
        command: The command that would close the gap.
        blocks_approval: Whether nothing better than undecided can be said while it is open.
    """

    what: str
    why: str
    command: str
    blocks_approval: bool = False
