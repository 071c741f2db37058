"""Allocations of a run, block by block: peak, composition of the peak, course over time."""

from __future__ import annotations

import bisect
import collections
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

CATEGORIES = ("parameters", "buffers", "gradients", "optimizer_state", "activations", "inputs", "other")
_MOST_POINTS = 2_000
_MOST_LARGEST = 12


@dataclass
class Allocation:
    """One allocation.

    Attributes:
        key: Its address, or what else tells it from others that live at the same time.
        nbytes: Its size.
        born: When it was allocated, in events since the beginning.
        died: When it was freed; None where it outlived the run.
        operation: What allocated it.
        place: The user's `file:line`; for a backward operation that of the forward one; empty where unknown.
        module: Path of the module that ran; empty where none did.
        category: One of `CATEGORIES`.
        shape: Of the tensor that it was made for, where known.
        dtype: Likewise.
        step: Number of the step that made it, from 1; 0 where unknown.
    """

    key: int
    nbytes: int
    born: int
    died: int | None = None
    operation: str = ""
    place: str = ""
    module: str = ""
    category: str = "other"
    shape: tuple[int, ...] | None = None
    dtype: str = ""
    step: int = 0

    def is_alive(self, moment: int) -> bool:
        """Return whether it is allocated at a moment."""
        return self.born <= moment and (self.died is None or self.died > moment)


@dataclass
class Phase:
    """A stretch of a run.

    Attributes:
        step: Number of the step, from 1.
        name: `forward`, `backward` or `optimizer`.
        begin: First event that belongs to it.
        end: First event that no longer does.
    """

    step: int
    name: str
    begin: int
    end: int


@dataclass
class Trace:
    """All blocks of a run.

    Attributes:
        base: Bytes that were there before it, by category.
        blocks: What it allocated, in order.
        phases: Its phases, in order and without gaps.
        times_ns: When each event was, in ns since the first; None where events have an order only.
    """

    base: dict[str, int]
    blocks: list[Allocation] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    times_ns: list[int] | None = None

    @property
    def base_bytes(self) -> int:
        """Bytes that were there before the run."""
        return sum(self.base.values())

    def changes(self) -> Iterator[tuple[int, int, Allocation]]:
        """Yield each event that changes the sum: when, by how many bytes, and of which block."""
        born = ((each.born, each.nbytes, each) for each in self.blocks)
        died = ((each.died, -each.nbytes, each) for each in self.blocks if each.died is not None)
        yield from sorted(itertools.chain(born, died), key=lambda each: each[0])

    def peak(self) -> tuple[int, int]:
        """Return the moment with the largest sum, and what was allocated then on top of the base."""
        total, best = 0, (0, 0)
        for moment, delta, _ in self.changes():
            total += delta
            if total > best[1]:
                best = (moment, total)
        return best

    def sums(self) -> list[tuple[int, int]]:
        """Return for each phase what was allocated at its peak and at its end, on top of the base."""
        changes = collections.deque(self.changes())
        total, found = 0, []
        for phase in self.phases:
            peak = total
            while changes and changes[0][0] < phase.end:
                total += changes.popleft()[1]
                peak = max(peak, total)
            found.append((peak, total))
        return found

    def split(self, moment: int) -> dict[str, int]:
        """Return the bytes at a moment by category."""
        sums = {each: self.base.get(each, 0) for each in CATEGORIES}
        for block in self.blocks:
            if block.is_alive(moment):
                sums[block.category] += block.nbytes
        return sums

    def at(self, moment: int) -> Phase | None:
        """Return the phase that a moment lies in."""
        return next((each for each in self.phases if each.begin <= moment < each.end), None)


def described(trace: Trace) -> dict[str, Any]:
    """Return a run's peak and its phases as a report holds them."""
    moment, allocated = trace.peak()
    phase = trace.at(moment)
    alive = sorted((each for each in trace.blocks if each.is_alive(moment)), key=lambda each: (-each.nbytes, each.born))
    by = max((each for each in trace.blocks if each.born <= moment), key=lambda each: each.born, default=None)
    return {
        "peak_bytes": trace.base_bytes + allocated,
        "allocated_bytes": allocated,
        "before_bytes": trace.base_bytes,
        "phase": phase.name if phase else "",
        "step": phase.step if phase else 0,
        "reached_by": _about(by) if by else {},
        "split_bytes": trace.split(moment),
        "largest": _grouped(alive),
        "phases": _phases(trace),
    }


def _phases(trace: Trace) -> list[dict[str, Any]]:
    """Return each phase of each step once, in the order in which they first came."""
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for phase, (peak, end) in zip(trace.phases, trace.sums()):  # noqa: B905 - Python 3.10; one for each
        known = found.setdefault((phase.step, phase.name), {"step": phase.step, "name": phase.name, "peak_bytes": 0})
        known["peak_bytes"] = max(known["peak_bytes"], trace.base_bytes + peak)
        known["end_bytes"] = trace.base_bytes + end
    return list(found.values())


def _about(block: Allocation) -> dict[str, Any]:
    about: dict[str, Any] = {"operation": block.operation, "category": block.category, "bytes": block.nbytes}
    file, _, line = block.place.rpartition(":")
    if file:
        about.update(file=file, line=int(line))
    if block.module:
        about["module"] = block.module
    if block.shape is not None:
        about.update(shape=list(block.shape), dtype=block.dtype)
    return about


def _grouped(blocks: Iterable[Allocation]) -> list[dict[str, Any]]:
    """Return the largest blocks; those that one place made alike are one entry with their number."""
    groups: dict[tuple[object, ...], list[Allocation]] = {}
    for each in blocks:
        key = (each.operation, each.place, each.module, each.category, each.nbytes)
        groups.setdefault(key, []).append(each)
    largest = sorted(groups.values(), key=lambda each: -each[0].nbytes * len(each))[:_MOST_LARGEST]
    return [
        {**_about(each[0]), "count": len(each), "bytes": sum(one.nbytes for one in each)} for each in largest if each
    ]


def timeline(trace: Trace) -> list[list[int]]:
    """Return the course of the run: `[t_ns, bytes of each category in turn]`, its peak among the points.

    Of more events than can be shown, the largest sum of each stretch is kept.
    """
    if trace.times_ns is None:
        return []
    sums = [trace.base.get(each, 0) for each in CATEGORIES]
    place = {name: number for number, name in enumerate(CATEGORIES)}
    points = [[0, *sums]]
    for moment, delta, block in trace.changes():
        sums[place[block.category]] += delta
        points.append([trace.times_ns[moment], *sums])
    return list(_thinned(points, lambda point: sum(point[1:])))


def _thinned(points: list[list[int]], size: Callable[[list[int]], int]) -> Iterator[list[int]]:
    stride = -(-len(points) // _MOST_POINTS)
    for start in range(0, len(points), stride):
        yield max(points[start : start + stride], key=size)


def mark_activations(trace: Trace) -> None:
    """Call activations what a forward made and backward begins with; where there is none, all that a forward made."""
    ends = [each.begin for each in trace.phases if each.name == "backward"]
    forward = [each for each in trace.phases if each.name == "forward"]
    starts = [each.begin for each in forward]
    for block in trace.blocks:
        number = bisect.bisect_right(starts, block.born) - 1
        if block.category != "other" or number < 0 or block.born >= forward[number].end:
            continue
        # What the next backward does not find alive, no later one does.
        following = bisect.bisect_left(ends, forward[number].end)
        if not ends or (following < len(ends) and block.is_alive(ends[following])):
            block.category = "activations"
