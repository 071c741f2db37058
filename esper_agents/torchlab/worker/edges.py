"""Derives from a target's inputs the ones that break what was written for the common case only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .structure import map_tensors, tensors_of

_Change = Callable[[torch.Tensor], torch.Tensor]
# In bytes of an input: what is derived from larger ones is derived from their first rows.
_SMALL = 4 << 20


@dataclass
class Edge:
    """Inputs derived from others.

    Attributes:
        name: What they are, such as `leading dimension 1`.
        group: `history`, `sizes`, `layout`, `numbers` or `precision`.
        args: Positional arguments.
        kwargs: Arguments by name.
    """

    name: str
    group: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def derive(args: tuple[Any, ...], kwargs: dict[str, Any], seed: int) -> Iterator[Edge]:
    """Yield everything that can be derived from inputs; those that poison a target's hidden state come last.

    Args:
        args: Positional arguments of a plain call.
        kwargs: Its arguments by name.
        seed: Of what is random in the edges.
    """
    base = _shortened((args, kwargs))
    whole, tensors = (args, kwargs), tensors_of(base)
    chance = torch.Generator().manual_seed(seed)
    changes: list[tuple[str, str, _Change | None, Any]] = [
        ("few elements changed", "history", _few_changed(chance), whole),
        ("two rows swapped", "history", _rows_swapped, whole),
        *((name, "sizes", change, base) for name, change in _sizes(tensors)),
        *((name, "layout", change, base) for name, change in _LAYOUTS),
        *((name, "numbers", change, base) for name, change in _numbers(tensors, chance)),
        ("float64", "precision", _in_float64, base),
    ]
    for name, group, change, inputs in changes:
        edge = _changed(name, group, inputs, change)
        if edge is not None:
            yield edge
    yield from _passed_twice(base, tensors)
    yield from _planted(base, tensors, chance)


def _changed(name: str, group: str, inputs: Any, change: _Change | None) -> Edge | None:
    """Return an edge, or None where it would be the same as what it is derived from."""
    if change is None:
        return None
    touched = False

    def once(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal touched
        if not _is_plain(tensor):
            return tensor
        made = change(tensor.detach())
        touched = touched or made is not tensor and not _is_same(made, tensor)
        return made.requires_grad_(tensor.requires_grad and made.is_floating_point())

    try:
        args, kwargs = map_tensors(inputs, once)
    except (RuntimeError, NotImplementedError):
        # Some dtypes lack the operation that would make this edge.
        return None
    return Edge(name, group, args, kwargs) if touched else None


def _is_plain(tensor: torch.Tensor) -> bool:
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (
        one.dtype == other.dtype
        and one.shape == other.shape
        and one.stride() == other.stride()
        and one.storage_offset() == other.storage_offset()
        and torch.equal(one, other)
    )


def _shortened(inputs: Any) -> Any:
    """Return the inputs with as many leading rows as keeps them small."""
    tensors = [each for each in tensors_of(inputs) if _is_plain(each)]
    size = sum(each.nbytes for each in tensors)
    rows = _leading(tensors)
    if size <= _SMALL or rows is None:
        return inputs
    fewer = max(8, rows * _SMALL // size)
    return map_tensors(inputs, _cut(rows, fewer))


def _leading(tensors: list[torch.Tensor]) -> int | None:
    return next((int(each.shape[0]) for each in tensors if _is_plain(each) and each.dim()), None)


def _cut(rows: int, size: int) -> _Change:
    """Return what gives every tensor with so many rows another number of them, by leaving out or repeating."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not _is_plain(tensor) or not tensor.dim() or tensor.shape[0] != rows:
            return tensor
        plain = tensor.detach()
        made = plain[:size].clone() if size <= rows else plain[torch.arange(size, device=plain.device) % rows]
        return made.requires_grad_(tensor.requires_grad)

    return change


def _sizes(tensors: list[torch.Tensor]) -> Iterator[tuple[str, _Change]]:
    rows = _leading(tensors)
    if rows:
        odd = rows - 1 - rows % 2 if rows > 3 else rows + 1 + rows % 2
        for name, size in (("1", 1), (str(odd), odd), (str(rows + 3), rows + 3), ("0", 0)):
            yield f"leading dimension {name}", _cut(rows, size)
    last = next((each.shape[-1] for each in tensors if _is_plain(each) and each.dim() > 1), None)
    if last is not None and last > 1:
        yield f"last dimension {last - 1}", _cut_last(last)


def _cut_last(size: int) -> _Change:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        return tensor[..., : size - 1].clone() if tensor.dim() and tensor.shape[-1] == size else tensor

    return change


def _transposed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.transpose(0, -1).contiguous().transpose(0, -1) if tensor.dim() > 1 else tensor


