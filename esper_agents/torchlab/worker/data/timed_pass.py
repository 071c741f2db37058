"""Time a pass over an input pipeline: waiting for each batch, and the step."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ..process.devices import wait
from .result import LoaderRound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LEAST_BATCHES = 4
_MOST_BATCHES = 2_000
_FEW = 4
# Returned by `next` at the end of the data; no batch is this object.
END = object()


@dataclass
class TimedPass:
    """Pass over the data with its clock.

    Attributes:
        step: Called with each batch.
        device: Device of the step.
        has_step: Whether the step is the user's.
        skipped: Number of first batches that are not timed: workers prepared them before the first was taken.
        most_ns: Time after which no further batch is loaded.
    """

    step: Callable[[Any], Any]
    device: str
    has_step: bool
    skipped: int
    most_ns: int
    _first: list[Any] = field(default_factory=list)
    _waits: list[int] = field(default_factory=list)

    def run(self, batches: Callable[[], Iterator[Any]]) -> LoaderRound:
        """Return the times of a pass; those of an iteration are means of the timed ones.

        Args:
            batches: Starts the pass.
        """
        begun = perf_counter_ns()
        iterator = batches()
        start_ns = self._load(iterator, self.skipped, until_ns=None)
        mark = perf_counter_ns()
        self._load(iterator, _MOST_BATCHES, until_ns=mark + self.most_ns)
        ended = perf_counter_ns()
        if count := len(self._waits):
            batch_ns = (ended - mark) // count
            return LoaderRound(count, start_ns, batch_ns, min(self._wait_ns(batch_ns), batch_ns))
        # A pass of so few batches that its start is most of its cost.
        count = max(len(self._first), 1)
        batch_ns = (mark - begun) // count
        return LoaderRound(count, start_ns, batch_ns, min(start_ns // count, batch_ns))

    def _load(self, iterator: Iterator[Any], most: int, *, until_ns: int | None) -> int:
        """Load batches and run the step on them; return the waiting time of the first."""
        first_ns = 0
        for number in range(most):
            before = perf_counter_ns()
            batch = next(iterator, END)
            waited_ns = perf_counter_ns() - before
            if batch is END:
                break
            if number == 0:
                first_ns = waited_ns
            if until_ns is not None:
                self._waits.append(waited_ns)
            if len(self._first) < _FEW:
                self._first.append(batch)
            self.step(batch)
            if until_ns is not None and len(self._waits) >= _LEAST_BATCHES and perf_counter_ns() > until_ns:
                break
        wait(self.device)
        return first_ns

    def _wait_ns(self, batch_ns: int) -> int:
        if self.device == "cpu" or not self.has_step:
            return sum(self._waits) // len(self._waits)
        # The step goes on while the next batch is loaded: only the time that it does not cover is waiting.
        return max(0, batch_ns - self._step_alone_ns())

    def _step_alone_ns(self) -> int:
        times = []
        for _ in range(3):
            begun = perf_counter_ns()
            for batch in self._first:
                self.step(batch)
            wait(self.device)
            times.append((perf_counter_ns() - begun) // len(self._first))
        return int(median(times))
