"""Derive edge-case inputs from a target's inputs, to break code written for the common case only."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ..target.pytrees import map_tensors, tensors_of
from .tensor_variants import (
    LAYOUTS,
    Change,
    deeper,
    few_changed,
    in_float64,
    in_format,
    is_real,
    numbers,
    row_of,
    rows_swapped,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

# Input size in bytes; edge cases of larger inputs use their first rows.
_SMALL = 4 << 20
_FEW_ROWS = 4
_FEWEST_ROWS = 8
_TWO = 2


@dataclass
class EdgeCase:
    """Edge-case inputs, derived from other inputs.

    Attributes:
        name: Description, such as `leading dimension 1`.
        group: `history`, `sizes`, `layout`, `numbers`, `precision` or `further`.
        args: Positional arguments.
        kwargs: Keyword arguments.
    """

    name: str
    group: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def derive(args: tuple[Any, ...], kwargs: dict[str, Any], seed: int, *, rows: int | None = None) -> Iterator[EdgeCase]:
    """Yield all edge cases of the inputs; those that poison a target's hidden state come last.

    Args:
        args: Positional arguments of a plain call.
        kwargs: Its keyword arguments.
        seed: Seed of random choices in the edge cases.
        rows: Number of leading rows that they keep; those that keep them small if None.
    """
    base = _shortened((args, kwargs), rows)
    whole, tensors = (args, kwargs), tensors_of(base)
    chance = torch.Generator().manual_seed(seed)
    changes: list[tuple[str, str, Change | None, Any]] = [
        ("few elements changed", "history", few_changed(chance), whole),
        ("two rows swapped", "history", rows_swapped, whole),
        *((name, "sizes", change, base) for name, change in _sizes(tensors)),
        *((name, "layout", change, base) for name, change in LAYOUTS),
        *((name, "numbers", change, base) for name, change in numbers(chance)),
        ("float64", "precision", in_float64, base),
    ]
    for name, group, change, inputs in changes:
        edge = _changed(name, group, inputs, change)
        if edge is not None:
            yield edge
    yield from _passed_twice(base, tensors)
    yield from _in_one_memory(base, tensors)
    yield from _planted(base, tensors, chance)


def derive_further(args: tuple[Any, ...], kwargs: dict[str, Any], *, rows: int | None = None) -> Iterator[EdgeCase]:
    """Yield edge cases that are tried as far as there is time, the most common uses first.

    Args:
        args: Positional arguments of a plain call.
        kwargs: Its keyword arguments.
        rows: Number of leading rows that they keep; those that keep them small if None.
    """
    base = _shortened((args, kwargs), rows)
    tensors = tensors_of(base)
    rows = _leading(tensors)
    last = next((tensor.shape[-1] for tensor in tensors if _is_plain(tensor) and tensor.dim() > 1), None)
    changes: list[tuple[str, Change | None]] = [
        ("bfloat16", in_format(torch.bfloat16)),
        ("float16", in_format(torch.float16)),
        ("a row of zeros", _of_rows(row_of(0.0), rows)),
        ("a row of NaN", _of_rows(row_of(float("nan")), rows)),
        ("a row of infinities", _of_rows(row_of(float("inf")), rows)),
        ("leading dimension 2", _cut(rows, _TWO) if rows and rows != _TWO else None),
        (f"leading dimension {2 * (rows or 0)}", _cut(rows, _TWO * rows) if rows else None),
        ("last dimension 1", _cut_last(last, 1) if last is not None and last > _TWO else None),
        ("one more dimension", deeper),
    ]
    for name, change in changes:
        edge = _changed(name, "further", base, change)
        if edge is not None:
            yield edge


def without_defaults(call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> EdgeCase | None:
    """Return the inputs without the arguments that have a default; None if there are none, or it is not known.

    Args:
        call: The baseline.
        args: Positional arguments of a plain call.
        kwargs: Its keyword arguments.
    """
    try:
        parameters = inspect.signature(call).parameters
    except (TypeError, ValueError):
        return None
    optional = [_is_optional(each) for each in parameters.values()]
    needed = optional.index(True) if True in optional else len(args)
    fewer = {
        name: each for name, each in kwargs.items() if name not in parameters or not _is_optional(parameters[name])
    }
    if len(args) <= needed and len(fewer) == len(kwargs):
        return None
    return EdgeCase("defaults of arguments", "further", args[:needed], fewer)


def _is_optional(parameter: inspect.Parameter) -> bool:
    return parameter.default is not parameter.empty


def _of_rows(change: Change, rows: int | None) -> Change:
    """Return a function for data alone: tensors without the leading dimension are usually weights."""
    return lambda each: change(each) if each.dim() and each.shape[0] == rows else each


def _changed(name: str, group: str, inputs: Any, change: Change | None) -> EdgeCase | None:
    """Return an edge case, or None if it would equal its source."""
    if change is None:
        return None
    touched = False

    def once(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal touched
        if not _is_plain(tensor):
            return tensor
        made = change(tensor.detach())
        touched = touched or not (made is tensor or _is_same(made, tensor))
        return made.requires_grad_(tensor.requires_grad and made.is_floating_point())

    try:
        args, kwargs = map_tensors(inputs, once)
    except (RuntimeError, NotImplementedError):
        # Some dtypes lack the operation for this edge case.
        return None
    return EdgeCase(name, group, args, kwargs) if touched else None


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


def with_rows(args: tuple[Any, ...], kwargs: dict[str, Any], share: float) -> tuple[int, Any] | None:
    """Return a number of leading rows and the inputs with so many; None if they have no fewer.

    Args:
        args: Positional arguments of a plain call.
        kwargs: Its keyword arguments.
        share: Share of the rows to keep.
    """
    rows = _leading(tensors_of((args, kwargs)))
    fewer = max(_FEWEST_ROWS, int((rows or 0) * share))
    return (fewer, map_tensors((args, kwargs), _cut(rows, fewer))) if rows is not None and fewer < rows else None


def _shortened(inputs: Any, kept: int | None) -> Any:
    """Return the inputs with these leading rows, or with as many as keep them small."""
    tensors = [each for each in tensors_of(inputs) if _is_plain(each)]
    size = sum(tensor.nbytes for tensor in tensors)
    rows = _leading(tensors)
    if kept is not None and rows is not None:
        return map_tensors(inputs, _cut(rows, kept))
    if size <= _SMALL or rows is None:
        return inputs
    fewer = max(_FEWEST_ROWS, rows * _SMALL // size)
    return map_tensors(inputs, _cut(rows, fewer))


def _leading(tensors: list[torch.Tensor]) -> int | None:
    return next((int(tensor.shape[0]) for tensor in tensors if _is_plain(tensor) and tensor.dim()), None)


def _cut(rows: int, size: int) -> Change:
    """Return a function that gives every tensor with this number of rows another number, by cutting or repeating."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not _is_plain(tensor) or not tensor.dim() or tensor.shape[0] != rows:
            return tensor
        plain = tensor.detach()
        made = plain[:size].clone() if size <= rows else plain[torch.arange(size, device=plain.device) % rows]
        return made.requires_grad_(tensor.requires_grad)

    return change


