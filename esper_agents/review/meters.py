"""What keeps the values it is given: meters that add up, and stores that grow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.review.index import argument_for
from esper_agents.review.names import tail_of
from esper_agents.review.values import graphs_in, keeps_graph, without_gradients

if TYPE_CHECKING:
    import ast

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Call, Function

_GROWING = frozenset({"append", "extend", "add", "appendleft"})


def adds_up(call: Call, value: ast.expr, index: ProjectIndex) -> bool:
    """Return whether a call reaches a method that keeps an argument with its graph: in a sum, or in a growing list."""
    return any(
        called.owner is not None and any(_keeps(called, name) for name in _names_of(call, called, value))
        for called in index.callees(call)
    )


def _names_of(call: Call, called: Function, value: ast.expr) -> list[str]:
    return [name for name in called.parameters if argument_for(call, called, name) is value]


def _keeps(function: Function, parameter: str) -> bool:
    """Return whether a method adds a parameter to what its object holds, and never lets go of its graph."""
    if function.assignments.get(parameter):
        return False
    sums = [
        each
        for path, assignments in function.assignments.items()
        if path.startswith("self.")
        for each in assignments
        if _adds(each, path, parameter)
    ]
    stores = any(
        call.receiver.startswith("self.")
        and tail_of(call.path) in _GROWING
        and any(keeps_graph(each, {parameter}) for each in call.node.args)
        and not without_gradients(call.block)
        for call in function.calls
    )
    return bool(sums) or stores


def _adds(found: Assignment, path: str, parameter: str) -> bool:
    if not keeps_graph(found.value, {parameter}) or without_gradients(found.block):
        return False
    return found.is_augmented or path in graphs_in(found.value)
