"""Plain numbers that a compiled module reads, and that somebody outside sets in every round of a loop."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.compiled import compiled_functions
from esper_agents.review.conditions import is_now_and_then, names_in
from esper_agents.review.definitions import owner_of
from esper_agents.review.index import argument_for
from esper_agents.review.names import dotted, tail_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.compiled import CompiledBy
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Class, FileTables, Function

_Read = tuple["Function", "CompiledBy"]


def set_from_outside(
    file: FileTables, index: ProjectIndex, counters: Callable[[Block], set[str]]
) -> Iterator[tuple[ast.AST, str, Function, CompiledBy]]:
    """Yield what sets a number of a compiled module anew in each round: the node, the number, and who reads it."""
    read = index.once("numbers that compiled modules read", lambda: _read(index))
    for function in file.functions if read else ():
        for target, assignments in function.assignments.items():
            name = tail_of(target)
            for each in assignments if "." in target and name in read else ():
                loop = each.block.loop
                if loop is not None and _follows(each, loop, counters) and isinstance(each.node, ast.Attribute):
                    owner = index.class_of(each.node.value, function, each.line)
                    yield from ((each.statement, target, *found) for found in _of(owner, read[name], index))
    setters = index.once("setters of numbers of compiled modules", lambda: _setters(read))
    for call in file.calls_ending(*setters):
        loop = call.block.loop
        if loop is None or is_now_and_then(call.block, loop):
            continue
        for called in index.callees(call):
            for name, parameter in setters[call.tail].get(called, ()):
                handed = argument_for(call, called, parameter)
                if handed is not None and names_in(handed) & counters(loop):
                    owner = owner_of(called)
                    number = f"{call.receiver}.{name}"
                    yield from ((call.node, number, *found) for found in _of(owner, read[name], index))


def _follows(found: Assignment, loop: Block, counters: Callable[[Block], set[str]]) -> bool:
    """Return whether an assignment gives a number another value in each round of a loop."""
    if is_now_and_then(found.block, loop) or (found.target.startswith("self.") and found.target.count(".") == 1):
        return False
    return found.is_augmented or bool(names_in(found.value) & counters(loop))


def _of(owner: Class | None, readers: list[_Read], index: ProjectIndex) -> list[_Read]:
    """Return the first of the readers that belongs to a class."""
    classes = index.lineage(owner).classes if owner is not None else []
    return [reader for reader in readers if owner_of(reader[0]) in classes][:1]


def _read(index: ProjectIndex) -> dict[str, list[_Read]]:
    """Return the plain whole numbers of modules that compiled code reads, by name, with what reads them."""
    found: dict[str, list[_Read]] = {}
    for function, by in compiled_functions(index).items():
        owner = owner_of(function)
        if owner is None or not index.is_module(owner):
            continue
        for path in names_in(function.node):
            if path.startswith("self.") and path.count(".") == 1 and _is_whole_number(path, owner, index):
                found.setdefault(tail_of(path), []).append((function, by))
    return found


def _is_whole_number(path: str, owner: Class, index: ProjectIndex) -> bool:
    made = [each for base in index.lineage(owner).classes for each in base.attributes.get(path, ())]
    first = [each.value for each in made if each.block.function.name == "__init__" and not each.is_augmented]
    return bool(first) and all(isinstance(each, ast.Constant) and type(each.value) is int for each in first)


def _setters(read: dict[str, list[_Read]]) -> dict[str, dict[Function, list[tuple[str, str]]]]:
    """Return the methods that set such a number to what they are given: by name, with the number and the parameter."""
    found: dict[str, dict[Function, list[tuple[str, str]]]] = {}
    for name, readers in read.items():
        for owner in dict.fromkeys(owner_of(each) for each, _ in readers):
            for each in owner.attributes.get(f"self.{name}", ()) if owner is not None else ():
                function, parameter = each.block.function, dotted(each.value)
                if parameter in function.parameters and function.name not in {"__init__", "forward"}:
                    found.setdefault(function.name, {}).setdefault(function, []).append((name, parameter))
    return found
