"""What repeats a function: the loops that call it, directly or through the functions that do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.review.names import root_of
from esper_agents.review.renamings import means_outside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Function

# How many steps from caller to caller are followed to a loop.
_CALLS = 3


def ways_to_loops(function: Function, path: str, index: ProjectIndex) -> list[tuple[Call, ...]]:
    """Return the chains of calls that end in a loop and lead to a function, the nearest call first.

    Args:
        function: The function.
        path: What the loop must keep from round to round, as the function calls it; empty for nothing.
        index: The files of the review.
    """
    return list(_ways(function, path, index, ()))


def _ways(function: Function, path: str, index: ProjectIndex, taken: tuple[Call, ...]) -> Iterator[tuple[Call, ...]]:
    for call in index.callers(function) if len(taken) < _CALLS else ():
        outside = means_outside(call, function, path, index)
        if call.block.loop is not None:
            if not _is_made_in(call.block.loop, outside):
                yield (*taken, call)
        elif call not in taken and not _is_made_in(call.function.block, outside):
            yield from _ways(call.function, outside, index, (*taken, call))


def _is_made_in(block: Block, path: str) -> bool:
    """Return whether a block binds a path, or the object that it is a part of."""
    known = block.function.assignments
    bound = [*known.get(path, ()), *(known.get(root_of(path), ()) if "." in path else ())]
    return any(each.block.within(block) and not each.is_unpacked for each in bound)


def parts_of_way(way: tuple[Call, ...]) -> Iterator[Block]:
    """Yield what runs between the rounds of a way: the functions on it, and the loops round its last call."""
    yield from (call.function.block for call in way[:-1])
    yield from way[-1].block.loops()
