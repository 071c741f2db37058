"""Profiles targets whose bottleneck is known by how they were made, and counts how often the profile names it.

    python benchmarks/bottlenecks.py [--rounds N] [--seconds S]

Exits with 1 where one was not named.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median

from esper_agents.torchlab.lab import Lab
from esper_agents.torchlab.measurements.profile import profile
from esper_agents.torchlab.target import TargetSpec

PROJECT = Path(__file__).parent / "bottlenecks"
KNOWN = {
    "product": "cpu-compute",
    "convolution": "cpu-compute",
    "tangent": "cpu-compute",
    "sorting": "cpu-compute",
    "update_in_place": "memory-bandwidth",
    "transposed_copy": "memory-bandwidth",
    "lookup": "memory-bandwidth",
    "many_small_operations": "dispatch-and-python",
    "interpreted_loop": "dispatch-and-python",
    "many_small_parameters": "dispatch-and-python",
    "sleeping_loader": "data-loading",
    "busy_loader": "data-loading",
    "own_generator": "data-loading",
    "fresh_memory": "memory-allocation",
    "lock": "synchronisation",
    "answer_of_thread": "synchronisation",
}


def main() -> int:
    """Print what was named for each target; return 1 where it was something else."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    wrong, took = 0, []
    print(f"{'target':<24}{'known':<21}{'named':<21}{'share':>6}{'margin':>8}{'a call':>12}{'seconds':>9}")
    with Lab(PROJECT) as lab:
        for name in sorted(KNOWN) * options.rounds:
            begun = time.monotonic()
            report = profile(lab, TargetSpec(f"targets.py:{name}"), train=False, seconds=options.seconds, look=False)
            took.append(time.monotonic() - begun)
            found = report.result["analysis"]
            is_wrong = found["bottleneck"] != KNOWN[name]
            wrong += is_wrong
            numbers = f"{found['share']:>6.2f}{found['margin']:>8.2f}{found['call']['ns']:>10} ns{took[-1]:>9.1f}"
            print(
                f"{name:<24}{KNOWN[name]:<21}{found['bottleneck']:<21}{numbers}{'  WRONG' if is_wrong else ''}",
                flush=True,
            )
    print(f"targets     {len(KNOWN)}, {options.rounds} times each")
    print(f"wrong       {wrong}, aim 0")
    print(f"seconds     {median(took):.1f} in the middle, {max(took):.1f} at most")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
