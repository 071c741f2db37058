"""Methods of tensors that change a shape and no number."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from esper_agents.review.shapes import algebra
from esper_agents.review.shapes.facts import UNKNOWN, Items, Many, Tensor, Value, fresh
from esper_agents.review.shapes.sizes import divided, product

if TYPE_CHECKING:
    from collections.abc import Callable

    from esper_agents.review.shapes.given import Given
    from esper_agents.review.shapes.sizes import Dim


def _viewed(tensor: Tensor, given: Given) -> Value:
    sizes = given.sizes()
    return algebra.reshaped(tensor, sizes) if sizes is not None else UNKNOWN


def _view_as(tensor: Tensor, given: Given) -> Value:
    other = given.at(0, "other")
    return replace(other, kind=tensor.kind) if isinstance(other, Tensor) else UNKNOWN


def _flattened(tensor: Tensor, given: Given) -> Value:
    if tensor.is_array:
        return Tensor((product(tensor.dims) if not tensor.is_open else None,), False, is_array=True)
    start, end = given.number(0, "start_dim", 0), given.number(1, "end_dim", -1)
    return algebra.flattened(tensor, start, end) if start is not None and end is not None else UNKNOWN


def _unsqueezed(tensor: Tensor, given: Given) -> Value:
    axis = given.number(0, "dim", given.number(0, "axis"))
    return algebra.unsqueezed(tensor, axis) if axis is not None else UNKNOWN


def _squeezed(tensor: Tensor, given: Given) -> Value:
    if not given.has(0, "dim") and "axis" not in given.named:
        return algebra.squeezed(tensor, None)
    axis = given.number(0, "dim", given.number(0, "axis"))
    return algebra.squeezed(tensor, axis) if axis is not None else UNKNOWN


def _permuted(tensor: Tensor, given: Given) -> Value:
    sizes = given.sizes(0, "dims")
    order = [size for size in sizes or () if isinstance(size, int)]
    return algebra.permuted(tensor, order) if sizes and len(order) == len(sizes) else UNKNOWN


def _transposed(tensor: Tensor, given: Given) -> Value:
    if tensor.is_array:
        return _permuted(tensor, given) if given.values else mirrored(tensor)
    one, two = given.number(0, "dim0"), given.number(1, "dim1")
    return algebra.transposed(tensor, one, two) if one is not None and two is not None else UNKNOWN


def _turned(tensor: Tensor, given: Given) -> Value:  # noqa: ARG001 - one signature for all
    if tensor.rank in {0, 1, 2}:
        return mirrored(tensor)
    # It takes nothing but a matrix, which a `view` of two sizes may leave as it is.
    return replace(algebra.transposed(tensor, -1, -2), breaks=1)


def mirrored(tensor: Tensor) -> Tensor:
    """Return what `.T` gives."""
    if tensor.is_open:
        return UNKNOWN
    return algebra.permuted(tensor, list(range(len(tensor.dims)))[::-1])


def _expanded(tensor: Tensor, given: Given) -> Value:
    sizes = given.sizes()
    return algebra.expanded(tensor, sizes) if sizes is not None else UNKNOWN


def _expand_as(tensor: Tensor, given: Given) -> Value:
    other = given.at(0, "other")
    known = isinstance(other, Tensor) and not other.is_open
    return algebra.expanded(tensor, other.dims) if known and isinstance(other, Tensor) else UNKNOWN


def _repeated(tensor: Tensor, given: Given) -> Value:
    sizes = given.sizes(0, "repeats")
    if sizes is None or tensor.is_open or len(sizes) < len(tensor.dims) or tensor.is_array:
        return UNKNOWN
    dims = (1,) * (len(sizes) - len(tensor.dims)) + tensor.dims
    return fresh([product(pair) for pair in zip(dims, sizes, strict=True)], tensor.kind)


def _contiguous(tensor: Tensor, given: Given) -> Value:
    if given.values or given.named:
        return replace(tensor, places=None, breaks=0)
    return replace(tensor, places=None if tensor.is_open else tuple(range(len(tensor.dims))), is_fresh=True, breaks=0)


def _parted(tensor: Tensor, given: Given) -> Value:
    """Return what `chunk` and `split` give: parts of a size that is known only where it comes out even."""
    count, axis = given.number(0, "chunks"), given.number(1, "dim", 0)
    place = tensor.axis(axis) if axis is not None else None
    if place is None or count is None or not 0 < count < 9:  # noqa: PLR2004 - more would not be named one by one
        return Many(
            replace(tensor, dims=(), is_open=True, places=None) if place is None else _part(tensor, place, None)
        )
    return Items((_part(tensor, place, divided(tensor.dims[place], count)),) * count)


def _split(tensor: Tensor, given: Given) -> Value:
    axis = given.number(1, "dim", 0)
    place = tensor.axis(axis) if axis is not None else None
    return Many(UNKNOWN if place is None else _part(tensor, place, None))


def _part(tensor: Tensor, place: int, size: Dim) -> Tensor:
    return algebra.sliced(tensor, place, size, is_whole=False)


def _unbound(tensor: Tensor, given: Given) -> Value:
    place = tensor.axis(given.number(0, "dim", 0) or 0)
    return Many(UNKNOWN if place is None else algebra.without(tensor, place))


Operation: TypeAlias = "Callable[[Tensor, Given], Value]"

RESHAPING: dict[str, Operation] = {
    **dict.fromkeys(("view", "reshape"), _viewed),
    **dict.fromkeys(("view_as", "reshape_as"), _view_as),
    **dict.fromkeys(("flatten", "ravel"), _flattened),
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), _transposed),
    "unsqueeze": _unsqueezed,
    "expand_dims": _unsqueezed,
    "squeeze": _squeezed,
    "permute": _permuted,
    "t": _turned,
    "expand": _expanded,
    "expand_as": _expand_as,
    "broadcast_to": _expanded,
    "repeat": _repeated,
    "contiguous": _contiguous,
    "chunk": _parted,
    "split": _split,
    "unbind": _unbound,
}
