"""Job: run a target and report its allocations: peak, composition, course over time, leaks."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from ..process.out_of_memory import wanted_bytes
from ..results import MissingPart
from ..target.target import LoadedTarget
from .allocations import peak_of, timeline
from .cuda_allocator import Allocator
from .leak_search import look
from .profiled_run import measure
from .result import CATEGORIES, LeakSearch, MeasuredPeak, MemoryRun, OutOfMemory
from .training_step import Stepper, load_what_steps_need

_MOST_EVENTS = 500_000
_TORCH = Path(torch.__file__).parent


def warm() -> None:
    """Import the modules that every process of this job needs."""
    load_what_steps_need()


def run(target: LoadedTarget, request: dict[str, Any], tell: Callable[[str, float], None]) -> MemoryRun:
    """Measure the memory of a target.

    Args:
        target: The target.
        request: `train`: whether to go backward and update; `optimizer`: `sgd`, `adam`, `adamw` or `none`; `steps`: how
            many steps to check for a leak, 0 for none; `seed`: for the inputs; `scratch`: a folder for artifacts.
        tell: Progress callback.
    """
    train, seed, steps = bool(request.get("train")), int(request.get("seed", 0)), int(request.get("steps", 8))
    stepper = Stepper(target, train=train, optimizer=request.get("optimizer") or "adamw")
    missing: list[MissingPart] = []
    leak: LeakSearch | None = None
    out_of_memory: OutOfMemory | None = None
    is_cuda = torch.device(target.device).type == "cuda"
    tell("running two steps under the profiler", 0.05)
    with Allocator(target.device, request["scratch"]) if is_cuda else nullcontext() as allocator:
        measured = measure(target, stepper, 2 if stepper.does_more_than_once else 1, seed)
    peak = peak_of(measured.trace, MeasuredPeak, timeline=timeline(measured.trace))
    statistics = None if allocator is None else allocator.statistics()
    if not measured.is_placed:
        why = "the target is compiled, and what would find them would be compiled with it"
        missing.append(MissingPart("lines and modules of the peak", why))
    if stepper.why_not:
        missing.append(MissingPart("backward", stepper.why_not))
    if measured.error is not None:
        out_of_memory = _out_of_memory(target, measured.error, _phase_of(measured.error), measured.step)
        missing.append(MissingPart("leak", "memory ran out before there were steps to compare"))
    elif steps:
        has_profiler = measured.events * steps <= _MOST_EVENTS
        if not has_profiler:
            why = f"{steps} steps would have over {_MOST_EVENTS} events"
            missing.append(MissingPart("the profiler's word on growth", why))
        looked = look(target, stepper, steps, seed, tell, has_profiler=has_profiler)
        leak = looked.result
        if looked.error is not None:
            out_of_memory = _out_of_memory(target, looked.error, "later", 1 + (leak.steps if leak else 0))
    return MemoryRun(
        device=target.device,
        categories=CATEGORIES,
        missing=tuple(missing),
        peak=peak,
        trains=any(phase.name == "backward" for phase in peak.phases),
        optimizer=None if stepper.optimizer is None else type(stepper.optimizer).__name__,
        leak=leak,
        out_of_memory=out_of_memory,
        allocator=statistics,
        artifacts=() if allocator is None else tuple(allocator.artifacts),
    )


def _phase_of(error: BaseException) -> str:
    """Return the phase in which an error occurred."""
    frames = traceback.extract_tb(error.__traceback__)
    for folder, phase in (("optim", "optimizer"), ("autograd", "backward")):
        if any(_TORCH / folder in Path(frame.filename).parents for frame in frames):
            return phase
    return "forward"


def _out_of_memory(target: LoadedTarget, error: BaseException, phase: str, step: int) -> OutOfMemory:
    message = (str(error) or type(error).__name__).splitlines()[0][:300]
    found = [
        (own, frame.lineno or 0)
        for frame in traceback.extract_tb(error.__traceback__)
        if (own := target.in_project(frame.filename)) is not None
    ]
    file, line = found[-1] if found else ("", 0)
    return OutOfMemory(
        phase=phase, step=step, message=message, wanted_bytes=wanted_bytes(message), file=file, line=line
    )
