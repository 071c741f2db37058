"""Names in syntax that lowering asks about: names read, names bound, tests for None."""

from __future__ import annotations

import ast

from esper_agents.review.names import dotted, walk


def names_read(node: ast.expr) -> frozenset[str]:
    """Return the paths that an expression reads: `total` and `self.total` of `self.total + total`."""
    return frozenset(dotted(each) for each in walk(node) if isinstance(each, ast.Name | ast.Attribute | ast.Subscript))


def bound_names(node: ast.AST) -> list[str]:
    """Return the names that a target or a pattern binds."""
    found: list[str] = []
    for each in walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            found.append(each.id)
        elif isinstance(each, ast.MatchAs | ast.MatchStar) and each.name:
            found.append(each.name)
    return found


def is_main_guard(test: ast.expr) -> bool:
    """Return whether a test is `__name__ == "__main__"`."""
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def none_test(test: ast.expr) -> tuple[str, bool]:
    """Return the name that a test compares with None, and whether the test holds if it is None."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        name, is_none = none_test(test.operand)
        return name, not is_none
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.left, ast.Name):
        return "", True
    right = test.comparators[0]
    if isinstance(right, ast.Constant) and right.value is None and isinstance(test.ops[0], ast.Is | ast.IsNot):
        return test.left.id, isinstance(test.ops[0], ast.Is)
    return "", True


def template(node: ast.JoinedStr) -> str:
    """Return a formatted string with NUL for each value; empty if a value has a format or a conversion."""
    parts = []
    for each in node.values:
        if isinstance(each, ast.Constant):
            parts.append(str(each.value))
        elif isinstance(each, ast.FormattedValue) and each.format_spec is None and each.conversion < 0:
            parts.append("\0")
        else:
            return ""
    return "".join(parts)


def is_number(node: ast.expr) -> bool:
    """Return whether an expression is a number, with a sign or without."""
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(inner, ast.Constant) and isinstance(inner.value, int | float)
