"""What expressions and assignments are made of, as far as it says where their values live."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.conditions import tests_around

if TYPE_CHECKING:
    from esper_agents.review.tables import Assignment


def operands_of(node: ast.expr) -> list[ast.expr]:
    """Return the values that an operator, or a list, takes."""
    match node:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.Compare(left=left, comparators=others):
            return [left, *others]
        case ast.UnaryOp(operand=operand):
            return [operand]
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return parts
        case _:
            return []


def keeps_dimensions(index: ast.expr) -> bool:
    """Return whether a subscript surely leaves some dimensions."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(part, ast.Slice) or (isinstance(part, ast.Constant) and part.value is None) for part in parts)


def position_of(found: Assignment) -> int | None:
    """Return which of several targets a binding is; None where there is but one, or they are nested."""
    statement = found.statement
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    for target in targets:
        parts = target.elts if isinstance(target, ast.Tuple | ast.List) else []
        if found.node in parts:
            return parts.index(found.node)
    return None


def stands_for_nothing(found: Assignment, path: str) -> bool:
    """Return whether a binding takes the place of a value that was not given: `if h is None: h = ...`."""
    function = found.block.function
    return any(
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.Is)
        and ast.unparse(test.left) == path
        and ast.unparse(test.comparators[0]) == "None"
        for test in tests_around(found.block, function.block)
    )
