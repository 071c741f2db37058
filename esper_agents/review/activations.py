"""What a value last went through: a softmax, a sigmoid or their logarithms, also inside a model of these files."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from esper_agents.review.index import resolve
from esper_agents.review.likely_models import likely_forward
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.replaced_heads import replaced_head
from esper_agents.review.unpacked import parts_returned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.index import Origin, ProjectIndex
    from esper_agents.review.tables import Call, Function

_STEPS = 5


class Activation(StrEnum):
    """A function that turns scores into probabilities, or into their logarithms."""

    SOFTMAX = "softmax"
    LOG_SOFTMAX = "log_softmax"
    SIGMOID = "sigmoid"
    LOG_SIGMOID = "logsigmoid"
    # None of these: the result of a linear layer or a convolution.
    SCORES = "linear layer"


_LAYERS = {
    "torch.nn.Softmax": Activation.SOFTMAX,
    "torch.nn.Softmax2d": Activation.SOFTMAX,
    "torch.nn.LogSoftmax": Activation.LOG_SOFTMAX,
    "torch.nn.Sigmoid": Activation.SIGMOID,
    "torch.nn.LogSigmoid": Activation.LOG_SIGMOID,
    **{f"torch.nn.{each}": Activation.SCORES for each in ("Linear", "LazyLinear", "Conv1d", "Conv2d", "Conv3d")},
}
_FUNCTIONS = {
    "torch.softmax": Activation.SOFTMAX,
    "torch.nn.functional.softmax": Activation.SOFTMAX,
    "torch.log_softmax": Activation.LOG_SOFTMAX,
    "torch.nn.functional.log_softmax": Activation.LOG_SOFTMAX,
    "torch.sigmoid": Activation.SIGMOID,
    "torch.special.expit": Activation.SIGMOID,
    "torch.nn.functional.sigmoid": Activation.SIGMOID,
    "torch.nn.functional.logsigmoid": Activation.LOG_SIGMOID,
    "torch.nn.functional.linear": Activation.SCORES,
}
_METHODS = {each.value: each for each in (Activation.SOFTMAX, Activation.LOG_SOFTMAX, Activation.SIGMOID)}
# Methods that leave the values as they are.
_RESHAPING = frozenset(
    {"view", "reshape", "squeeze", "unsqueeze", "flatten", "transpose", "permute", "contiguous", "float", "to", "t"}
)


@dataclass(frozen=True, slots=True)
class Activated:
    """A value that went through an activation.

    Attributes:
        activation: Which.
        function: The function in which it did.
        line: The line there.
    """

    activation: Activation
    function: Function
    line: int


def activated(
    value: ast.expr, function: Function, line: int, index: ProjectIndex, steps: int = _STEPS
) -> Activated | None:
    """Return the activation that a value went through last; None where there is none, or it cannot be told."""
    return _without_scores(last_applied(value, function, line, index, steps))


def last_applied(
    value: ast.expr, function: Function, line: int, index: ProjectIndex, steps: int = _STEPS
) -> Activated | None:
    """Return the same, or `SCORES` if the value is what a linear layer or a convolution gave, whatever its origin."""
    origins = index.origins(value, function, line) if steps else ()
    found = [(origin, _at(origin, index, steps - 1)) for origin in origins]
    if _are_scores([each for _, each in found]):
        return found[0][1]
    activations = [(origin, _without_scores(each)) for origin, each in found]
    if any(each is None and origin.function is function for origin, each in activations):
        return None
    return next((each for _, each in activations if each is not None), None)


def _are_scores(found: Sequence[Activated | None]) -> bool:
    return bool(found) and all(each is not None and each.activation is Activation.SCORES for each in found)


def _without_scores(found: Activated | None) -> Activated | None:
    return None if found is not None and found.activation is Activation.SCORES else found


def _agreed(found: Sequence[Activated | None]) -> Activated | None:
    """Return what all of several ways end with, None if one ends otherwise."""
    if _are_scores(found):
        return found[0]
    return found[0] if found and all(_without_scores(each) is not None for each in found) else None


def _at(origin: Origin, index: ProjectIndex, steps: int) -> Activated | None:
    value, function = origin.value, origin.function
    if not isinstance(value, ast.Call):
        parts = parts_returned(value, function, origin.line, index) if steps > 0 else ()
        return _agreed([last_applied(part.value, part.function, part.line, index, steps - 1) for part in parts])
    kind = called_activation(value, function, index, origin.line)
    if kind is not None:
        return Activated(kind, function, value.lineno)
    if isinstance(value.func, ast.Attribute) and value.func.attr in _RESHAPING:
        return last_applied(value.func.value, function, origin.line, index, steps)
    return _in_model(value, origin, index, steps)


def called_activation(node: ast.Call, function: Function, index: ProjectIndex, line: int) -> Activation | None:
    """Return the activation that a call applies: `F.softmax(x)`, `x.sigmoid()`, `self.act(x)`, `nn.Softmax(1)(x)`."""
    name = resolve(dotted(node.func), function)
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if name.endswith("()") and name[:-2] in _LAYERS:
        return _LAYERS[name[:-2]]
    if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS and not name.startswith("torch."):
        layer = _layer_behind(node.func, function, index, line)
        return layer or (_METHODS[node.func.attr] if not _is_own(node.func, index, function) else None)
    return _layer_behind(node.func, function, index, line)


def _is_own(called: ast.Attribute, index: ProjectIndex, function: Function) -> bool:
    """Return whether `self.softmax(...)` or `helper.sigmoid(...)` is somebody's method rather than a tensor's."""
    root = dotted(called.value)
    return root in {"self", "cls"} or root in function.file.imports or called.attr in index.functions


def _layer_behind(called: ast.expr, function: Function, index: ProjectIndex, line: int) -> Activation | None:
    """Return the activation of a layer that a name or attribute holds, or that ends the `Sequential` it holds."""
    if not isinstance(called, ast.Name | ast.Attribute):
        return None
    head = replaced_head(called, function, line, index)
    if head is not None and isinstance(head.value, ast.Call):
        return _last_of(head.value, head.function)
    found = index.binding(dotted(called), function, line)
    if found is None or found.is_unpacked or not isinstance(found.value, ast.Call):
        return None
    return _last_of(found.value, found.block.function)


def _last_of(made: ast.Call, function: Function) -> Activation | None:
    """Return the activation of a layer that a call makes, or of the last layer of a `Sequential`."""
    while tail_of(dotted(made.func)) == "Sequential" and made.args and isinstance(made.args[-1], ast.Call):
        made = made.args[-1]
    return _LAYERS.get(resolve(dotted(made.func), function))


def _in_model(value: ast.Call, origin: Origin, index: ProjectIndex, steps: int) -> Activated | None:
    """Return the activation with which every way out of a called function, or of a model's `forward`, ends."""
    call = next((each for each in origin.function.calls if each.node is value), None)
    if call is None:
        return None
    callees = index.callees(call)
    likely = likely_forward(call, index)
    for called in callees or ((likely,) if likely is not None else ()):
        end = _agreed(list(_ends(called, index, steps)))
        # That a model is the likely one is not enough to say that it has no activation.
        end = end if callees else _without_scores(end)
        if end is not None:
            return end
    return None


def _ends(function: Function, index: ProjectIndex, steps: int) -> Iterator[Activated | None]:
    for statement, _ in function.returns:
        if statement.value is not None:
            yield last_applied(statement.value, function, statement.lineno, index, steps)


def first_argument(call: Call) -> ast.expr | None:
    """Return the scores that a loss is given."""
    return call.argument(0, "input")
