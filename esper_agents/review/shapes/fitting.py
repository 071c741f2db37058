"""Whether two shapes belong together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.review.shapes.sizes import Symbol, differ

if TYPE_CHECKING:
    from esper_agents.review.shapes.facts import Tensor
    from esper_agents.review.shapes.sizes import Dim


def is_crossed(one: Tensor, two: Tensor) -> bool:
    """Return whether two tensors surely stretch each other, or cannot be put together at all.

    A tensor that is merely repeated to the size of the other, as one row or one number is, does not count.
    """
    if one.is_open and two.is_open:
        return False
    if one.is_open or two.is_open:
        longer, shorter = (one, two) if one.is_open else (two, one)
        if shorter.dims and longer.dims and differ(longer.last, shorter.last) and 1 not in {longer.last, shorter.last}:
            return True
        is_column = shorter.rank == 2 and shorter.last == 1  # noqa: PLR2004 - rows and columns
        return (longer.last == 1 and shorter.rank == 1 and shorter.last != 1) or (is_column and _is_batch(longer.last))
    if not one.dims or not two.dims or _is_single(one) or _is_single(two):
        return False
    if _is_column_and_row(one, two) or _is_column_and_row(two, one) or _is_squared(one, two) or _is_squared(two, one):
        return True
    return (_stretches(one, two) and _stretches(two, one)) or _is_unfit(one, two)


def _is_column_and_row(one: Tensor, two: Tensor) -> bool:
    """Return whether the first is `(n, 1)` and the second `(n,)`, whatever n is."""
    is_column = one.rank == 2 and one.last == 1 and one.dims[0] != 1  # noqa: PLR2004 - rows and columns
    return is_column and two.rank == 1 and two.last != 1


def _is_squared(one: Tensor, two: Tensor) -> bool:
    """Return whether the first is `(n, 1)` and the second `(n, n)`, so that it was stretched before."""
    is_pair = one.rank == two.rank == 2 and one.last == 1 and one.dims[0] != 1  # noqa: PLR2004 - rows and columns
    return is_pair and two.dims[0] is not None and one.dims[0] == two.dims[0] == two.dims[1]


def _is_single(tensor: Tensor) -> bool:
    return all(dim == 1 for dim in tensor.dims)


def _stretches(one: Tensor, two: Tensor) -> bool:
    """Return whether the first has to be repeated along a dimension of the second."""
    offset = len(two.dims) - len(one.dims)
    for place, dim in enumerate(two.dims):
        own: Dim = one.dims[place - offset] if place >= offset else 1
        if own == 1 and dim not in {1, None}:
            return True
        if own == 1 and place < offset and dim is None:
            return True
    return False


def _is_unfit(one: Tensor, two: Tensor) -> bool:
    """Return whether sizes that meet differ and neither is 1; names count where one tensor lacks their dimension."""
    pairs = list(zip(reversed(one.dims), reversed(two.dims), strict=False))
    if any(differ(*pair) and 1 not in pair for pair in pairs):
        return True
    # The batch of the one meets the features of the other.
    ranks = {len(one.dims), len(two.dims)}
    return ranks == {1, 2} and any(
        _is_batch(pair[0]) != _is_batch(pair[1]) and None not in pair and 1 not in pair for pair in pairs
    )


def _is_batch(dim: Dim) -> bool:
    return isinstance(dim, Symbol) and any("batch@" in name for name in dim.names)


def is_deeper(one: Tensor, two: Tensor) -> bool:
    """Return whether the first surely has more dimensions than the second, or fewer."""
    return one.rank is not None and two.rank is not None and one.rank != two.rank
