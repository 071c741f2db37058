"""What square brackets make of a tensor's shape."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.review.shapes import algebra
from esper_agents.review.shapes.facts import UNKNOWN, Kind, Number, Tensor, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.review.shapes.sizes import Dim


def indexed(tensor: Tensor, parts: Sequence[ast.expr], values: Sequence[Value]) -> Value:
    """Return what indexing gives.

    Args:
        tensor: What is indexed.
        parts: What stands between the brackets, one by one.
        values: What each of them is; None for slices and for what is not known.
    """
    if tensor.is_open and _is_written_out(parts, values):
        # Who writes a colon for the last dimension writes one for each.
        tensor = _closed(tensor, sum(not _is_new(each) for each in parts))
    if tensor.is_open:
        return _of_open(tensor, parts, values)
    spread = [place for place, each in enumerate(parts) if isinstance(each, ast.Constant) and each.value is ...]
    axis, advanced = 0, 0
    for place, part in enumerate(parts):
        if place in spread:
            axis += len(tensor.dims) - axis - _consumed(parts[place + 1 :])
            continue
        step = _one(tensor, axis, part, values[place], is_alone=not advanced)
        if step is None:
            return UNKNOWN
        advanced += isinstance(values[place], Tensor)
        tensor, axis = step
    if advanced:
        return replace(tensor, places=None)
    return tensor if tensor.dims or not tensor.is_array else Number()


def _is_written_out(parts: Sequence[ast.expr], values: Sequence[Value]) -> bool:
    """Return whether an index names every dimension: it ends with a colon, and holds slices and numbers alone."""
    last = parts[-1]
    is_plain = all(
        isinstance(part, ast.Slice) or isinstance(value, Number) or _is_new(part)
        for part, value in zip(parts, values, strict=True)
    )
    return len(parts) > 1 and is_plain and isinstance(last, ast.Slice) and _is_whole(last)


def _is_new(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value is None


def _closed(tensor: Tensor, rank: int) -> Tensor:
    """Return an open tensor as one of a known rank; contiguous, if it was given or made so."""
    if len(tensor.dims) > rank:
        return tensor
    is_straight = (tensor.is_given or tensor.is_fresh) and not tensor.breaks
    dims = (None,) * (rank - len(tensor.dims)) + tensor.dims
    return Tensor(dims, False, tensor.kind, tuple(range(rank)) if is_straight else None, tensor.is_fresh)


def _one(tensor: Tensor, axis: int, part: ast.expr, value: Value, *, is_alone: bool) -> tuple[Tensor, int] | None:  # noqa: PLR0911 - one for each kind of index
    """Return the tensor after one index, and the axis for the next; None where it cannot be told."""
    if isinstance(part, ast.Constant) and part.value is None:
        return algebra.inserted(tensor, axis), axis + 1
    if axis >= len(tensor.dims) or axis < 0:
        return None
    if isinstance(part, ast.Slice):
        return algebra.sliced(
            tensor, axis, _length(part, tensor.dims[axis]), is_whole=_is_whole(part), is_stepped=part.step is not None
        ), axis + 1
    if isinstance(value, Number):
        return algebra.without(tensor, axis), axis
    if isinstance(value, Tensor) and not value.is_open and is_alone:
        if value.kind is Kind.BOOLEAN:
            dims = (*tensor.dims[:axis], None, *tensor.dims[axis + len(value.dims) :])
            return Tensor(dims, False, tensor.kind, is_array=tensor.is_array), axis + 1
        dims = (*tensor.dims[:axis], *value.dims, *tensor.dims[axis + 1 :])
        return Tensor(dims, False, tensor.kind, is_array=tensor.is_array), axis + len(value.dims)
    return None


def _of_open(tensor: Tensor, parts: Sequence[ast.expr], values: Sequence[Value]) -> Value:
    """Return what is left of an open tensor: the last sizes, as far as no index can have touched them."""
    kept = 0
    for part in reversed(parts):
        if not (isinstance(part, ast.Slice) and _is_whole(part)):
            break
        kept += 1
    is_plain = all(
        isinstance(part, ast.Slice)
        or isinstance(value, Number)
        or (isinstance(part, ast.Constant) and part.value is ...)
        for part, value in zip(parts, values, strict=True)
    )
    cuts = [isinstance(part, ast.Slice) and not _is_whole(part) for part in parts[1:]]
    if (is_plain and kept) or (all(isinstance(part, ast.Slice) for part in parts) and any(cuts)):
        ends = tensor.dims[-kept:] if kept else ()
        is_known = (tensor.is_given or tensor.is_fresh) and all(isinstance(part, ast.Slice) for part in parts)
        breaks = sum(cuts) if is_known else 0
        return Tensor((None,) * (kept - len(ends)) + ends, kind=tensor.kind, breaks=breaks)
    if is_plain and isinstance(parts[0], ast.Constant) and parts[0].value is ... and len(parts) == 2:  # noqa: PLR2004
        is_slice = isinstance(parts[1], ast.Slice)
        return Tensor((*tensor.dims[:-1], None) if is_slice else tensor.dims[:-1], kind=tensor.kind)
    return Tensor(kind=tensor.kind)


def _consumed(parts: Sequence[ast.expr]) -> int:
    return sum(not (isinstance(part, ast.Constant) and part.value is None) for part in parts)


def _is_whole(part: ast.Slice) -> bool:
    starts = part.lower is None or (isinstance(part.lower, ast.Constant) and part.lower.value == 0)
    return starts and part.upper is None and part.step is None


def _length(part: ast.Slice, size: Dim) -> Dim:
    """Return how long a slice is, where its bounds are written out."""
    if _is_whole(part):
        return size
    low, high = _number(part.lower, 0), _number(part.upper, None)
    if part.step is not None or low is None or (part.upper is not None and high is None):
        return None
    if isinstance(size, int):
        return len(range(size)[low:high])
    if high is None:
        return -low if low < 0 else None
    return high - low if 0 <= low <= high else None


def _number(node: ast.expr | None, absent: int | None) -> int | None:
    if node is None:
        return absent
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return -node.operand.value if isinstance(node.operand.value, int) else None
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else None
