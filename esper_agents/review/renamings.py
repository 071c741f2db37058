"""What a path is called in another function: it is handed to a parameter, held in an object, or seen by both."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.index import argument_for
from esper_agents.review.names import dotted, root_of
from esper_agents.review.objects import wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Function


def means_inside(call: Call, called: Function, path: str, index: ProjectIndex) -> str:
    """Return what a path of a caller is called inside the function that it calls; empty where that cannot be said."""
    holder = _holder(call, called)
    if holder and (path == holder or path.startswith(f"{holder}.")):
        return "self" + path[len(holder) :]
    for inner, outer in (*_given_to_holder(call, holder, called, index), *_given_to_maker(call, called, index)):
        if path == outer or path.startswith(f"{outer}."):
            return inner + path[len(outer) :]
    if _is_shared(path, call.function, called):
        return path
    for parameter in called.parameters:
        handed = argument_for(call, called, parameter)
        if handed is not None and (name := dotted(handed)) and (path == name or path.startswith(f"{name}.")):
            return parameter + path[len(name) :]
    return ""


def _holder(call: Call, called: Function) -> str:
    """Return the object whose method a call runs, as written: `a` of `a.run()`, and of `a()` where it can be called."""
    if called.owner is None or called.parameters[:1] != ("self",) or called.name == "__init__":
        return ""
    return call.receiver if call.tail == called.name else call.path


def means_outside(call: Call, function: Function, path: str, index: ProjectIndex) -> str:
    """Return what a path inside a function is called where the function is called; empty where that cannot be said."""
    root = root_of(path)
    if root == "self" and function.owner is not None:
        holder = _holder(call, function)
        for inner, outer in _given_to_holder(call, holder, function, index):
            if path == inner or path.startswith(f"{inner}."):
                return outer + path[len(inner) :]
        return holder + path[len(root) :] if holder else ""
    handed = argument_for(call, function, root)
    if handed is None:
        for inner, outer in _given_to_maker(call, function, index):
            if inner == root:
                return outer + path[len(root) :]
        return path if _is_shared(path, call.function, function) else ""
    name = dotted(handed)
    return name + path[len(root) :] if name and "(" not in name else ""


def _given_to_holder(call: Call, holder: str, called: Function, index: ProjectIndex) -> Iterator[tuple[str, str]]:
    """Yield what the object of a method was given when it was made, where the caller makes it, under both names."""
    owner = called.owner if holder.isidentifier() and holder != "self" else None
    made = index.binding(holder, call.function, call.line) if owner is not None else None
    maker = index.method(owner, "__init__") if owner is not None else None
    if made is None or maker is None or made.block.function is not call.function:
        return
    making = next((each for each in call.function.calls if each.node is made.value), None)
    for path, assignments in maker.assignments.items() if making is not None else ():
        value = assignments[-1].value
        if making is None or not path.startswith("self.") or not isinstance(value, ast.Name):
            continue
        handed = argument_for(making, maker, value.id)
        if handed is not None and (outer := dotted(handed)) and "(" not in outer:
            yield path, outer


def _given_to_maker(call: Call, called: Function, index: ProjectIndex) -> Iterator[tuple[str, str]]:
    """Yield what the caller gave to the function that made the one it calls, under both names."""
    maker = called.outer.function if called.outer is not None and called.owner is None else None
    if maker is None or maker.is_module or index.function_held(call) is not called:
        return
    made = index.binding(call.path, call.function, call.line)
    value = (wrapped(made.value) or made.value) if made is not None else None
    making = next((each for each in call.function.calls if each.node is value), None)
    if making is None:
        return
    for parameter in maker.parameters:
        handed = argument_for(making, maker, parameter)
        if handed is not None and (outer := dotted(handed)) and "(" not in outer:
            yield parameter, outer


def _is_shared(path: str, caller: Function, called: Function) -> bool:
    """Return whether a path means one thing in two functions: both see what a third, or one of them, binds."""
    root = root_of(path)
    home = home_of(root, called)
    return home is not None and root != "self" and home is not called and home is home_of(root, caller)


def home_of(root: str, function: Function) -> Function | None:
    """Return the function, or module, that binds a name as another sees it; None where nothing in sight does."""
    current: Function | None = function
    while current is not None:
        is_bound = root in current.parameters or root in current.assignments or root in _drawn(current)
        if is_bound and not _is_global(root, current):
            return current
        current = current.outer.function if current.outer else None
    return None


def _drawn(function: Function) -> set[str]:
    """Return the names that the loops and contexts of a function bind."""
    return {root_of(target) for block in function.blocks for target in block.targets}


def _is_global(root: str, function: Function) -> bool:
    return any(
        isinstance(each, ast.Global | ast.Nonlocal) and root in each.names
        for each in (function.node.body if not function.is_module else ())
    )
