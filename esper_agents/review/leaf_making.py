"""How tensors are made that require gradients, and are no result of an operation."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, tail_of
from esper_agents.review.objects import resolve
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from esper_agents.review.tables import Function

_MAKING = pattern(
    r"torch\.(?:(?:zeros|ones|empty|full|rand|randn|tensor|eye|arange|linspace|normal)(?:_like)?|from_numpy|as_tensor"
    r"|(?:Float|Double|Half)?Tensor|autograd\.Variable)"
)
# Methods that give a leaf of a leaf that requires no gradients.
_PASSING = frozenset({"to", "cuda", "cpu", "float", "double", "half", "clone", "contiguous", "detach"})
_FILLING = frozenset({"uniform_", "normal_", "fill_", "mul_", "add_", "clamp_", "zero_", "repeat", "expand"})


def makes_leaf(value: ast.expr, function: Function) -> bool:
    """Return whether an expression makes a leaf that requires gradients."""
    if not isinstance(value, ast.Call):
        return False
    name = resolve(dotted(value.func), function)
    wanted = {keyword.arg: keyword.value for keyword in value.keywords}.get("requires_grad")
    if name.endswith("nn.Parameter") or name == "torch.nn.parameter.Parameter":
        return wanted is None
    if _MAKING.fullmatch(name):
        return wanted is not None and is_true(wanted)
    if isinstance(value.func, ast.Attribute) and value.func.attr == "requires_grad_":
        is_on = not value.args or is_true(value.args[0])
        return is_on and was_made(value.func.value, function)
    return False


def switches_on(value: ast.expr, function: Function) -> bool:
    """Return whether an expression asks gradients of a copy of what was handed in: `x.clone().requires_grad_()`."""
    inner = value.func.value if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) else None
    return asks_gradients(value) and isinstance(inner, ast.Call) and passes_leaf(inner, function, "")


def asks_gradients(value: ast.expr) -> bool:
    """Return whether an expression ends in `.requires_grad_()`, whatever it asks that of."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return False
    given = [*value.args, *(keyword.value for keyword in value.keywords)]
    return value.func.attr == "requires_grad_" and (not given or is_true(given[0]))


def was_made(value: ast.expr, function: Function) -> bool:
    """Return whether an expression makes a tensor, detached or moved as it may be."""
    while isinstance(value, ast.Call):
        if tail_of(dotted(value.func)) == "detach" or _MAKING.fullmatch(resolve(dotted(value.func), function)):
            return True
        if not isinstance(value.func, ast.Attribute) or value.func.attr not in _PASSING | _FILLING:
            return False
        value = value.func.value
    return False


def passes_leaf(value: ast.expr, function: Function, path: str) -> bool:
    """Return whether an expression gives a leaf: one that was made, detached, or moved as it was given."""
    while isinstance(value, ast.Call):
        if _MAKING.fullmatch(resolve(dotted(value.func), function)):
            return True
        if not isinstance(value.func, ast.Attribute) or value.func.attr not in _PASSING:
            return False
        if value.func.attr == "detach":
            return True
        value = value.func.value
    is_data = isinstance(value, ast.Attribute) and value.attr == "data"
    return is_data or (isinstance(value, ast.Name) and (value.id == path or value.id in function.parameters))


def is_true(node: ast.expr) -> bool:
    """Return whether an expression is `True`, written out."""
    return isinstance(node, ast.Constant) and node.value is True
