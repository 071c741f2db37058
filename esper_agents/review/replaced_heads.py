"""Networks of a library whose last layer the code replaces: `model.fc = nn.Linear(512, 10)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.definitions import owner_of
from esper_agents.review.index import Origin, argument_for
from esper_agents.review.names import dotted
from esper_agents.review.objects import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Function

# Libraries of networks, and what these call their last layer; some keep it as the last of a sequence.
_LIBRARIES = ("torchvision.models.", "timm.")
_HEADS = ("fc", "classifier", "head", "heads", "classifier[]")
# How many functions a network is followed through.
_CALLERS = 3


def replaced_head(called: ast.expr, function: Function, line: int, index: ProjectIndex) -> Origin | None:
    """Return what a network of a library was given as its last layer, if the code replaces it at one place."""
    found = list(_heads(dotted(called), function, line, index, _CALLERS))
    return found[0] if len(found) == 1 else None


def _heads(path: str, function: Function, line: int, index: ProjectIndex, steps: int) -> Iterator[Origin]:
    if not path or not steps:
        return
    made = index.binding(path, function, line)
    if made is not None:
        if _is_of_library(made):
            yield from _assigned(path, made.block.function, index)
    elif path in function.parameters:
        for call in index.callers(function):
            given = argument_for(call, function, path)
            if given is not None:
                yield from _heads(dotted(given), call.function, call.line, index, steps - 1)


def _is_of_library(made: Assignment) -> bool:
    value: ast.expr = made.value
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in {"to", "cuda"}:
        value = value.func.value
    is_whole = isinstance(value, ast.Call) and not made.is_unpacked
    return is_whole and resolve(dotted(value.func), made.block.function).startswith(_LIBRARIES)  # type: ignore[attr-defined]


def _assigned(path: str, function: Function, index: ProjectIndex) -> Iterator[Origin]:
    owner = owner_of(function) if path.startswith("self.") else None
    held = [function.assignments] if owner is None else [each.attributes for each in index.lineage(owner).classes]
    for assignments in held:
        for head in _HEADS:
            for found in assignments.get(f"{path}.{head}", ()):
                if not found.is_unpacked and not found.is_augmented:
                    yield Origin(found.value, found.block.function, found.line)
