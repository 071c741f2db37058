"""Estimate the cost of a task with a language model before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.reasoning.models import Usage

if TYPE_CHECKING:
    from esper_agents.reasoning.models import Model

# What a token stands for in source, and what a frame is like: both are guesses, and said to be.
_CHARACTERS = 3
_TURNS = 12
_SPOKEN, _SHOWN = 800, 1_500
_INSTRUCTIONS = 12_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A guess of what one agent's work costs.

    Attributes:
        tokens: How many of the source there are, at most all of which is read.
        money: In millionths of a US dollar.
    """

    tokens: int
    money: int


def estimate(model: Model, characters: int) -> Estimate:
    """Return about what one agent takes for a task: everything written to the cache once and read in each later turn.

    Args:
        model: Who reasons.
        characters: How much source the task is about.
    """
    source = min(-(-characters // _CHARACTERS), model.window)
    held = source + _INSTRUCTIONS
    read = sum(held + turn * (_SPOKEN + _SHOWN) for turn in range(1, _TURNS))
    usage = Usage(written=held + _TURNS * (_SPOKEN + _SHOWN), cached=read, output=_TURNS * _SPOKEN)
    return Estimate(source, model.cost(usage))
