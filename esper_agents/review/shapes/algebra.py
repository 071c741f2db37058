"""What operations make of shapes, and of where the dimensions stand in memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from esper_agents.review.shapes.facts import UNKNOWN, Tensor, fresh
from esper_agents.review.shapes.sizes import Dim, differ, divided, plus, product
from esper_agents.review.shapes.splitting import split_places

if TYPE_CHECKING:
    from collections.abc import Sequence

# The place in memory of a dimension that repeats the same numbers: next to no other.
_REPEATED = -1000


def broadcast(one: Tensor, two: Tensor) -> Tensor:
    """Return what two tensors give together, number by number."""
    longer, shorter = (one, two) if len(one.dims) >= len(two.dims) else (two, one)
    offset = len(longer.dims) - len(shorter.dims)
    paired = [_together(longer.dims[offset + place], dim) for place, dim in enumerate(shorter.dims)]
    # What hides in front of an open tensor may stretch a 1, and nothing else.
    front = [None if shorter.is_open and dim == 1 else dim for dim in longer.dims[:offset]]
    same_layout = one.places == two.places and one.rank == two.rank
    if not one.dims and not one.is_open:
        return two
    if not two.dims and not two.is_open:
        return one
    dims = (*front, *paired)
    is_open = one.is_open or two.is_open
    if is_open:
        # What is surely last stays last; an open tensor's own front may be stretched by the other's.
        return Tensor(dims, is_array=one.is_array and two.is_array)
    places = one.places if same_layout else _straight(one, two, len(dims))
    is_fresh = one.is_fresh and two.is_fresh and places is not None
    return Tensor(dims, False, None, places, is_fresh, is_array=one.is_array and two.is_array)


def _straight(one: Tensor, two: Tensor, rank: int) -> tuple[int, ...] | None:
    """Return the layout of a result whose parts are both contiguous as far as they go."""
    both = [each for each in (one, two) if each.dims]
    return tuple(range(rank)) if all(_is_straight(each) for each in both) else None


def _is_straight(tensor: Tensor) -> bool:
    return tensor.places is not None and tensor.places == tuple(range(len(tensor.dims)))


def _together(one: Dim, two: Dim) -> Dim:
    # Two sizes that are both not 1 are the same, or nothing comes of it.
    return two if one in {1, None} else one


def permuted(tensor: Tensor, order: Sequence[int]) -> Tensor:
    """Return a tensor with its dimensions in another order."""
    if tensor.is_open or len(order) != len(tensor.dims):
        if not tensor.is_open or len(tensor.dims) > len(order):
            return UNKNOWN
        straight = tuple(range(len(order))) if tensor.is_given or tensor.is_fresh else None
        dims = (None,) * (len(order) - len(tensor.dims)) + tensor.dims
        tensor = Tensor(dims, False, tensor.kind, straight, tensor.is_fresh)
    places = [each if each >= 0 else len(order) + each for each in order]
    if sorted(places) != list(range(len(order))):
        return UNKNOWN
    layout = None if tensor.places is None else tuple(tensor.places[place] for place in places)
    return replace(tensor, dims=tuple(tensor.dims[place] for place in places), places=layout)


def transposed(tensor: Tensor, one: int, two: int) -> Tensor:
    """Return a tensor with two dimensions exchanged."""
    if not tensor.is_open:
        order = list(range(len(tensor.dims)))
        first, second = tensor.axis(one), tensor.axis(two)
        if first is None or second is None:
            return UNKNOWN
        order[first], order[second] = order[second], order[first]
        return permuted(tensor, order)
    dims, first, second = list(tensor.dims), tensor.axis(one), tensor.axis(two)
    if first is not None and second is not None:
        dims[first], dims[second] = dims[second], dims[first]
    else:
        dims = []
    breaks = 0 if one == two else _limit(*sorted((one, two))) if one >= 0 and two >= 0 else 2
    is_known = (tensor.is_given or tensor.is_fresh) and not tensor.breaks
    return Tensor(
        tuple(dims), kind=tensor.kind, breaks=breaks if is_known else 0, is_fresh=tensor.is_fresh and is_known
    )


def _limit(one: int, two: int) -> int:
    """Return how many sizes at the most a `view` may ask for that surely has to merge what an exchange tore apart.

    The rank is not known: it is at least what the exchange needs. A `view` that asks for just as many sizes can only
    do nothing, and counts as one that merges.
    """
    ranks = (two + 1, two + 2)
    torn = {rank: _torn(one, two, rank) for rank in ranks}
    return max(size for size in range(two + 2) if all(size <= torn[rank] or size == rank for rank in ranks))


def _torn(one: int, two: int, rank: int) -> int:
    """Return between how many neighbours memory no longer goes on once two dimensions changed places."""
    order = list(range(rank))
    order[one], order[two] = order[two], order[one]
    return sum(after != before + 1 for before, after in pairwise(order))


def sliced(tensor: Tensor, axis: int, size: Dim, *, is_whole: bool, is_stepped: bool = False) -> Tensor:
    """Return a tensor of which one dimension was cut, so that the one before it can no longer be merged with it.

    Every second element, and the like, tears it from the one behind instead.
    """
    dims = (*tensor.dims[:axis], size, *tensor.dims[axis + 1 :])
    if is_whole or tensor.places is None or tensor.is_open:
        return replace(tensor, dims=dims, breaks=0)
    cut = tensor.places[axis]
    return replace(
        tensor,
        dims=dims,
        places=tuple(place + (place > cut or (place == cut and not is_stepped)) for place in tensor.places),
    )


def without(tensor: Tensor, axis: int) -> Tensor:
    """Return a tensor without one dimension: indexed by a number, or squeezed."""
    places = None if tensor.places is None else tensor.places[:axis] + tensor.places[axis + 1 :]
    return replace(tensor, dims=tensor.dims[:axis] + tensor.dims[axis + 1 :], places=places, breaks=0)


def inserted(tensor: Tensor, axis: int, size: Dim = 1) -> Tensor:
    """Return a tensor with one dimension more."""
    places = None if tensor.places is None else (*tensor.places[:axis], _REPEATED, *tensor.places[axis:])
    return replace(tensor, dims=(*tensor.dims[:axis], size, *tensor.dims[axis:]), places=places, breaks=0)


def unsqueezed(tensor: Tensor, axis: int) -> Tensor:
    """Return what `unsqueeze` gives."""
    if tensor.is_open and axis >= 0:
        return Tensor(kind=tensor.kind, is_fresh=tensor.is_fresh, is_given=tensor.is_given, ones=(axis,))
    if tensor.is_open:
        return inserted(tensor, len(tensor.dims) + axis + 1) if -len(tensor.dims) - 1 <= axis else UNKNOWN
    place = axis if axis >= 0 else len(tensor.dims) + axis + 1
    return inserted(tensor, place) if 0 <= place <= len(tensor.dims) else UNKNOWN


def squeezed(tensor: Tensor, axis: int | None) -> Tensor:
    """Return what `squeeze` gives; without an axis only known sizes say how much it takes away."""
    if axis is None:
        # Of a matrix, a size that nobody knows is taken for that of a batch, which is seldom 1.
        if tensor.is_open or (None in tensor.dims and len(tensor.dims) != 2):  # noqa: PLR2004 - rows and columns
            return Tensor(kind=tensor.kind)
        for each in reversed(range(len(tensor.dims))):
            tensor = without(tensor, each) if tensor.dims[each] == 1 else tensor
        return tensor
    place = tensor.axis(axis)
    if place is None or tensor.dims[place] is None:
        return Tensor(kind=tensor.kind)
    return without(tensor, place) if tensor.dims[place] == 1 else tensor


def reduced(tensor: Tensor, axes: Sequence[int], *, keeps: bool) -> Tensor:
    """Return what a sum or mean over some dimensions gives."""
    places = [tensor.axis(axis) for axis in axes]
    if tensor.is_open and keeps and None not in places:
        return Tensor(tuple(1 if place in places else dim for place, dim in enumerate(tensor.dims)))
    if tensor.is_open:
        below = [each for each in places if each is not None]
        ends = tensor.dims[max(below) + 1 :] if len(below) == len(places) and below else ()
        return Tensor(ends, kind=tensor.kind)
    if None in places:
        return UNKNOWN
    kept = [1 if place in places else dim for place, dim in enumerate(tensor.dims) if keeps or place not in places]
    layout = tuple(range(len(kept))) if _is_straight(tensor) else None
    return Tensor(tuple(kept), False, tensor.kind, layout, tensor.is_fresh, is_array=tensor.is_array)


def flattened(tensor: Tensor, start: int, end: int) -> Tensor:
    """Return what `flatten` gives."""
    first, last = tensor.axis(start), tensor.axis(end)
    if tensor.is_open:
        is_tail = start >= 0 and end == -1
        return Tensor((None,) * (start + 1), False, tensor.kind) if is_tail and start <= 1 else UNKNOWN
    if first is None or last is None:
        return UNKNOWN
    dims = (*tensor.dims[:first], product(tensor.dims[first : last + 1]), *tensor.dims[last + 1 :])
    return reshaped(tensor, dims)


def reshaped(tensor: Tensor, sizes: Sequence[Dim]) -> Tensor:
    """Return what `reshape` gives: contiguous, unless it had nothing to do; a size of -1 is worked out."""
    dims = worked_out(tensor, sizes)
    is_straight = tensor.is_open or _is_straight(tensor) or len(dims) < len(tensor.dims)
    places = tuple(range(len(dims))) if is_straight else split_places(tensor, dims)
    return Tensor(dims, False, tensor.kind, places, tensor.is_fresh or not tensor.is_open, is_array=tensor.is_array)


def worked_out(tensor: Tensor, sizes: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return the sizes that are asked for, with what stands for -1."""
    if -1 not in sizes:
        return tuple(sizes)
    whole = None if tensor.is_open else product(tensor.dims)
    rest = divided(whole, product(size for size in sizes if size != -1))
    if rest is None and not tensor.is_open:
        rest = _remaining(tensor, [size for size in sizes if size != -1])
    return tuple(rest if size == -1 else size for size in sizes)


