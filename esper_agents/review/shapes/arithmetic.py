"""What operators and constants give."""

from __future__ import annotations

import ast
from dataclasses import replace

from esper_agents.review.shapes import algebra
from esper_agents.review.shapes.facts import UNKNOWN, Handed, Items, Number, Tensor, Text, Value
from esper_agents.review.shapes.sizes import Dim, divided, plus, times


def combined(operator: ast.operator, one: Value, two: Value) -> Value:
    """Return what an arithmetic operator makes of two values."""
    if isinstance(operator, ast.MatMult):
        parts = [each if isinstance(each, Tensor) else UNKNOWN for each in (one, two)]
        return algebra.multiplied(*parts)
    if isinstance(one, Tensor) and isinstance(two, Tensor):
        return algebra.broadcast(one, two)
    if isinstance(one, Tensor | Number) and isinstance(two, Tensor | Number):
        tensor = one if isinstance(one, Tensor) else two
        if isinstance(tensor, Tensor):
            return replace(tensor, kind=None)
    if isinstance(one, Number | Handed) and isinstance(two, Number | Handed):
        dim = _calculated(operator, one.dim, two.dim)
        is_number = isinstance(one, Number) and isinstance(two, Number)
        return Number(dim) if is_number else (Handed(dim) if dim is not None else None)
    if isinstance(one, Items) and isinstance(two, Items) and isinstance(operator, ast.Add):
        return Items(one.values + two.values)
    return UNKNOWN if isinstance(one, Tensor) or isinstance(two, Tensor) else None


def _calculated(operator: ast.operator, one: Dim, two: Dim) -> Dim:
    match operator:
        case ast.Mult():
            return times(one, two)
        case ast.Add():
            return plus(one, two)
        case ast.Sub():
            return plus(one, two, -1)
        case ast.FloorDiv():
            return divided(one, two)
        case ast.Pow() if isinstance(one, int) and isinstance(two, int) and 0 <= two < 9:  # noqa: PLR2004 - a size
            return int(one**two)
        case _:
            return None


def negated(operator: ast.unaryop, value: Value) -> Value:
    """Return what a sign or a `not` makes of a value."""
    if isinstance(value, Number) and isinstance(operator, ast.USub):
        return Number(-value.dim if isinstance(value.dim, int) else None)
    return Number() if isinstance(operator, ast.Not) else value


def constant(value: object) -> Value:
    """Return what a literal is."""
    if isinstance(value, int):
        return Number(int(value))
    if isinstance(value, str):
        return Text(value)
    return Number() if isinstance(value, float) else None


def integer(node: ast.expr) -> int | None:
    """Return an integer that is written out, with its sign; None where it is none."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if isinstance(value, int) else None
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else None
