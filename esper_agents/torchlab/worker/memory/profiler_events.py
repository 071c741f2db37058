"""Read allocations from the events of torch's profiler."""

from __future__ import annotations

import bisect
import itertools
from dataclasses import dataclass, field
from typing import Any

from .allocations import Allocation, Phase, Trace, mark_activations
from .current_location import MARK
from .tensor_roles import stronger

MOMENT = "esper-moment|"
STEP = "esper-step|"
PROBE = "esper-probe|"
TICK = "esper-tick|"
_BACKWARD = "autograd::engine::evaluate_function: "
_OPTIMIZER = "Optimizer.step#"


@dataclass
class _Change:
    """An allocation or, with a negative size, a release."""

    time_ns: int
    address: int
    size: int
    operation: str
    place: tuple[str, str]
    node: int


@dataclass
class _Context:
    """Context of an event by its enclosing events."""

    operation: str = ""
    place: tuple[str, str] = ("", "")
    node: int = -1


@dataclass
class _Stretches:
    """Time ranges that can be searched for a moment."""

    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def add(self, begin: int, end: int) -> None:
        self.begins.append(begin)
        self.ends.append(end)

    def index(self, time_ns: int) -> int:
        """Return the index of the range that contains a moment; -1 without one."""
        found = bisect.bisect_right(self.begins, time_ns) - 1
        return found if found >= 0 and time_ns <= self.ends[found] else -1

    def joined(self, breaks: list[int]) -> _Stretches:
        """Return the ranges with neighbours merged, unless something in `breaks` begins between them."""
        result = _Stretches()
        for begin, end in sorted(zip(self.begins, self.ends)):  # noqa: B905 - Python 3.10; they grow together
            if result.ends and bisect.bisect(breaks, begin) == bisect.bisect(breaks, result.ends[-1]):
                result.ends[-1] = max(end, result.ends[-1])
            else:
                result.add(begin, end)
        return result


