"""Run backward from any return value of a target, with gradients that expose a wrong one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .module_state import state_of
from .pytrees import tensors_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .module_state import Matching

_engine: Any = torch.autograd.Variable._execution_engine  # noqa: SLF001 - see below


def backward(roots: list[torch.Tensor], incoming: list[torch.Tensor]) -> None:
    """Accumulate gradients in all leaves behind the roots.

    Args:
        roots: Outputs.
        incoming: Gradient of each root, of its shape.
    """
    # torch.autograd.backward imports sympy to check incoming gradients: half a second in each fresh process.
    _engine.run_backward(tuple(roots), tuple(incoming), False, False, (), allow_unreachable=True, accumulate_grad=True)


def run_backward(
    module: torch.nn.Module | None,
    matching: Matching | None,
    given: Any,
    inputs: Any,
    seed: int,
    *,
    layout: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> dict[str, Any] | None:
    """Run backward and return the gradients of the inputs and parameters; None if no output requires them.

    Args:
        module: Module of the target, if it is one.
        matching: Matching of its parameters with the baseline's.
        given: Output.
        inputs: Inputs.
        seed: Seed of the incoming gradients.
        layout: Gives the incoming gradients another memory layout.
    """
    roots = [each for each in tensors_of(given) if each.requires_grad]
    if not roots:
        return None
    if module is not None:
        module.zero_grad(set_to_none=True)
    leaves = [each for each in tensors_of(inputs) if each.requires_grad and each.is_leaf]
    for leaf in leaves:
        leaf.grad = None
    wanted = incoming(roots, seed)
    backward(roots, wanted if layout is None else [layout(each) for each in wanted])
    found: dict[str, Any] = {"inputs": [_plain(leaf.grad) for leaf in leaves], "parameters": {}}
    if module is not None and matching is not None:
        own = state_of(module)
        for theirs, mine in matching.names.items():
            if mine in own:
                found["parameters"][theirs] = _plain(own[mine].grad) if own[mine].requires_grad else None
    return found


def incoming(roots: list[torch.Tensor], seed: int) -> list[torch.Tensor]:
    """Return a gradient for each root: magnitudes from 0.5 to 1.5 of either sign, exact in every dtype."""
    chance = torch.Generator().manual_seed(seed)
    made = []
    for root in roots:
        size = torch.randint(64, 193, root.shape, generator=chance)
        sign = torch.randint(0, 2, root.shape, generator=chance) * 2 - 1
        made.append((size * sign).to(root.device, root.dtype) / 128)
    return made


def _plain(gradient: torch.Tensor | None) -> torch.Tensor | None:
    if gradient is None or gradient.layout is torch.strided:
        return gradient
    return gradient.to_dense()
