"""Local names that only pass a value on to the next statement, replaced by the value in both versions of a function."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = ("body", "orelse", "finalbody")
_SIMPLE = (ast.Return, ast.Expr, ast.Assign, ast.AugAssign, ast.Raise)
# Code in these may run later, more than once or not at all.
_DEFERRED = (
    *(ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.IfExp, ast.BoolOp, ast.NamedExpr),
    *(ast.Await, ast.Yield, ast.YieldFrom),
)


def with_values_inlined(node: ast.AST) -> ast.AST:
    """Return a copy of a function in which a name that is read once, by the next statement, is replaced by its value.

    `y = f(x)` and `return y * 2` become `return f(x) * 2`: what runs, and in which order, stays the same. Anything that
    is not a function is returned as it is.

    Args:
        node: The function.
    """
    if not isinstance(node, _FUNCTIONS):
        return node
    made = copy.deepcopy(node)
    names = [each for each in ast.walk(made) if isinstance(each, ast.Name)]
    stored = Counter(each.id for each in names if not isinstance(each.ctx, ast.Load))
    loaded = Counter(each.id for each in names if isinstance(each.ctx, ast.Load))
    shared = {name for each in ast.walk(made) if isinstance(each, ast.Global | ast.Nonlocal) for name in each.names}
    shared |= {each.arg for each in ast.walk(made) if isinstance(each, ast.arg)}
    single = {name for name in stored if stored[name] == 1 and loaded[name] == 1 and name not in shared}
    for each in ast.walk(made):
        for field in _BLOCKS:
            block = getattr(each, field, None)
            if isinstance(block, list) and single:
                block[:] = _inlined(block, single)
    return made


def _inlined(block: Sequence[ast.stmt], single: set[str]) -> list[ast.stmt]:
    """Return a block without the assignments whose value the statement after them uses first."""
    done: list[ast.stmt] = []
    for statement in block:
        while done and isinstance(statement, _SIMPLE) and (name := _assigned(done[-1])) in single:
            value = done[-1].value  # type: ignore[attr-defined] # `_assigned` names the target of an assignment
            if not _takes(statement, name, value):
                break
            done.pop()
        done.append(statement)
    return done


def _assigned(statement: ast.stmt) -> str:
    """Return the name that a plain assignment binds; empty for anything else."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case _:
            return ""


def _takes(statement: ast.stmt, name: str, value: ast.expr) -> bool:
    """Replace a name in a statement by its value, if nothing that can have an effect is evaluated before it."""
    order = list(_evaluated(statement))
    at = next((number for number, each in enumerate(order) if isinstance(each, ast.Name) and each.id == name), None)
    if at is None or any(isinstance(each, _DEFERRED) for each in ast.walk(statement)):
        return False
    # A local name stands for the same object whenever it is read; what is computed from it may change.
    before = [each for each in order[:at] if not isinstance(each, ast.Name | ast.Constant)]
    if before and (_can_have_effect(value) or any(_can_have_effect(each) for each in before)):
        return False
    return _replace(statement, name, value)


def _evaluated(statement: ast.stmt) -> list[ast.expr]:
    """Return the parts of a statement that are evaluated, in order: an operand before what uses it."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            # The targets are evaluated after the value.
            roots: list[ast.expr] = [value, *targets]
        case ast.AugAssign(target=target, value=value):
            roots = [target, value]
        case ast.Return(value=value) | ast.Expr(value=value):
            roots = [value] if value is not None else []
        case ast.Raise(exc=exc, cause=cause):
            roots = [each for each in (exc, cause) if each is not None]
        case _:
            roots = []
    found: list[ast.expr] = []
    for root in roots:
        _operands(root, found)
    return found


def _operands(node: ast.AST, found: list[ast.expr]) -> None:
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        children: list[ast.AST] = [each for pair in pairs for each in pair if each is not None]
    else:
        children = list(ast.iter_child_nodes(node))
    for child in children:
        if not isinstance(child, ast.expr_context | ast.operator | ast.unaryop | ast.cmpop):
            _operands(child, found)
    if isinstance(node, ast.expr):
        found.append(node)


def _can_have_effect(value: ast.expr) -> bool:
    """Return whether computing a value can change a name or an object: a call of anything, or an await."""
    return any(isinstance(each, ast.Call | ast.Await | ast.Yield | ast.YieldFrom) for each in ast.walk(value))


def _replace(statement: ast.stmt, name: str, value: ast.expr) -> bool:
    for parent in ast.walk(statement):
        for field, held in ast.iter_fields(parent):
            if isinstance(held, ast.Name) and held.id == name and isinstance(held.ctx, ast.Load):
                setattr(parent, field, value)
                return True
            if isinstance(held, list):
                for number, each in enumerate(held):
                    if isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Load):
                        held[number] = value
                        return True
    return False
