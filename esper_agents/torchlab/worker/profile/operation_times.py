"""Join the attribution of each operation with its time in a profile without attribution.

Both see the same operations in the same order, so the n-th of one is the n-th of the other. If a target behaves
differently under attribution, the times of the attributed call itself are used, less the overhead that attribution
adds to operations of that name, and the result says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.profiler import profile

from .attribution import MARK, Attribution, Operation
from .profiler_events import Event, record, roots_of, walk
from .result import OperationRow, OperationRows, UnlistedOperations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..target.input_spec import Inputs
    from .call_runner import Runner

_MOST_ROWS = 300
_EMPTY_OPERATIONS = 64


@dataclass(frozen=True)
class OperationTime:
    """Time of one operation.

    Attributes:
        ns: Time, including everything that its kernel called.
        events: Number of inner events, each of which cost profiler time.
    """

    ns: int
    events: int


@dataclass(frozen=True)
class Attributed:
    """Operations of one call, in order.

    Attributes:
        operations: The operations.
        spent: Time of each, including the overhead of attribution.
        device_ns: Device time of each.
    """

    operations: list[Operation]
    spent: list[OperationTime]
    device_ns: list[int]


@dataclass
class _Row:
    """One operation of one line and module.

    Attributes:
        first: Its first occurrence.
        spent: For each profiled call, its total time.
    """

    first: Operation
    spent: list[int]
    count: int = 0
    events: int = 0
    flops: int | None = 0
    moved: int | None = 0
    faults: int = 0
    thread_ns: int = 0
    device_ns: int = 0

    def described(self, *, is_thread_alone: bool) -> OperationRow:
        # The fastest call: other processes only add to a time. If calls are longer than undisturbed periods,
        # every call is disturbed; then the processor time of the attributed call is closer.
        fastest = min(self.spent)
        return OperationRow(
            name=self.first.name,
            phase=self.first.phase,
            file=self.first.place.file,
            line=self.first.place.line,
            function=self.first.place.function,
            module=self.first.module,
            shapes=self.first.shapes,
            dtype=self.first.dtype,
            count=self.count,
            events=self.events,
            faults=self.faults,
            self_ns=min(fastest, self.thread_ns) if is_thread_alone else fastest,
            flops=self.flops,
            moved_bytes=self.moved,
            device_ns=self.device_ns or None,
        )


def attributed(runner: Runner, inputs: Inputs) -> Attributed:
    """Run one call under attribution and return its operations."""
    attribution = Attribution(runner.target)
    recorded = record(runner, [inputs], around=attribution.watching)
    marks = {
        int(each.name[len(MARK) :]): each
        for each, _ in walk(recorded.roots)
        if each.name.startswith(MARK) and each.name[len(MARK) :].isdigit()
    }
    # An operation of another thread may have no mark; without an event in the profile it has no time.
    numbers = sorted(marks)
    device_ns = _device_times(recorded.profile) if runner.target.device != "cpu" else {}
    return Attributed(
        [attribution.operations[number] for number in numbers],
        [_spent(marks[number]) for number in numbers],
        [device_ns.get(marks[number].name, 0) for number in numbers],
    )


def _spent(mark: Event) -> OperationTime:
    inside = [child for child in mark.children if child.name != "[memory]"]
    if not inside:
        return OperationTime(mark.duration_time_ns, 0)
    return OperationTime(sum(each.duration_time_ns for each in inside), sum(_inner(each) for each in inside))


def _inner(event: Event) -> int:
    return sum(1 for _ in walk([event])) - 1


def rows_of(known: Attributed, calls: list[Event]) -> OperationRows:
    """Return the operations by line and module, costliest first.

    Args:
        known: One attributed call.
        calls: The same target, in a profile without attribution.
    """
    # A view costs almost nothing, and autograd makes different ones under attribution.
    worked = [number for number, each in enumerate(known.operations) if not each.is_view]
    sequence = [_stem(known.operations[each].name) for each in worked]
    views = {_stem(operation.name) for operation in known.operations if operation.is_view} - set(sequence)
    profiled = [_sequence(call, set(sequence), views) for call in calls]
    matching = [[spent for _, spent in each] for each in profiled if [name for name, _ in each] == sequence]
    times = matching or [_less_disturbed(sequence, [known.spent[each] for each in worked], profiled)]
    is_alone = torch.get_num_threads() == 1 and not any(known.device_ns)
    described = [each.described(is_thread_alone=is_alone) for each in _grouped(known, worked, times)]
    described.sort(key=lambda row: (-row.self_ns, row.name, row.file or "", row.line or 0, row.module))
    rest = described[_MOST_ROWS:]
    return OperationRows(
        operations=tuple(described[:_MOST_ROWS]),
        rest=UnlistedOperations(
            sum(int(each.count) for each in rest), sum(each.events for each in rest), sum(each.self_ns for each in rest)
        ),
        views=len(known.operations) - len(worked),
        matched_calls=len(matching),
    )


def _sequence(call: Event, names: set[str], views: set[str]) -> list[tuple[str, OperationTime]]:
    """Return the operations of a call that attribution names, in order, without their inner operations."""
    found: list[tuple[str, OperationTime]] = []
    stack = list(reversed(call.children))
    while stack:
        event = stack.pop()
        name = _stem(event.name)
        if name in names:
            found.append((name, OperationTime(event.duration_time_ns, _inner(event))))
        elif name not in views:
            stack += reversed(event.children)
    return found


def _less_disturbed(
    sequence: list[str], spent: list[OperationTime], profiled: list[list[tuple[str, OperationTime]]]
) -> list[OperationTime]:
    """Return the attributed call's times, scaled for each name to its average in the fastest other call."""
    watched = _averages(list(zip(sequence, spent)))  # noqa: B905 - equally many
    usual: dict[str, float] = {}
    for call in profiled:
        for name, average in _averages(call).items():
            usual[name] = min(average, usual.get(name, average))
    shrunk = {name: min(1.0, usual.get(name, average) / average) for name, average in watched.items() if average}
    factors = [shrunk.get(name, 1.0) for name in sequence]
    return [OperationTime(int(each.ns * factor), each.events) for each, factor in zip(spent, factors)]  # noqa: B905 - equally many


