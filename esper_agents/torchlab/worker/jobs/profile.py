"""Job: attribute the time of a target and compare it with the machine's ceilings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from ..profiling.call_runner import Runner
from ..profiling.host_syncs import waits
from ..profiling.machine_ceilings import Sampler
from ..profiling.operation_times import Attributed, attributed, dtypes_of, empty_ns, rows_of
from ..profiling.profiler_events import Event, ProfiledCalls, memory_of, operations_by_name, record, summary
from ..profiling.python_profile import python_functions
from ..profiling.stack_profile import stacks
from ..profiling.timing_rounds import rounds
from ..target.input_spec import TargetError

if TYPE_CHECKING:
    from ..target.target import LoadedTarget

_Tell = Callable[[str, float], None]

_T = TypeVar("_T")
_MOST_EVENTS = 12_000
_MOST_PYTHON_CALLS = 12_000
_MOST_STACK_CALLS = 400_000
_MOST_CALLS = 200
_ALONE = 1.2


def run(target: LoadedTarget, request: dict[str, Any], tell: _Tell) -> dict[str, Any]:
    """Profile a target.

    Args:
        target: The target.
        request: `train` (also backward), `seed`, `seconds` (measurement time if one call is short), `scratch`.
        tell: Progress callback.

    Returns:
        Measurements only; conclusions are drawn by `torchlab.profiling`. `rounds` and `ceilings` without any
        profiler, `profiled` calls without attribution, `operations` by line and module, `python` by cProfile,
        `stacks` by torch, `waits`, `memory`, `missing`, `artifacts`.
    """
    runner = Runner(target, train=bool(request["train"]), seed=int(request["seed"]))
    budget_ns = int(float(request["seconds"]) * 1e9)
    tell("warming up", 0.0)
    warm = runner.warm()
    missing: list[dict[str, str]] = warm.pop("missing")
    artifacts: list[dict[str, str]] = []
    waiting = _tried("places where the host would wait", lambda: waits(runner, *runner.fresh()), missing)
    operations, profiled = _operations(runner, warm["call_ns"], budget_ns, tell, missing)
    tell("profiling Python", 0.75)
    python = python_functions(runner, runner.batch(_affordable(1, _MOST_CALLS, warm["call_ns"], budget_ns // 8)))
    stacked = _stacked(runner, python, warm["call_ns"], budget_ns // 8, request["scratch"])
    if stacked is None:
        why = f"one call makes {python['python_calls']} Python calls, too many to record; cProfile counted them"
        missing.append({"what": "trace and functions by torch's stacks", "why": why})
    else:
        artifacts.append(stacked.pop("artifact"))
    tell("done", 1.0)
    return {
        "kind": target.kind,
        "train": runner.train,
        "device": target.device,
        "threads": torch.get_num_threads(),
        "is_training_mode": None if target.module is None else target.module.training,
        "mutates_inputs": runner.mutates_inputs,
        **warm,
        "inputs_ns": sorted(runner.inputs_ns),
        **operations,
        "python": python,
        "stacks": stacked,
        "waits": waiting or [],
        "memory": _memory(profiled[-1], request["scratch"], artifacts, missing),
        "missing": missing,
        "artifacts": artifacts,
    }


def _operations(
    runner: Runner, call_ns: int, budget_ns: int, tell: _Tell, missing: list[dict[str, str]]
) -> tuple[dict[str, Any], list[Event]]:
    """Return the measurements of operations, with the profiled calls."""
    tell("attributing operations to lines", 0.1)
    first = _profiled(runner, 1)
    shape = summary([first])
    known = _attributed(runner, missing, is_compiled=shape["is_compiled"])
    calls = _affordable(max(shape["calls"][0]["events"], 1), _MOST_EVENTS, call_ns, budget_ns // 8)
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
    measured = {
        "rounds": timed,
        "ceilings": sampler.ceilings.described(),
        "profiled": {**summary(profiled), "empty_ns": empty_ns(runner)},
        **_rows(runner, known, recorded),
    }
    return measured, recorded


def _rows(runner: Runner, known: Attributed | None, calls: list[Event]) -> dict[str, Any]:
    if known is None:
        return {"operations": operations_by_name(calls), "matched_calls": 0}
    rows = rows_of(known, calls)
    if not rows["matched_calls"]:
        # Its calls differ; another one may be more typical.
        another = _attributed(runner, [], is_compiled=False)
        if another is not None:
            rows = max(rows, rows_of(another, calls), key=lambda each: int(each["matched_calls"]))
    return rows


def _affordable(cost: int, most: int, call_ns: int, budget_ns: int) -> int:
    """Return the number of calls whose cost is below `most` and whose time is within the budget; at least one."""
    return max(1, min(most // cost, budget_ns // max(call_ns, 1), _MOST_CALLS))


def _look_for_threads(timed: list[dict[str, int]], missing: list[dict[str, str]]) -> None:
    """Record work in other threads of the process: neither the mode nor the stack covers them."""
    process, thread = (sum(each[name] for each in timed) for name in ("process_ns", "thread_ns"))
    if torch.get_num_threads() == 1 and process > _ALONE * thread:
        why = (
            f"they took {process - thread} ns of {process} ns of processor time, and only the calling thread is watched"
        )
        missing.append({"what": "operations of other threads", "why": why})


def _profiled(runner: Runner, calls: int) -> ProfiledCalls:
    return record(runner, runner.batch(calls), profile_memory=True)


def _stacked(
    runner: Runner, python: dict[str, Any], call_ns: int, budget_ns: int, scratch: str
) -> dict[str, Any] | None:
    if python["python_calls"] > _MOST_STACK_CALLS:
        return None
    calls = _affordable(max(python["python_calls"], 1), _MOST_PYTHON_CALLS, call_ns, budget_ns)
    return stacks(runner, runner.batch(calls), python["functions"], scratch)


def _attributed(runner: Runner, missing: list[dict[str, str]], *, is_compiled: bool) -> Attributed | None:
    what = "operations by line and module"
    if is_compiled:
        why = "compiled code runs; its kernels belong to no line: profile it uncompiled to see lines, FLOPs and bytes"
        missing.append({"what": what, "why": why})
        return None
    return _tried(what, lambda: attributed(runner, *runner.fresh()), missing)


def _tried(what: str, look: Callable[[], _T], missing: list[dict[str, str]]) -> _T | None:
    """Return a measurement; None if the target runs normally but fails under this instrumentation."""
    try:
        return look()
    except TargetError:
        raise
    except Exception as error:  # noqa: BLE001 - not the target's fault, and no reason to fail the measurement
        first = (str(error).splitlines() or [""])[0]
        missing.append({"what": what, "why": f"the target cannot be watched so: {type(error).__name__}: {first}"})
        return None


def _memory(
    call: Event, scratch: str, artifacts: list[dict[str, str]], missing: list[dict[str, str]]
) -> dict[str, Any] | None:
    memory = memory_of(call)
    if memory is None:
        missing.append({"what": "memory timeline", "why": "the profiled call allocated nothing"})
        return None
    Path(scratch, "memory.json").write_text(json.dumps(memory), encoding="utf-8")
    artifacts.append({"name": "memory.json", "media_type": "application/json"})
    return {name: memory[name] for name in memory if name != "points"}
