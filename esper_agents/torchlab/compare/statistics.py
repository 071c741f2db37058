"""Wilcoxon signed-rank interval: exact for symmetric distributions, bit-identical on every machine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

from esper_agents.torchlab.report import rounded

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Interval:
    """Speedup with its interval.

    Attributes:
        estimate: Baseline time over candidate time.
        lower: Lower bound of the same ratio.
        upper: Upper bound.
        confidence: Coverage probability of a single interval of this kind.
    """

    estimate: float
    lower: float
    upper: float
    confidence: float

    def __str__(self) -> str:
        """Return the estimate and its bounds."""
        return f"{self.estimate:.4g}x, {self.lower:.4g}x to {self.upper:.4g}x"


def speedup_interval(log_ratios: Sequence[float], *, rank: int, resolution: float) -> Interval:
    """Estimate the speedup of the candidate with its interval.

    Args:
        log_ratios: ln(fastest baseline / fastest candidate), one for each replicate pair of fresh processes.
        rank: Number of Walsh averages excluded on each side; a higher rank gives a narrower interval.
        resolution: Fraction by which each bound is moved outwards, for errors common to all replicates.

    Returns:
        The Hodges-Lehmann estimate and the signed-rank bounds as ratios, to six digits.

    Raises:
        ValueError: Too few replicates for that rank.

    Source:
        Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 3rd edition, section 3.3.
    """
    walsh = _walsh_averages(log_ratios, rank)
    middle = (walsh[(len(walsh) - 1) // 2] + walsh[len(walsh) // 2]) / 2
    return Interval(
        rounded(math.exp(middle)),
        rounded(math.exp(walsh[rank]) * (1 - resolution)),
        rounded(math.exp(walsh[-1 - rank]) * (1 + resolution)),
        rounded(confidence(len(log_ratios), rank)),
    )


def upper_bound(differences: Sequence[float], *, rank: int) -> float:
    """Return the upper signed-rank bound of differences.

    Args:
        differences: One for each replicate pair of fresh processes.
        rank: Number of Walsh averages above the bound.

    Raises:
        ValueError: Too few replicates for that rank.
    """
    return _walsh_averages(differences, rank)[-1 - rank]


def _walsh_averages(replicates: Sequence[float], rank: int) -> list[float]:
    walsh = sorted((one + other) / 2 for one, other in combinations_with_replacement(replicates, 2))
    if not 0 <= rank < len(walsh) / 2:
        raise ValueError(f"no interval of rank {rank} from {len(replicates)} replicates")
    return walsh


def confidence(replicates: int, rank: int) -> float:
    """Return the coverage probability of the interval of this rank for a symmetric distribution."""
    outside = 2 * sum(_ways(replicates)[: rank + 1])
    return 1 - outside / (1 << replicates)


@cache
def _ways(replicates: int) -> tuple[int, ...]:
    """Return the number of the 2^n sign patterns whose positive ranks sum to 0, 1, 2, ..."""
    ways = [1]
    for rank in range(1, replicates + 1):
        longer = [0] * (len(ways) + rank)
        for total, count in enumerate(ways):
            longer[total] += count
            longer[total + rank] += count
        ways = longer
    return tuple(ways)
