"""State that calls change, and gradients that they leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..explain.compile_runs import message
from ..profile.call_runner import tensors_in
from ..target.target import mapped
from ..target.user_lines import plain
from .calls import ANOTHER_SEED, MOST_NAMES, TRAINING, is_same
from .result import GradientFlow, StateChange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..target.input_spec import Inputs
    from .calls import TargetCalls


def changes(calls: TargetCalls, mode: str) -> StateChange:
    """Return what a forward pass changes in a module, without gradients as in evaluation, with them in training."""
    module = calls.module(mode)
    if module is None:
        return StateChange(mode=mode)
    before = {name: each.detach().clone() for name, each in _tensors(module)}
    plain_before = dict(_attributes(module))
    calls.run(calls.inputs(), mode, module=module, grad=mode == TRAINING)
    tensors = [name for name, each in _tensors(module) if not _is_equal(before.get(name), each.detach())]
    attributes = [name for name, each in _attributes(module) if not _is_equal(plain_before.get(name, _ABSENT), each)]
    return StateChange(mode=mode, tensors=tuple(tensors[:MOST_NAMES]), attributes=tuple(attributes[:MOST_NAMES]))


def _tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


_ABSENT = object()


def _attributes(module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield numbers, texts and tensors that are attributes of a module's parts, and the lengths of lists."""
    for prefix, part in module.named_modules():
        for name, each in vars(part).items():
            if (name.startswith("_") and name.lstrip("_") in _OF_TORCH) or name == "training":
                continue
            full = f"{prefix}.{name}" if prefix else name
            if isinstance(each, torch.Tensor):
                yield full, each.detach().clone()
            elif isinstance(each, int | float | str | bool):
                yield full, each
            elif isinstance(each, list | dict):
                yield full, len(each)


_OF_TORCH = frozenset(
    name.lstrip("_")
    for name in (*vars(torch.nn.Module()), "flat_weights", "is_full_backward_hook", "is_hf_initialized")
)


def _is_equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and torch.equal(_plain(one), _plain(other))
    return type(one) is type(other) and one == other


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.nan_to_num() if tensor.is_floating_point() else tensor


def is_lost(calls: TargetCalls, changes: tuple[StateChange, ...]) -> bool | None:
    """Return whether attributes that calls change are missing after saving and loading; None if that is not known."""
    if not calls.can_copy or not any(each.attributes for each in changes):
        return None
    used, loaded = calls.module(TRAINING), calls.module(TRAINING)
    if used is None or loaded is None:
        return None
    try:
        calls.run(calls.inputs(), TRAINING, module=used, seed=ANOTHER_SEED)
        loaded.load_state_dict(used.state_dict())
        one, other = (calls.run(calls.inputs(), TRAINING, module=each) for each in (used, loaded))
    except Exception:  # noqa: BLE001 - the user's code raises any error
        return None
    return not is_same(one, other)


def floating(inputs: Inputs) -> Inputs:
    """Return inputs whose floating-point tensors require gradients."""
    return mapped(
        inputs, lambda each: each.detach().clone().requires_grad_(each.is_floating_point() or each.is_complex())
    )


def gradients(calls: TargetCalls) -> GradientFlow | None:
    """Return the gradients after one backward pass in training mode; None if no output requires one."""
    mode = calls.modes[-1]
    module = calls.module(mode)
    inputs = floating(calls.inputs())
    named = dict(module.named_parameters()) if module is not None else {}
    frozen = tuple(name for name, each in named.items() if not each.requires_grad)[:MOST_NAMES]
    wanted = {name: each for name, each in named.items() if each.requires_grad}
    leaves = [(name, each) for name, each in calls.named(inputs) if each.requires_grad]
    try:
        roots = [each for each in tensors_in(calls.run(inputs, mode, module=module, grad=True)) if each.requires_grad]
        if not roots:
            return None
        # Unequal weights: the sum of a softmax has no gradient.
        chance = torch.Generator().manual_seed(0)
        weights = [torch.rand(each.shape, generator=chance).to(each.device, each.dtype) for each in roots]
        torch.autograd.backward(roots, weights)
    except Exception as error:  # noqa: BLE001 - the user's code raises any error, and that is the result
        said = plain(calls.target, message(error))
        return GradientFlow(error=said, place=calls.place_of(error), parameters=len(wanted), frozen=frozen)
    zero = [name for name, each in wanted.items() if each.grad is not None and not bool(each.grad.any())]
    return GradientFlow(
        parameters=len(wanted),
        without=tuple(name for name, each in wanted.items() if each.grad is None)[:MOST_NAMES],
        zero=tuple(zero[:MOST_NAMES]),
        frozen=frozen,
        inputs=tuple(name for name, each in leaves if each.grad is not None and bool(each.grad.any())),
        inputs_without=tuple(name for name, each in leaves if each.grad is None or not bool(each.grad.any())),
    )
