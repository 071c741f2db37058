"""Whether `view` can do without a copy."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from esper_agents.review.shapes.algebra import worked_out
from esper_agents.review.shapes.sizes import is_unlike

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.review.shapes.facts import Tensor
    from esper_agents.review.shapes.sizes import Dim


def cannot_view(tensor: Tensor, sizes: Sequence[Dim], *, is_merging: bool = True) -> bool:
    """Return whether `view` to these sizes would have to merge dimensions that are not neighbours in memory.

    Args:
        tensor: What is viewed.
        sizes: What is asked for.
        is_merging: Whether as many sizes as there are dimensions at the least are taken for a merge of more.
    """
    if tensor.is_open:
        is_all_but_last = len(sizes) == 2 and sizes[0] == -1 and bool(tensor.dims)  # noqa: PLR2004 - rows and the last
        # Three sizes of an exchange that needs three dimensions may be those it has already.
        is_enough = len(sizes) <= tensor.breaks and (len(sizes) < 3 or is_merging)  # noqa: PLR2004
        return bool(tensor.breaks) and (is_enough or is_all_but_last)
    if tensor.places is None:
        return False
    pairs = [(dim, place) for dim, place in zip(tensor.dims, tensor.places, strict=True) if dim != 1]
    dims = [each for each, _ in pairs]
    wanted = [each for each in worked_out(tensor, sizes) if each != 1]
    start = 0
    while start < min(len(dims), len(wanted)) and dims[start] is not None and dims[start] == wanted[start]:
        start += 1
    inner, rest = pairs[start:], wanted[start:]
    while inner and rest and inner[-1][0] is not None and inner[-1][0] == rest[-1]:
        inner, rest = inner[:-1], rest[:-1]
    if len(rest) == len(sizes) == 2 and sizes[0] == -1 and inner and inner[-1][0] is None:  # noqa: PLR2004 - rows
        # All rows of what is last: the size that is asked for is the one that is not known.
        inner, rest = inner[:-1], rest[:-1]
    # A dimension of size 1 keeps none apart, wherever it stands.
    single = {place for dim, place in zip(tensor.dims, tensor.places, strict=True) if dim == 1}
    joined = sum(
        set(range(before[1] + 1, after[1])) <= single and before[1] < after[1] for before, after in pairwise(inner)
    )
    # Where a 1 is asked for, one of the unknown sizes may be it.
    spare = max(sum(size == 1 for size in sizes) - sum(each == 1 for each in tensor.dims), 0)
    needed = len(inner) - len(rest) - spare
    if needed > joined:
        return True
    is_mixed = len(inner) == len(rest) > 1 and all(is_unlike(*pair) for pair in zip(_sizes(inner), rest, strict=True))
    return is_mixed and not joined


def _sizes(pairs: Sequence[tuple[Dim, int]]) -> list[Dim]:
    return [each for each, _ in pairs]
