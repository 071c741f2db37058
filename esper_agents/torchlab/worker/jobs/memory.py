"""Job: run a target and report its allocations: peak, composition, course over time, leaks."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from ..memory.allocations import CATEGORIES, described, timeline
from ..memory.cuda_allocator import Allocator
from ..memory.leak_search import look
from ..memory.profiled_run import measure
from ..memory.training_step import Stepper, load_what_steps_need
from ..process.out_of_memory import wanted_bytes
from ..target.target import LoadedTarget

_MOST_EVENTS = 500_000
_TORCH = Path(torch.__file__).parent


def warm() -> None:
    """Import the modules that every process of this job needs."""
    load_what_steps_need()


def run(target: LoadedTarget, request: dict[str, Any], tell: Callable[[str, float], None]) -> dict[str, Any]:
    """Measure the memory of a target.

    Args:
        target: The target.
        request: `train`: whether to go backward and update; `optimizer`: `sgd`, `adam`, `adamw` or `none`; `steps`: how
            many steps to check for a leak, 0 for none; `seed`: for the inputs; `scratch`: a folder for artifacts.
        tell: Progress callback.

    Returns:
        `peak`: the peak over two steps as in `allocations.described`, with its `timeline`; `leak` as in
        `leak_search.look`; `out_of_memory` if it ran out; `allocator` on CUDA; `missing`.
    """
    train, seed, steps = bool(request.get("train")), int(request.get("seed", 0)), int(request.get("steps", 8))
    stepper = Stepper(target, train=train, optimizer=request.get("optimizer") or "adamw")
    result: dict[str, Any] = {"device": target.device, "categories": list(CATEGORIES), "missing": [], "artifacts": []}
    is_cuda = torch.device(target.device).type == "cuda"
    tell("running two steps under the profiler", 0.05)
    with Allocator(target.device, request["scratch"]) if is_cuda else nullcontext() as allocator:
        measured = measure(target, stepper, 2 if stepper.does_more_than_once else 1, seed)
    if allocator is not None:
        result["allocator"] = allocator.statistics()
        result["artifacts"] += allocator.artifacts
    result["peak"] = {**described(measured.trace), "timeline": timeline(measured.trace)}
    result["trains"] = any(each.name == "backward" for each in measured.trace.phases)
    result["optimizer"] = type(stepper.optimizer).__name__ if stepper.optimizer is not None else None
    if not measured.is_placed:
        why = "the target is compiled, and what would find them would be compiled with it"
        result["missing"].append({"what": "lines and modules of the peak", "why": why})
    if stepper.why_not:
        result["missing"].append({"what": "backward", "why": stepper.why_not})
    if measured.error is not None:
        phase = _phase_of(measured.error)
        result["out_of_memory"] = _out_of_memory(target, measured.error, phase, measured.step)
        result["missing"].append({"what": "leak", "why": "memory ran out before there were steps to compare"})
    elif steps:
        has_profiler = measured.events * steps <= _MOST_EVENTS
        if not has_profiler:
            why = f"{steps} steps would have over {_MOST_EVENTS} events"
            result["missing"].append({"what": "the profiler's word on growth", "why": why})
        looked = look(target, stepper, steps, seed, tell, has_profiler=has_profiler)
        if looked.result is not None:
            result["leak"] = looked.result
        if looked.error is not None:
            step = 1 + (looked.result["steps"] if looked.result else 0)
            result["out_of_memory"] = _out_of_memory(target, looked.error, "later", step)
    return result


def _phase_of(error: BaseException) -> str:
    """Return the phase in which an error occurred."""
    frames = traceback.extract_tb(error.__traceback__)
    for folder, phase in (("optim", "optimizer"), ("autograd", "backward")):
        if any(_TORCH / folder in Path(each.filename).parents for each in frames):
            return phase
    return "forward"


def _out_of_memory(target: LoadedTarget, error: BaseException, phase: str, step: int) -> dict[str, Any]:
    message = (str(error) or type(error).__name__).splitlines()[0][:300]
    about: dict[str, Any] = {"phase": phase, "step": step, "message": message}
    wanted = wanted_bytes(message)
    if wanted is not None:
        about["wanted_bytes"] = wanted
    for frame in traceback.extract_tb(error.__traceback__):
        own = target.in_project(frame.filename)
        if own is not None:
            about.update(file=own, line=frame.lineno)
    return about
