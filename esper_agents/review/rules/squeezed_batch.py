"""ESP129: `squeeze()` without an axis takes the axis of the batch as well, and an axis is counted on afterwards."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.models import forward_calls_in
from esper_agents.review.names import dotted
from esper_agents.review.rule import INFERRED, Rule
from esper_agents.review.sequence_layers import positions
from esper_agents.review.softmaxes import written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_ALONG = frozenset(
    {"argmax", "argmin", "softmax", "log_softmax", "max", "min", "topk", "sum", "mean", "sort", "gather"}
)


class SqueezedBatch(Rule):
    """A model's output that `squeeze()` may take the batch from, read along axis 1 afterwards.

    ## Why it costs
    `squeeze()` takes off all axes of size 1. For a batch of one sample, often the last one of an epoch or a request in
    production, that is the batch too: axis 1 does not exist any more, and the next operation raises.

    ## When it is right
    Batches that never have one sample; `drop_last=True` alone does not say so.

    ## Sources
    PyTorch documentation of `torch.squeeze`: "if the tensor has a batch dimension of size 1, then squeeze(input) will
    also remove the batch dimension, which can lead to unexpected errors".
    """

    code, name = "ESP129", "squeezed-batch"
    severity, category = Severity.WARNING, Category.CORRECTNESS
    bad = "import torch\n\n\ndef predict(model, x):\n    out = model(x).squeeze()\n    return out.argmax(dim=1)\n"
    good = bad.replace("squeeze()", "squeeze(-1)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the outputs that are squeezed and read along axis 1."""
        if not file.imports_torch:
            return
        for call in file.calls_ending("squeeze"):
            if not _is_of_output(call, index):
                continue
            read = _read_along_1(call)
            if read is not None:
                yield self.hit(
                    call.node,
                    f"for a batch of one sample this takes off the batch as well, and line {read} reads axis 1",
                    remedy="name the axis that is to go, such as `squeeze(-1)`",
                    confidence=Confidence.MODERATE,
                    basis=f"{INFERRED}: that the model is given batches of any size",
                )


def _is_of_output(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call squeezes what a model gave, without an axis."""
    is_function = call.receiver == "torch"
    if len(call.node.args) != int(is_function) or call.node.keywords or not isinstance(call.node.func, ast.Attribute):
        return False
    base = call.node.args[0] if is_function else call.node.func.value
    origins = index.origins(base, call.function, call.line) if isinstance(base, ast.Name | ast.Call) else ()
    forwards = {each.node for each in forward_calls_in(call.function, index)}
    return bool(origins) and all(origin.value in forwards for origin in origins)


def _read_along_1(call: Call) -> int | None:
    """Return the line on which the result is read along axis 1, as it is."""
    names = {dotted(each) for each in getattr(call.statement, "targets", ()) if isinstance(each, ast.Name)}
    is_whole = getattr(call.statement, "value", None) is call.node
    for each in call.function.calls:
        if each.tail in _ALONG and each.line >= call.line:
            is_function = each.name.startswith("torch.") and "(" not in each.name
            base = each.argument(0, "input") if is_function else getattr(each.node.func, "value", None)
            axis = written(each.argument(int(is_function) + (each.tail == "topk"), "dim"))
            if axis == 1 and _is_same(base, call, names, each.line, is_whole=is_whole):
                return each.line
    for node, axis, _ in positions(call.function):
        if axis == 1 and node.lineno >= call.line and _is_same(node.value, call, names, node.lineno, is_whole=is_whole):
            return node.lineno
    return None


def _is_same(base: object, call: Call, names: set[str], line: int, *, is_whole: bool) -> bool:
    if base is call.node:
        return True
    if not is_whole or not isinstance(base, ast.Name) or base.id not in names:
        return False
    function: Function = call.function
    made = function.last_assignment(base.id, line)
    return made is not None and made.statement is call.statement
