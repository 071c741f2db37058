"""Pipelines of image transforms: the steps of each `Compose`, in order."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, tail_of
from esper_agents.review.objects import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function

_MODULES = ("torchvision.transforms.", "torchvision.transforms.v2.", "torchvision.transforms.transforms.")
_COMPOSE = tuple(f"{module}Compose" for module in _MODULES)


def pipelines(file: FileTables, index: ProjectIndex) -> Iterator[list[tuple[ast.Call, str]]]:
    """Yield the steps of each `Compose` of torchvision in a file, each with its class; empty if it is another's."""
    for call in file.calls_to(*_COMPOSE):
        given = call.argument(0, "transforms")
        for origin in index.origins(given, call.function, call.line) if given is not None else ():
            if isinstance(origin.value, ast.List | ast.Tuple):
                yield [step for each in origin.value.elts for step in _steps(each, call, origin.function, index)]


def _steps(node: ast.expr, call: Call, function: Function, index: ProjectIndex) -> Iterator[tuple[ast.Call, str]]:
    for origin in index.origins(node, function, call.line)[:1]:
        value = origin.value
        if isinstance(value, ast.Call):
            name = resolve(dotted(value.func), origin.function)
            yield value, tail_of(name) if name.startswith(_MODULES) else ""
        else:
            yield call.node, ""
