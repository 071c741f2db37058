"""Values of chosen actions, (batch, 1), and best values, (batch,), of Q-networks."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.index import Origin
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.softmaxes import written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Function

_STEPS = 5
# What gives a value an axis, or may give it one.
_WIDENING = frozenset({"unsqueeze", "view", "reshape", "expand", "stack", "gather", "repeat", "view_as", "expand_as"})


def is_column_of_actions(node: ast.expr, call: Call) -> bool:
    """Return whether a value is `q.gather(1, action.unsqueeze(1))`, a column, as it is."""
    for each in _made(node, call.function, call.line):
        match each:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="gather"), args=[_, axis, index]):
                pass
            case ast.Call(func=ast.Attribute(attr="gather"), args=[axis, index]):
                pass
            case _:
                return False
        return written(axis) in {1, -1} and any(_is_column(one) for one in _made(index, call.function, call.line))
    return False


def is_row_of_best(node: ast.expr, call: Call, index: ProjectIndex) -> bool:
    """Return whether a value is computed from `q.max(1)[0]`, or from a squeezed column, and has one axis."""
    if _is_row(Origin(node, call.function, call.line), index, 2 * _STEPS):
        return True
    nodes = list(_all(node, call.function, call.line, _STEPS))
    calls = [each for each in nodes if isinstance(each, ast.Call)]
    if any(tail_of(dotted(each.func)) in _WIDENING or _keeps(each) for each in calls):
        return False
    if any(isinstance(each, ast.Subscript) and _has_new_axis(each) for each in nodes):
        return False
    return any(_is_best(each) for each in nodes)


def _is_row(at: Origin, index: ProjectIndex, steps: int) -> bool:
    """Return whether a value is a gathered or best value of each row, with the axis of one taken off."""
    value, function, line = at.value, at.function, at.line
    parts: list[Origin] = []
    match value if steps else None:
        case ast.Name(id=name):
            made = function.last_assignment(name, line)
            if made is not None and not made.is_unpacked and not made.is_augmented:
                parts = [Origin(made.value, function, made.line)]
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult(), right=right):
            sides = [Origin(each, function, line) for each in (left, right)]
            return any(_is_row(each, index, steps - 1) for each in sides) and not any(
                _is_column(one) for one in (left, right)
            )
        case ast.Call(func=ast.Attribute(value=inner, attr="detach" | "clamp" | "float")):
            parts = [Origin(inner, function, line)]
        case ast.Call(func=ast.Attribute(value=inner, attr="squeeze"), args=[axis]) if written(axis) in {1, -1}:
            return any(_is_gathered_column(each, function, line) for each in _made(inner, function, line))
        case ast.Call():
            called = index.function_named(value, function)
            ends = [each.value for each, _ in called.returns if each.value is not None] if called is not None else []
            if called is not None and len(ends) == 1:
                parts = [Origin(ends[0], called, ends[0].lineno)]
        case _:
            pass
    return any(_is_row(each, index, steps - 1) for each in parts)


def _is_gathered_column(node: ast.expr, function: Function, line: int) -> bool:
    """Return whether a value is `q.gather(1, best)` where `best` is a column."""
    match node:
        case ast.Call(func=ast.Attribute(attr="gather"), args=[axis, chosen]) if written(axis) in {1, -1}:
            made = list(_made(chosen, function, line))
            return any(_is_column(each) or (isinstance(each, ast.Call) and _keeps(each)) for each in made)
        case _:
            return False


def _made(node: ast.expr, function: Function, line: int) -> Iterator[ast.expr]:
    """Yield what a name was made of, once."""
    for _ in range(_STEPS):
        made = function.last_assignment(node.id, line) if isinstance(node, ast.Name) else None
        if made is None or made.is_unpacked or made.is_augmented:
            break
        node, line = made.value, made.line
    yield node


def _all(node: ast.expr, function: Function, line: int, steps: int) -> Iterator[ast.AST]:
    """Yield the parts of an expression, and of what its names were made of in the function."""
    for each in walk(node):
        yield each
        made = function.last_assignment(each.id, line) if isinstance(each, ast.Name) and steps else None
        if made is not None and not isinstance(made.statement, ast.For):
            yield from _all(made.value, function, made.line, steps - 1)


def _is_column(node: ast.expr) -> bool:
    """Return whether a value was just given a second axis of one."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"long", "to"}:
        node = node.func.value
    match node:
        case ast.Call(func=ast.Attribute(attr="unsqueeze"), args=[axis]):
            return written(axis) in {1, -1}
        case ast.Call(func=ast.Attribute(attr="view" | "reshape"), args=[first, ast.Constant(value=1)]):
            return written(first) == -1
        case ast.Subscript(slice=ast.Tuple(elts=[ast.Slice(), ast.Constant(value=None)])):
            return True
        case _:
            return False


def _keeps(call: ast.Call) -> bool:
    return any(each.arg == "keepdim" for each in call.keywords)


def _has_new_axis(node: ast.Subscript) -> bool:
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return any(isinstance(each, ast.Constant) and each.value is None for each in parts)


def _is_best(node: ast.AST) -> bool:
    """Return whether an expression is the best value along axis 1: `q.max(1)[0]`, `q.max(1).values`, `q.amax(1)`."""
    match node:
        case (
            ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=0))
            | ast.Attribute(value=ast.Call() as call, attr="values")
        ):
            return tail_of(dotted(call.func)) == "max" and _axis(call) in {1, -1}
        case ast.Call() as call:
            return tail_of(dotted(call.func)) == "amax" and _axis(call) in {1, -1}
        case _:
            return False


def _axis(call: ast.Call) -> int | None:
    given = [*call.args[int(dotted(call.func).startswith("torch.")) :][:1]]
    given += [each.value for each in call.keywords if each.arg == "dim"]
    return written(given[0]) if given else None
