"""Where one part of a model is run by itself, outside of the model."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.moded_layers import has_no_mode, mode_changes_something
from esper_agents.review.models import is_model
from esper_agents.review.names import dotted
from esper_agents.review.objects import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Call, Class, FileTables


def parts_called_outside(file: FileTables, index: ProjectIndex) -> Iterator[Call]:
    """Yield the calls of parts of a model whose mode matters, in functions that hold it: `model.encoder(x)`."""
    names = index.once("names of parts of models", lambda: frozenset(_names_of_parts(index)))
    for tail in sorted(names & file.by_tail.keys()):
        for call in file.calls_ending(tail):
            if not call.receiver.isidentifier() or call.receiver == "self" or not is_model(call.receiver, call, index):
                continue
            called = call.node.func
            held = called.value if isinstance(called, ast.Attribute) else called
            owner = index.class_of(held, call.function, call.line)
            if owner is not None and index.is_module(owner) and _is_moded_part(owner, tail, index):
                yield call


def _names_of_parts(index: ProjectIndex) -> Iterator[str]:
    """Yield the names under which modules of these files keep others."""
    for classes in index.classes.values():
        for owner in classes:
            if index.is_module(owner):
                yield from (path[5:] for path in owner.attributes if path.startswith("self.") and path.count(".") == 1)


def _is_moded_part(owner: Class, name: str, index: ProjectIndex) -> bool:
    """Return whether a model surely keeps a module under a name that does something else in training."""
    if index.method(owner, name) is not None:
        return False
    found = [each for one in index.lineage(owner).classes for each in one.attributes.get(f"self.{name}", ())]
    return bool(found) and all(_is_moded(each, index) for each in found)


def _is_moded(found: Assignment, index: ProjectIndex) -> bool:
    function, value = found.block.function, found.value
    if found.is_unpacked:
        return False
    made = index.class_of(value, function, found.line)
    if made is not None:
        return index.is_module(made) and mode_changes_something(made, index)
    is_of_torch = isinstance(value, ast.Call) and resolve(dotted(value.func), function).startswith("torch.nn.")
    return is_of_torch and not has_no_mode(value, function, found.line, index)
