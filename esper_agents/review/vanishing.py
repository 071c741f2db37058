"""Values that are rounded to exactly 0 in the end: exponentials of squares, and what is multiplied with a zero."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.magnitudes import bare, is_number, operand, squared
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.unpacked import parts_returned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import Origin, ProjectIndex
    from esper_agents.review.tables import Call, Function

_DISTANCES = frozenset({"cdist", "pairwise_distance", "dist", "mse_loss", "norm", "vector_norm", "square"})
_ADDING = frozenset({"sum", "mean", "nansum", "nanmean"})
_FLOORED = pattern(r"eps|clamp|clip|\+ ?\d|1e-|softmax|sigmoid|softplus|maximum|where|nan_to_num|masked_fill|tiny")
_STEPS = 5


def exponential_in(origin: Origin, index: ProjectIndex, steps: int = _STEPS) -> Origin | None:
    """Return the exponential of a negative square that is summed up or scaled in a value; None where there is none.

    A Gaussian is rounded to 0 from about 14 standard deviations on, and so is a sum of such.
    """
    value = bare(origin.value, origin.function) if steps else None
    match value:
        case ast.Name() | ast.Attribute():
            return _first([value], origin, index, steps)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _first([left, right], origin, index, steps)
        case ast.BinOp(left=left, op=ast.Div()):
            return _first([left], origin, index, steps)
        case ast.Call():
            return _called(value, origin, index, steps)
        case _:
            return None


def _first(parts: list[ast.expr], origin: Origin, index: ProjectIndex, steps: int) -> Origin | None:
    found = (exponential_in(each, index, steps - 1) for part in parts for each in _origins(part, origin, index))
    return next((each for each in found if each is not None), None)


def _origins(node: ast.expr, origin: Origin, index: ProjectIndex) -> Iterator[Origin]:
    """Yield where a value comes from; of a part of what a call gives, what the called function put there."""
    for each in index.origins(node, origin.function, origin.line):
        parts = list(parts_returned(each.value, each.function, each.line, index))
        yield from parts or [each]


def _called(value: ast.Call, origin: Origin, index: ProjectIndex, steps: int) -> Origin | None:
    tail, inner = tail_of(dotted(value.func)), operand(value, origin.function)
    if tail == "exp" and inner is not None:
        is_square = any(_is_negative_square(each, index) for each in _origins(inner, origin, index))
        return origin if is_square else None
    return _first([inner], origin, index, steps) if tail in _ADDING and inner is not None else None


def _is_negative_square(origin: Origin, index: ProjectIndex) -> bool:
    """Return whether a value is minus a square or a distance, scaled or not: `-0.5 * z ** 2`, `-d / (2 * s * s)`."""
    factors = list(_factors(origin.value))
    is_negative = any(isinstance(factor, ast.UnaryOp) and isinstance(factor.op, ast.USub) for factor in factors)
    if not is_negative:
        return False
    texts = [ast.unparse(factor) for factor in factors if not isinstance(factor, ast.Constant)]
    if len(set(texts)) < len(texts):
        return True
    named = (factor.operand if isinstance(factor, ast.UnaryOp) else factor for factor in factors)
    return any(_is_square(one.value, one.function) for each in named for one in _origins(each, origin, index))


def _factors(node: ast.expr) -> Iterator[ast.expr]:
    """Yield what is multiplied, and what is divided, in an expression."""
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right) if squared_alike(left, right):
            yield node
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            yield from _factors(left)
            yield from _factors(right)
        case ast.BinOp(left=left, op=ast.Div()):
            yield from _factors(left)
        case ast.UnaryOp(op=ast.USub(), operand=inner) if not isinstance(inner, ast.Constant):
            yield node
            yield from _factors(inner)
        case _:
            yield node


def squared_alike(left: ast.expr, right: ast.expr) -> bool:
    """Return whether a product is a square written out: `z * z`."""
    last = left.right if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mult) else left
    return last is left and not isinstance(left, ast.Constant) and ast.unparse(left) == ast.unparse(right)


def _is_square(node: ast.expr, function: Function) -> bool:
    node = bare(node, function)
    if squared(node, function) is not None:
        return True
    if not isinstance(node, ast.Call):
        return isinstance(node, ast.BinOp) and any(_is_square(each, function) for each in (node.left, node.right))
    tail, inner = tail_of(dotted(node.func)), operand(node, function)
    if tail in _DISTANCES:
        return True
    return tail in _ADDING and inner is not None and _is_square(inner, function)


def weighs_itself(call: Call, value: ast.expr) -> bool:
    """Return whether a logarithm is multiplied with what it is taken of: `p * p.log()`, `p * torch.log(p / q)`."""
    parent = call.parent
    if not (isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult)):
        return False
    other = parent.left if parent.right is call.node else parent.right
    if isinstance(other, ast.UnaryOp):
        other = other.operand
    top = value.left if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div) else value
    return bool(dotted(other)) and ast.unparse(other) == ast.unparse(top)


def is_complemented(call: Call, value: ast.expr) -> bool:
    """Return whether a function takes the logarithm of a value and of 1 minus it, as a cross entropy by hand does."""
    name = ast.unparse(value)
    is_weighed = isinstance(call.parent, ast.BinOp) and isinstance(call.parent.op, ast.Mult)
    if not is_weighed or not isinstance(value, ast.Name | ast.Attribute):
        return False
    for each in call.function.calls:
        if each is call or each.tail not in {"log", "log2", "log10"}:
            continue
        for part in (*each.node.args, getattr(each.node.func, "value", None)):
            if isinstance(part, ast.BinOp) and is_number(part.left, 1) and ast.unparse(part) == f"1 - {name}":
                return True
    return False


def is_bare(value: ast.expr, call: Call, index: ProjectIndex) -> bool:
    """Return whether nothing in sight keeps a value from 0, and nothing shows what it is made of."""
    function = call.function
    top = value.left if isinstance(value, ast.BinOp) else value
    texts = [ast.unparse(origin.value) for origin in index.origins(top, function, call.line)]
    made = [ast.unparse(each.value) for each in function.assignments.get(dotted(top), ())]
    is_written = any(isinstance(each, ast.Constant) for each in walk(top))
    return not is_written and not any(_FLOORED.search(text) for text in (*texts, *made))
