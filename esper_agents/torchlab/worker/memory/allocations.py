"""Allocations of a run, block by block: peak, composition of the peak, course over time."""

from __future__ import annotations

import bisect
import collections
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from .result import CATEGORIES, MemoryBlock, MemoryPeak, MemoryPhase, MemorySplit

_MOST_POINTS = 2_000
_MOST_LARGEST = 12
_Peak = TypeVar("_Peak", bound=MemoryPeak)


@dataclass
class Allocation:
    """One allocation.

    Attributes:
        key: Address, or another key that is unique among live allocations.
        nbytes: Size in bytes.
        born: Time of the allocation, as the number of the event.
        died: Time of the release; None if it outlived the run.
        operation: Operation that allocated it.
        place: User's `file:line`; for a backward operation that of the forward one; empty if unknown.
        module: Path of the active module; empty without one.
        category: One of `CATEGORIES`.
        shape: Shape of its tensor, if known.
        dtype: Dtype of its tensor, if known.
        step: Number of the step that made it, from 1; 0 if unknown.
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

    @property
    def file(self) -> str:
        """File of its place; empty if unknown."""
        return self.place.rpartition(":")[0]

    @property
    def line(self) -> int:
        """Line of its place; 0 if unknown."""
        return int(self.place.rpartition(":")[2]) if self.place else 0

    def is_alive(self, moment: int) -> bool:
        """Return whether it is allocated at a moment."""
        return self.born <= moment and (self.died is None or self.died > moment)


@dataclass
class Phase:
    """Phase of a step.

    Attributes:
        step: Number of the step, from 1.
        name: `forward`, `backward` or `optimizer`.
        begin: Its first event.
        end: First event after it.
    """

    step: int
    name: str
    begin: int
    end: int


@dataclass
class Trace:
    """All allocations of a run.

    Attributes:
        base: Bytes allocated before the run, by category.
        blocks: Allocations of the run, in order.
        phases: Its phases, in order and without gaps.
        times_ns: Time of each event, in ns since the first; None if events are only ordered.
    """

    base: dict[str, int]
    blocks: list[Allocation] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    times_ns: list[int] | None = None

    @property
    def base_bytes(self) -> int:
        """Bytes allocated before the run."""
        return sum(self.base.values())

    def changes(self) -> Iterator[tuple[int, int, Allocation]]:
        """Yield each event that changes the total: its time, the change in bytes, and the block."""
        born = ((block.born, block.nbytes, block) for block in self.blocks)
        died = ((block.died, -block.nbytes, block) for block in self.blocks if block.died is not None)
        yield from sorted(itertools.chain(born, died), key=lambda each: each[0])

    def peak(self) -> tuple[int, int]:
        """Return the moment with the largest total, and the bytes allocated then in addition to the base."""
        total, best = 0, (0, 0)
        for moment, delta, _ in self.changes():
            total += delta
            if total > best[1]:
                best = (moment, total)
        return best

    def sums(self) -> list[tuple[int, int]]:
        """Return for each phase the bytes allocated at its peak and at its end, in addition to the base."""
        changes = collections.deque(self.changes())
        total, found = 0, []
        for phase in self.phases:
            peak = total
            while changes and changes[0][0] < phase.end:
                total += changes.popleft()[1]
                peak = max(peak, total)
            found.append((peak, total))
        return found

    def split(self, moment: int) -> MemorySplit:
        """Return the bytes at a moment by category."""
        sums = {category: self.base.get(category, 0) for category in CATEGORIES}
        for block in self.blocks:
            if block.is_alive(moment):
                sums[block.category] += block.nbytes
        return MemorySplit(**sums)

    def at(self, moment: int) -> Phase | None:
        """Return the phase that contains a moment."""
        return next((phase for phase in self.phases if phase.begin <= moment < phase.end), None)


def peak_of(trace: Trace, make: Callable[..., _Peak], **more: Any) -> _Peak:
    """Return a run's peak with its phases.

    Args:
        trace: The run.
        make: Class of the peak.
        more: Further fields of that class.
    """
    moment, allocated = trace.peak()
    phase = trace.at(moment)
    alive = sorted(
        (block for block in trace.blocks if block.is_alive(moment)), key=lambda each: (-each.nbytes, each.born)
    )
    by = max((block for block in trace.blocks if block.born <= moment), key=lambda each: each.born, default=None)
    return make(
        peak_bytes=trace.base_bytes + allocated,
        allocated_bytes=allocated,
        before_bytes=trace.base_bytes,
        phase=phase.name if phase else "",
        step=phase.step if phase else 0,
        reached_by=_about(by) if by else MemoryBlock(),
        split_bytes=trace.split(moment),
        largest=_grouped(alive),
        phases=_phases(trace),
        **more,
    )


def _phases(trace: Trace) -> tuple[MemoryPhase, ...]:
    """Return each phase of each step once, in order of first occurrence."""
    found: dict[tuple[int, str], MemoryPhase] = {}
    for phase, (peak, end) in zip(trace.phases, trace.sums()):  # noqa: B905 - Python 3.10; one for each
        known = found.get((phase.step, phase.name))
        highest = max(known.peak_bytes if known else 0, trace.base_bytes + peak)
        found[phase.step, phase.name] = MemoryPhase(phase.step, phase.name, highest, trace.base_bytes + end)
    return tuple(found.values())


def _about(block: Allocation) -> MemoryBlock:
    return MemoryBlock(
        operation=block.operation,
        category=block.category,
        bytes=block.nbytes,
        file=block.file,
        line=block.line,
        module=block.module,
        shape=block.shape,
        dtype=None if block.shape is None else block.dtype,
    )


def _grouped(blocks: Iterable[Allocation]) -> tuple[MemoryBlock, ...]:
    """Return the largest blocks; identical blocks from one location are merged into one entry with a count."""
    groups: dict[tuple[object, ...], list[Allocation]] = {}
    for block in blocks:
        key = (block.operation, block.place, block.module, block.category, block.nbytes)
        groups.setdefault(key, []).append(block)
    largest = sorted(groups.values(), key=lambda each: -each[0].nbytes * len(each))[:_MOST_LARGEST]
    return tuple(replace(_about(each[0]), count=len(each), bytes=sum(one.nbytes for one in each)) for each in largest)


def timeline(trace: Trace) -> tuple[tuple[int, ...], ...]:
    """Return the course of the run: `[t_ns, bytes of each category in turn]`, with its peak among the points.

    If there are too many events, the largest total of each interval is kept.
    """
    if trace.times_ns is None:
        return ()
    sums = [trace.base.get(category, 0) for category in CATEGORIES]
    place = {name: number for number, name in enumerate(CATEGORIES)}
    points = [(0, *sums)]
    for moment, delta, block in trace.changes():
        sums[place[block.category]] += delta
        points.append((trace.times_ns[moment], *sums))
    return tuple(_thinned(points))


def _thinned(points: list[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    stride = -(-len(points) // _MOST_POINTS)
    for start in range(0, len(points), stride):
        yield max(points[start : start + stride], key=lambda point: sum(point[1:]))


def mark_activations(trace: Trace) -> None:
    """Mark activations: blocks of a forward that are alive when backward begins; without backward, all of a forward."""
    ends = [phase.begin for phase in trace.phases if phase.name == "backward"]
    forward = [phase for phase in trace.phases if phase.name == "forward"]
    starts = [each.begin for each in forward]
    for block in trace.blocks:
        number = bisect.bisect_right(starts, block.born) - 1
        if block.category != "other" or number < 0 or block.born >= forward[number].end:
            continue
        # A block that is dead at the next backward is used by no later one.
        following = bisect.bisect_left(ends, forward[number].end)
        if not ends or (following < len(ends) and block.is_alive(ends[following])):
            block.category = "activations"
