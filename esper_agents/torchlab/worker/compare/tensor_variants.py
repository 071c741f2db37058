"""Variants of tensors: other memory layouts and numbers that shortcuts do not expect."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

Change = Callable[[torch.Tensor], torch.Tensor]
_IMAGE = 4
_FILLED = 0.1


def _transposed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.transpose(0, -1).contiguous().transpose(0, -1) if tensor.dim() > 1 else tensor


def _strided(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same numbers in every second element, with unused numbers between them."""
    if not tensor.dim():
        return tensor
    room = _guarded((*tensor.shape[:-1], 2 * tensor.shape[-1]), tensor)
    return room[..., ::2].copy_(tensor)


def _offset(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same numbers one element into a larger storage, at an unaligned address."""
    room = _guarded((tensor.numel() + 2,), tensor)
    return room[1:-1].view(tensor.shape).copy_(tensor)


def _guarded(shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
    filler = float("nan") if like.is_floating_point() or like.is_complex() else True if like.dtype is torch.bool else 77
    return torch.full(shape, filler, dtype=like.dtype, device=like.device)


def _expanded(tensor: torch.Tensor) -> torch.Tensor:
    return tensor[:1].clone().expand(tensor.shape) if tensor.dim() and tensor.shape[0] > 1 else tensor


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone(memory_format=torch.channels_last) if tensor.dim() == _IMAGE else tensor


LAYOUTS: tuple[tuple[str, Change], ...] = (
    ("transposed memory", _transposed),
    ("every second place of memory", _strided),
    ("memory that is not aligned", _offset),
    ("one row expanded", _expanded),
    ("channels last", _channels_last),
)


def gradient_layout(step: str, group: str) -> Change | None:
    """Return a function that lays out the incoming gradients of a step; None where they are contiguous.

    That of a sum is one number expanded, and that of a transposed output has transposed memory.
    """
    if group != "layout":
        return None
    return _expanded if step == "one row expanded" else _transposed


def numbers(chance: torch.Generator) -> Iterator[tuple[str, Change]]:
    """Yield functions that give tensors other numbers: ties, extremes, cancellation, other distributions."""
    yield "zeros", torch.zeros_like
    yield "ones", torch.ones_like
    yield (
        "integers at their largest",
        lambda each: each if not _is_whole(each) or not each.numel() else each.max().expand_as(each).clone(),
    )
    yield "sorted", lambda each: each.flatten().sort().values.view(each.shape) if is_real(each) else each
    yield "few different numbers", lambda each: (each * 2).round() / 2 if is_real(each) else each
    yield "mostly zeros", lambda each: each * (_uniform(each, chance) < _FILLED) if is_real(each) else each
    yield "negative", lambda each: -each.abs() if is_real(each) else each
    yield "positive", lambda each: each.abs() if is_real(each) else each
    yield "far from zero", lambda each: each + 64 if is_real(each) else each
    yield "large", _scaled(lambda limits: min(limits.max**0.5 / 2, 1e4))
    yield "small", _scaled(lambda limits: limits.tiny**0.25)
    yield "smallest", _scaled(lambda limits: limits.tiny / 8)
    yield "very large", _scaled(lambda limits: limits.max**0.45)


def is_real(tensor: torch.Tensor) -> bool:
    """Return whether a tensor holds floating-point numbers of at least two bytes."""
    return tensor.is_floating_point() and tensor.element_size() > 1


def _is_whole(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() and not tensor.is_complex() and tensor.dtype is not torch.bool


def _uniform(tensor: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    return torch.rand(tensor.shape, generator=chance).to(tensor.device)


def _scaled(size: Callable[[torch.finfo], float]) -> Change:
    """Return a function that scales a tensor so that its largest finite number has a given magnitude."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not is_real(tensor) or not tensor.numel():
            return tensor
        wide = tensor.to(torch.float64)
        most = torch.where(torch.isfinite(wide), wide.abs(), 0).max().item()
        return (wide * (size(torch.finfo(tensor.dtype)) / most)).to(tensor.dtype) if most else tensor

    return change


def in_float64(tensor: torch.Tensor) -> torch.Tensor:
    """Return a floating-point tensor in float64."""
    return tensor.to(torch.float64) if is_real(tensor) else tensor


def in_format(dtype: torch.dtype) -> Change:
    """Return a function that converts floating-point tensors."""
    return lambda each: each.to(dtype) if is_real(each) else each


def row_of(number: float) -> Change:
    """Return a function that gives the second row of a tensor, or its only one, one number everywhere."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not is_real(tensor) or not tensor.dim() or not tensor.numel():
            return tensor
        made = tensor.clone(memory_format=torch.contiguous_format)
        made[min(1, tensor.shape[0] - 1)] = number
        return made

    return change


def deeper(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with one more dimension in front, of two."""
    return torch.stack((tensor, tensor.flip(0))) if tensor.dim() else tensor


def few_changed(chance: torch.Generator) -> Change:
    """Return a function that changes one number in a thousand, at least one, to expose caches of part of the input."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not is_real(tensor) or not tensor.numel():
            return tensor
        made = tensor.clone(memory_format=torch.contiguous_format)
        at = torch.randint(0, made.numel(), (1 + made.numel() // 1000,), generator=chance)
        made.view(-1)[at.to(made.device)] *= -1.5
        made.view(-1)[at.to(made.device)] += 0.25
        return made

    return change


def rows_swapped(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same numbers in another order: their sums are equal."""
    if not tensor.dim() or tensor.shape[0] <= 1:
        return tensor
    order = torch.arange(tensor.shape[0], device=tensor.device)
    order[0], order[-1] = tensor.shape[0] - 1, 0
    return tensor[order]