def _remaining(tensor: Tensor, named: list[Dim]) -> Dim:
    """Return what is left of a shape once these sizes are taken out, where each of them is one of its own."""
    rest = list(tensor.dims)
    for each in named:
        if each is None or each not in rest:
            return None
        rest.remove(each)
    return product(rest)


def expanded(tensor: Tensor, sizes: Sequence[Dim]) -> Tensor:
    """Return what `expand` gives: dimensions of size 1 repeat their numbers without a copy."""
    if tensor.is_open:
        straight = tuple(range(len(sizes))) if tensor.is_given or tensor.is_fresh else None
        known: list[Dim] = [1 if place in tensor.ones else None for place in range(len(sizes))]
        tensor = Tensor(tuple(known), False, tensor.kind, straight, tensor.is_fresh)
    new = len(sizes) - len(tensor.dims)
    if new < 0:
        return UNKNOWN
    dims: list[Dim] = []
    places: list[int] = []
    for place, size in enumerate(sizes):
        old = 1 if place < new else tensor.dims[place - new]
        layout = _REPEATED if place < new or tensor.places is None else tensor.places[place - new]
        is_repeated = old == 1 and size not in {-1, 1, None}
        dims.append(old if size == -1 else size)
        places.append(_REPEATED + place if is_repeated else layout)
    layouts = None if tensor.places is None else tuple(places)
    return replace(tensor, dims=tuple(dims), places=layouts, breaks=0)


