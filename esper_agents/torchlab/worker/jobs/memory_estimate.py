"""Job: estimate a target's allocations without running it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..memory.allocations import described
from ..memory.estimate import estimate
from ..memory.training_step import Stepper, load_what_steps_need
from ..target.target import LoadedTarget, load


def warm() -> None:
    """Import the modules that every process of this job needs."""
    load_what_steps_need()


def run(target: LoadedTarget | None, request: dict[str, Any], tell: Callable[[str, float], None]) -> dict[str, Any]:
    """Estimate the memory of a target.

    Args:
        target: None, so that it can be loaded here on fake tensors; a loaded one is accepted as well.
        request: `root`: the project, and `target`: the argument of `target.load`, both if none is loaded; `train`,
            `optimizer`, `seed` as in the job `memory`; `limit_bytes`: memory limit of a single operation;
            `probe`: whether single operations may run to measure their workspace.
        tell: Progress callback.

    Returns:
        As in `allocations.described`; `assumed`, `left_out` and `built_with_memory_because` as in
        `estimate.estimate`; `without_gradients_bytes`: the peak of a call without gradients, if it is lower
        and nothing is trained.
    """
    train, optimizer = bool(request.get("train")), request.get("optimizer") or "adamw"

    def make() -> LoadedTarget:
        return target or load(request["root"], **request["target"])

    tell("estimating two steps", 0.1)
    trace, about = estimate(make, lambda made: Stepper(made, train=train, optimizer=optimizer), request)
    result = {**described(trace), **about, "trains": any(each.name == "backward" for each in trace.phases)}
    if not result["trains"] and result["split_bytes"]["parameters"]:
        tell("estimating a call without gradients", 0.6)
        bare, _ = estimate(make, lambda made: Stepper(made, train=False, has_gradients=False), request)
        if bare.peak()[1] < trace.peak()[1]:
            result["without_gradients_bytes"] = bare.base_bytes + bare.peak()[1]
    return result
