"""What the code of a file freezes, so that no gradient is asked of it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.definitions import owner_of
from esper_agents.review.names import dotted, root_of, tail_of
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.tables import Class, FileTables, Function

_FREEZING = pattern(r"requires_grad\s*=\s*False|requires_grad_\((?:requires_grad=)?False|\.detach_\(|freeze")
# What leads from a module to what it holds.
_INSIDE = frozenset(
    {"parameters", "named_parameters", "modules", "named_modules", "children", "weight", "bias", "data"}
)
# Names of what may be anything.
_ANYTHING = frozenset(
    {"m", "mod", "module", "modules", "model", "models", "net", "network", "layer", "layers", "obj", "tensor"}
    | {"p", "param", "params", "parameter", "parameters", "x", "t", "v", "value", "w", "weight", "nets", "part"}
)


def may_freeze(path: str, function: Function, *, is_part: bool = True) -> bool:
    """Return whether something in a function's file may freeze what a path of the function holds.

    What is frozen under another name that says what it is, such as `vgg` or `self.detector`, does not count.

    Args:
        path: What may be frozen.
        function: Where it is called that.
        is_part: Whether it may be a part of what is frozen, as a parameter is of a module.
    """
    file = function.file
    if not freezes(file):
        return False
    frozen = file.once("frozen", lambda: tuple(_frozen(file)))
    return any(_may_be(name, where, path, function, is_part=is_part) for name, where in frozen)


def freezes(file: FileTables) -> bool:
    """Return whether a file freezes anything."""
    return file.once("freezes parameters", lambda: _FREEZING.search(file.text) is not None)


def _may_be(name: str, where: Function, path: str, function: Function, *, is_part: bool) -> bool:
    one, other = owner_of(where), owner_of(function)
    is_here = where is function or (one is not None and one is other) or not name.startswith("self")
    is_same = name == path or (is_part and (path.startswith(f"{name}.") or name.startswith(f"{path}.")))
    if not name or (is_here and is_same):
        return True
    if name == "self":
        is_related = one is not None and other is not None and (one.name in _bases(other) or other.name in _bases(one))
        return is_part and is_related
    is_own = name.startswith("self.") or (where is function and not path.startswith("self."))
    return is_part and not is_own and root_of(name) in _ANYTHING


def _bases(owner: Class) -> set[str]:
    return {tail_of(each) for each in owner.bases}


def _frozen(file: FileTables) -> Iterator[tuple[str, Function]]:
    """Yield the paths that are frozen, with where; an empty one for what cannot be told."""
    for function in file.functions:
        for target, assignments in function.assignments.items():
            for each in assignments:
                if target.endswith("requires_grad") and isinstance(each.node, ast.Attribute) and _is_off(each.value):
                    yield from _held(each.node.value, function)
        for call in function.calls:
            is_off = call.tail == "requires_grad_" and _is_off(call.argument(0, "requires_grad"))
            if (is_off or call.tail == "detach_") and isinstance(call.node.func, ast.Attribute):
                yield from _held(call.node.func.value, function)
            elif "freeze" in call.tail and "unfreeze" not in call.tail:
                parts = [call.node.func.value] if isinstance(call.node.func, ast.Attribute) else []
                for part in (*parts, *call.node.args):
                    yield from _held(part, function)


def _is_off(value: ast.expr | None) -> bool:
    """Return whether a flag is not surely on."""
    return value is not None and not (isinstance(value, ast.Constant) and value.value is True)


def _held(node: ast.expr, function: Function) -> Iterator[tuple[str, Function]]:
    """Yield what an expression is a part of: for a variable of a loop, what the loop goes over."""
    for path in _paths(node):
        loops = [
            each.value
            for each in function.assignments.get(root_of(path), ())
            if isinstance(each.statement, ast.For | ast.AsyncFor)
        ]
        if loops:
            yield from ((inner, function) for value in loops for inner in _paths(value))
        else:
            yield path, function


def _paths(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Name() | ast.Attribute() if dotted(node):
            path = dotted(node)
            while tail_of(path) in _INSIDE and "." in path:
                path = path.rpartition(".")[0]
            yield path if "(" not in path else ""
        case ast.Call(func=ast.Attribute() as called):
            yield from _paths(called.value if called.attr not in _INSIDE else called)
        case ast.Call(args=arguments):
            for each in arguments:
                yield from _paths(each)
        case ast.Subscript(value=value) | ast.Starred(value=value):
            yield from _paths(value)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            for each in parts:
                yield from _paths(each)
        case ast.BinOp(left=left, right=right):
            yield from _paths(left)
            yield from _paths(right)
        case _:
            yield ""
