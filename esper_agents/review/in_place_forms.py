"""Operations that a change replaces by their form in place, or the other way round."""

from __future__ import annotations

import ast

_CHANGES = "it changes {} in place, and with it what shares its memory"
_KEEPS = "{} itself keeps its value"


def in_place_consequence(old: ast.AST, new: ast.AST) -> str:
    """Return what follows if one of two statements or calls is the form in place of the other; empty if none is.

    Args:
        old: Before the change, such as `y = x.add(1)` or `x.relu()`.
        new: After it, such as `x.add_(1)`, `x += 1` or `x.relu_()`.
    """
    before, after = _operation(old), _operation(new)
    if before is None or after is None or before[:2] != after[:2] or before[2] == after[2]:
        return ""
    return (_CHANGES if after[2] else _KEEPS).format(f"`{after[0]}`")


def _operation(node: ast.AST) -> tuple[str, str, bool] | None:
    """Return what an operation is applied to, its name, and whether it is in place; None for anything else."""
    match node:
        case ast.Assign(value=value) | ast.Return(value=ast.expr() as value) | ast.Expr(value=value):
            return _operation(value)
        case ast.AugAssign(target=target, op=op):
            return ast.unparse(target), type(op).__name__, True
        case ast.BinOp(left=left, op=op):
            return ast.unparse(left), type(op).__name__, False
        case ast.Call(func=ast.Attribute(value=value, attr=name)):
            is_in_place = name.endswith("_") and not name.endswith("__")
            return ast.unparse(value), name.removesuffix("_") if is_in_place else name, is_in_place
        case _:
            return None
