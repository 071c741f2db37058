"""Where losses are computed, by torch or by hand, and of what."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.conditions import tests_around
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.shapes.facts import Layer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.shapes.interpreter import Interpreter
    from esper_agents.review.tables import Call, FileTables

BY_ELEMENT = {
    **dict.fromkeys(("mse_loss", "MSELoss"), "mse_loss"),
    **dict.fromkeys(("l1_loss", "L1Loss"), "l1_loss"),
    **dict.fromkeys(("smooth_l1_loss", "SmoothL1Loss"), "smooth_l1_loss"),
    **dict.fromkeys(("huber_loss", "HuberLoss"), "huber_loss"),
}


STRICT = {
    **dict.fromkeys(("binary_cross_entropy", "BCELoss"), "binary_cross_entropy"),
    **dict.fromkeys(("binary_cross_entropy_with_logits", "BCEWithLogitsLoss"), "binary_cross_entropy_with_logits"),
}


OF_CLASSES = {
    **dict.fromkeys(("cross_entropy", "CrossEntropyLoss"), "cross_entropy"),
    **dict.fromkeys(("nll_loss", "NLLLoss"), "nll_loss"),
}


_LOSSES = BY_ELEMENT | STRICT | OF_CLASSES


_PRODUCTS = frozenset({"matmul", "mm", "linear"})


_PASSING = frozenset({"sigmoid", "round", "float", "gather", "tanh", "relu", "cpu", "detach"})


_SQUARING = frozenset({"pow", "square", "abs"})


def loss_calls(file: FileTables, index: ProjectIndex) -> Iterator[Call]:
    """Yield the calls in a file that may compute a loss of a prediction and a target."""
    names = index.once("names of shaped losses", lambda: _names_of_losses(index))
    for tail in sorted(names | set(_LOSSES)):
        yield from (call for call in file.calls_ending(tail) if len(call.node.args) + len(call.node.keywords) > 1)


def _names_of_losses(index: ProjectIndex) -> frozenset[str]:
    """Return the last names of what losses are assigned or handed to."""
    found = {"criterion", "loss_fn", "loss_func", "loss_function", "self.criterion"}
    for call in index.calls_ending(*(loss for loss in _LOSSES if loss[0].isupper())):
        statement = call.statement
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        found |= {tail_of(dotted(target)) for target in targets}
    return frozenset(found - {""})


def loss_called(call: Call, shapes: Interpreter) -> str:
    """Return which loss a call computes; empty where it is none, or cannot be told."""
    name = call.name.removesuffix("()")
    if name.startswith("torch."):
        is_constructor = tail_of(name)[:1].isupper() and not call.name.endswith("()")
        return "" if is_constructor else _LOSSES.get(tail_of(name), "")
    made = shapes.ask(call.node.func, call)
    return _LOSSES.get(made.name, "") if isinstance(made, Layer) else ""


def is_asked(call: Call) -> bool:
    """Return whether the code asks for shapes before it comes here, so that both ways are thought of."""
    return any(
        isinstance(each, ast.Attribute) and each.attr in {"shape", "ndim", "dim", "size"}
        for test in tests_around(call.block, call.function.block)
        for each in walk(test)
    )


def combined(call: Call, index: ProjectIndex) -> ast.BinOp | ast.Compare | None:
    """Return the difference that is squared or made absolute in a call, or the comparison that is averaged."""
    node: ast.expr | None = (
        call.argument(0)
        if call.name.startswith("torch.") and "(" not in call.name
        else getattr(call.node.func, "value", None)
    )
    if call.tail in {"mean", "sum", "float"}:
        if isinstance(node, ast.Compare):
            return node if len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq) else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            return node
        is_square = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)
        node = node.left if is_square and isinstance(node, ast.BinOp) else None
    elif call.tail not in _SQUARING:
        return None
    if isinstance(node, ast.Name):
        made = index.binding(node.id, call.function, call.line)
        is_plain = made is not None and made.block.function is call.function and not made.is_unpacked
        node = made.value if made is not None and is_plain and not made.is_augmented else None
    return node if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) else None


def is_output(node: ast.expr, call: Call, index: ProjectIndex, shapes: Interpreter) -> bool:
    """Return whether a value is what a model gave, as it was, and not a column that somebody made on purpose."""
    for origin in index.origins(node, call.function, call.line):
        value = _inner(origin.value)
        if isinstance(value, ast.Call) and any(keyword.arg == "reduction" for keyword in value.keywords):
            return True
        if isinstance(value, ast.BinOp) or (isinstance(value, ast.Call) and tail_of(dotted(value.func)) in _PRODUCTS):
            return True
        if isinstance(value, ast.Call) and shapes.module_at(value.func, origin.function, origin.line) is not None:
            return True
    return False


def _inner(value: ast.expr) -> ast.expr:
    """Return what a threshold, a sigmoid, a rounding or a choice of columns was applied to."""
    while True:
        if isinstance(value, ast.Compare) or (isinstance(value, ast.BinOp) and not isinstance(value.op, ast.MatMult)):
            value = value.left
        elif not isinstance(value, ast.Call) or tail_of(dotted(value.func)) not in _PASSING:
            return value
        elif value.args and dotted(value.func).startswith(("torch", "F.")):
            value = value.args[0]
        elif isinstance(value.func, ast.Attribute):
            value = value.func.value
        else:
            return value
