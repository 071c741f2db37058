"""The offline algorithm specialist: losses, layers, schedules and gradients, read from the code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esper_agents.domain.finding import Category
from esper_agents.reasoning.static_specialist import SpecialistProfile, work

if TYPE_CHECKING:
    from collections.abc import Generator

    from esper_agents.domain.agent_action import Conclude, Move
    from esper_agents.domain.frame import Brief

_SPECIALISM = SpecialistProfile(
    categories=(Category.CORRECTNESS, Category.SILENT_CORRECTNESS),
    searches=("backward(", "scheduler", "loss"),
    meanings={
        "gradients-not-cleared": "Gradients of earlier steps add up, so that the step size grows with the steps.",
        "softmax-before-loss": "The loss applies a softmax again: gradients are small and training stalls early.",
        "loss-shape-mismatch": "Broadcasting compares every output with every target, so the model does not learn.",
        "scheduler-before-optimizer": "The first learning rate is skipped.",
    },
    measured=(("whether training converges with a change", "python {path}"),),
    why_measure="only training runs with several seeds show convergence",
    is_whole=True,
)


def play(brief: Brief) -> Generator[Move, Any, Conclude]:
    """Review the rules about correctness and inspect the code for the topics of the request."""
    return (yield from work(brief, _SPECIALISM))
