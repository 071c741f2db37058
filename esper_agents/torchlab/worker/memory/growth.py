"""Distinguish memory that keeps growing from memory that levels off."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_FEWEST_STEPS = 4
_MOST_FALLING = 0.1
_LEAST_RISING = 0.5
# The growth of a filling cache decreases; that of a leak does not.
_STEADY = 1 / 3


@dataclass(frozen=True)
class Growth:
    """Growth of the memory left after each step.

    Attributes:
        is_growing: Whether it rises without levelling off.
        per_step: Median of the slopes between any two steps considered.
        first_step: First step considered, from 1; earlier ones are warm-up.
    """

    is_growing: bool
    per_step: int
    first_step: int


def growth(left: Sequence[int], warmup: int, least: int) -> Growth:
    """Judge the growth of the memory left after each step, after a warm-up.

    Args:
        left: Bytes, or a count, after each step and a garbage collection.
        warmup: Number of initial steps to ignore.
        least: Minimum relevant growth per step.

    Source:
        The slope of Theil and Sen; the share of falling and rising pairs as in Kendall's tau.
    """
    window = left[warmup:]
    if len(window) < _FEWEST_STEPS:
        return Growth(is_growing=False, per_step=0, first_step=warmup + 1)
    pairs = [(j - i, window[j] - window[i]) for i in range(len(window)) for j in range(i + 1, len(window))]
    slope = statistics.median(rise / steps for steps, rise in pairs)
    falling = sum(rise < 0 for _, rise in pairs) / len(pairs)
    rising = sum(rise > 0 for _, rise in pairs) / len(pairs)
    middle = len(window) // 2
    early, late = window[middle] - window[0], window[-1] - window[middle]
    is_steady = late > 0 and late >= _STEADY * early
    is_growing = falling <= _MOST_FALLING and rising >= _LEAST_RISING and is_steady and slope >= least
    return Growth(is_growing=is_growing, per_step=round(slope), first_step=warmup + 1)


def may_grow(left: Sequence[int], least: int) -> bool:
    """Return whether more steps are useful: memory still grew in the second half of the steps."""
    return left[-1] - left[len(left) // 2] >= least
