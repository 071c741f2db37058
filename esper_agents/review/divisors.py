"""What divides what, and what a divisor is made of."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, tail_of, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Function

_RESHAPING = frozenset({"unsqueeze", "view", "reshape", "expand_as", "expand", "to", "float"})
_NORMS = frozenset({"norm", "vector_norm"})
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)


def bare(node: ast.expr) -> ast.expr:
    """Return a divisor without what only changes its shape: `s.unsqueeze(1)`, `s[:, None]`."""
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _RESHAPING:
            node = node.func.value
        else:
            return node


def division_around(call: Call) -> ast.BinOp | None:
    """Return the division in a call's statement whose divisor, or one factor of it, the call is."""
    if not isinstance(call.statement, _SIMPLE):
        return None
    for division in _divisions(call.statement):
        right = division.right
        is_product = isinstance(right, ast.BinOp) and isinstance(right.op, ast.Mult)
        parts = [right.left, right.right] if is_product and isinstance(right, ast.BinOp) else [right]
        if any(bare(part) is call.node for part in parts):
            return division
    return None


def _divisions(statement: ast.AST) -> Iterator[ast.BinOp]:
    for node in walk(statement):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            yield node


def is_product_of_norms(divisor: ast.expr) -> bool:
    """Return whether a divisor is two norms multiplied."""
    if not (isinstance(divisor, ast.BinOp) and isinstance(divisor.op, ast.Mult)):
        return False
    return all(tail_of(dotted(bare(each))) in _NORMS for each in (divisor.left, divisor.right))


def divides_masked_sum(division: ast.BinOp, mask: ast.expr) -> bool:
    """Return whether a sum of products with a mask is divided by the sum of the mask."""
    top, name = division.left, dotted(mask)
    if not (isinstance(top, ast.Call) and tail_of(dotted(top.func)) == "sum" and name):
        return False
    return any(dotted(each) == name for each in walk(top) if isinstance(each, ast.Name | ast.Attribute))


def is_comparison(mask: ast.expr, call: Call, index: ProjectIndex) -> bool:
    """Return whether a mask was made by comparing, so that it may be empty."""
    return any(
        any(isinstance(each, ast.Compare) for each in walk(origin.value))
        for origin in index.origins(mask, call.function, call.line)
    )


def division_by_sums(call: Call) -> ast.BinOp | None:
    """Return the division whose divisor is sums added up, of which a call is the first: `a.sum() + b.sum()`."""
    if not isinstance(call.parent, ast.BinOp) or not isinstance(call.statement, _SIMPLE):
        return None
    whole = next((each for each in _sums(call.statement, call.function) if _first(each) is call.node), None)
    if whole is None:
        return None
    direct = next((division for division in _divisions(call.statement) if division.right is whole), None)
    if direct is not None or not isinstance(call.statement, ast.Assign) or call.statement.value is not whole:
        return direct
    name = dotted(call.statement.targets[0])
    later = [statement for statement in _statements(call.function) if statement.lineno > call.line]
    return next(
        (division for one in later for division in _divisions(one) if dotted(division.right) == name != ""), None
    )


def _sums(statement: ast.stmt, function: Function) -> Iterator[ast.BinOp]:
    """Yield what a statement adds up of sums alone, the widest first."""
    for node in walk(statement):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            leaves = list(_leaves(node))
            if len(leaves) > 1 and all(_is_sum(leaf, function) for leaf in leaves):
                yield node


def _leaves(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield from _leaves(node.left)
        yield from _leaves(node.right)
    else:
        yield node


def _first(node: ast.BinOp) -> ast.expr:
    return next(_leaves(node))


def _is_sum(node: ast.expr, function: Function) -> bool:
    node = bare(node)
    if isinstance(node, ast.Name):
        made = function.assignments.get(node.id, ())
        return len(made) == 1 and not made[0].is_unpacked and _is_sum_call(bare(made[0].value))
    return _is_sum_call(node)


def _is_sum_call(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and tail_of(dotted(node.func)) == "sum"


def _statements(function: Function) -> list[ast.stmt]:
    """Return the statements of a function that make or return values, in order."""
    made = [assignment.statement for assignments in function.assignments.values() for assignment in assignments]
    found = [each for each in made if isinstance(each, ast.Assign | ast.AugAssign)]
    return sorted([*found, *(each for each, _ in function.returns)], key=lambda each: each.lineno)
