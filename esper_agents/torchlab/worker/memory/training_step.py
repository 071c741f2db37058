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
# So small that no number of steps damages a model for later steps.
_LEARNING_RATE = 1e-4


def load_what_steps_need() -> None:
    """Import the modules needed by the first optimizer and the first profile: a second and a hundred thousand objects.

    Imported in the fork server, they are skipped by the garbage collector of each forked process.
    """
    importlib.import_module("torch._dynamo")
    importlib.import_module("torch.profiler")


class Stepper:
    """Runner of a target's steps. Without training, the target is called as it is, whatever its gradient mode.

    Attributes:
        optimizer: Updates the parameters; None without an update, or if the target does it itself.
        does_train: Whether a step runs backward.
        does_more_than_once: Whether a second step allocates differently from the first: gradients and state exist.
        why_not: Reason that it does not run backward although requested; empty otherwise.
    """

    def __init__(
        self, target: LoadedTarget, *, train: bool, optimizer: str = "adamw", has_gradients: bool = True
    ) -> None:
        """Prepare the steps.

        Args:
            target: The target.
            train: Also run backward; a target of kind `step` runs its own.
            optimizer: `sgd`, `adam`, `adamw`, or `none`.
            has_gradients: False to call it with gradients disabled.

        Raises:
            TargetError: There is no such optimizer.
        """
        self._target = target
        self._has_gradients = has_gradients
        self.does_train = train and target.kind != "step"
        # A call without training leaves nothing for the next one.
        self.does_more_than_once = self.does_train or target.kind == "step"
        self.why_not = ""
        self.optimizer: torch.optim.Optimizer | None = None
        parameters = (
            [parameter for parameter in target.module.parameters() if parameter.requires_grad] if target.module else []
        )
        if self.does_train and target.module is not None:
            target.module.train()
        if self.does_train and parameters and optimizer != "none":
            if optimizer not in _OPTIMIZERS:
                known = ", ".join((*_OPTIMIZERS, "none"))
                raise TargetError(f"no optimizer named {optimizer!r}", f"name one of {known}")
            self.optimizer = _OPTIMIZERS[optimizer](parameters, lr=_LEARNING_RATE)

    def inputs(self, seed: int) -> Inputs:
        """Return new inputs; for a function in training, they require gradients."""
        made = self._target.inputs(seed)
        if self.does_train and self._target.kind == "function":
            for tree_leaf in tree_leaves((made.args, made.kwargs)):
                if isinstance(tree_leaf, torch.Tensor) and tree_leaf.is_floating_point() and tree_leaf.is_leaf:
                    tree_leaf.requires_grad_(True)
        return made

    def run(self, inputs: Inputs) -> None:
        """Run one step and keep none of its results."""
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
    """Return the loss of a training step: a `loss` in the output, else the sum of all outputs with a gradient.

    Args:
        output: Output of a target: tensors in nested tuples, lists and dictionaries, or an object with a
            `loss`.

    Returns:
        A scalar; None if nothing requires a gradient.
    """
    named = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    candidates = [named] if isinstance(named, torch.Tensor) else tree_leaves(output)
    roots = [candidate for candidate in candidates if isinstance(candidate, torch.Tensor) and candidate.requires_grad]
    if len(roots) == 1 and roots[0].numel() == 1:
        return roots[0].reshape(())
    sums = [(torch.view_as_real(root) if root.is_complex() else root).sum() for root in roots]
    return sum(sums[1:], start=sums[0]) if sums else None
