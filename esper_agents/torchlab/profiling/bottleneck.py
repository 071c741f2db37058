"""Bottleneck of a target: time shares and the limiting resource, a pure function of measurements.

Every share is of one undisturbed call: the minimum processor time of a call over all rounds, and the minimum wait.
Profiler times are used only after the profiler's own cost has been subtracted.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from esper_agents.torchlab.profiling.result import (
    AchievedRates,
    Bottleneck,
    BottleneckAnalysis,
    Bound,
    CallCost,
    CallOverhead,
    CallSplit,
    Ceilings,
    FunctionTime,
    LineTime,
    ModuleTime,
    StreamCeiling,
)
from esper_agents.torchlab.profiling.roofline import ProfilerCost, ceilings_of, judged
from esper_agents.torchlab.profiling.unprofiled_call import call_of
from esper_agents.torchlab.report import rounded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from esper_agents.torchlab.profiling.result import ProfiledOperation
    from esper_agents.torchlab.profiling.roofline import MachineCeilings
    from esper_agents.torchlab.profiling.unprofiled_call import UnprofiledCall
    from esper_agents.torchlab.worker.profile.result import OperationRow, ProfiledTarget

# Minimum lead of a bottleneck over the runner-up to count as clear.
_CLEAR_MARGIN = 0.1
_MOST_ROWS = 40


def analyse(measured: ProfiledTarget) -> BottleneckAnalysis:
    """Return the bottleneck of a target, with the numbers that it follows from."""
    call, ceilings = call_of(measured.rounds), ceilings_of(measured.ceilings)
    profiler = ProfilerCost(measured, call, ceilings)
    operations = [judged(row, profiler, ceilings, call) for row in measured.operations]
    shares = _shares(measured, operations, call, ceilings)
    first, second = sorted(shares, key=lambda each: (-shares[each], each))[:2]
    margin = shares[first] - shares[second]
    merged = [
        judged(each.row, profiler, ceilings, call, each.modules) for each in _by_line(measured.operations)[:_MOST_ROWS]
    ]
    return BottleneckAnalysis(
        bottleneck=first,
        share=rounded(shares[first]),
        runner_up=second,
        margin=rounded(margin),
        is_clear=margin >= _CLEAR_MARGIN,
        shares={each.value: rounded(share) for each, share in shares.items()},
        call=_call_cost(measured, call, profiler),
        split=_split(measured),
        overhead=_overhead(measured, shares, call, ceilings),
        ceilings=Ceilings(
            ceilings.products,
            tuple(StreamCeiling(size, rate) for size, rate in ceilings.streams),
            ceilings.dispatch_ns,
            ceilings.fault_ns,
        ),
        achieved=_achieved(operations, call, ceilings),
        operations=tuple(merged),
        lines=_lines(operations, call)[:_MOST_ROWS],
        modules=_modules(operations, call)[:_MOST_ROWS],
        functions=_functions(measured),
    )


def _shares(
    measured: ProfiledTarget, operations: Sequence[ProfiledOperation], call: UnprofiledCall, ceilings: MachineCeilings
) -> dict[Bottleneck, float]:
    """Return the shares of a call by resource; they add up to 1."""
    total = float(call.ns)
    loading = min(total * _loading(measured), total)
    waits = {wait.kind: wait.ns for wait in measured.python.waits}
    waiting = max(0.0, call.waiting_ns - loading)
    waiting_for_input = waiting if call.reads else min(waiting, waits.get("input", 0))
    waiting_for_others = waiting - waiting_for_input
    left = max(0.0, total - loading - waiting)
    worked: dict[Bottleneck, float] = defaultdict(float)
    for row in operations:
        if row.phase != "input":
            worked[_BY_BOUND[row.bound]] += row.work_ns
            worked[Bottleneck.ALLOCATION] += row.allocation_ns
    if measured.device != "cpu":
        worked = defaultdict(float, {Bottleneck.GPU: sum(worked.values())})
    else:
        _add_faults(worked, call.faults * ceilings.fault_ns, left)
    # The profile may contain more work than a call has time, if the undisturbed call was a faster one.
    fitted = min(1.0, left / (sum(worked.values()) or 1.0))
    parts = {name: worked[name] * fitted for name in Bottleneck}
    parts[Bottleneck.OVERHEAD] += left - sum(parts.values())
    parts[Bottleneck.INPUT] += loading + waiting_for_input
    parts[Bottleneck.SYNCHRONISATION] += waiting_for_others
    return {name: parts[name] / total for name in Bottleneck}


_BY_BOUND = {
    Bound.COMPUTE: Bottleneck.COMPUTE,
    Bound.BANDWIDTH: Bottleneck.BANDWIDTH,
    Bound.DISPATCH: Bottleneck.OVERHEAD,
    Bound.ALLOCATION: Bottleneck.ALLOCATION,
}


def _add_faults(worked: dict[Bottleneck, float], faults_ns: float, left: float) -> None:
    """Add the cost of page faults that occur in calls without a profiler and not in the attributed one.

    Whether a freed block returns to the system depends on the rest of the heap, and that differs between
    passes. The cost is first subtracted from unattributed time, then from memory and arithmetic time.
    """
    unseen = max(0.0, faults_ns - worked[Bottleneck.ALLOCATION])
    free = min(unseen, max(0.0, left - sum(worked.values())))
    worked[Bottleneck.ALLOCATION] += free
    unseen -= free
    for name in (Bottleneck.BANDWIDTH, Bottleneck.COMPUTE):
        taken = min(worked[name], unseen)
        worked[name] -= taken
        worked[Bottleneck.ALLOCATION] += taken
        unseen -= taken


def _loading(measured: ProfiledTarget) -> float:
    """Return the share of a call that loads its input: by torch's own mark, or by loading functions of the user."""
    calls, python = measured.profiled.calls, measured.python
    marked = sum(call.input_ns for call in calls) / max(sum(call.wall_ns for call in calls), 1)
    return max(marked, python.input_ns / max(python.total_ns, 1))