def _sizes(tensors: list[torch.Tensor]) -> Iterator[tuple[str, Change]]:
    rows = _leading(tensors)
    if rows:
        odd = rows - 1 - rows % 2 if rows >= _FEW_ROWS else rows + 1 + rows % 2
        for name, size in (("1", 1), (str(odd), odd), (str(rows + 3), rows + 3), ("0", 0)):
            yield f"leading dimension {name}", _cut(rows, size)
    last = next((tensor.shape[-1] for tensor in tensors if _is_plain(tensor) and tensor.dim() > 1), None)
    if last is not None and last > 1:
        yield f"last dimension {last - 1}", _cut_last(last, last - 1)


def _cut_last(size: int, kept: int) -> Change:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        return tensor[..., :kept].clone() if tensor.dim() and tensor.shape[-1] == size else tensor

    return change


def _passed_twice(inputs: Any, tensors: list[torch.Tensor]) -> Iterator[EdgeCase]:
    """Yield inputs in which one tensor is also passed in place of another of the same kind."""
    for first, second in ((i, j) for j in range(len(tensors)) for i in range(j)):
        one, other = tensors[first], tensors[second]
        if one is not other and (one.shape, one.dtype) == (other.shape, other.dtype):
            places = iter(range(len(tensors)))

            def change(tensor: torch.Tensor, places: Iterator[int] = places, at: int = second, by: Any = one) -> Any:
                return by if next(places) == at else tensor

            args, kwargs = map_tensors(inputs, change)
            yield EdgeCase("one tensor in two places", "layout", args, kwargs)
            return


def _in_one_memory(inputs: Any, tensors: list[torch.Tensor]) -> Iterator[EdgeCase]:
    """Yield inputs that are parts of one memory, as those are that a chunk or an unbind returns."""
    able = [number for number, each in enumerate(tensors) if _is_plain(each) and each.numel() and each.dim()]
    alike = [each for each in able if tensors[each].dtype == tensors[able[0]].dtype]
    if len(alike) < _TWO:
        return
    parts = [tensors[each].detach() for each in alike]
    room = torch.cat([each.reshape(-1) for each in parts]).split([each.numel() for each in parts])
    made = {at: each.view(part.shape) for at, each, part in zip(alike, room, parts, strict=True)}
    places = iter(range(len(tensors)))

    def change(tensor: torch.Tensor) -> torch.Tensor:
        part = made.get(next(places))
        return tensor if part is None else part.detach().requires_grad_(tensor.requires_grad)

    args, kwargs = map_tensors(inputs, change)
    yield EdgeCase("parts of one memory", "layout", args, kwargs)


def _planted(inputs: Any, tensors: list[torch.Tensor], chance: torch.Generator) -> Iterator[EdgeCase]:
    """Yield inputs with a NaN or Inf at a random position, for each of three data tensors.

    A data tensor has the leading dimension of the first tensor. Others are usually weights: code that multiplies them
    by zero padding and code that skips the padding differ legitimately.
    """
    rows = _leading(tensors)
    able = [
        number
        for number, each in enumerate(tensors)
        if _is_plain(each) and is_real(each) and each.numel() and (not each.dim() or each.shape[0] == rows)
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
            yield EdgeCase(f"{name} in tensor {count}", "numbers", args, kwargs)
