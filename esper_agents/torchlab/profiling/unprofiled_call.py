"""Cost of one call without a profiler, estimated from rounds on a shared machine."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.torchlab.worker.profile.result import TimingRound


@dataclass(frozen=True, slots=True)
class UnprofiledCall:
    """Cost of one call without a profiler.

    Attributes:
        computing_ns: Processor time of its thread.
        waiting_ns: Wall time beyond that, without time lost to other processes.
        wall_ns: Shortest wall time.
        median_ns: Median of the rounds' wall times.
        faults: Number of pages touched for the first time.
        reads: Whether it reads files or sockets, by the kernel's counters.
    """

    computing_ns: int
    waiting_ns: int
    wall_ns: int
    median_ns: int
    faults: float
    reads: bool

    @property
    def ns(self) -> int:
        """Time of a call on an otherwise idle machine."""
        return max(self.computing_ns + self.waiting_ns, 1)


def call_of(rounds: Sequence[TimingRound]) -> UnprofiledCall:
    """Return the cost of one call, from the rounds."""
    walls = [each.wall_ns // each.calls for each in rounds]
    return UnprofiledCall(
        min(each.thread_ns // each.calls for each in rounds),
        _usual_waiting_ns(rounds),
        min(walls),
        int(median(walls)),
        min(each.minor_faults / each.calls for each in rounds),
        all((each.read_calls or 0) + each.major_faults >= each.calls for each in rounds),
    )


def _usual_waiting_ns(rounds: Sequence[TimingRound]) -> int:
    """Return the time for which a call waits for something other than a processor.

    If the kernel reports the time for which the thread was runnable but not running, the rest is waiting, and the
    median of the rounds is typical. Otherwise, only the minimum of the rounds is free of other processes' time.
    """
    waited = [_waited_ns(each) // each.calls for each in rounds]
    return int(median(waited)) if all(each.queued_ns is not None for each in rounds) else min(waited)


def _waited_ns(one: TimingRound) -> int:
    if not one.voluntary_switches:
        return 0
    return max(0, one.wall_ns - one.thread_ns - (one.queued_ns or 0))
