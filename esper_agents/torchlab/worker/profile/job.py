"""Job: attribute the time of a target and compare it with the machine's ceilings."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from ..results import MissingPart, WrittenFile, described
from ..target.input_spec import TargetError
from .call_runner import Runner
from .host_syncs import waits
from .machine_ceilings import Sampler
from .operation_times import Attributed, attributed, dtypes_of, empty_ns, rows_of
from .profiler_events import Event, ProfiledCalls, composition, is_compiled, memory_of, operations_by_name, record
from .python_profile import python_functions
from .result import (
    CeilingSamples,
    OperationRows,
    ProfiledCallSet,
    ProfiledMemory,
    ProfiledTarget,
    PythonProfile,
    StackProfile,
    TimingRound,
)
from .stack_profile import stacks
from .timing_rounds import rounds

if TYPE_CHECKING:
    from ..target.target import LoadedTarget

_Tell = Callable[[str, float], None]

_T = TypeVar("_T")
_MOST_EVENTS = 12_000
_MOST_PYTHON_CALLS = 12_000
_MOST_STACK_CALLS = 400_000
_MOST_CALLS = 200
_ALONE = 1.2


def run(target: LoadedTarget, request: dict[str, Any], tell: _Tell) -> ProfiledTarget:
    """Profile a target; conclusions are drawn by `torchlab.profiling`.

    Args:
        target: The target.
        request: `train` (also backward), `seed`, `seconds` (measurement time if one call is short), `scratch`.
        tell: Progress callback.
    """
    runner = Runner(target, train=bool(request["train"]), seed=int(request["seed"]))
    scratch, budget_ns = request["scratch"], int(float(request["seconds"]) * 1e9)
    tell("warming up", 0.0)
    warm = runner.warm()
    missing = warm.missing
    artifacts: list[WrittenFile] = []
    waiting = _tried("places where the host would wait", lambda: waits(runner, *runner.fresh()), missing)
    operations = _operations(runner, warm.call_ns, budget_ns, tell, missing)
    tell("profiling Python", 0.75)
    python = python_functions(runner, runner.batch(_affordable(1, _MOST_CALLS, warm.call_ns, budget_ns // 8)))
    stacked = _stacked(runner, python, warm.call_ns, budget_ns // 8, scratch)
    if stacked is None:
        why = f"one call makes {python.python_calls} Python calls, too many to record; cProfile counted them"
        missing.append(MissingPart("trace and functions by torch's stacks", why))
    else:
        artifacts.append(stacked[1])
    memory = _memory(operations.last_call, scratch, artifacts, missing)
    tell("done", 1.0)
    return ProfiledTarget(
        kind=target.kind,
        train=runner.train,
        device=target.device,
        threads=torch.get_num_threads(),
        is_training_mode=None if target.module is None else target.module.training,
        mutates_inputs=runner.mutates_inputs,
        first_call_ns=warm.first_call_ns,
        call_ns=warm.call_ns,
        inputs_ns=tuple(sorted(runner.inputs_ns)),
        rounds=tuple(operations.rounds),
        ceilings=operations.ceilings,
        profiled=operations.profiled,
        operations=operations.rows.operations,
        python=python,
        stacks=stacked and stacked[0],
        waits=tuple(waiting or ()),
        memory=memory,
        missing=tuple(missing),
        rest=operations.rows.rest,
        views=operations.rows.views,
        matched_calls=operations.rows.matched_calls,
        artifacts=tuple(artifacts),
    )


@dataclass(frozen=True)
class _Operations:
    """Measurements of operations, with the last profiled call."""

    rounds: list[TimingRound]
    ceilings: CeilingSamples
    profiled: ProfiledCallSet
    rows: OperationRows
    last_call: Event


def _operations(runner: Runner, call_ns: int, budget_ns: int, tell: _Tell, missing: list[MissingPart]) -> _Operations:
    tell("attributing operations to lines", 0.1)
    first = _profiled(runner, 1)
    known = _attributed(runner, missing, is_compiled=is_compiled([first]))
    calls = _affordable(max(composition([first])[0].events, 1), _MOST_EVENTS, call_ns, budget_ns // 8)
    is_long = call_ns > budget_ns // 4
    profiled = [first] if is_long else [_profiled(runner, calls)]
    sampler = Sampler(dtypes_of(known) if known else (), runner.target.device)
    timed = rounds(
        runner,
        sampler,
        call_ns=call_ns,
        budget_ns=budget_ns // 2,
        tell=lambda fraction: tell("timing without a profiler", 0.2 + 0.4 * fraction),
    )
    _look_for_threads(timed, missing)
    missing += sampler.ceilings.missing
    tell("profiling operations", 0.6)
    # Half of them before and half after, so that one busy moment does not affect all.
    profiled += [] if is_long else [_profiled(runner, calls)]
    recorded = [call for each in profiled for call in each.calls]
    return _Operations(
        timed,
        sampler.ceilings.samples(),
        ProfiledCallSet(composition(profiled), is_compiled(profiled), empty_ns(runner)),
        _rows(runner, known, recorded),
        recorded[-1],
    )


def _rows(runner: Runner, known: Attributed | None, calls: list[Event]) -> OperationRows:
    if known is None:
        return OperationRows(operations=operations_by_name(calls))
    rows = rows_of(known, calls)
    if not rows.matched_calls:
        # Its calls differ; another one may be more typical.
        another = _attributed(runner, [], is_compiled=False)
        if another is not None:
            rows = max(rows, rows_of(another, calls), key=lambda each: each.matched_calls)
    return rows


def _affordable(cost: int, most: int, call_ns: int, budget_ns: int) -> int:
    """Return the number of calls whose cost is below `most` and whose time is within the budget; at least one."""
    return max(1, min(most // cost, budget_ns // max(call_ns, 1), _MOST_CALLS))


def _look_for_threads(timed: list[TimingRound], missing: list[MissingPart]) -> None:
    """Record work in other threads of the process: neither the mode nor the stack covers them."""
    process, thread = sum(each.process_ns for each in timed), sum(each.thread_ns for each in timed)
    if torch.get_num_threads() == 1 and process > _ALONE * thread:
        why = (
            f"they took {process - thread} ns of {process} ns of processor time, and only the calling thread is watched"
        )
        missing.append(MissingPart("operations of other threads", why))


def _profiled(runner: Runner, calls: int) -> ProfiledCalls:
    return record(runner, runner.batch(calls), profile_memory=True)


def _stacked(
    runner: Runner, python: PythonProfile, call_ns: int, budget_ns: int, scratch: str
) -> tuple[StackProfile, WrittenFile] | None:
    if python.python_calls > _MOST_STACK_CALLS:
        return None
    calls = _affordable(max(python.python_calls, 1), _MOST_PYTHON_CALLS, call_ns, budget_ns)
    return stacks(runner, runner.batch(calls), python.functions, scratch)


def _attributed(runner: Runner, missing: list[MissingPart], *, is_compiled: bool) -> Attributed | None:
    what = "operations by line and module"
    if is_compiled:
        why = "compiled code runs; its kernels belong to no line: profile it uncompiled to see lines, FLOPs and bytes"
        missing.append(MissingPart(what, why))
        return None
    return _tried(what, lambda: attributed(runner, *runner.fresh()), missing)


def _tried(what: str, look: Callable[[], _T], missing: list[MissingPart]) -> _T | None:
    """Return a measurement; None if the target runs normally but fails under this instrumentation."""
    try:
        return look()
    except TargetError:
        raise
    except Exception as error:  # noqa: BLE001 - not the target's fault, and no reason to fail the measurement
        first = (str(error).splitlines() or [""])[0]
        missing.append(MissingPart(what, f"the target cannot be watched so: {type(error).__name__}: {first}"))
        return None


def _memory(
    call: Event, scratch: str, artifacts: list[WrittenFile], missing: list[MissingPart]
) -> ProfiledMemory | None:
    found = memory_of(call)
    if found is None:
        missing.append(MissingPart("memory timeline", "the profiled call allocated nothing"))
        return None
    timeline = {**described(found.memory), "points": found.points}
    Path(scratch, "memory.json").write_text(json.dumps(timeline), encoding="utf-8")
    artifacts.append(WrittenFile("memory.json", "application/json"))
    return found.memory
