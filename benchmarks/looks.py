"""How often any of the three looks of a comparison excludes the truth, by simulation; needs no torch.

The ranks in `acceptance.toml` make that at most 5 % for every symmetric distribution of replicates; what is simulated
here are normal ones, ones with a tenth of wild replicates, and ones in two clusters.

    python benchmarks/looks.py
"""

from __future__ import annotations

import math
import random
import sys
from typing import TYPE_CHECKING

from esper_agents.torchlab.compare.acceptance_rules import acceptance
from esper_agents.torchlab.compare.statistics import confidence, speedup_interval

if TYPE_CHECKING:
    from collections.abc import Callable

TRIALS = 4_000
AIM = 0.05


def distributions(chance: random.Random) -> dict[str, Callable[[], float]]:
    """Return ways in which log ratios of replicates scatter around 0."""
    return {
        "normal": lambda: chance.gauss(0, 0.01),
        "a tenth wild": lambda: chance.gauss(0, 0.01 if chance.random() < 0.9 else 0.1),
        "two clusters": lambda: chance.choice((-0.05, 0.05)) + chance.gauss(0, 0.005),
    }


def main() -> None:
    """Print the confidence of each look alone and the misses of all three; exit with 1 where they are too many."""
    looks = acceptance().looks
    steps = list(zip(looks.replicates, looks.ranks, strict=True))
    for replicates, rank in steps:
        print(f"{replicates:3} replicates, rank {rank:3}: {confidence(replicates, rank):.3%} by counting sign patterns")
    chance, is_met = random.Random(3), True  # noqa: S311 - a design, not a secret
    for name, draw in distributions(chance).items():
        missed = 0
        for _ in range(TRIALS):
            ratios = [draw() for _ in range(steps[-1][0])]
            found = [speedup_interval(ratios[:n], rank=rank, resolution=0.0) for n, rank in steps]
            missed += any(each.lower > 1 or each.upper < 1 for each in found)
        error = 2 * math.sqrt(AIM * (1 - AIM) / TRIALS)
        is_met &= missed / TRIALS <= AIM + error
        print(f"{name:13} truth excluded in {missed / TRIALS:.2%} of {TRIALS} (aim {AIM:.0%} + {error:.2%})")
    sys.exit(not is_met)


if __name__ == "__main__":
    main()
