"""Calls of a diagnosis: the same shapes again, then other sizes of the leading dimension."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from ..target.input_spec import Inputs

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..target.target import LoadedTarget


def leading(inputs: Inputs) -> int | None:
    """Return the size of the leading dimension of the first tensor that has one; None without one."""
    leaves, _ = tree_flatten((inputs.args, inputs.kwargs))
    return next((int(leaf.shape[0]) for leaf in leaves if _can_grow(leaf)), None)


def resized(inputs: Inputs, size: int) -> Inputs:
    """Return the inputs with every tensor that shares the first one's leading dimension repeated or cut to a size.

    Rows are repeated rather than drawn, so that indices stay in range and masks stay masks.
    """
    before = leading(inputs)
    leaves, tree = tree_flatten((inputs.args, inputs.kwargs))

    def resize(leaf: Any) -> Any:
        if not _can_grow(leaf) or leaf.shape[0] != before:
            return leaf
        rows = leaf.detach().index_select(0, torch.arange(size, device=leaf.device) % leaf.shape[0])
        return rows.requires_grad_(leaf.requires_grad)

    args, kwargs = tree_unflatten([resize(each) for each in leaves], tree)
    return Inputs(args, kwargs)


def _can_grow(leaf: Any) -> bool:
    return type(leaf) is torch.Tensor and leaf.layout is torch.strided and leaf.dim() > 0 and leaf.shape[0] > 0


def asking_for_gradients(target: LoadedTarget, inputs: Inputs) -> Inputs:
    """Return inputs whose floating-point tensors require gradients, if no parameter of the module does."""
    if target.kind == "step" or (
        target.module is not None and any(parameter.requires_grad for parameter in target.module.parameters())
    ):
        return inputs
    leaves, _ = tree_flatten((inputs.args, inputs.kwargs))
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and leaf.is_leaf and (leaf.is_floating_point() or leaf.is_complex()):
            leaf.requires_grad_(True)
    return inputs


def backward(given: Any) -> bool:
    """Run backward from all outputs that require gradients; return whether there were any."""
    leaves, _ = tree_flatten(given)
    roots = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if roots:
        torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])
    return bool(roots)


def eagerly() -> AbstractContextManager[Any]:
    """Return a block in which nothing is compiled, including the user's own compilation (torch 2.6 and newer)."""
    stance: Callable[[str], AbstractContextManager[Any]] | None = getattr(torch.compiler, "set_stance", None)
    return stance("force_eager") if stance is not None else nullcontext()