def _call_cost(measured: ProfiledTarget, call: UnprofiledCall, profiler: ProfilerCost) -> CallCost:
    return CallCost(
        ns=call.ns,
        computing_ns=call.computing_ns,
        waiting_ns=call.waiting_ns,
        wall_ns=call.wall_ns,
        median_wall_ns=call.median_ns,
        spread=rounded((call.median_ns - call.wall_ns) / max(call.wall_ns, 1)),
        rounds=len(measured.rounds),
        calls=sum(each.calls for each in measured.rounds),
        first_ns=measured.first_call_ns,
        profiled_ns=profiler.fastest_ns,
        profiler_overhead=rounded(profiler.fastest_ns / max(call.computing_ns, 1)),
        inputs_ns=measured.inputs_ns[0] if measured.inputs_ns else 0,
    )


def _split(measured: ProfiledTarget) -> CallSplit:
    """Return the shares of the profiled calls by input, forward, backward and optimizer."""
    calls = measured.profiled.calls
    total = max(sum(call.wall_ns for call in calls), 1)
    loading, backward, optimizer = (
        sum(call.input_ns for call in calls) / total,
        sum(call.backward_ns for call in calls) / total,
        sum(call.optimizer_ns for call in calls) / total,
    )
    forward = 1.0 - sum((loading, backward, optimizer))
    return CallSplit(rounded(loading), rounded(forward), rounded(backward), rounded(optimizer))


def _overhead(
    measured: ProfiledTarget, shares: dict[Bottleneck, float], call: UnprofiledCall, ceilings: MachineCeilings
) -> CallOverhead:
    operations = sum(int(row.count) for row in measured.operations) + (measured.rest.count if measured.rest else 0)
    total_ns = shares[Bottleneck.OVERHEAD] * call.ns
    dispatch_ns = min(total_ns, operations * ceilings.dispatch_ns)
    return CallOverhead(
        operations,
        measured.views or 0,
        measured.python.python_calls,
        round(dispatch_ns),
        round(total_ns - dispatch_ns),
    )


