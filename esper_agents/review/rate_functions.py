"""Results of the functions that `LambdaLR` multiplies the learning rate by."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.definitions import owner_of
from esper_agents.review.names import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Function

_STEPS = 2


def factors_returned(given: ast.expr, call: Call, index: ProjectIndex) -> Iterator[ast.expr]:
    """Yield what the function of a scheduler returns."""
    if isinstance(given, ast.Lambda):
        yield given.body
    elif isinstance(given, ast.List | ast.Tuple):
        for each in given.elts:
            yield from factors_returned(each, call, index)
    elif isinstance(given, ast.Call) and dotted(given.func).endswith("partial") and given.args:
        yield from factors_returned(given.args[0], call, index)
    elif isinstance(given, ast.Attribute) and dotted(given.value) == "self":
        owner = owner_of(call.function)
        method = index.method(owner, given.attr) if owner is not None else None
        yield from _returned(method)
    elif isinstance(given, ast.Name):
        made = call.function.last_assignment(given.id, call.line)
        if made is not None and isinstance(made.value, ast.Lambda):
            yield made.value.body
        yield from _returned(index.function_meant(given, call.function))


def _returned(function: Function | None) -> Iterator[ast.expr]:
    for statement, _ in function.returns if function is not None else ():
        if function is not None and statement.value is not None:
            yield from _named(statement.value, function, _STEPS)


def _named(value: ast.expr, function: Function, steps: int) -> Iterator[ast.expr]:
    made = function.last_assignment(value.id, value.lineno) if isinstance(value, ast.Name) and steps else None
    if made is not None and not made.is_unpacked and not made.is_augmented:
        yield from _named(made.value, function, steps - 1)
    else:
        yield value
