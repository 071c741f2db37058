"""Inputs of timed calls: drawn in one process and sent to both arms, so that no arm makes its own."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch

from ..target.input_spec import Inputs
from ..target.pytrees import describe, rebuild, tensors_of
from ..target.target import LoadedTarget, mapped, on_device
from .input_probe import needs_template
from .tensor_bundle import Bundle, BundleError, capture, write

if TYPE_CHECKING:
    from .tensor_bundle import Piece

_VARIATION = 1e-3


def drawn(target: LoadedTarget, calls: int, *, train: bool) -> list[Inputs]:
    """Return new inputs for a number of calls, none equal to earlier ones if they can be varied.

    Args:
        target: Target whose inputs they are; its note `repeats` says whether it makes the same ones each time.
        calls: Number of calls.
        train: Whether they require gradients.
    """
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


def repeats(target: LoadedTarget) -> bool:
    """Return whether inputs are the same each time, so that caching results would look like speed."""
    one, other = (tensors_of((each.args, each.kwargs)) for each in (target.inputs(1), target.inputs(2)))
    return bool(one) and len(one) == len(other) and all(map(_is_same, one, other))


def bundled(batch: list[Inputs]) -> tuple[int, ...]:
    """Return the descriptor of a bundle with the inputs; nothing if another process cannot rebuild them.

    Inputs of one shape are stacked: a record for each call would take longer than the calls.
    """
    if not batch:
        return ()
    first = capture((batch[0].args, batch[0].kwargs), is_whole=True)
    if _is_strange(first):
        return ()
    stacks = _stacked(batch)
    if stacks is not None:
        return (write({"first": first, "stacks": capture(stacks)}, {"calls": len(batch)}),)
    every = capture([(each.args, each.kwargs) for each in batch], is_whole=True)
    return () if _is_strange(every) else (write({"every": every}, {"calls": len(batch)}),)


def unbundled(descriptor: int) -> list[Inputs]:
    """Return the inputs of a bundle, in memory of this process.

    Raises:
        BundleError: It does not hold inputs.
    """
    bundle = Bundle(descriptor)
    if "every" in bundle.pieces:
        return [Inputs(tuple(args), dict(kwargs)) for args, kwargs in bundle.pieces["every"].restore()]
    first = bundle.pieces["first"]
    stacks = bundle.pieces["stacks"].views()
    needs = [tensor["requires_grad"] for tensor in first.tensors]
    made = []
    for number in range(int(bundle.about["calls"])):
        tensors = []
        for stack, needed in zip(stacks, needs, strict=True):
            if stack is None:
                raise BundleError("inputs without numbers")
            tensors.append(stack[number].clone().requires_grad_(needed))
        args, kwargs = rebuild(first.tree, tensors, None)
        made.append(Inputs(tuple(args), dict(kwargs)))
    return made


def _is_strange(piece: Piece) -> bool:
    return needs_template(piece.tree) or any(
        "problem" in tensor or tensor["device"] != "cpu" for tensor in piece.tensors
    )


def _stacked(batch: list[Inputs]) -> list[torch.Tensor] | None:
    """Return one tensor with a row for each call, for each tensor of the inputs; None if the calls are not alike."""
    tree: Any = None
    columns: list[list[torch.Tensor]] = []
    for each in batch:
        row: list[torch.Tensor] = []
        described = describe((each.args, each.kwargs), row)
        if tree is None:
            tree, columns = described, [[] for _ in row]
        if described != tree or len(row) != len(columns):
            return None
        for column, tensor in zip(columns, row, strict=True):
            if not _is_alike(tensor, column):
                return None
            column.append(tensor.detach())
    return [torch.stack(column) for column in columns]


def _is_alike(tensor: torch.Tensor, column: list[torch.Tensor]) -> bool:
    is_plain = (
        type(tensor) is torch.Tensor and tensor.is_leaf and tensor.is_contiguous() and not tensor.storage_offset()
    )
    if not is_plain or not column:
        return is_plain
    first = column[0]
    return tensor.shape == first.shape and tensor.dtype == first.dtype and tensor.data_ptr() != first.data_ptr()


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)


def _varied(inputs: Inputs) -> Inputs:
    """Return inputs whose numbers differ from all earlier ones in the last digits."""

    def vary(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        return tensor * (1 + _VARIATION * torch.rand_like(tensor))

    return mapped(inputs, vary)