def _strided(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same numbers in every second place, with numbers between them that nobody may read."""
    if not tensor.dim():
        return tensor
    room = _guarded((*tensor.shape[:-1], 2 * tensor.shape[-1]), tensor)
    return room[..., ::2].copy_(tensor)


def _offset(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same numbers one element into a larger storage, at an address that is not aligned."""
    room = _guarded((tensor.numel() + 2,), tensor)
    return room[1:-1].view(tensor.shape).copy_(tensor)


def _guarded(shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
    filler = float("nan") if like.is_floating_point() or like.is_complex() else True if like.dtype is torch.bool else 77
    return torch.full(shape, filler, dtype=like.dtype, device=like.device)


def _expanded(tensor: torch.Tensor) -> torch.Tensor:
    return tensor[:1].clone().expand(tensor.shape) if tensor.dim() and tensor.shape[0] > 1 else tensor


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


_LAYOUTS: tuple[tuple[str, _Change], ...] = (
    ("transposed memory", _transposed),
    ("every second place of memory", _strided),
    ("memory that is not aligned", _offset),
    ("one row expanded", _expanded),
    ("channels last", _channels_last),
)


def _numbers(tensors: list[torch.Tensor], chance: torch.Generator) -> Iterator[tuple[str, _Change]]:
    yield "zeros", torch.zeros_like
    yield "ones", torch.ones_like
    yield (
        "integers at their largest",
        lambda each: each if not _is_whole(each) or not each.numel() else each.max().expand_as(each).clone(),
    )
    yield "sorted", lambda each: each.flatten().sort().values.view(each.shape) if _is_real(each) else each
    yield "few different numbers", lambda each: (each * 2).round() / 2 if _is_real(each) else each
    yield "mostly zeros", lambda each: each * (_uniform(each, chance) < 0.1) if _is_real(each) else each
    yield "negative", lambda each: -each.abs() if _is_real(each) else each
    yield "positive", lambda each: each.abs() if _is_real(each) else each
    yield "far from zero", lambda each: each + 64 if _is_real(each) else each
    yield "large", _scaled(lambda limits: min(limits.max**0.5 / 2, 1e4))
    yield "small", _scaled(lambda limits: limits.tiny**0.25)
    yield "smallest", _scaled(lambda limits: limits.tiny / 8)
    yield "very large", _scaled(lambda limits: limits.max**0.45)


def _is_real(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.element_size() > 1


def _is_whole(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() and not tensor.is_complex() and tensor.dtype is not torch.bool


def _uniform(tensor: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    return torch.rand(tensor.shape, generator=chance).to(tensor.device)


def _scaled(size: Callable[[torch.finfo], float]) -> _Change:
    """Return what scales a tensor so that its largest finite number has a certain size."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not _is_real(tensor) or not tensor.numel():
            return tensor
        wide = tensor.to(torch.float64)
        most = torch.where(torch.isfinite(wide), wide.abs(), 0).max().item()
        return (wide * (size(torch.finfo(tensor.dtype)) / most)).to(tensor.dtype) if most else tensor

    return change


def _in_float64(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float64) if _is_real(tensor) else tensor


def _few_changed(chance: torch.Generator) -> _Change:
    """Return what changes one number in a thousand, at least one: what looks at some of the input must not miss it."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not _is_real(tensor) or not tensor.numel():
            return tensor
        made = tensor.clone(memory_format=torch.contiguous_format)
        at = torch.randint(0, made.numel(), (1 + made.numel() // 1000,), generator=chance)
        made.view(-1)[at.to(made.device)] *= -1.5
        made.view(-1)[at.to(made.device)] += 0.25
        return made

    return change


def _rows_swapped(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same numbers in another order: sums of them tell no difference."""
    if not tensor.dim() or tensor.shape[0] < 2:
        return tensor
    order = torch.arange(tensor.shape[0], device=tensor.device)
    order[0], order[-1] = tensor.shape[0] - 1, 0
    return tensor[order]


def _passed_twice(inputs: Any, tensors: list[torch.Tensor]) -> Iterator[Edge]:
    """Yield inputs in which a tensor stands in the place of another one of the same kind, too."""
    for first, second in ((i, j) for j in range(len(tensors)) for i in range(j)):
        one, other = tensors[first], tensors[second]
        if one is not other and (one.shape, one.dtype) == (other.shape, other.dtype):
            places = iter(range(len(tensors)))

            def change(tensor: torch.Tensor, places: Iterator[int] = places, at: int = second, by: Any = one) -> Any:
                return by if next(places) == at else tensor

            args, kwargs = map_tensors(inputs, change)
            yield Edge("one tensor in two places", "layout", args, kwargs)
            return


def _planted(inputs: Any, tensors: list[torch.Tensor], chance: torch.Generator) -> Iterator[Edge]:
    """Yield inputs with something that is no number in a random place, for each of the first three tensors that are data.

    Data is what has the leading dimension of the first tensor. Others are weights, as a rule, and who multiplies them with a zero
    of padding and who leaves that out differ without a fault.
    """
    rows = _leading(tensors)
    able = [
        number
        for number, each in enumerate(tensors)
        if _is_plain(each) and _is_real(each) and each.numel() and (not each.dim() or each.shape[0] == rows)
    ][:3]
    for name, number in (("infinity", float("inf")), ("-infinity", -float("inf")), ("NaN", float("nan"))):
        for count, target in enumerate(able, start=1):
            places = iter(range(len(tensors)))

            def change(
                tensor: torch.Tensor, places: Iterator[int] = places, at: int = target, by: float = number
            ) -> Any:
                if next(places) != at:
                    return tensor
                made = tensor.detach().clone(memory_format=torch.contiguous_format)
                made.view(-1)[int(torch.randint(0, made.numel(), (1,), generator=chance))] = by
                return made.requires_grad_(tensor.requires_grad)

            args, kwargs = map_tensors(inputs, change)
            yield Edge(f"{name} in tensor {count}", "numbers", args, kwargs)
