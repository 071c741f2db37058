"""Weights that a softmax made, and along which axis they are used."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.shapes import shapes_of
from esper_agents.review.shapes.facts import Tensor
from esper_agents.review.softmaxes import is_normalised, names_of, product_in, weighing, written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.softmaxes import Softmax
    from esper_agents.review.tables import Call, Function

_TURNING = frozenset({"transpose", "permute", "t", "T", "mT", "swapaxes"})
# What a pair of tensors goes through on the way to scores of every one with every other.
_PASSING = frozenset({"leaky_relu", "relu", "tanh", "masked_fill", "where", "elu", "gelu", "float", "div", "mul"})
_BATCHED = 3
_STEPS = 4


def rank_of(found: Softmax, scores: Tensor, index: ProjectIndex) -> int | None:
    """Return how many axes scores have; a mask or a bias that is added to a product makes them no more."""
    if scores.rank is not None:
        return scores.rank
    used = weighing(found)
    if isinstance(used, ast.Call) and tail_of(dotted(used.func)) in {"bmm", "baddbmm"}:
        return _BATCHED
    product = product_in(found, index)
    value = shapes_of(index).ask(product, found.call) if product is not None else None
    return value.rank if isinstance(value, Tensor) else None


def is_over_batch(found: Softmax, scores: Tensor, index: ProjectIndex) -> bool:
    """Return whether axis 0 is that of the examples or the rows: what the weights are used for sums up the last one."""
    used = weighing(found)
    if found.axis != 0 or used is None:
        return False
    rank = rank_of(found, scores, index)
    return rank > 1 if rank is not None else is_of_pairs(found.scores, found.call.function, found.call.line, index)


def is_of_pairs(node: ast.expr, function: Function, line: int, index: ProjectIndex, steps: int = _STEPS) -> bool:
    """Return whether scores are of every one with every other: `a + b.transpose(1, 2)`, `a[:, None] + b[None]`."""
    for origin in index.origins(node, function, line) if steps else ():
        value = origin.value
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub | ast.Mult):
            sides = [any(_is_turned(part) for part in walk(each)) for each in (value.left, value.right)]
            if any(sides) and (all(sides) or any(_has_method(each) for each in (value.left, value.right))):
                return True
        elif isinstance(value, ast.Call) and tail_of(dotted(value.func)) in _PASSING:
            first = value.args[1:2] if tail_of(dotted(value.func)) == "where" else value.args[:1]
            inner = [*first, *([value.func.value] if isinstance(value.func, ast.Attribute) else [])]
            if any(is_of_pairs(each, origin.function, origin.line, index, steps - 1) for each in inner):
                return True
    return False


def _has_method(node: ast.expr) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr in {"transpose", "t", "T", "mT"} for each in walk(node))


def _is_turned(node: ast.AST) -> bool:
    """Return whether a part of an expression turns a tensor, or puts in an axis."""
    if isinstance(node, ast.Attribute):
        return node.attr in _TURNING | {"unsqueeze"}
    return isinstance(node, ast.Subscript) and any(
        isinstance(each, ast.Constant) and each.value is None for each in walk(node.slice)
    )


def summed_along(found: Softmax) -> tuple[Call, int] | None:
    """Return where values that the weights are multiplied with are summed up, and along which axis."""
    names = names_of(found)
    if is_normalised(found.call.function, names):
        return None
    for call in found.call.function.calls:
        if call.tail != "sum" or call.line < found.call.line:
            continue
        is_function = call.name.startswith("torch.") and "(" not in call.name
        base = call.argument(0, "input") if is_function else getattr(call.node.func, "value", None)
        axis = written(call.argument(int(is_function), "dim"))
        if axis is not None and any(_is_weights(factor, found, names) for factor in _factors(base)):
            return call, axis
    return None


def _factors(node: object) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield node.left
        yield node.right


def _is_weights(node: ast.expr, found: Softmax, names: set[str]) -> bool:
    """Return whether a factor is the weights, as they are or with an axis more at the end."""
    if isinstance(node, ast.Call) and tail_of(dotted(node.func)) == "unsqueeze" and len(node.args) == 1:
        inner = node.func.value if isinstance(node.func, ast.Attribute) and written(node.args[0]) in {-1, 2} else None
        node = inner if inner is not None else node
    elif isinstance(node, ast.Subscript) and ast.unparse(node.slice) in {
        "..., None",
        "(..., None)",
        ":, :, None",
        "(:, :, None)",
    }:
        node = node.value
    return node is found.call.node or (isinstance(node, ast.Name) and node.id in names)
