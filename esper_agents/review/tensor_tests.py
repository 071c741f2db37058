"""Tests on the values of tensors: where the way a function goes on depends on what a tensor holds."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.blocks import BlockKind
from esper_agents.review.conditions import names_in
from esper_agents.review.names import dotted, root_of, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.tables import Class, Function

_REDUCING = frozenset(
    {"sum", "any", "all", "max", "min", "mean", "norm", "isnan", "isfinite", "allclose", "equal", "item"}
)


def names_known(function: Function) -> set[str]:
    """Return the names that a function was given or has made."""
    return {*function.parameters, *function.assignments} - {"self"}


def tests_of(function: Function) -> Iterator[tuple[ast.expr, Block]]:
    """Yield what decides how a function goes on, each with the block it stands in."""
    for block in function.blocks:
        if block.kind in {BlockKind.IF, BlockKind.WHILE} and isinstance(block.node, ast.If | ast.While):
            yield block.node.test, block.parent or block
    for call in function.calls:
        # Every test on a tensor holds a call; an `assert` that torch can defer breaks nothing.
        for each in walk(call.statement) if _is_simple(call.statement) else ():
            if isinstance(each, ast.IfExp):
                yield each.test, call.block


def _is_simple(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return | ast.Expr)


def asks_a_tensor(test: ast.expr, function: Function) -> bool:
    """Return whether a test reads the value of a tensor: a reduction of something the function was given or made."""
    known = names_known(function)
    return any(
        is_reduction(each, known) or (isinstance(each, ast.Name) and _holds_a_reduction(each, known, function))
        for each in _values_asked(test)
    )


def asks_a_buffer(test: ast.expr, function: Function) -> bool:
    """Return whether a test reads the value of a buffer that the class of a method registers: `if self.is_ready:`."""
    buffers = buffers_of(function.owner) if function.owner is not None else frozenset()
    paths = {dotted(each) for each in _values_asked(test)}
    return any(path.removeprefix("self.") in buffers for path in paths if path.startswith("self."))


def asked_unless(test: ast.expr, function: Function) -> str:
    """Return the first part of a test if it may decide before a tensor is asked: `a` of `a or x.any()`."""
    first = test.values[0] if isinstance(test, ast.BoolOp) else None
    if first is None or asks_a_tensor(first, function) or asks_a_buffer(first, function):
        return ""
    return ast.unparse(first)


def buffers_of(owner: Class) -> frozenset[str]:
    """Return the names of the buffers that a class registers itself."""
    calls = [call for method in owner.methods.values() for call in method.calls if call.path == "self.register_buffer"]
    names = [call.argument(0, "name") for call in calls]
    return frozenset(each.value for each in names if isinstance(each, ast.Constant) and isinstance(each.value, str))


def _values_asked(test: ast.expr) -> Iterator[ast.expr]:
    """Yield the parts of a test whose values decide it; `x is None` and calls such as `len(x)` ask no value."""
    if isinstance(test, ast.BoolOp):
        for each in test.values:
            yield from _values_asked(each)
    elif isinstance(test, ast.UnaryOp):
        yield from _values_asked(test.operand)
    elif isinstance(test, ast.BinOp):
        yield from _values_asked(test.left)
        yield from _values_asked(test.right)
    elif isinstance(test, ast.Compare):
        if not isinstance(test.ops[0], ast.Is | ast.IsNot | ast.In | ast.NotIn):
            for each in (test.left, *test.comparators):
                yield from _values_asked(each)
    else:
        yield test


def _holds_a_reduction(name: ast.Name, known: set[str], function: Function) -> bool:
    last = function.last_assignment(name.id, name.lineno)
    return last is not None and not last.is_unpacked and is_reduction(last.value, known)


def is_reduction(node: ast.expr, known: set[str]) -> bool:
    """Return whether an expression reduces one of these names to one value: `x.abs().max()`, `torch.isnan(x)`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _REDUCING):
        return False
    operand = node.args[0] if dotted(node.func.value) == "torch" and node.args else node.func.value
    return bool(known & {root_of(path) for path in names_in(operand)}) and not _is_shape(operand)


def _is_shape(node: ast.expr) -> bool:
    return re.search(r"\.(shape|size|dim|ndim|numel|stride)\b", ast.unparse(node)) is not None
