"""Conditions about the memory layout of tensors, and the padding that other calls use."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, tail_of
from esper_agents.review.usages.conditions.flow import makers_of
from esper_agents.review.usages.conditions.options import written_value
from esper_agents.review.usages.registry import ConditionResult, condition
from esper_agents.review.usages.sites import shown

if TYPE_CHECKING:
    from esper_agents.review.usages.registry import UsageContext

# Calls whose result is another view of their input, mostly not contiguous.
_TURNING = frozenset({"transpose", "permute", "t", "expand", "expand_as", "movedim", "swapaxes", "swapdims", "unfold"})
_TURNING_ATTRIBUTES = frozenset({"T", "mT", "H", "mH"})
# Calls whose result is contiguous, whatever their input is.
_MAKING = frozenset(
    {
        "contiguous", "zeros", "ones", "empty", "full", "rand", "randn", "randint", "arange", "tensor", "cat",
        "stack", "matmul", "bmm", "mm", "Linear", "linear", "Embedding", "embedding", "cumsum", "softmax",
        "one_hot", "as_tensor", "linspace", "normal",
    }
)  # fmt: skip
# Calls that keep the layout of their input.
_KEEPING = frozenset({"unsqueeze", "squeeze", "detach", "float", "relu", "tanh", "to", "cuda", "sigmoid"})
_MOST_STEPS = 6


@condition
def receiver_contiguous(context: UsageContext) -> ConditionResult:
    """Whether the receiver is contiguous: false behind a transposition or expansion without `contiguous()`."""
    call = context.site.call
    if call is None or not isinstance(call.node.func, ast.Attribute):
        return ConditionResult(None)
    first = call.node.func.value
    # `torch.reshape(x, ...)`
    value = call.node.args[0] if dotted(first) == "torch" and call.node.args else first
    found = [_layout(each, context, _MOST_STEPS) for each in makers_of(context, value)]
    states = {state for state, _ in found}
    if len(states) != 1:
        return ConditionResult(None)
    state, by = found[0]
    place = f"{context.site.file.path}:{getattr(by, 'lineno', 0)}" if by is not None else ""
    return ConditionResult(state, {"turned": shown(by) if by is not None else "", "turned_at": place})


def _layout(node: ast.expr, context: UsageContext, steps: int) -> tuple[bool | None, ast.expr | None]:
    """Return whether an expression is contiguous, and the part that decides it."""
    if isinstance(node, ast.Attribute) and node.attr in _TURNING_ATTRIBUTES:
        return False, node
    if not isinstance(node, ast.Call) or not steps:
        return None, None
    tail = tail_of(dotted(node.func)) or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
    if tail in _TURNING:
        return (None, None) if _may_keep_layout(tail, node) else (False, node)
    if tail in _MAKING or _is_projection(node, context):
        return True, node
    inner = node.func.value if isinstance(node.func, ast.Attribute) else None
    if tail not in _KEEPING or inner is None:
        return None, None
    results = [_layout(each, context, steps - 1) for each in makers_of(context, inner)]
    return results[0] if len({state for state, _ in results}) == 1 else (None, None)


def _is_projection(node: ast.Call, context: UsageContext) -> bool:
    """Return whether a call applies a layer whose result is contiguous: `nn.Linear`, `nn.Embedding`."""
    made = context.index.origins(node.func, context.site.function, node.lineno)
    kinds = {tail_of(dotted(each.value.func)) for each in made if isinstance(each.value, ast.Call)}
    return kinds in ({"Linear"}, {"Embedding"})


def _may_keep_layout(tail: str, node: ast.Call) -> bool:
    """Return whether a turning call may return its input as it is: the same axis twice, or no change of order."""
    numbers = [each.value for each in node.args if isinstance(each, ast.Constant)]
    if tail == "permute":
        return not numbers or numbers == sorted(numbers, key=str)
    return tail in {"transpose", "swapaxes", "swapdims"} and len(numbers) == 2 and numbers[0] == numbers[1]  # noqa: PLR2004


@condition
def padding_agrees(context: UsageContext) -> ConditionResult:
    """Whether the option equals the value with which the project pads sequences: by `pad_sequence` or `full`."""
    option = written_value(context, context.site.option, context.entry.sites.default, context.site.call)
    found = []
    for path, file in sorted(context.index.files.items()):
        for call in file.calls_ending("pad_sequence"):
            given = call.argument(2, "padding_value")
            text = "0" if given is None else ast.unparse(given)
            found.append((text, f"{path}:{call.line}"))
    values = {_number(text) for text, _ in found}
    if len(values) != 1 or None in values or _number(option) is None:
        return ConditionResult(None)
    padding, place = found[0]
    return ConditionResult(_number(option) == values.pop(), {"value": option, "padding": padding, "padded_at": place})


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


@condition
def batch_order_agrees(context: UsageContext) -> ConditionResult:
    """Whether `batch_first` of a recurrent layer equals that of the sequences that the project packs or pads."""
    own = written_value(context, context.site.option, context.entry.sites.default, context.site.call)
    found = [
        (written_value(context, call.argument(-1, "batch_first"), "False", call), f"{path}:{call.line}", call.tail)
        for path, file in sorted(context.index.files.items())
        for call in file.calls_ending("pack_padded_sequence", "pad_sequence")
    ]
    values = {text for text, _, _ in found}
    if len(values) != 1 or not (values | {own}) <= {"True", "False"}:
        return ConditionResult(None)
    text, place, name = found[0]
    return ConditionResult(own == text, {"value": own, "theirs": text, "order_at": place, "sequences": name})
