"""Calls of a target in a mode, each on a copy of its module, and comparison of what they return."""

from __future__ import annotations

import copy
import inspect
from contextlib import nullcontext
from time import monotonic
from typing import TYPE_CHECKING, Any

import torch

from ..explain.call_variants import eagerly
from ..explain.compile_runs import message, uncompiled
from ..profile.call_runner import tensors_in
from ..target.input_spec import Inputs
from ..target.stack_frames import frames_of
from ..target.target import mapped, seed_all
from ..target.user_lines import place, plain
from .result import TriedCall

if TYPE_CHECKING:
    from ..target.source_place import SourcePlace
    from ..target.target import LoadedTarget

# Names in one answer.
MOST_NAMES = 12
# Added to the seed of calls whose random numbers are to differ.
ANOTHER_SEED = 1_000
TRAINING, EVALUATION = "training", "evaluation"
# Differences within these come from the order of sums.
_RELATIVE, _ABSOLUTE = 1e-3, 1e-4
_LONGEST_S = 20.0


class TargetCalls:
    """Calls of a target with the same inputs and random numbers, unless said otherwise.

    Attributes:
        target: The target.
        modes: Modes of a module, evaluation first; one empty mode for other code.
        can_copy: Whether each call gets a module of its own.
    """

    def __init__(self, target: LoadedTarget, seed: int) -> None:
        """Prepare the calls."""
        self.target = target
        self._call, _ = uncompiled(target)
        self._module = self._call if isinstance(self._call, torch.nn.Module) else None
        self._seed = seed
        self._until = monotonic() + _LONGEST_S
        self.modes = (EVALUATION, TRAINING) if self._module is not None else ("",)
        self.can_copy = self._module is None or _can_copy(self._module)

    @property
    def is_late(self) -> bool:
        """Whether the time for further calls is over."""
        return monotonic() > self._until

    def inputs(self) -> Inputs:
        """Return the inputs, new each time."""
        return self.target.inputs(self._seed)

    def module(self, mode: str) -> torch.nn.Module | None:
        """Return a copy of the module in a mode; None for other code."""
        if self._module is None:
            return None
        made: torch.nn.Module = copy.deepcopy(self._module) if self.can_copy else self._module
        return made.train(mode == TRAINING)

    def run(
        self, inputs: Inputs, mode: str, *, module: torch.nn.Module | None = None, grad: bool = False, seed: int = 0
    ) -> Any:
        """Return what a call returns.

        Args:
            inputs: Inputs of the call.
            mode: Mode of the module.
            module: Module to call; a new copy if omitted.
            grad: Whether gradients are recorded.
            seed: Added to the seed of the random numbers.
        """
        call = module if module is not None else self.module(mode) or self._call
        seed_all(self._seed + 1 + seed)
        with nullcontext() if grad else torch.no_grad(), eagerly():
            return call(*inputs.args, **inputs.kwargs)

    def randomness(self) -> dict[str, bool]:
        """Return for each mode whether two calls that differ in random numbers alone return different values."""
        return {
            mode: not is_same(self.run(self.inputs(), mode), self.run(self.inputs(), mode, seed=ANOTHER_SEED))
            for mode in self.modes
        }

    def named(self, inputs: Inputs) -> list[tuple[str, torch.Tensor]]:
        """Return the tensors of inputs with the names of their parameters."""
        return [(name, tensor) for name, given in self._bound(inputs) for tensor in tensors_in(given)]

    def _bound(self, inputs: Inputs) -> list[tuple[str, Any]]:
        head = self._module.forward if self._module is not None else self._call
        try:
            return list(inspect.signature(head).bind(*inputs.args, **inputs.kwargs).arguments.items())
        except (TypeError, ValueError):
            return [(f"input {number}", each) for number, each in enumerate(inputs.args)] + list(inputs.kwargs.items())

    def tried(self, what: str, inputs: Inputs, mode: str, like: Any = None, **how: Any) -> TriedCall:
        """Return the effect of a call.

        Args:
            what: What was changed.
            inputs: Inputs of the call.
            mode: Mode of the module.
            like: Expected output; None if it need only return.
            how: Further arguments of `run`.
        """
        try:
            given = self.run(inputs, mode, **how)
        except Exception as error:  # noqa: BLE001 - the user's code raises any error, and that is the result
            said = plain(self.target, message(error))
            return TriedCall(what=what, mode=mode, effect="raises", detail=said, place=self.place_of(error))
        tensors = tensors_in(given)
        detail = ", ".join(dtype_name(each) + str(list(each.shape)) for each in tensors[:2])
        if not all(map(is_finite, tensors)):
            return TriedCall(what=what, mode=mode, effect="not finite", detail=detail)
        if like is None:
            return TriedCall(what=what, mode=mode, effect="returns", detail=detail)
        return TriedCall(what=what, mode=mode, effect="same" if is_same(given, like) else "differs", detail=detail)

    def place_of(self, error: BaseException) -> SourcePlace | None:
        """Return the line of the project that raised."""
        return place(self.target, frames_of(error))


def _can_copy(module: torch.nn.Module) -> bool:
    try:
        copy.deepcopy(module)
    except Exception:  # noqa: BLE001 - copying runs user code
        return False
    return True


def is_finite(tensor: torch.Tensor) -> bool:
    """Return whether no value of a tensor is NaN or infinite."""
    if tensor.is_meta or not (tensor.is_floating_point() or tensor.is_complex()):
        return True
    return bool(torch.isfinite(tensor).all())


def dtype_name(tensor: torch.Tensor) -> str:
    """Return the name of a dtype without `torch.`."""
    return str(tensor.dtype).removeprefix("torch.")


def is_same(one: Any, other: Any) -> bool:
    """Return whether two results have tensors of the same shapes with about the same values."""
    first, second = tensors_in(one), tensors_in(other)
    return len(first) == len(second) and all(map(is_close, first, second))


def is_close(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors have the same shape and about the same values; NaN equals NaN."""
    if one.shape != other.shape:
        return False
    if not (one.is_floating_point() or one.is_complex()) or one.dtype != other.dtype:
        return bool((one == other).all()) if one.dtype == other.dtype else is_close(one.double(), other.double())
    scale = float(other.detach().abs().nan_to_num(0, 0, 0).max()) if other.numel() else 0.0
    return torch.allclose(one, other, rtol=_RELATIVE, atol=_ABSOLUTE * max(scale, 1e-6), equal_nan=True)


def cloned(inputs: Inputs) -> Inputs:
    """Return inputs with tensors of their own."""
    return mapped(inputs, lambda each: each.detach().clone())