def _averages(call: list[tuple[str, OperationTime]]) -> dict[str, float]:
    took: dict[str, list[int]] = {}
    for name, each in call:
        took.setdefault(name, []).append(each.ns)
    return {name: sum(every) / len(every) for name, every in took.items()}


def _stem(name: str) -> str:
    # Autograd accumulates gradients in place, but not under attribution.
    return name.removesuffix("_")


def _grouped(known: Attributed, worked: list[int], times: list[list[OperationTime]]) -> Iterable[_Row]:
    rows: dict[tuple[Any, ...], _Row] = {}
    for position, number in enumerate(worked):
        operation = known.operations[number]
        key = (operation.name, operation.phase, operation.place, operation.module)
        row = rows.setdefault(key, _Row(operation, [0] * len(times)))
        row.count += 1
        row.events += times[0][position].events
        row.spent = [total + call[position].ns for total, call in zip(row.spent, times)]  # noqa: B905 - equally many
        row.flops = None if row.flops is None or operation.flops is None else row.flops + operation.flops
        row.moved = None if row.moved is None or operation.moved is None else row.moved + operation.moved
        row.faults += operation.faults
        row.thread_ns += operation.thread_ns
        row.device_ns += known.device_ns[number]
    return rows.values()


def dtypes_of(known: Attributed) -> set[str]:
    """Return the dtypes of products."""
    return {operation.dtype for operation in known.operations if operation.flops and operation.dtype}


def _device_times(recorded: profile) -> dict[str, int]:
    events = recorded.function_events or ()
    return {event.name: int(event.device_time_total * 1000) for event in events if event.name.startswith(MARK)}


def empty_ns(runner: Runner) -> int:
    """Return the profiled time of an addition without elements: the overhead in every time."""
    nothing = torch.empty(0, device=runner.target.device)
    with profile(use_kineto=True) as recorded, torch.no_grad():
        for _ in range(_EMPTY_OPERATIONS):
            torch.add(nothing, nothing)
    took = sorted(each.duration_time_ns for each in roots_of(recorded) if each.name == "aten::add")
    return int(took[len(took) // 2])
