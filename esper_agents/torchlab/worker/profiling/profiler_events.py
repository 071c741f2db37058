"""Run calls under torch's profiler and read its events: phases, operation times, memory over time."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import thread_time_ns
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.profiler import profile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..target.input_spec import Inputs
    from .call_runner import Runner

CALL = "esper::call"
_BACKWARD = "autograd::engine::evaluate_function"
# Torch itself marks these in every profile.
_PHASES = {"enumerate(DataLoader)#": "input", "Optimizer.step#": "optimizer", "Optimizer.zero_grad#": "optimizer"}
_COMPILED = ("Torch-Compiled Region", "## Call CompiledFxGraph")
# Kernels that inductor wrote; what they call stands inside of them.
_GENERATED = ("triton_", "## Call CompiledFxGraph")
_WAITING = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpyAsync", "cudaMemcpy")
_MOST_POINTS = 4_000

Event = Any  # torch._C._profiler._ProfilerEvent: its stub does not say what it has in every version


@dataclass(frozen=True)
class ProfiledCalls:
    """Calls that were made under torch's profiler.

    Attributes:
        profile: The profile.
        roots: Events that nothing else contains.
        thread_ns: Processor time of each call's thread.
    """

    profile: profile
    roots: list[Event]
    thread_ns: list[int]

    @property
    def calls(self) -> list[Event]:
        """The mark of each call, with all that happened in it."""
        return [each for each in self.roots if each.name == CALL]


def record(
    runner: Runner,
    batch: list[Inputs],
    around: Callable[[], AbstractContextManager[None]] = nullcontext,
    **options: Any,
) -> ProfiledCalls:
    """Make a call with each of the inputs under torch's profiler, each under a mark of its own.

    Args:
        runner: Makes the calls.
        batch: Inputs of each call.
        around: Entered inside the profiler.
        options: Of the profiler.
    """
    # Its library prints a line about itself each time; it reads this when it starts.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    device = "cuda" if runner.target.device.startswith("cuda") else None
    # Not torch.profiler.profile: it is this with a schedule round it, and first imports the compiler for a second.
    recording = profile(use_device=device, use_kineto=True, **options)
    thread_ns = []
    with recording, around():
        for inputs in batch:
            begun = thread_time_ns()
            with torch._C._profiler._RecordFunctionFast(CALL):  # noqa: SLF001 - a mark that costs no Python frames
                runner(inputs)
            thread_ns.append(thread_time_ns() - begun)
    return ProfiledCalls(recording, roots_of(recording), thread_ns)


def roots_of(recording: profile) -> list[Event]:
    """Return the events of a profile that nothing else contains."""
    results: Any = recording.kineto_results
    return list(results.experimental_event_tree())


def phase_of(name: str) -> str | None:
    """Return the phase that an event of such a name begins, if it begins one."""
    if name.startswith(_BACKWARD):
        return "backward"
    return next((phase for prefix, phase in _PHASES.items() if name.startswith(prefix)), None)


def walk(roots: list[Event]) -> Iterator[tuple[Event, str]]:
    """Yield every event in the order of time, with the outermost phase that it is in."""
    stack = [(each, "forward") for each in reversed(roots)]
    while stack:
        event, phase = stack.pop()
        if phase == "forward":
            phase = phase_of(event.name) or phase
        yield event, phase
        stack += [(each, phase) for each in reversed(event.children)]


def summary(recorded: Sequence[ProfiledCalls]) -> dict[str, Any]:
    """Return what the recorded calls were made of.

    Returns:
        `calls`: for each its `wall_ns`, `thread_ns`, `operation_ns` (in operations, outermost), `input_ns`,
        `backward_ns`, `optimizer_ns`, `waiting_ns` (for a device) and `events`. `is_compiled`: whether any of it was
        compiled.
    """
    calls = [
        {"thread_ns": thread_ns, **_of_call(call)}
        for each in recorded
        for thread_ns, call in zip(each.thread_ns, each.calls)  # noqa: B905 - one for each, Python 3.10
    ]
    events = (event for each in recorded for event, _ in walk(each.roots))
    return {"calls": calls, "is_compiled": any(each.name.startswith(_COMPILED) for each in events)}


def _of_call(call: Event) -> dict[str, int]:
    counted = {
        "wall_ns": call.duration_time_ns,
        **dict.fromkeys(("operation_ns", "input_ns", "backward_ns", "optimizer_ns", "waiting_ns", "events"), 0),
    }
    stack = [(each, "", False) for each in call.children]
    while stack:
        event, phase, is_inside = stack.pop()
        counted["events"] += 1
        if not phase:
            phase = phase_of(event.name) or ""
            if phase:
                counted[f"{phase}_ns"] += event.duration_time_ns
        if event.name in _WAITING:
            counted["waiting_ns"] += event.duration_time_ns
        if not is_inside and is_operation(event.name):
            is_inside = True
            counted["operation_ns"] += event.duration_time_ns
        stack += [(each, phase, is_inside) for each in event.children]
    return counted


def is_operation(name: str) -> bool:
    """Return whether an event is an operation, rather than a node of autograd or a mark."""
    return "::" in name and not name.startswith(("autograd::", "torch::autograd", "esper::"))


def operations_by_name(calls: list[Event]) -> list[dict[str, Any]]:
    """Return what the outermost operations of a recording cost by name and phase, for code that has no lines."""
    found: dict[tuple[str, str], list[int]] = {}
    for call in calls:
        stack = [(each, "forward") for each in call.children]
        while stack:
            event, phase = stack.pop()
            phase = phase_of(event.name) or phase if phase == "forward" else phase
            if is_operation(event.name) or event.name.startswith(_GENERATED):
                found.setdefault((event.name, phase), []).append(event.duration_time_ns)
            else:
                stack += [(each, phase) for each in event.children]
    rows = [
        {
            "name": name,
            "phase": phase,
            "file": None,
            "line": None,
            "function": None,
            "module": "",
            "shapes": "",
            "dtype": "",
            "events": 0,
            "faults": 0,
            "count": _mean(len(took), len(calls)),
            "self_ns": sum(took) // len(calls),
        }
        for (name, phase), took in found.items()
    ]
    return sorted(rows, key=lambda row: (-row["self_ns"], row["name"], row["phase"]))


def _mean(total: int, calls: int) -> Any:
    return total // calls if total % calls == 0 else float(f"{total / calls:.6g}")


def memory_of(call: Event) -> dict[str, Any] | None:
    """Return how much memory a call held at each moment, above what there was before it; None without any event.

    Returns:
        `device`, `peak_bytes`, `peak_operation`, `allocated_bytes` (all allocations together), `allocations`,
        `kept_bytes` (held at the end), and `points`: pairs of nanoseconds since the call began and bytes. Of the
        device on which most was allocated.
    """
    by_device: dict[str, list[tuple[int, int, str]]] = {}
    for event, _ in walk([call]):
        if event.name == "[memory]":
            fields = event.extra_fields
            at = event.start_time_ns - call.start_time_ns
            by_device.setdefault(fields.device.type, []).append((at, fields.alloc_size, _asker(event)))
    if not by_device:
        return None
    device = max(sorted(by_device), key=lambda each: sum(size for _, size, _ in by_device[each] if size > 0))
    return {"device": device, **_timeline(sorted(by_device[device], key=lambda each: each[0]))}


def _asker(event: Event) -> str:
    parent = event.parent
    while parent is not None and parent.name != CALL:
        if is_operation(parent.name):
            return str(parent.name)
        parent = parent.parent
    return ""


def _timeline(changes: list[tuple[int, int, str]]) -> dict[str, Any]:
    held, peak, peak_operation = 0, 0, ""
    points = [(0, 0)]
    for at, size, name in changes:
        held += size
        points.append((at, held))
        if held > peak:
            peak, peak_operation = held, name
    grown = [size for _, size, _ in changes if size > 0]
    return {
        "peak_bytes": peak,
        "peak_operation": peak_operation,
        "allocated_bytes": sum(grown),
        "allocations": len(grown),
        "kept_bytes": held,
        "points": _thinned(points),
    }


def _thinned(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return at most so many points, the lowest and the highest of each stretch, so that no peak is lost."""
    width = -(-len(points) // (_MOST_POINTS // 2))
    if width <= 2:  # noqa: PLR2004 - a stretch of two is its own lowest and highest
        return points
    kept: list[tuple[int, int]] = []
    for start in range(0, len(points), width):
        stretch = points[start : start + width]
        kept += sorted({min(stretch, key=lambda each: each[1]), max(stretch, key=lambda each: each[1])})
    return kept
