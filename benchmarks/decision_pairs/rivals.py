"""Common practice, beside which ours is measured: `torch.utils.benchmark` medians in turn, and a do_bench-like loop.

Reads one JSON line for each pair (`baseline`, `candidate`) and answers with the speedup that each practice states.
"""

from __future__ import annotations

import json
import sys
from statistics import median
from time import perf_counter_ns

import pairs
import torch
from torch.utils.benchmark import Timer

_MIN_RUN_S = 0.2
_WARM_NS = 25_000_000
_RUN_NS = 100_000_000


def by_timer(one: str, other: str, x: torch.Tensor) -> float:
    """Return the ratio of the medians of `blocked_autorange`, one after the other, as its documentation does it."""
    medians = [
        Timer("f(x)", globals={"f": getattr(pairs, name), "x": x}).blocked_autorange(min_run_time=_MIN_RUN_S).median
        for name in (one, other)
    ]
    return medians[0] / medians[1]


def by_loop(one: str, other: str, x: torch.Tensor) -> float:
    """Return the ratio of median call times for a fixed time each, as `triton.testing.do_bench` does it."""
    return _median_ns(getattr(pairs, one), x) / _median_ns(getattr(pairs, other), x)


def _median_ns(function: object, x: torch.Tensor) -> float:
    assert callable(function)
    begun = perf_counter_ns()
    while perf_counter_ns() - begun < _WARM_NS:
        function(x)
    took = []
    begun = perf_counter_ns()
    while perf_counter_ns() - begun < _RUN_NS:
        before = perf_counter_ns()
        function(x)
        took.append(perf_counter_ns() - before)
    return median(took)


def main() -> None:
    """Answer until the input ends."""
    torch.set_num_threads(1)
    for line in sys.stdin:
        asked = json.loads(line)
        x = torch.randn(*asked["shape"])
        names = asked["baseline"], asked["candidate"]
        print(json.dumps({"timer": by_timer(*names, x), "loop": by_loop(*names, x)}), flush=True)


if __name__ == "__main__":
    main()