def concatenated(parts: Sequence[Tensor], axis: int) -> Tensor:
    """Return what `cat` gives."""
    known = [part for part in parts if not part.is_open]
    if known and len(known) < len(parts) and all(len(part.dims) <= len(known[0].dims) for part in parts):
        # All of them have as many dimensions as the one that shows how many.
        rank = len(known[0].dims)
        parts = [Tensor((None,) * (rank - len(part.dims)) + part.dims, False, part.kind) for part in parts]
    first = parts[0]
    is_alike = all(not part.is_open and len(part.dims) == len(first.dims) for part in parts)
    place = first.axis(axis) if is_alike else _open_axis(parts, axis)
    if place is None:
        return UNKNOWN
    dims = list(first.dims)
    for part in parts[1:]:
        dims = [
            plus(old, new) if at == place else (old if old is not None else new)
            for at, (old, new) in enumerate(zip(dims, part.dims, strict=True))
        ]
    kind = first.kind if all(part.kind is first.kind for part in parts) else None
    if any(part.is_open for part in parts):
        return Tensor(tuple(dims), kind=kind)
    return fresh(dims, kind) if all(_is_straight(part) for part in parts) else Tensor(tuple(dims), False, kind)


def _open_axis(parts: Sequence[Tensor], axis: int) -> int | None:
    """Return where tensors of unknown rank are joined: where their last sizes differ, it can only be there."""
    first = parts[0]
    if any(len(part.dims) != len(first.dims) for part in parts):
        return None
    if axis < 0:
        return first.axis(axis)
    is_last = len(first.dims) == 1 and any(differ(part.last, first.last) for part in parts)
    return 0 if is_last else None


def multiplied(one: Tensor, two: Tensor) -> Tensor:
    """Return what a matrix product gives."""
    if one.rank is not None and one.rank <= 1:
        return UNKNOWN
    if two.rank == 1:
        return replace(without(one, len(one.dims) - 1), places=None) if one.dims else UNKNOWN
    last = two.last
    rows = one.dims[-2] if len(one.dims) > 1 else None
    if one.is_open or two.is_open or not two.dims:
        longer = two.rank if two.rank is not None and two.rank > 2 else 0  # noqa: PLR2004 - a matrix
        return Tensor((*((None,) * max(longer - 2, 0)), rows, last), is_fresh=True)
    front = broadcast(Tensor(one.dims[:-2], False), Tensor(two.dims[:-2], False)).dims
    return fresh((*front, rows, last))
