"""Gradients that are set by hand, without a backward."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.names import tail_of

if TYPE_CHECKING:
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Function

_SETTING = frozenset({"copy_", "add_", "set_", "setattr"})


def sets_gradients(function: Function, index: ProjectIndex) -> bool:
    """Return whether gradients are put in their place by hand here or in what is called: `p.grad = g`."""
    called = {
        each
        for call in function.calls
        if call.tail not in ("backward", "step")
        for each in index.possible_callees(call)
    }
    return any(_sets_gradients(each) for each in (function, *called))


def _sets_gradients(function: Function) -> bool:
    is_assigned = any(
        tail_of(path) == "grad" and any(not isinstance(each.value, ast.Constant) for each in assignments)
        for path, assignments in function.assignments.items()
    )
    return is_assigned or any(
        call.tail in _SETTING and (tail_of(call.receiver) == "grad" or _names_grad(call)) for call in function.calls
    )


def _names_grad(call: Call) -> bool:
    return call.path == "setattr" and isinstance(name := call.argument(1), ast.Constant) and name.value == "grad"