class ProfilerEvents:
    """Events of one profile.

    Attributes:
        events: Number of events.
    """

    def __init__(self, roots: list[Any], device: str) -> None:
        """Read the events.

        Args:
            roots: The profiler's event tree.
            device: Device type whose memory counts.
        """
        self._device = device
        self.events = 0
        self._changes: list[_Change] = []
        self._moments: dict[int, int] = {}
        self._probes: dict[int, tuple[int, int]] = {}
        self._ticks: list[tuple[int, int]] = []
        self._steps = _Stretches()
        self._backward = _Stretches()
        self._optimizer = _Stretches()
        self._calls: list[int] = []
        self._forward: dict[int, tuple[str, str]] = {}
        stack = [(root, _Context()) for root in reversed(roots)]
        while stack:
            event, context = stack.pop()
            self.events += 1
            inner = self._read(event, context)
            stack += [(child, inner) for child in reversed(event.children)]
        self._changes.sort(key=lambda each: each.time_ns)
        self._calls.sort()

    def _read(self, event: Any, context: _Context) -> _Context:
        fields = event.extra_fields
        size = getattr(fields, "alloc_size", None)
        if size is not None:
            if fields.device.type == self._device:
                self._changes.append(
                    _Change(event.start_time_ns, fields.ptr, size, context.operation, context.place, context.node)
                )
            return context
        name = str(event.name)
        begin, end = event.start_time_ns, event.end_time_ns
        node = getattr(fields, "sequence_number", -1)
        if self._is_ours(name, begin, end):
            return context
        if name.startswith(MARK):
            self._calls.append(begin)
            line, _, module = name[len(MARK) :].partition("|")
            return _Context(context.operation, (line, module) if line or module else context.place, context.node)
        if name.startswith(_BACKWARD):
            self._backward.add(begin, end)
            return _Context(name[len(_BACKWARD) :], ("", ""), node)
        if name.startswith(_OPTIMIZER):
            self._optimizer.add(begin, end)
            return _Context(name, context.place, -1)
        if node >= 0 and context.node < 0 and any(context.place):
            # The last operation with this number made the node; earlier ones made none.
            self._forward[node] = context.place
        return context if context.operation else _Context(name, context.place, context.node)

    def _is_ours(self, name: str, begin: int, end: int) -> bool:
        """Record one of our own marks that does not affect its contents; return whether the event is one."""
        if name.startswith(MOMENT):
            self._moments[int(name[len(MOMENT) :])] = begin
        elif name.startswith(STEP):
            self._steps.add(begin, end)
        elif name.startswith(PROBE):
            self._probes[int(name[len(PROBE) :])] = begin, end
        elif name.startswith(TICK):
            self._ticks.append((begin, int(name[len(TICK) :])))
        else:
            return False
        return True

    def beside(self) -> list[tuple[int, int, int | None]]:
        """Return the allocations outside of marked operations: bytes, and the ticks before their start and end."""
        probes = _Stretches()
        for begin, end in sorted(self._probes.values()):
            probes.add(begin, end)
        times = [time_ns for time_ns, _ in self._ticks]
        found: list[tuple[int, int, int | None]] = []
        alive: dict[int, int] = {}
        for change in self._changes:
            place = bisect.bisect_right(times, change.time_ns) - 1
            tick = self._ticks[place][1] if place >= 0 else 0
            if change.size > 0 and place >= 0 and probes.index(change.time_ns) < 0:
                alive[change.address] = len(found)
                found.append((change.size, tick, None))
            elif change.size < 0 and change.address in alive:
                number = alive.pop(change.address)
                found[number] = (found[number][0], found[number][1], tick)
        return found

    def sums_at_moments(self) -> list[int]:
        """Return the bytes allocated since the beginning at each marked moment."""
        times = [change.time_ns for change in self._changes]
        sums = list(itertools.accumulate((change.size for change in self._changes), initial=0))
        return [sums[bisect.bisect_right(times, self._moments[moment])] for moment in sorted(self._moments)]

    def inside(self) -> dict[int, int]:
        """Return for each marked operation its peak beyond the bytes that it left allocated."""
        times = [change.time_ns for change in self._changes]
        result: dict[int, int] = {}
        for number, (begin, end) in self._probes.items():
            first, last = bisect.bisect_left(times, begin), bisect.bisect_right(times, end)
            sums = list(itertools.accumulate((change.size for change in self._changes[first:last]), initial=0))
            result[number] = max(sums) - sums[-1]
        return result

    def trace(self, base: dict[str, int], base_owners: dict[int, str], moments: list[dict[int, str]]) -> Trace:
        """Return the allocations as a trace.

        Args:
            base: Bytes allocated before, by category.
            base_owners: Uses of these, by address.
            moments: Uses of addresses at each marked moment.
        """
        begin = self._changes[0].time_ns if self._changes else 0
        trace = Trace(dict(base), times_ns=[0, *(each.time_ns - begin for each in self._changes)])
        alive: dict[int, Allocation] = {}
        waiting = sorted((time_ns, number) for number, time_ns in self._moments.items())
        for number, change in enumerate(self._changes, start=1):
            while waiting and waiting[0][0] <= change.time_ns:
                _assign(alive, moments[waiting.pop(0)[1]])
            if change.size > 0:
                alive[change.address] = self._block(change, number)
                trace.blocks.append(alive[change.address])
            else:
                _release(trace, alive, base_owners, change, number)
        for _, number in waiting:
            _assign(alive, moments[number])
        trace.phases = self._phases()
        mark_activations(trace)
        return trace

    def _block(self, change: _Change, number: int) -> Allocation:
        place = change.place if any(change.place) else self._forward.get(change.node, ("", ""))
        return Allocation(change.address, change.size, number, None, change.operation, *place)

    def _phases(self) -> list[Phase]:
        backward = self._backward.joined(self._calls)
        phases: list[Phase] = []
        for number, change in enumerate(self._changes, start=1):
            step = self._steps.index(change.time_ns) + 1
            if self._optimizer.index(change.time_ns) >= 0:
                name = "optimizer"
            elif backward.index(change.time_ns) >= 0:
                name = "backward"
            else:
                # Memory released after a phase belonged to the phase.
                is_tail = change.size < 0 and phases and phases[-1].step == step
                name = phases[-1].name if is_tail else "forward"
            if phases and (step == 0 or (phases[-1].step, phases[-1].name) == (step, name)):
                phases[-1].end = number + 1
            else:
                phases.append(Phase(max(step, 1), name, number, number + 1))
        return phases


def _assign(alive: dict[int, Allocation], used: dict[int, str]) -> None:
    for address, category in used.items():
        block = alive.get(address)
        if block is not None and category != "other":
            block.category = stronger(block.category, category)


def _release(trace: Trace, alive: dict[int, Allocation], owners: dict[int, str], change: _Change, number: int) -> None:
    block = alive.pop(change.address, None)
    if block is None:
        # Releases of earlier memory: a GPU reports such events.
        category = owners.get(change.address, "other")
        trace.base[category] = max(0, trace.base.get(category, 0) + change.size)
        trace.blocks.append(Allocation(change.address, -change.size, 0, number, category=category))
    else:
        block.died = number
