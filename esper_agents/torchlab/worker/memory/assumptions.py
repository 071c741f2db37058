"""Assumptions of an estimate for code that depends on numbers, which an estimate does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

_aten = torch.ops.aten


class EstimateAssumption(NamedTuple):
    """One assumption of an estimate.

    Attributes:
        what: The assumption in words.
        is_answer: Whether `answer` is the operation's result; otherwise its arguments.
        answer: Result or arguments.
    """

    what: str
    is_answer: bool
    answer: Any


def assume(func: Any, args: Any, kwargs: Any, mode: FakeTensorMode) -> EstimateAssumption | None:
    """Return the assumption for an operation; None if it does not depend on numbers.

    Comparisons are assumed false, so that checks such as `if loss.isnan()` do not end the step; other numbers are one.
    Masks are assumed to keep everything, the maximum.
    """
    if func in _ANSWERS:
        return _ANSWERS[func](args, mode)
    if func.name().startswith(_INDEXING) and len(args) > 1:
        return _without_masks(args, kwargs, mode)
    return None


def _of_number(args: Any, _mode: FakeTensorMode) -> EstimateAssumption | None:
    if getattr(args[0], "constant", None) is not None:
        return None
    dtype = args[0].dtype
    answer: bool | float = 1.0 if dtype.is_floating_point or dtype.is_complex else 1
    if dtype is torch.bool:
        answer = False
    return EstimateAssumption(f"a number that is read from a tensor is {answer}", True, answer)


def _of_nonzero(args: Any, mode: FakeTensorMode) -> EstimateAssumption:
    (tensor,) = args
    return EstimateAssumption(_KEEPS, True, _empty(mode, tensor, (tensor.numel(), tensor.dim()), torch.int64))


def _of_masked_select(args: Any, mode: FakeTensorMode) -> EstimateAssumption:
    shape = torch.broadcast_shapes(args[0].shape, args[1].shape)
    return EstimateAssumption(_KEEPS, True, _empty(mode, args[0], (shape.numel(),), args[0].dtype))


_KEEPS = "a mask keeps everything"
_INDEXING = ("aten::index", "aten::_index_put", "aten::_unsafe_index")
_ANSWERS: dict[Any, Callable[[Any, FakeTensorMode], EstimateAssumption | None]] = {
    _aten._local_scalar_dense.default: _of_number,  # noqa: SLF001 - called by `.item()`
    _aten.equal.default: lambda _args, _mode: EstimateAssumption("tensors that are compared differ", True, False),
    _aten.nonzero.default: _of_nonzero,
    _aten.masked_select.default: _of_masked_select,
}


def _without_masks(args: Any, kwargs: Any, mode: FakeTensorMode) -> EstimateAssumption | None:
    if not isinstance(args[1], (list, tuple)) or not any(_is_mask(each) for each in args[1]):
        return None
    indices: list[torch.Tensor | None] = []
    for each in args[1]:
        if _is_mask(each):
            indices += [_empty(mode, each, (each.numel(),), torch.int64) for _ in range(each.dim())]
        else:
            indices.append(each)
    return EstimateAssumption(_KEEPS, False, ((args[0], indices, *args[2:]), kwargs))


def _is_mask(thing: Any) -> bool:
    return isinstance(thing, torch.Tensor) and thing.dtype in (torch.bool, torch.uint8)


def _empty(mode: FakeTensorMode, like: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    with mode:
        return torch.empty(shape, dtype=dtype, device=like.device)
