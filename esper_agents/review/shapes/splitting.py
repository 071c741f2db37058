"""Where the dimensions of a tensor stand in memory once some of them are split."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.review.shapes.sizes import product

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.review.shapes.facts import Tensor
    from esper_agents.review.shapes.sizes import Dim


def split_places(tensor: Tensor, dims: Sequence[Dim]) -> tuple[int, ...] | None:
    """Return where the parts stand in memory when a `view` only splits dimensions; None where that is not sure.

    A dimension of unknown size is taken to be left as it is, but for the outermost, which takes what is left over.
    """
    if tensor.places is None or len(dims) <= len(tensor.dims):
        return None
    counts: list[int] = []
    rest = list(dims)
    for old in reversed(tensor.dims[1:]):
        taken = [rest.pop()] if rest else []
        while old is not None and rest and product(taken) != old:
            taken.append(rest.pop())
        counts.append(len(taken))
    counts = [len(rest), *reversed(counts)]
    if 0 in counts:
        return None
    order = sorted(range(len(counts)), key=tensor.places.__getitem__)
    starts = {old: sum(counts[each] for each in order[:rank]) for rank, old in enumerate(order)}
    return tuple(starts[old] + part for old, count in enumerate(counts) for part in range(count))
