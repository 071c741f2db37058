"""Estimate the cost of a task with a language model before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.reasoning.models import Usage

if TYPE_CHECKING:
    from esper_agents.reasoning.models import Model

# Characters per token and turns per frame: rough estimates, and reported as such.
_CHARACTERS = 3
_TURNS = 12
_SPOKEN, _SHOWN = 800, 1_500
_INSTRUCTIONS = 12_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated cost of one agent's work.

    Attributes:
        tokens: Maximum number of tokens of the source.
        money: Cost in millionths of a US dollar.
    """

    tokens: int
    money: int


def estimate(model: Model, characters: int) -> Estimate:
    """Estimate the cost of a task for one agent: the source is written to the cache once and read in each later turn.

    Args:
        model: Language model of the agent.
        characters: Size of the source of the task.
    """
    source = min(-(-characters // _CHARACTERS), model.window)
    held = source + _INSTRUCTIONS
    read = sum(held + turn * (_SPOKEN + _SHOWN) for turn in range(1, _TURNS))
    usage = Usage(written=held + _TURNS * (_SPOKEN + _SHOWN), cached=read, output=_TURNS * _SPOKEN)
    return Estimate(source, model.cost(usage))
