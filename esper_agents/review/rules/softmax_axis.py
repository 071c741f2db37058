"""ESP202: a softmax whose axis is missing, or is that of the batch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted
from esper_agents.review.rule import INFERRED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import Call, FileTables

_FUNCTIONS = ("torch.nn.functional.softmax", "torch.nn.functional.log_softmax")
_MODULES = ("torch.nn.Softmax", "torch.nn.LogSoftmax")
_WITH_AXIS = ("torch.softmax", "torch.log_softmax")


class SoftmaxAxis(Rule):
    """A softmax that names no axis, or that a model's `forward` takes over axis 0 of its last linear layer.

    ## Why it costs
    Without `dim` torch guesses: axis 0 for 0, 1 or 3 dimensions, axis 1 otherwise, and the guess is deprecated. Axis
    0 of a batch makes the examples compete with each other: every column sums to one, no row does, and results change
    with the size of the batch. Shapes fit either way, so nothing fails.

    ## When it is right
    Axis 0 is the right one for a vector of weights, or over a stack of terms. It is reported only on what a
    `torch.nn.Linear` of the same model has just made, where axis 0 is the batch.

    ## Sources
    PyTorch documentation of `torch.nn.functional.softmax`: the parameter `dim`, and the deprecation of leaving it
    out.
    """

    code, name = "ESP202", "softmax-axis"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = "import torch.nn.functional as F\n\n\ndef attend(scores, values):\n    return F.softmax(scores) @ values\n"
    good = bad.replace("F.softmax(scores)", "F.softmax(scores, dim=-1)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[Hit]:
        """Yield softmaxes without an axis, and those over the batch."""
        for call in file.calls_to(*_FUNCTIONS):
            if _names_axis(call, 1):
                yield from self._over_batch(call, index)
            else:
                yield self._guessed(call)
        for call in file.calls_to(*_MODULES):
            if not _names_axis(call, 0):
                yield self._guessed(call)
        for call in file.calls_to(*_WITH_AXIS):
            yield from self._over_batch(call, index)

    def _guessed(self, call: Call) -> Hit:
        return self.hit(
            call.node,
            f"`{call.tail}` names no axis, so torch picks one by the number of dimensions",
            remedy="write `dim=-1`, or the axis that is meant",
            basis=SEEN,
        )

    def _over_batch(self, call: Call, index: ProjectIndex) -> Iterator[Hit]:
        axis, scores = call.argument(1, "dim"), call.argument(0, "input")
        is_first = isinstance(axis, ast.Constant) and axis.value == 0
        if (
            is_first
            and scores is not None
            and call.function.name == "forward"
            and _is_linear_output(call, scores, index)
        ):
            yield self.hit(
                call.node,
                f"`{call.tail}` over axis 0 of a linear layer's output makes the examples of a batch compete",
                remedy="write `dim=-1`",
                confidence=Confidence.MODERATE,
                basis=f"{INFERRED}: the layer's input has the batch first",
            )


def _names_axis(call: Call, position: int) -> bool:
    return call.argument(position, "dim") is not None or call.has_splat()


def _is_linear_output(call: Call, scores: ast.expr, index: ProjectIndex) -> bool:
    """Return whether a value was just made by a linear layer of the same model."""
    for origin in index.origins(scores, call.function, call.line):
        if isinstance(origin.value, ast.Call):
            layer = index.binding(dotted(origin.value.func), origin.function, origin.line)
            if layer is not None and isinstance(layer.value, ast.Call):
                return dotted(layer.value.func).endswith("Linear")
    return False
