"""What keeps the values it is given: meters that add up, and stores that grow."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.index import argument_for
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.values import graphs_in, keeps_graph, without_gradients

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Call, Function

_GROWING = frozenset({"append", "extend", "add", "appendleft"})
_DRAWN = ("", ".values()", ".items()")


def adds_up(call: Call, value: ast.expr, index: ProjectIndex) -> bool:
    """Return whether a call reaches a method that keeps an argument with its graph: in a sum, or in a growing list."""
    return any(
        called.owner is not None and any(_keeps(called, name) for name in names_inside(call, called, value))
        for called in index.callees(call)
    )


def names_inside(call: Call, called: Function, value: ast.expr) -> list[str]:
    """Return the parameters that hold what a call hands over: by itself, or as one of many in `*values`, `**losses`."""
    found = [name for name in called.parameters if argument_for(call, called, name) is value]
    arguments = getattr(called.node, "args", None)
    if found or not isinstance(arguments, ast.arguments):
        return found
    is_named = any(keyword.value is value and keyword.arg is not None for keyword in call.node.keywords)
    gathering = arguments.kwarg if is_named else arguments.vararg if value in call.node.args else None
    return [gathering.arg] if gathering is not None else []


def drawn_from(function: Function, parameter: str) -> Iterator[str]:
    """Yield what the loops of a function draw from a parameter that holds many: `v` of `for k, v in sums.items()`."""
    whole = {f"{parameter}{end}" for end in _DRAWN}
    for block in function.blocks:
        if isinstance(block.node, ast.For) and block.targets and dotted(block.node.iter) in whole:
            yield block.targets[-1]


def _keeps(function: Function, parameter: str) -> bool:
    """Return whether a method adds a parameter to what its object holds, and never lets go of its graph."""
    names = {parameter, f"{parameter}[]", *drawn_from(function, parameter)}
    names -= {name for name in names if any(not _is_drawn(one) for one in function.assignments.get(name, ()))}
    if parameter not in names:
        return False
    sums = [
        assignment
        for path, assignments in function.assignments.items()
        if path.startswith("self.")
        for assignment in assignments
        if _adds(assignment, path, names)
    ]
    stores = any(
        call.receiver.startswith("self.")
        and tail_of(call.path) in _GROWING
        and any(keeps_graph(arg, names) for arg in call.node.args)
        and not without_gradients(call.block)
        for call in function.calls
    )
    return bool(sums) or stores


def _is_drawn(found: Assignment) -> bool:
    return isinstance(found.statement, ast.For)


def _adds(found: Assignment, path: str, names: set[str]) -> bool:
    if not keeps_graph(found.value, names) or without_gradients(found.block):
        return False
    return found.is_augmented or path in graphs_in(found.value)
