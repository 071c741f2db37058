"""What a value went through last, at the end of a network put together layer by layer, or before a part was taken."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.activations import Activated, Activation, last_applied
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.shapes import shapes_of
from esper_agents.review.shapes.facts import Layer

if TYPE_CHECKING:
    from esper_agents.review.index import Origin, ProjectIndex
    from esper_agents.review.shapes.facts import Value
    from esper_agents.review.tables import Function

_LAYERS = {
    "Softmax": Activation.SOFTMAX,
    "LogSoftmax": Activation.LOG_SOFTMAX,
    "Sigmoid": Activation.SIGMOID,
    "LogSigmoid": Activation.LOG_SIGMOID,
    **dict.fromkeys(("Linear", "Conv1d", "Conv2d", "Conv3d"), Activation.SCORES),
}
# What picks some of the values and leaves them as they are.
_PICKING = frozenset({"gather", "index_select", "take_along_dim", "squeeze", "masked_select"})


def activation_of(value: ast.expr, function: Function, line: int, index: ProjectIndex) -> Activated | None:
    """Return the activation that a value went through last, also at the end of a `Sequential` made elsewhere."""
    found = last_operation(value, function, line, index)
    return None if found is not None and found.activation is Activation.SCORES else found


def last_operation(value: ast.expr, function: Function, line: int, index: ProjectIndex) -> Activated | None:
    """Return the same, or `SCORES` for what a linear layer or a convolution gave."""
    found = last_applied(value, function, line, index)
    if found is not None:
        return found
    ends = [_at_the_end(origin, index) for origin in index.origins(value, function, line)]
    if ends and all(end is not None and end.activation is Activation.SCORES for end in ends):
        return ends[0]
    return next((end for end in ends if end is not None and end.activation is not Activation.SCORES), None)


def activation_of_part(value: ast.expr, function: Function, line: int, index: ProjectIndex) -> Activated | None:
    """Return the same of what may be a part of the result: `p[torch.arange(n), y]`, `p.gather(1, y)`."""
    found = activation_of(value, function, line, index)
    for origin in index.origins(value, function, line) if found is None else ():
        whole = _whole(origin.value)
        if whole is not origin.value:
            return activation_of(whole, origin.function, origin.line, index)
    return found


def _whole(value: ast.expr) -> ast.expr:
    while True:
        if isinstance(value, ast.Subscript):
            value = value.value
        elif isinstance(value, ast.Call) and tail_of(dotted(value.func)) in _PICKING:
            is_function = dotted(value.func).startswith("torch.") and "(" not in dotted(value.func)
            if is_function and value.args:
                value = value.args[0]
            elif isinstance(value.func, ast.Attribute) and not is_function:
                value = value.func.value
            else:
                return value
        else:
            return value


def _at_the_end(origin: Origin, index: ProjectIndex) -> Activated | None:
    value = origin.value
    if not isinstance(value, ast.Call) or dotted(value.func).startswith(("torch.", "F.")):
        return None
    last: Value = shapes_of(index).module_at(value.func, origin.function, origin.line)
    while isinstance(last, Layer) and last.name == "Sequential" and last.parts:
        last = last.parts[-1]
    if isinstance(last, Layer) and last.name in _LAYERS:
        return Activated(_LAYERS[last.name], origin.function, value.lineno)
    return None
