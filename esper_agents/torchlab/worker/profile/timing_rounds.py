"""Time a target without a profiler, in rounds; each ends with a sample of the machine's ceilings."""

from __future__ import annotations

import resource
from contextlib import suppress
from time import perf_counter_ns, process_time_ns, thread_time_ns
from typing import TYPE_CHECKING

from .result import TimingRound

if TYPE_CHECKING:
    from collections.abc import Callable

    from .call_runner import Runner
    from .machine_ceilings import Sampler

_ROUND_NS = 30_000_000
_MOST_INPUT_NS = 100_000_000
_MOST_CALLS = 20_000
_UNTIMED_CALLS = 5
_FEWEST_ROUNDS, _MOST_ROUNDS = 3, 40


def rounds(
    runner: Runner, sampler: Sampler, *, call_ns: int, budget_ns: int, tell: Callable[[float], None]
) -> list[TimingRound]:
    """Time rounds of calls until the time is used up, at least three of them.

    Args:
        runner: Runs the calls.
        sampler: Takes a sample of the ceilings after each round.
        call_ns: Approximate time of a call.
        budget_ns: Total time.
        tell: Progress callback with the completed fraction.
    """
    calls = max(1, min(_ROUND_NS // max(call_ns, 1), _MOST_CALLS))
    if runner.mutates_inputs:
        calls = max(1, min(calls, _MOST_INPUT_NS // max(min(runner.inputs_ns), 1)))
    begun = perf_counter_ns()
    done: list[TimingRound] = []
    while len(done) < _FEWEST_ROUNDS or (perf_counter_ns() - begun < budget_ns and len(done) < _MOST_ROUNDS):
        done.append(_round(runner, calls))
        sampler.sample()
        tell(min(1.0, (perf_counter_ns() - begun) / max(budget_ns, 1)))
    return done


def _round(runner: Runner, calls: int) -> TimingRound:
    inputs = runner.batch(calls)
    # The preceding sample of the ceilings has evicted the caches.
    for each in runner.batch(min(calls, _UNTIMED_CALLS)):
        runner(each)
    # The cost of reading the counters is included in them.
    idle = _difference(_counters(), _counters())
    before, process, thread, wall = _counters(), process_time_ns(), thread_time_ns(), perf_counter_ns()
    for each in inputs:
        runner(each)
    wall, thread, process = perf_counter_ns() - wall, thread_time_ns() - thread, process_time_ns() - process
    used = _difference(before, _counters())
    counted = {name: max(0, count - idle.get(name, 0)) for name, count in used.items()}
    return TimingRound(calls=calls, wall_ns=wall, thread_ns=thread, process_ns=process, **counted)


def _difference(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: count - before[name] for name, count in after.items() if name in before}


def _counters() -> dict[str, int]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    counted = {
        "minor_faults": used.ru_minflt,
        "major_faults": used.ru_majflt,
        "voluntary_switches": used.ru_nvcsw,
    }
    with suppress(OSError, IndexError, ValueError):
        counted["queued_ns"] = int(_read("/proc/thread-self/schedstat").split()[1])
    with suppress(OSError, IndexError, ValueError):
        counted["read_calls"] = int(_read("/proc/self/io").split("syscr:")[1].split()[0])
    return counted


def _read(path: str) -> str:
    with open(path, encoding="ascii") as opened:  # noqa: PTH123 - a file of the kernel
        return opened.read()
