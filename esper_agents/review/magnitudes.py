"""Values that are zero for ordinary inputs: squares and sums of them, and what is cut off at zero."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.index import Origin, resolve
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.shapes import shapes_of
from esper_agents.review.shapes.facts import Layer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Function

_RESHAPING = frozenset(
    {"unsqueeze", "squeeze", "view", "view_as", "reshape", "reshape_as", "expand_as", "expand", "flatten", "t"}
    | {"transpose", "permute", "contiguous", "to", "float", "double", "half", "type_as", "clone", "cpu", "cuda"}
    | {"repeat", "movedim", "broadcast_to", "gather", "index_select", "diagonal", "diag"}
)
_ADDING = frozenset({"sum", "mean", "nansum", "nanmean", "cumsum"})
_RELU = frozenset({"torch.relu", "torch.relu_", "torch.nn.functional.relu", "torch.nn.functional.relu_"})
_RELU_LAYERS = frozenset({"torch.nn.ReLU", "torch.nn.ReLU6", "torch.nn.Hardsigmoid", "torch.nn.Hardtanh"})
_CLAMPS = frozenset({"clamp", "clamp_min", "clip", "clamp_", "clamp_min_", "clip_"})
_PRODUCT = pattern(r"dot|inner|scalar_prod", re.IGNORECASE)
_MASK = pattern(r"mask|valid|keep|nonzero|non_zero|positive|^pos$|^nz$")
_STEPS = 6
_TWO = 2


def bare(node: ast.expr, function: Function) -> ast.expr:
    """Return a tensor without what only picks from it or changes its shape: `s.unsqueeze(1)`, `s[:, None]`."""
    while True:
        if isinstance(node, ast.Subscript):
            if _lets_through(node.slice):
                return node
            node = node.value
        elif isinstance(node, ast.Call) and tail_of(dotted(node.func)) in _RESHAPING:
            inner = operand(node, function)
            if inner is None:
                return node
            node = inner
        else:
            return node


def _lets_through(index: ast.expr) -> bool:
    """Return whether an index is a test of the values, so that those it lets through may all be above zero."""
    return any(
        isinstance(each, ast.Compare) or (isinstance(each, ast.Name) and _MASK.search(each.id)) for each in walk(index)
    )


def operand(node: ast.Call, function: Function) -> ast.expr | None:
    """Return the tensor that a call works on: before `.sum()`, or the first argument of `torch.sum`."""
    name = resolve(dotted(node.func), function)
    if is_function(name):
        named = (keyword.value for keyword in node.keywords if keyword.arg in {"input", "x", "self"})
        return node.args[0] if node.args else next(named, None)
    if name.startswith(("numpy.", "math.", "scipy.", "tensorflow.", "jax.", "pandas.", "mlx.")):
        return None
    return node.func.value if isinstance(node.func, ast.Attribute) else None


def later_arguments(node: ast.Call, function: Function) -> list[ast.expr]:
    """Return the positional arguments of a call after the tensor that it works on."""
    return node.args[is_function(resolve(dotted(node.func), function)) :]


def is_function(name: str) -> bool:
    """Return whether a resolved path is a function of torch, and no method of what one returns."""
    return name.startswith("torch.") and "(" not in name and "[" not in name


def squared(node: ast.expr, function: Function) -> ast.expr | None:
    """Return what is squared: `x` of `x ** 2`, `x * x`, `x.pow(2)` and `torch.square(x)`."""
    match node:
        case ast.BinOp(left=left, op=ast.Pow(), right=right) if is_number(right, _TWO):
            return left
        case ast.BinOp(left=left, op=ast.Mult(), right=right) if _same(left, right):
            return left
        case ast.Call(keywords=[]):
            return _squared_by_call(node, function)
        case _:
            return None


def _squared_by_call(node: ast.Call, function: Function) -> ast.expr | None:
    base, rest = operand(node, function), later_arguments(node, function)
    tail = tail_of(dotted(node.func)).rstrip("_")
    if base is None or (tail == "square" and rest) or tail not in {"square", "pow", "mul", "multiply"}:
        return None
    is_square = tail == "square" or (
        len(rest) == 1 and (is_number(rest[0], _TWO) if tail == "pow" else _same(base, rest[0]))
    )
    return base if is_square else None


def sum_of_squares(origin: Origin, index: ProjectIndex, steps: int = _STEPS) -> Origin | None:
    """Return what is squared and summed up in a value, or a sum of squares itself; None where it is no such value.

    A plain square, a variance and a mean squared error count as well.
    """
    if not steps:
        return None
    value = bare(origin.value, origin.function)
    if value is not origin.value and isinstance(value, ast.Name | ast.Attribute):
        return _first(index.origins(value, origin.function, origin.line), index, steps - 1)
    base = squared(value, origin.function)
    return Origin(base, origin.function, origin.line) if base is not None else _summed(value, origin, index, steps)


def _summed(value: ast.expr, origin: Origin, index: ProjectIndex, steps: int) -> Origin | None:
    """Return what is squared in a sum, or in a sum that is scaled."""
    match value:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            one, other = (_sum_of(each, origin, index, steps - 1) for each in (left, right))
            is_whole = one is not None and other is not None
            return one if is_whole and not any(_is_setting(each.value) for each in (one, other) if each) else None
        case ast.BinOp(left=left, op=ast.Div()):
            return _sum_of(left, origin, index, steps - 1)
        case (
            ast.BinOp(left=ast.Constant(), op=ast.Mult(), right=part)
            | ast.BinOp(left=part, op=ast.Mult(), right=ast.Constant())
        ):
            return _sum_of(part, origin, index, steps - 1)
        case ast.Call():
            return _summed_by_call(value, origin, index, steps - 1)
        case _:
            return None


def _is_setting(base: ast.expr) -> bool:
    """Return whether what is squared is held by the object, as settings and weights are."""
    return isinstance(base, ast.Attribute) and dotted(base).startswith("self.")


def _sum_of(node: ast.expr, origin: Origin, index: ProjectIndex, steps: int) -> Origin | None:
    return _first(index.origins(node, origin.function, origin.line), index, steps)


def _first(origins: Iterable[Origin], index: ProjectIndex, steps: int) -> Origin | None:
    return next((found for origin in origins if (found := sum_of_squares(origin, index, steps)) is not None), None)


def _summed_by_call(node: ast.Call, origin: Origin, index: ProjectIndex, steps: int) -> Origin | None:
    tail = tail_of(dotted(node.func))
    inner = operand(node, origin.function)
    if tail == "mse_loss":
        return Origin(node, origin.function, origin.line)
    layer = shapes_of(index).module_at(node.func, origin.function, origin.line)
    if layer is not None:
        return (
            Origin(node, origin.function, origin.line) if isinstance(layer, Layer) and layer.name == "MSELoss" else None
        )
    if tail in _ADDING and inner is not None:
        return _sum_of(inner, origin, index, steps)
    if tail == "var" and inner is not None:
        return Origin(inner, origin.function, origin.line)
    pair = [arg for arg in node.args if not isinstance(arg, ast.Constant)]
    pair = [inner, *pair] if inner is not None and len(pair) == 1 and inner is not pair[0] else pair
    if (_PRODUCT.search(tail) or tail == "einsum") and len(pair) == _TWO and _same(pair[0], pair[1]):
        return Origin(pair[0], origin.function, origin.line)
    return _first(_returned(node, origin, index), index, steps)


def _returned(node: ast.Call, origin: Origin, index: ProjectIndex) -> Iterator[Origin]:
    """Yield what a function that a call surely reaches returns, where there is one way out of it."""
    call = next((each for each in origin.function.calls if each.node is node), None)
    for called in index.callees(call) if call is not None else ():
        if len(called.returns) == 1 and called.returns[0][0].value is not None:
            statement = called.returns[0][0]
            yield from index.origins(called.returns[0][0].value, called, statement.lineno)


def cut_at_zero(value: ast.expr, origin: Origin, index: ProjectIndex) -> str:
    """Return in words what cuts a value off at zero, a `relu` or a clamp; empty where nothing does."""
    if not isinstance(value, ast.Call):
        return ""
    name = called_name(value, origin, index)
    tail = tail_of(dotted(value.func))
    if name in _RELU or name in _RELU_LAYERS or (tail in {"relu", "relu_"} and not value.args):
        return "a `relu`"
    rest = later_arguments(value, origin.function)
    if tail in _CLAMPS:
        floors = [keyword.value for keyword in value.keywords if keyword.arg == "min"] or rest
        return f"a `{tail}` at 0" if floors and is_number(floors[0], 0) else ""
    is_maximum = name in {"torch.maximum", "torch.max"} and len(value.args) == _TWO
    if is_maximum and any(tail_of(dotted(arg)) in {"zeros", "zeros_like", "new_zeros"} for arg in value.args):
        return "a maximum with 0"
    return ""


def called_name(value: ast.Call, origin: Origin, index: ProjectIndex) -> str:
    """Return the resolved path of what is called, that of the layer where a name or attribute holds one."""
    held = index.binding(dotted(value.func), origin.function, origin.line)
    if held is not None and isinstance(held.value, ast.Call) and not held.is_unpacked:
        made = held.value
        while tail_of(dotted(made.func)) == "Sequential" and made.args and isinstance(made.args[-1], ast.Call):
            made = made.args[-1]
        return resolve(dotted(made.func), held.block.function)
    name = resolve(dotted(value.func), origin.function)
    return name.removesuffix("()") if name.startswith("torch.nn.") else name


def is_number(node: ast.expr, number: float) -> bool:
    """Return whether an expression is a number written out."""
    return isinstance(node, ast.Constant) and node.value == number and not isinstance(node.value, bool)


def _same(one: ast.expr, other: ast.expr) -> bool:
    """Return whether two expressions are written alike and name something."""
    is_named = any(isinstance(each, ast.Name) for each in walk(one))
    return is_named and type(one) is type(other) and ast.dump(one) == ast.dump(other)
