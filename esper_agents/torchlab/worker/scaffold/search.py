"""Search for arguments with which a target runs: guess, run, change what the exception names, repeat."""

from __future__ import annotations

import heapq
import math
import re
import time
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from .plan import CallPlan
from .plan_changes import PlanChanges
from .plan_runs import PlanRunner, RunTimeoutError, SearchRun, described_error

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_HALVINGS = 4
# Of an enlarged tensor.
_MOST_ELEMENTS = 1 << 18
_MOST_HANGS = 2
_MOST_ABSTRACT = 6
# Failures that no other argument avoids.
_NO_REPAIR = (
    (
        "gpu",
        re.compile(r"not compiled with CUDA|No CUDA GPUs|Found no NVIDIA driver|CUDA driver|CUDA is not available"),
    ),
    ("package", re.compile(r"^(?:ModuleNotFoundError|\w*ImportError)")),
    ("exit", re.compile(r"^SystemExit")),
    ("network", re.compile(r"URLError|ConnectionError|[Nn]ame resolution|Network is unreachable|MaxRetryError")),
)


@dataclass
class SearchResult:
    """Result of a search.

    Attributes:
        runs: Every run, in order.
        plan: Arguments with which the target returns; None if none was found.
        output: Description of the result.
        trains: Whether backward runs from the output.
        backward: Type and message of the exception of backward; empty if it raised none.
        ended: Reason for the end: `found`, `gpu`, `package`, `network`, `exit`, `abstract`, `hang`, `runs`, `time`,
            `arguments` or `exhausted`.
    """

    runs: list[SearchRun] = field(default_factory=list)
    plan: CallPlan | None = None
    output: str = ""
    trains: bool = False
    backward: str = ""
    ended: str = "exhausted"


class Search:
    """Search for arguments of one target."""

    def __init__(self, runner: PlanRunner, *, batch: int = 0) -> None:
        """Prepare a search.

        Args:
            runner: Runner of the target.
            batch: Size that the first dimension of the found tensors gets if the target runs with it; 0 for none.
        """
        self._runner, self._batch = runner, batch
        self._changes = PlanChanges(runner)

    def run(self, *, most: int, seconds: float, tell: Callable[[int], None] = lambda _count: None) -> SearchResult:
        """Return the first plan with which the target returns.

        Args:
            most: Maximum number of runs.
            seconds: Maximum time.
            tell: Takes the number of runs after each one.
        """
        found, runner = SearchResult(), self._runner
        try:
            first = runner.first()
        except (TypeError, ValueError) as error:
            found.runs.append(SearchRun(CallPlan(), "make", described_error(error)))
            return found
        order, hangs, abstract = count(), 0, 0
        waiting = [(0, next(order), first)]
        seen = {first}
        deadline = time.monotonic() + seconds
        while waiting:
            if len(found.runs) >= most or time.monotonic() > deadline:
                found.ended = "runs" if len(found.runs) >= most else "time"
                return found
            cost, _, plan = heapq.heappop(waiting)
            run, failure, output = runner.run(plan, min(runner.seconds, max(deadline - time.monotonic(), 0.5)))
            found.runs.append(run)
            tell(len(found.runs))
            if failure is None and runner.is_used:
                # A lazy module may run only because an earlier call prepared it.
                runner.forget()
                run, failure, output = runner.run(run.plan, runner.seconds)
                found.runs[-1] = run
            if failure is None:
                run, output = self._with_batch(found, run, output)
                found.plan, found.output, found.ended = run.plan, run.output, "found"
                found.trains, found.backward = runner.trains(output)
                return found
            hangs += isinstance(failure, RunTimeoutError)
            if isinstance(failure, NotImplementedError) and not str(failure) and run.stage == "call":
                abstract += 1
            if ended := _end(run.error, hangs, abstract):
                found.ended = ended
                return found
            # A change that gets from the constructor to the call is followed first.
            progress = 0 if run.stage == "call" else 2
            for rank, each in enumerate(self._changes.of(run.plan, failure, run.stage)):
                if each not in seen:
                    seen.add(each)
                    heapq.heappush(waiting, (cost + 1 + rank // 2 + progress, next(order), each))
        return found

    def _with_batch(self, found: SearchResult, run: SearchRun, output: Any) -> tuple[SearchRun, Any]:
        """Return a run with the largest batch up to the given one that the target takes, else the run as it is."""
        batch = self._batch
        for _ in range(_MOST_HALVINGS):
            larger = _enlarged(run.plan, batch)
            if larger is None:
                break
            again, failure, more = self._runner.run(larger, self._runner.seconds)
            if failure is None:
                found.runs.append(again)
                return again, more
            # It takes too long, or too much memory.
            batch //= 2
        return run, output


def _enlarged(plan: CallPlan, batch: int) -> CallPlan | None:
    """Return a plan whose tensors have a larger first dimension; None if they would be too large, or are large already.

    Tensors whose first size is that of the first tensor are taken to hold one batch.
    """
    tensors = [(name, each) for where, name, each in plan.tensors() if where == "call" and each.shape]
    if not tensors:
        return None
    before = tensors[0][1].shape[0]
    same = [(name, each) for name, each in tensors if each.shape[0] == before]
    largest = max(math.prod(each.shape[1:]) for _, each in same)
    size = min(batch, _MOST_ELEMENTS // max(largest, 1))
    if size <= before:
        return None
    for name, each in same:
        plan = plan.with_argument("call", name, each.sized(0, size))
    return plan


def _end(error: str, hangs: int, abstract: int) -> str:
    """Return the reason to end a search after a failure; empty if it goes on."""
    if abstract >= _MOST_ABSTRACT:
        return "abstract"
    if hangs >= _MOST_HANGS:
        return "hang"
    return next((name for name, pattern in _NO_REPAIR if pattern.search(error)), "")
