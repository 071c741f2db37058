"""Job: estimate a target's allocations without running it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..target.target import LoadedTarget, load
from .allocations import peak_of
from .estimate import estimate
from .result import MemoryEstimate
from .training_step import Stepper, load_what_steps_need


def warm() -> None:
    """Import the modules that every process of this job needs."""
    load_what_steps_need()


def run(target: LoadedTarget | None, request: dict[str, Any], tell: Callable[[str, float], None]) -> MemoryEstimate:
    """Estimate the memory of a target.

    Args:
        target: None, so that it can be loaded here on fake tensors; a loaded one is accepted as well.
        request: `root`: the project, and `target`: the argument of `target.load`, both if none is loaded; `train`,
            `optimizer`, `seed` as in the job `memory`; `limit_bytes`: memory limit of a single operation;
            `probe`: whether single operations may run to measure their workspace.
        tell: Progress callback.
    """
    train, optimizer = bool(request.get("train")), request.get("optimizer") or "adamw"

    def make() -> LoadedTarget:
        return target or load(request["root"], **request["target"])

    tell("estimating two steps", 0.1)
    run = estimate(make, lambda made: Stepper(made, train=train, optimizer=optimizer), request)
    found = peak_of(
        run.trace,
        MemoryEstimate,
        built_with_memory_because=run.built_with_memory_because,
        assumed=run.assumed,
        left_out=run.left_out,
        trains=any(phase.name == "backward" for phase in run.trace.phases),
    )
    if not found.trains and found.split_bytes.parameters:
        tell("estimating a call without gradients", 0.6)
        bare = estimate(make, lambda made: Stepper(made, train=False, has_gradients=False), request).trace
        if bare.peak()[1] < run.trace.peak()[1]:
            found = replace(found, without_gradients_bytes=bare.base_bytes + bare.peak()[1])
    return found
