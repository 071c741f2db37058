"""Hypotheses with the tests that confirm or refute them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.assumption import Assumption, AssumptionState, Tier

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Something that may be so, which a measurement is to refute.

    Attributes:
        text: What may be so, as a claim.
        weight: How much hangs on it, as a part of 1; the heaviest is looked at first.
        state: What became of it.
        evidence: What settled it.
        command: What would settle it.
    """

    text: str
    weight: float
    state: AssumptionState
    evidence: tuple[str, ...]
    command: str

    @property
    def assumption(self) -> Assumption:
        """The hypothesis as the completion drive tracks it; one that is refuted is a result and no fault."""
        return Assumption(self.text, Tier.PLAN, False, self.state, self.evidence, self.command)


def ranked(hypotheses: Iterable[Hypothesis]) -> tuple[Assumption, ...]:
    """Return hypotheses as assumptions, the heaviest first."""
    return tuple(each.assumption for each in sorted(hypotheses, key=lambda each: (-each.weight, each.text)))


def settled(*, is_so: bool | None) -> AssumptionState:
    """Return the state for what a measurement said; None for one that did not say."""
    if is_so is None:
        return AssumptionState.OPEN
    return AssumptionState.CONFIRMED if is_so else AssumptionState.REFUTED
