"""Bottleneck of a target: time shares and the limiting resource, a pure function of measurements.

Every share is of one undisturbed call: the minimum processor time of a call over all rounds, and the minimum wait.
Profiler times are used only after the profiler's own cost has been subtracted.
"""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from esper_agents.torchlab.profiling.roofline import Bound, ProfilerCost, ceilings_of, judged
from esper_agents.torchlab.profiling.unprofiled_call import call_of
from esper_agents.torchlab.report import rounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.profiling.roofline import MachineCeilings
    from esper_agents.torchlab.profiling.unprofiled_call import UnprofiledCall


class Bottleneck(StrEnum):
    """Limiting resource of a target."""

    COMPUTE = "cpu-compute"
    BANDWIDTH = "memory-bandwidth"
    OVERHEAD = "dispatch-and-python"
    INPUT = "data-loading"
    GPU = "gpu"
    SYNCHRONISATION = "synchronisation"
    ALLOCATION = "memory-allocation"


# Minimum lead of a bottleneck over the runner-up to count as clear.
_CLEAR_MARGIN = 0.1
_MOST_ROWS = 40


def analyse(measured: JsonObject) -> dict[str, Any]:
    """Analyse the bottleneck of a target.

    Args:
        measured: Result of the job `profile`.

    Returns:
        `bottleneck` with its `share`, the `runner_up`, `margin` and `is_clear`; `shares` of all; `call`, `split`,
        `overhead`, `ceilings`, `achieved`; costliest first `operations` (each with its limiting resource and its share
        of that ceiling), `lines`, `modules` and `functions`.
    """
    call, ceilings = call_of(measured), ceilings_of(measured)
    profiler = ProfilerCost(measured, call, ceilings)
    operations = [judged(row, profiler, ceilings, call) for row in measured["operations"]]
    shares = _shares(measured, operations, call, ceilings)
    first, second = sorted(shares, key=lambda name: (-shares[name], name))[:2]
    margin = shares[first] - shares[second]
    return {
        "bottleneck": first,
        "share": rounded(shares[first]),
        "runner_up": second,
        "margin": rounded(margin),
        "is_clear": margin >= _CLEAR_MARGIN,
        "shares": {name: rounded(share) for name, share in shares.items()},
        "call": _described_call(measured, call, profiler),
        "split": _split(measured),
        "overhead": _overhead(measured, shares, call, ceilings),
        "ceilings": {
            "flops_per_s": ceilings.products,
            "bytes_per_s": [{"touched_bytes": size, "bytes_per_s": rate} for size, rate in ceilings.streams],
            "dispatch_ns": ceilings.dispatch_ns,
            "fault_ns": ceilings.fault_ns,
        },
        "achieved": _achieved(operations, call, ceilings),
        "operations": [judged(row, profiler, ceilings, call) for row in _by_line(measured["operations"])[:_MOST_ROWS]],
        "lines": _summed(operations, ("file", "line", "function"), call)[:_MOST_ROWS],
        "modules": _summed(operations, ("module",), call)[:_MOST_ROWS],
        "functions": _functions(measured),
    }


def _shares(
    measured: JsonObject, operations: Sequence[JsonObject], call: UnprofiledCall, ceilings: MachineCeilings
) -> dict[str, float]:
    """Return the shares of a call by resource; they add up to 1."""
    total = float(call.ns)
    loading = min(total * _loading(measured), total)
    waits = {each["kind"]: each["ns"] for each in measured["python"]["waits"]}
    waiting = max(0.0, call.waiting_ns - loading)
    waiting_for_input = waiting if call.reads else min(waiting, float(waits.get("input", 0)))
    waiting_for_others = waiting - waiting_for_input
    left = max(0.0, total - loading - waiting)
    worked: dict[str, float] = defaultdict(float)
    for row in operations:
        if row["phase"] != "input":
            worked[_BY_BOUND[Bound(row["bound"])]] += row["work_ns"]
            worked[Bottleneck.ALLOCATION] += row["allocation_ns"]
    if measured["device"] != "cpu":
        worked = defaultdict(float, {Bottleneck.GPU: sum(worked.values())})
    else:
        _add_faults(worked, call.faults * ceilings.fault_ns, left)
    # The profile may contain more work than a call has time, if the undisturbed call was a faster one.
    fitted = min(1.0, left / (sum(worked.values()) or 1.0))
    parts = {name: worked[name] * fitted for name in Bottleneck}
    parts[Bottleneck.OVERHEAD] += left - sum(parts.values())
    parts[Bottleneck.INPUT] += loading + waiting_for_input
    parts[Bottleneck.SYNCHRONISATION] += waiting_for_others
    return {name.value: parts[name] / total for name in Bottleneck}


_BY_BOUND = {
    Bound.COMPUTE: Bottleneck.COMPUTE,
    Bound.BANDWIDTH: Bottleneck.BANDWIDTH,
    Bound.DISPATCH: Bottleneck.OVERHEAD,
    Bound.ALLOCATION: Bottleneck.ALLOCATION,
}


def _add_faults(worked: dict[str, float], faults_ns: float, left: float) -> None:
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


def _loading(measured: JsonObject) -> float:
    """Return the share of a call that loads its input: by torch's own mark, or by loading functions of the user."""
    calls = measured["profiled"]["calls"]
    marked = sum(each["input_ns"] for each in calls) / max(sum(each["wall_ns"] for each in calls), 1)
    python = measured["python"]
    return float(max(marked, python["input_ns"] / max(python["total_ns"], 1)))


