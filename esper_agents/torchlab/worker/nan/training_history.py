"""History of weights, gradients and losses over steps, and weights initialized out of scale."""

from __future__ import annotations

import inspect as signatures
import math
import weakref
from contextlib import contextmanager
from itertools import pairwise
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from .result import LayerGain, StepHistory
from .tensor_statistics import is_numeric, largest, number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .call_sites import Modules

_FIRST_KEPT, _LAST_KEPT = 5, 45
# Weights that grew this much since the first step, and in each of the last ones, diverge.
_RUNAWAY = 10.0
_LAST_STEPS = 3
# A layer whose outputs exceed its inputs by this factor was not initialised for its width.
_WILD_GAIN = 8.0
_MATRIX = 2
# Maximum reference depth from a step to its optimizer, such as the trainer's attribute of a bound method.
_DEPTH = 4


class TrainingHistory:
    """Tracker of parameters, gradients and optimizers of the modules that a run calls."""

    def __init__(self, modules: Modules) -> None:
        """Create a tracker for the called modules."""
        self.entries: list[StepHistory] = []
        self.has_stepped = False
        self.steps_taken = 0
        self._weights: list[float] = []
        self._losses: list[float] = []
        self._modules = modules
        self._optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Detect optimizers inside the block."""
        handle = register_optimizer_step_post_hook(self._stepped)
        try:
            yield
        finally:
            handle.remove()

    def _stepped(self, optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
        self._optimizers.add(optimizer)
        self.has_stepped = True
        self.steps_taken += 1

    def parameters(self) -> dict[str, torch.nn.Parameter | torch.Tensor]:
        """Return the trained tensors by name: parameters of modules, then further ones of optimizers."""
        found: dict[str, torch.nn.Parameter | torch.Tensor] = {}
        roots = self._modules.roots()
        for root in roots:
            prefix = "" if len(roots) == 1 else f"{type(root).__name__}."
            found |= {f"{prefix}{name}": each for name, each in root.named_parameters()}
        known = {id(each) for each in found.values()}
        for optimizer in self._optimizers:
            for group_number, group in enumerate(optimizer.param_groups):
                for place, each in enumerate(group["params"]):
                    if id(each) not in known:
                        found[f"param_groups[{group_number}]['params'][{place}]"] = each
        return found

    def buffers(self) -> dict[str, torch.Tensor]:
        """Return the buffers of the modules, by name."""
        return {name: each for root in self._modules.roots() for name, each in root.named_buffers()}

    def states(self) -> dict[str, torch.Tensor]:
        """Return the optimizers' state of each parameter."""
        return {
            f"{type(optimizer).__name__}.state[{place}]['{name}']": each
            for optimizer in self._optimizers
            for place, state in enumerate(optimizer.state.values())
            for name, each in state.items()
            if isinstance(each, torch.Tensor)
        }

    def find_optimizers(self, call: Any) -> None:
        """Search the references of a step for optimizers, so that they are known before the first update."""
        self._optimizers.update(_optimizers_in(call, _DEPTH, set()))

    @property
    def has_optimizer(self) -> bool:
        """Whether an optimizer is known."""
        return bool(self._optimizers)

    def begin(self) -> None:
        """Begin a step: measure its initial weights."""
        self.has_stepped = False
        self._weights.append(
            max((largest(parameter) for parameter in self.parameters().values() if is_numeric(parameter)), default=0.0)
        )

    def end(self, step: int, loss: float | None) -> None:
        """End a step: record its loss and its largest weight and gradient."""
        gradients = [parameter.grad for parameter in self.parameters().values() if parameter.grad is not None]
        self._losses.append(math.nan if loss is None else abs(loss))
        self.entries.append(
            StepHistory(
                step,
                loss=None if loss is None else number(loss),
                largest_weight=number(self._weights[-1]) if self._weights[-1] else None,
                largest_gradient=number(max(largest(gradient) for gradient in gradients)) if gradients else None,
            )
        )
        if len(self.entries) > _FIRST_KEPT + _LAST_KEPT:
            del self.entries[_FIRST_KEPT]

    def runaway(self) -> str | None:
        """Return the growth of diverging weights or losses up to the last step; None without divergence."""
        rates = sorted(
            {float(group["lr"]) for optimizer in self._optimizers for group in optimizer.param_groups if "lr" in group}
        )
        at = f" at a learning rate of {', '.join(f'{rate:g}' for rate in rates)}" if rates else ""
        for what, series in (("largest weight", self._weights), ("loss", self._losses)):
            finite = [each for each in series if math.isfinite(each)]
            last = finite[-_LAST_STEPS - 1 :]
            grows = len(last) > 1 and all(after > before for before, after in pairwise(last))
            if self.steps_taken and grows and finite[-1] >= _RUNAWAY * finite[0] > 0:
                return f"the {what} grew from {finite[0]:.4g} to {finite[-1]:.4g} in {len(finite) - 1} steps{at}"
        return None

    def wild_layers(self) -> list[LayerGain]:
        """Return layers whose weights make their outputs much larger than their inputs, by gain, largest first.

        The gain is the weights' root mean square times the square root of the number of inputs per output;
        initialisations for a layer's width have one of about 1.
        """
        found = []
        for name, each in self.parameters().items():
            if each.ndim < _MATRIX or not is_numeric(each) or "embedding" in name.lower():
                continue
            rms = float(each.detach().float().pow(2).mean().sqrt())
            gain = rms * math.sqrt(each[0].numel())
            if math.isfinite(gain) and gain > _WILD_GAIN:
                found.append(LayerGain(name, float(number(gain))))
        return sorted(found, key=lambda each: (-each.gain, each.parameter))[:10]


def _optimizers_in(thing: Any, depth: int, seen: set[int]) -> Iterator[torch.optim.Optimizer]:
    """Yield the optimizers that a callable reaches by its closure, globals or attributes."""
    if id(thing) in seen or isinstance(thing, (type, ModuleType, torch.Tensor, torch.nn.Module)):
        return
    seen.add(id(thing))
    if isinstance(thing, torch.optim.Optimizer):
        yield thing
    elif depth > 0:
        for each in _held(thing):
            yield from _optimizers_in(each, depth - 1, seen)


def _held(thing: Any) -> list[Any]:
    if isinstance(thing, MethodType):
        return [thing.__self__, thing.__func__]
    if isinstance(thing, FunctionType):
        known = signatures.getclosurevars(thing)
        return [*known.nonlocals.values(), *known.globals.values()]
    if isinstance(thing, dict):
        return list(thing.values())
    if isinstance(thing, (list, tuple)):
        return list(thing)
    return list(getattr(thing, "__dict__", {}).values())
