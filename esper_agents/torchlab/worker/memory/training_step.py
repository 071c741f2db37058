"""One step of a target: a call and, in training, also a loss, its backward and the optimizer."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ..target.input_spec import Inputs, TargetError
from ..target.target import LoadedTarget

_OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}
# So small that no number of steps spoils a model for the steps after them.
_LEARNING_RATE = 1e-4


def load_what_steps_need() -> None:
    """Import what the first optimizer and the first profile import, a second's worth and a hundred thousand objects.

    In the process that workers are forked from, the garbage collector leaves them alone in each worker.
    """
    importlib.import_module("torch._dynamo")
    importlib.import_module("torch.profiler")


class Stepper:
    """Runs steps of a target. One that is not trained is called as it is, whatever it does about gradients.

    Attributes:
        optimizer: What updates the parameters; None where nothing does, or where the target does it itself.
        does_train: Whether a step goes backward.
        does_more_than_once: Whether a second step allocates otherwise than the first: it finds gradients and state.
        why_not: Why it does not go backward although it was asked to; empty otherwise.
    """

    def __init__(
        self, target: LoadedTarget, *, train: bool, optimizer: str = "adamw", has_gradients: bool = True
    ) -> None:
        """Prepare.

        Args:
            target: What is run.
            train: Go backward too; a target of kind `step` does what it does.
            optimizer: `sgd`, `adam`, `adamw`, or `none`.
            has_gradients: False to call it with gradients switched off.

        Raises:
            TargetError: No such optimizer.
        """
        self._target = target
        self._has_gradients = has_gradients
        self.does_train = train and target.kind != "step"
        # A call that is no step of a training leaves nothing for the next.
        self.does_more_than_once = self.does_train or target.kind == "step"
        self.why_not = ""
        self.optimizer: torch.optim.Optimizer | None = None
        parameters = [each for each in target.module.parameters() if each.requires_grad] if target.module else []
        if self.does_train and target.module is not None:
            target.module.train()
        if self.does_train and parameters and optimizer != "none":
            if optimizer not in _OPTIMIZERS:
                known = ", ".join((*_OPTIMIZERS, "none"))
                raise TargetError(f"no optimizer named {optimizer!r}", f"name one of {known}")
            self.optimizer = _OPTIMIZERS[optimizer](parameters, lr=_LEARNING_RATE)

    def inputs(self, seed: int) -> Inputs:
        """Return fresh inputs; a function that is trained differentiates with respect to them."""
        made = self._target.inputs(seed)
        if self.does_train and self._target.kind == "function":
            for each in tree_leaves((made.args, made.kwargs)):
                if isinstance(each, torch.Tensor) and each.is_floating_point() and each.is_leaf:
                    each.requires_grad_(True)
        return made

    def run(self, inputs: Inputs) -> None:
        """Run one step and keep nothing of it."""
        if self.optimizer is not None:
            self.optimizer.zero_grad()
        with nullcontext() if self._has_gradients else torch.no_grad():
            output = self._target.call(*inputs.args, **inputs.kwargs)
        if not self.does_train:
            return
        loss = loss_of(output)
        del output
        if loss is None:
            self.why_not = "nothing that the target returns requires a gradient"
            return
        loss.backward()
        if self.optimizer is not None:
            self.optimizer.step()


def loss_of(output: Any) -> torch.Tensor | None:
    """Return what a training step goes backward from: a `loss` among the output, else the sum of what has a gradient.

    Args:
        output: What a target returned: tensors in tuples, lists and dictionaries however nested, or an object with a
            `loss`.

    Returns:
        A scalar; None where nothing requires a gradient.
    """
    named = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    candidates = [named] if isinstance(named, torch.Tensor) else tree_leaves(output)
    roots = [each for each in candidates if isinstance(each, torch.Tensor) and each.requires_grad]
    if len(roots) == 1 and roots[0].numel() == 1:
        return roots[0].reshape(())
    sums = [(torch.view_as_real(each) if each.is_complex() else each).sum() for each in roots]
    return sum(sums[1:], start=sums[0]) if sums else None