def _achieved(
    operations: Sequence[ProfiledOperation], call: UnprofiledCall, ceilings: MachineCeilings
) -> AchievedRates:
    """Return the rates of the whole call relative to the ceilings."""
    flops = sum(row.flops or 0 for row in operations)
    moved = sum(row.moved_bytes or 0 for row in operations)
    at_best_s = sum(row.flops / peak for row in operations if row.flops and (peak := ceilings.products.get(row.dtype)))
    return AchievedRates(
        flops,
        moved,
        flops * 1_000_000_000 // call.ns,
        moved * 1_000_000_000 // call.ns,
        rounded(at_best_s * 1e9 / call.ns),
    )


@dataclass(frozen=True, slots=True)
class _MergedRow:
    """Operation of a line, with the modules that ran it."""

    row: OperationRow
    modules: tuple[str, ...]


def _by_line(rows: Sequence[OperationRow]) -> list[_MergedRow]:
    """Return operations merged by line, whatever module ran them, costliest first."""
    together: dict[tuple[Any, ...], _MergedRow] = {}
    for row in rows:
        # Without a line, the module is the only location.
        key = (row.name, row.phase, row.file, row.line, row.dtype, row.module if row.file is None else None)
        known = together.get(key)
        if known is None:
            together[key] = _MergedRow(row, (row.module,) if row.module else ())
        else:
            together[key] = _MergedRow(_sum(known.row, row), tuple(sorted({*known.modules, row.module} - {""})))
    return sorted(
        together.values(), key=lambda each: (-each.row.self_ns, each.row.name, str(each.row.file), str(each.row.line))
    )


def _sum(one: OperationRow, other: OperationRow) -> OperationRow:
    return replace(
        one,
        count=one.count + other.count,
        events=one.events + other.events,
        faults=one.faults + other.faults,
        self_ns=one.self_ns + other.self_ns,
        flops=_known_sum(one.flops, other.flops),
        moved_bytes=_known_sum(one.moved_bytes, other.moved_bytes),
        device_ns=_known_sum(one.device_ns, other.device_ns),
    )


def _known_sum(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else (one or 0) + (other or 0)


def _lines(operations: Iterable[ProfiledOperation], call: UnprofiledCall) -> tuple[LineTime, ...]:
    spent = _summed(operations, lambda row: (row.file, row.line, row.function))
    rows = [
        LineTime(file, line, function, self_ns, count, rounded(self_ns / call.ns))
        for (file, line, function), (self_ns, count) in spent.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.self_ns, row.file, str(row.line), str(row.function))))


def _modules(operations: Iterable[ProfiledOperation], call: UnprofiledCall) -> tuple[ModuleTime, ...]:
    spent = _summed(operations, lambda row: (row.module,))
    rows = [ModuleTime(name, self_ns, count, rounded(self_ns / call.ns)) for (name,), (self_ns, count) in spent.items()]
    return tuple(sorted(rows, key=lambda row: (-row.self_ns, row.module)))


def _summed(
    operations: Iterable[ProfiledOperation], key: Callable[[ProfiledOperation], tuple[Any, ...]]
) -> dict[tuple[Any, ...], tuple[int, int | float]]:
    """Return the total time and number of operations by a common key; operations without it are omitted."""
    spent: dict[tuple[Any, ...], tuple[int, int | float]] = {}
    for row in operations:
        if (where := key(row))[0]:
            self_ns, count = spent.get(where, (0, 0))
            spent[where] = self_ns + row.self_ns, count + row.count
    return spent


def _functions(measured: ProfiledTarget) -> tuple[FunctionTime, ...]:
    """Return the user's functions by torch's stacks, if there are any, with cProfile's share for each."""
    stacks, python = measured.stacks, measured.python
    python_ns = max(python.total_ns, 1)
    seen = {(function.file, function.line, function.name): function for function in python.functions}
    total_ns = python_ns if stacks is None else max(stacks.total_ns, 1)
    functions = [
        FunctionTime(
            each.file,
            each.line,
            each.name,
            "cProfile" if stacks is None else "torch.profiler",
            rounded(each.own_ns / total_ns),
            rounded(each.total_ns / total_ns),
            rounded(seen[each.file, each.line, each.name].total_ns / python_ns),
        )
        for each in (python.functions if stacks is None else stacks.functions)
    ]
    return tuple(sorted(functions, key=lambda each: (-each.own_share, each.file, each.line)))
