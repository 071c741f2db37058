"""Hypotheses with the tests that confirm or refute them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.assumption import Assumption, AssumptionState, Tier

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Hypothesis that a measurement can refute.

    Attributes:
        text: Hypothesis, as a claim.
        weight: Its importance, as a fraction of 1; the most important one is tested first.
        state: State of the hypothesis.
        evidence: Evidence that settled it.
        command: Command that would settle it.
    """

    text: str
    weight: float
    state: AssumptionState
    evidence: tuple[str, ...]
    command: str

    @property
    def assumption(self) -> Assumption:
        """Hypothesis as a tracked assumption; a refuted one is a result, not a fault."""
        return Assumption(self.text, Tier.PLAN, False, self.state, self.evidence, self.command)


def ranked(hypotheses: Iterable[Hypothesis]) -> tuple[Assumption, ...]:
    """Return hypotheses as assumptions, the most important first."""
    return tuple(hypothesis.assumption for hypothesis in sorted(hypotheses, key=lambda each: (-each.weight, each.text)))


def settled(*, is_so: bool | None) -> AssumptionState:
    """Return the state for the outcome of a measurement; None means undecided."""
    if is_so is None:
        return AssumptionState.OPEN
    return AssumptionState.CONFIRMED if is_so else AssumptionState.REFUTED
