"""Run one call of a target while it is profiled, with fresh inputs."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import torch

from ..process.devices import wait
from ..results import MissingPart
from ..target.input_spec import Inputs, TargetError
from ..target.target import LoadedTarget, on_device, seed_all

# Enough that no call finds its inputs in the nearest cache from the last one; few enough for memory.
_FEW = 4
_SETTLING_NS = 50_000_000


@dataclass(frozen=True)
class FirstCalls:
    """First calls of a target.

    Attributes:
        first_call_ns: Time of the first call, forward only.
        call_ns: Time of the fastest call.
        missing: Unavailable parts.
    """

    first_call_ns: int
    call_ns: int
    missing: list[MissingPart]


class Runner:
    """Runner of a target's calls: forward, or forward and backward; a training step runs its own.

    Attributes:
        target: The target.
        train: Whether a backward pass follows.
        mutates_inputs: Whether a call changes its inputs, so that each needs its own.
        inputs_ns: Time to make the inputs, per call.
    """

    def __init__(self, target: LoadedTarget, *, train: bool, seed: int) -> None:
        """Prepare the calls; the generators are left seeded."""
        self.target = target
        self.train = train and target.kind != "step"
        self.mutates_inputs = False
        self.inputs_ns: list[int] = []
        self._needs_input_grad = False
        self._calls = 0
        seed_all(seed)

    def fresh(self, calls: int = 1) -> list[Inputs]:
        """Return new inputs for a number of calls, with the current generator states."""
        begun = perf_counter_ns()
        made = [on_device(each, self.target.device) for each in self.target.many(calls)]
        self.inputs_ns += [(perf_counter_ns() - begun) // calls] * calls
        if self._needs_input_grad:
            for each in made:
                _require_grad(each)
        return made

    def batch(self, calls: int) -> list[Inputs]:
        """Return inputs for a number of calls: a few in rotation if calls do not change them."""
        made = self.fresh(calls if self.mutates_inputs else min(calls, _FEW))
        return [made[number % len(made)] for number in range(calls)]

    def __call__(self, inputs: Inputs) -> None:
        """Run one call and wait for the device.

        Raises:
            TargetError: The target has no more input for itself.
        """
        is_inference = self.target.kind == "module" and not self.train
        with torch.no_grad() if is_inference else nullcontext():
            given = self._forward(inputs)
        if self.train:
            roots = [each for each in tensors_in(given) if each.requires_grad]
            torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])
            if self.target.module is not None:
                self.target.module.zero_grad(set_to_none=True)
        wait(self.target.device)

    def _forward(self, inputs: Inputs) -> Any:
        self._calls += 1
        try:
            return self.target.call(*inputs.args, **inputs.kwargs)
        except StopIteration as error:
            problem = f"{self.target.name!r} ran out of input in call {self._calls}"
            raise TargetError(problem, "let its loader start over, as itertools.cycle does") from error

    def warm(self) -> FirstCalls:
        """Run the first calls and determine the settings for later ones."""
        begun = perf_counter_ns()
        has_gradients = self._has_gradients()
        first_ns = perf_counter_ns() - begun
        missing = []
        if self.train and not has_gradients:
            self.train = False
            missing.append(MissingPart("backward", "nothing that the target returns requires a gradient"))
        (inputs,) = self.fresh()
        tensors = [each for each in tensors_in((inputs.args, inputs.kwargs)) if not each.is_inference()]
        before = [tensor._version for tensor in tensors]  # noqa: SLF001 - torch's count of writes has no other name
        call_ns = self._timed(inputs)
        self.mutates_inputs = before != [tensor._version for tensor in tensors]  # noqa: SLF001 - same reason
        # Heap and caches settle over some calls; only later calls are typical.
        until = perf_counter_ns() + _SETTLING_NS
        while perf_counter_ns() + call_ns < until:
            call_ns = min(call_ns, *(self._timed(each) for each in self.batch(_FEW)))
        return FirstCalls(first_ns, call_ns, missing)

    def _has_gradients(self) -> bool:
        """Return whether a call has a backward pass; inputs require gradients only if nothing else does."""
        if self._requires_grad() or not self.train:
            return True
        self._needs_input_grad = True
        # In-place code rejects inputs that require gradients; then there is nothing to train.
        with suppress(RuntimeError):
            if self._requires_grad():
                return True
        self._needs_input_grad = False
        return False

    def _timed(self, inputs: Inputs) -> int:
        begun = perf_counter_ns()
        self(inputs)
        return perf_counter_ns() - begun

    def _requires_grad(self) -> bool:
        (inputs,) = self.fresh()
        given = self._forward(inputs)
        return any(each.requires_grad for each in tensors_in(given))


def tensors_in(thing: Any) -> list[torch.Tensor]:
    """Return the tensors in nested tuples, lists and dicts."""
    if isinstance(thing, torch.Tensor):
        return [thing]
    if isinstance(thing, dict):
        return [found for each in thing.values() for found in tensors_in(each)]
    if isinstance(thing, (list, tuple)):
        return [found for each in thing for found in tensors_in(each)]
    return []


def _require_grad(inputs: Inputs) -> None:
    for each in tensors_in((inputs.args, inputs.kwargs)):
        if each.is_leaf and (each.is_floating_point() or each.is_complex()):
            each.requires_grad_(True)
