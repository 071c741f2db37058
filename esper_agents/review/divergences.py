"""Divergences of a normal distribution from the standard one, as they are written out."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

REDUCING = frozenset({"sum", "mean"})


def sign(value: ast.expr) -> int:
    """Return the sign with which `1 + logvar - mu**2 - exp(logvar)` stands in a value, 0 if it does not.

    Factors are constants; a sum or a mean over axes changes nothing.
    """
    match value:
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -sign(inner)
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
            for one, other in ((left, right), (right, left)):
                if found := sign(one):
                    return -found if is_negative(other) else found
            return 0
        case ast.Call(func=ast.Attribute(value=inner, attr=tail)) if tail in REDUCING:
            of_torch = dotted(inner) in {"torch", "tf"}
            return sign(value.args[0]) if of_torch and value.args else 0 if of_torch else sign(inner)
        case ast.BinOp():
            return 1 if _is_term(value) else -1 if _is_term(value, turned=True) else 0
        case _:
            return 0


def is_negative(value: ast.expr) -> bool:
    """Return whether a value is written with a minus."""
    return isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub)


def _is_term(value: ast.BinOp, *, turned: bool = False) -> bool:
    """Return whether a sum is `1 + a - b**2 - exp(a)` in any order, or, if turned, minus that."""
    terms = [(-side if turned else side, part) for side, part in signed_terms(value)]
    if len(terms) != 4:  # noqa: PLR2004 - the terms of the formula
        return False
    kinds = {(side, _kind(part)) for side, part in terms}
    return kinds == {(1, "one"), (1, "plain"), (-1, "square"), (-1, "exponential")}


def signed_terms(value: ast.expr, side: int = 1) -> Iterator[tuple[int, ast.expr]]:
    """Yield the terms of a sum, each with its sign."""
    match value:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from (*signed_terms(left, side), *signed_terms(right, side))
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            yield from (*signed_terms(left, side), *signed_terms(right, -side))
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            yield from signed_terms(inner, -side)
        case _:
            yield side, value


def _kind(part: ast.expr) -> str:
    match part:
        case ast.Constant(value=1 | 1.0):
            return "one"
        case ast.BinOp(op=ast.Pow()):
            return "square"
        case ast.BinOp(left=left, op=ast.Mult(), right=right) if ast.dump(left) == ast.dump(right):
            return "square"
        case ast.Call(func=func):
            tail = dotted(func).rpartition(".")[2]
            return {"pow": "square", "square": "square", "exp": "exponential"}.get(tail, "plain")
        case _:
            return "plain"
