"""Values that the dictionaries of a project hold under a key, wherever they go: batches, samples, checkpoints."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.index import Origin
from esper_agents.review.names import dotted, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Function


def items_by_key(index: ProjectIndex) -> dict[str, list[Origin]]:
    """Return what the dictionaries of a project hold, by key: in displays, `dict(...)` and assigned items."""

    def find() -> dict[str, list[Origin]]:
        found: dict[str, list[Origin]] = {}
        for function in (each for file in index.files.values() for each in file.functions):
            for key, value in _items(function):
                found.setdefault(key, []).append(Origin(value, function, value.lineno))
        return found

    return index.once("items of dictionaries by key", find)


def _items(function: Function) -> Iterator[tuple[str, ast.expr]]:
    assigned = [each for known in function.assignments.values() for each in known]
    for each in assigned:
        if isinstance(each.node, ast.Subscript) and isinstance(each.node.slice, ast.Constant):
            yield str(each.node.slice.value), each.value
    values = [each.value for each in assigned]
    values += [each.value for each, _ in function.returns if each.value is not None]
    values += [value for call in function.calls for value in call.node.args]
    for node in {id(one): one for value in values for one in walk(value)}.values():
        if isinstance(node, ast.Dict):
            yield from (
                (str(key.value), value)
                for key, value in zip(node.keys, node.values, strict=True)
                if isinstance(key, ast.Constant)
            )
        elif isinstance(node, ast.Call) and dotted(node.func) == "dict":
            yield from ((each.arg, each.value) for each in node.keywords if each.arg is not None)