def _described_call(measured: JsonObject, call: UnprofiledCall, profiler: ProfilerCost) -> dict[str, Any]:
    inputs = measured["inputs_ns"]
    return {
        "ns": call.ns,
        "computing_ns": call.computing_ns,
        "waiting_ns": call.waiting_ns,
        "wall_ns": call.wall_ns,
        "median_wall_ns": call.median_ns,
        "spread": rounded((call.median_ns - call.wall_ns) / max(call.wall_ns, 1)),
        "rounds": len(measured["rounds"]),
        "calls": sum(each["calls"] for each in measured["rounds"]),
        "first_ns": measured["first_call_ns"],
        "profiled_ns": profiler.fastest_ns,
        "profiler_overhead": rounded(profiler.fastest_ns / max(call.computing_ns, 1)),
        "inputs_ns": inputs[0] if inputs else 0,
    }


def _split(measured: JsonObject) -> dict[str, Any]:
    """Return the shares of the profiled calls by input, forward, backward and optimizer."""
    calls = measured["profiled"]["calls"]
    total = max(sum(each["wall_ns"] for each in calls), 1)
    parts = {name: sum(each[f"{name}_ns"] for each in calls) / total for name in ("input", "backward", "optimizer")}
    return {**{name: rounded(part) for name, part in parts.items()}, "forward": rounded(1.0 - sum(parts.values()))}


def _overhead(
    measured: JsonObject, shares: dict[str, float], call: UnprofiledCall, ceilings: MachineCeilings
) -> dict[str, Any]:
    operations = sum(row["count"] for row in measured["operations"]) + measured.get("rest", {}).get("count", 0)
    total_ns = shares[Bottleneck.OVERHEAD] * call.ns
    dispatch_ns = min(total_ns, operations * ceilings.dispatch_ns)
    return {
        "operations": operations,
        "views": measured.get("views", 0),
        "python_calls": measured["python"]["python_calls"],
        "dispatch_ns": round(dispatch_ns),
        "interpreter_ns": round(total_ns - dispatch_ns),
    }


def _achieved(operations: Sequence[JsonObject], call: UnprofiledCall, ceilings: MachineCeilings) -> dict[str, Any]:
    """Return the rates of the whole call relative to the ceilings."""
    flops = sum(row.get("flops") or 0 for row in operations)
    moved = sum(row.get("moved_bytes") or 0 for row in operations)
    at_best_s = sum(
        row["flops"] / peak for row in operations if row.get("flops") and (peak := ceilings.products.get(row["dtype"]))
    )
    return {
        "flops": flops,
        "moved_bytes": moved,
        "flops_per_s": flops * 1_000_000_000 // call.ns,
        "bytes_per_s": moved * 1_000_000_000 // call.ns,
        "product_ceiling_share": rounded(at_best_s * 1e9 / call.ns),
    }


def _by_line(rows: Sequence[JsonObject]) -> list[JsonObject]:
    """Return operations merged by line, whatever module ran them, costliest first."""
    together: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(row.get(name) for name in ("name", "phase", "file", "line", "dtype"))
        # Without a line, the module is the only location.
        if row.get("file") is None:
            key = (*key, row.get("module"))
        if key not in together:
            together[key] = {**row, "modules": [row["module"]] if row.get("module") else []}
            continue
        whole = together[key]
        for name in ("count", "events", "faults", "self_ns"):
            whole[name] += row[name]
        for name in ("flops", "moved_bytes", "device_ns"):
            if name in row or name in whole:
                whole[name] = whole.get(name, 0) + row.get(name, 0)
        whole["modules"] = sorted({*whole["modules"], row["module"]} - {""})
    return sorted(together.values(), key=lambda row: (-row["self_ns"], row["name"], str(row["file"]), str(row["line"])))


def _summed(operations: Iterable[JsonObject], keys: tuple[str, ...], call: UnprofiledCall) -> list[dict[str, Any]]:
    """Return the total time of operations by a common key, costliest first; operations without the key are omitted."""
    spent: dict[tuple[Any, ...], list[float]] = defaultdict(lambda: [0, 0])
    for row in operations:
        key = tuple(row.get(name) for name in keys)
        if key[0]:
            spent[key][0] += row["self_ns"]
            spent[key][1] += row["count"]
    rows = [
        {**dict(zip(keys, key, strict=True)), "self_ns": int(ns), "count": count, "share": rounded(ns / call.ns)}
        for key, (ns, count) in spent.items()
    ]
    return sorted(rows, key=lambda row: (-row["self_ns"], [str(row[name]) for name in keys]))


def _functions(measured: JsonObject) -> list[dict[str, Any]]:
    """Return the user's functions by torch's stacks, if there are any, with cProfile's share for each."""
    stacks, python = measured["stacks"], measured["python"]
    python_ns = max(python["total_ns"], 1)
    seen = {(each["file"], each["line"], each["name"]): each for each in python["functions"]}
    rows = python["functions"] if stacks is None else stacks["functions"]
    total_ns = python_ns if stacks is None else max(stacks["total_ns"], 1)
    functions = [
        {
            "file": each["file"],
            "line": each["line"],
            "name": each["name"],
            "by": "cProfile" if stacks is None else "torch.profiler",
            "own_share": rounded(each["own_ns"] / total_ns),
            "total_share": rounded(each["total_ns"] / total_ns),
            "cprofile_share": rounded(seen[each["file"], each["line"], each["name"]]["total_ns"] / python_ns),
        }
        for each in rows
    ]
    return sorted(functions, key=lambda each: (-each["own_share"], each["file"], each["line"]))
