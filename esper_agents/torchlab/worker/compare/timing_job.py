"""Job: time batches of calls on inputs not used before, by this process's clock."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import torch

from ..process.devices import wait
from ..target.backward import backward
from ..target.input_spec import Inputs
from ..target.target import LoadedTarget, mapped, on_device, seed_all
from .result import TimedBatch, WarmedArm

# The loops below are duplicated on purpose: their bodies are timed.
_VARIATION = 1e-3
_Tell = Callable[[str, float], None]


@dataclass
class _Arm:
    """One side of a comparison, warmed up.

    Attributes:
        run: Runs the target once on inputs and returns its output.
        has_backward: Whether a run leaves gradients, which are cleared outside the clock.
    """

    run: Callable[..., Any]
    has_backward: bool
    kept: Any = None


def run(target: LoadedTarget, request: dict[str, Any], tell: _Tell) -> Any:
    """Run one phase of a comparison.

    Args:
        target: One of the two arms.
        request: `phase`: `warm` (`calls`, `seed`, `train`), `time` (`calls`, `lead_in`, `draw`, `seed`, `pick`,
            `shifts`), or `output` for the output of the
            picked call of the last batch returned.
        tell: Not used; no phase takes long.

    Returns:
        For `warm` a `WarmedArm`, for `time` a `TimedBatch`, for `output` the header of a bundle with its file.
    """
    del tell
    phase = request["phase"]
    if phase == "warm":
        return _warm(target, request)
    arm: _Arm = target.notes["arm"]
    if phase == "output":
        from .tensor_bundle import to_file

        return to_file(arm.kept)
    return _time(target, arm, request)


def _warm(target: LoadedTarget, request: dict[str, Any]) -> WarmedArm:
    arm = target.notes["arm"] = _Arm(_with_backward(target) if request["train"] else target.call, request["train"])
    calls_ns, inputs_ns, size = [], [], 0
    target.notes["repeats"] = _repeats(target)
    seed_all(int(request["seed"]))
    for _ in range(int(request["calls"])):
        begun = perf_counter_ns()
        (inputs,) = _fresh(target, 1, train=arm.has_backward)
        wait(target.device)
        made = perf_counter_ns()
        arm.run(*inputs.args, **inputs.kwargs)
        wait(target.device)
        calls_ns.append(perf_counter_ns() - made)
        inputs_ns.append(made - begun)
        _clear(target)
        size = sum(each.nbytes for each in _tensors((inputs.args, inputs.kwargs)))
    drawn = _tensors([(each.args, each.kwargs) for each in _fresh(target, 1, train=False)])
    # Integers cannot be varied without changing the computation.
    remembers = bool(target.notes["repeats"]) and not any(each.is_floating_point() for each in drawn)
    return WarmedArm(min(calls_ns), min(inputs_ns), size, remembers)


def _time(target: LoadedTarget, arm: _Arm, request: dict[str, Any]) -> TimedBatch:
    arm.kept = None
    # A tensor's address can make it 9 % slower. Each batch uses another, so the fastest is well placed in both arms.
    shifts = [torch.empty(each, dtype=torch.uint8) for each in request["shifts"]]
    seed_all(int(request["seed"]))
    most_before, most = request["draw"]
    batch = _fresh(target, most, train=arm.has_backward)[: request["calls"]]
    first = _fresh(target, most_before, train=arm.has_backward)[: request["lead_in"]] if most_before else []
    del shifts[::2]
    pick = int(request["pick"])
    gc.collect(0)
    gc.disable()
    try:
        # The first call after a pause has cold caches: some microseconds, which would move every ratio towards 1.
        for each in first:
            arm.run(*each.args, **each.kwargs)
            _clear(target)
        # A target that draws random numbers draws the same ones in both arms.
        seed_all(int(request["seed"]))
        if arm.has_backward:
            took, arm.kept = _one_by_one(target, arm.run, batch, pick)
        elif any(each.kwargs for each in batch):
            took, arm.kept = _with_names(target, arm.run, batch, pick)
        else:
            took, arm.kept = _in_a_row(target, arm.run, [each.args for each in batch], pick)
    finally:
        gc.enable()
    return TimedBatch(took)


def _in_a_row(
    target: LoadedTarget, call: Callable[..., Any], batch: list[tuple[Any, ...]], pick: int
) -> tuple[int, Any]:
    before, picked, after = batch[:pick], batch[pick], batch[pick + 1 :]
    wait(target.device)
    begun = perf_counter_ns()
    for args in before:
        call(*args)
    kept = call(*picked)
    for args in after:
        call(*args)
    wait(target.device)
    return perf_counter_ns() - begun, kept


def _with_names(target: LoadedTarget, call: Callable[..., Any], batch: list[Inputs], pick: int) -> tuple[int, Any]:
    before, picked, after = batch[:pick], batch[pick], batch[pick + 1 :]
    wait(target.device)
    begun = perf_counter_ns()
    for each in before:
        call(*each.args, **each.kwargs)
    kept = call(*picked.args, **picked.kwargs)
    for each in after:
        call(*each.args, **each.kwargs)
    wait(target.device)
    return perf_counter_ns() - begun, kept


def _one_by_one(target: LoadedTarget, call: Callable[..., Any], batch: list[Inputs], pick: int) -> tuple[int, Any]:
    took, kept = 0, None
    for number, each in enumerate(batch):
        wait(target.device)
        begun = perf_counter_ns()
        given = call(*each.args, **each.kwargs)
        wait(target.device)
        took += perf_counter_ns() - begun
        if number == pick:
            kept = given
        # Accumulated gradients would make each call add to the previous ones.
        _clear(target)
    return took, kept


def _with_backward(target: LoadedTarget) -> Callable[..., Any]:
    if target.kind == "step":
        return target.call

    def forward_and_backward(*args: Any, **kwargs: Any) -> Any:
        given = target.call(*args, **kwargs)
        roots = [each for each in _tensors(given) if each.requires_grad]
        backward(roots, [torch.ones_like(each) for each in roots])
        return given

    return forward_and_backward


def _fresh(target: LoadedTarget, calls: int, *, train: bool) -> list[Inputs]:
    batch = target.many(calls)
    if target.device != "cpu":
        batch = [on_device(each, target.device) for each in batch]
    if target.notes["repeats"]:
        batch = [_varied(each) for each in batch]
    if train and target.kind != "step":
        for each in itertools.chain.from_iterable((*one.args, *one.kwargs.values()) for one in batch):
            if isinstance(each, torch.Tensor) and each.is_floating_point() and each.is_leaf:
                each.requires_grad_(True)
    return batch


def _repeats(target: LoadedTarget) -> bool:
    """Return whether inputs are the same each time, so that caching results would look like speed."""
    one, other = (_tensors((each.args, each.kwargs)) for each in (target.inputs(1), target.inputs(2)))
    return bool(one) and len(one) == len(other) and all(map(_is_same, one, other))


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)


def _varied(inputs: Inputs) -> Inputs:
    """Return inputs whose numbers differ from all earlier ones in the last digits."""

    def vary(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        return tensor * (1 + _VARIATION * torch.rand_like(tensor))

    return mapped(inputs, vary)


def _tensors(thing: Any) -> list[torch.Tensor]:
    if isinstance(thing, torch.Tensor):
        return [thing]
    if isinstance(thing, dict):
        return [found for each in thing.values() for found in _tensors(each)]
    if isinstance(thing, (list, tuple)):
        return [found for each in thing for found in _tensors(each)]
    return []


def _clear(target: LoadedTarget) -> None:
    if target.module is not None:
        target.module.zero_grad(set_to_none=True)
