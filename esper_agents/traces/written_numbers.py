"""Whole numbers of expressions, and the places that write them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.traces.origins import OriginTracer
    from esper_agents.traces.program_index import CodeScope, OriginValue


def number_of(tracer: OriginTracer, node: ast.expr, scope: CodeScope) -> int | None:
    """Return the whole number that an expression has; None if the code does not decide it."""
    value = tracer.last(node, scope)
    if value.depth:
        return None
    match value.node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            positive = number_of(tracer, inner, value.scope)
            return None if positive is None else -positive
        case ast.Call(func=ast.Name(id="len"), args=[counted]):
            return _literal_length(tracer.last(counted, value.scope).node)
        case ast.BinOp(left=left, op=op, right=right):
            return _applied(op, number_of(tracer, left, value.scope), number_of(tracer, right, value.scope))
        case _:
            return None


def numbers_in(tracer: OriginTracer, node: ast.expr, scope: CodeScope) -> Iterator[tuple[ast.expr, OriginValue, int]]:
    """Yield the parts of an expression that are whole numbers, each with the place that writes it."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant | ast.Name | ast.Attribute | ast.Subscript):
            number = number_of(tracer, part, scope)
            if number is not None:
                yield part, tracer.last(part, scope), number


def _applied(op: ast.operator, a: int | None, b: int | None) -> int | None:
    if a is None or b is None or max(abs(a), abs(b)) > 10**9:
        return None
    match op:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.FloorDiv() if b:
            return a // b
    return None


def _literal_length(node: ast.expr) -> int | None:
    """Return the number of elements of a list, tuple, set or dictionary that the code writes out."""
    elements = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", None)
    if elements is None or any(each is None or isinstance(each, ast.Starred) for each in elements):
        return None
    return len(elements)
