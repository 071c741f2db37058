"""ESP261: the output of a recurrent or attention layer is read along the batch as if that were the time."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.rule import SEEN, Rule
from esper_agents.review.sequence_layers import SequencePart, mentions_sequences, positions, sequence_value
from esper_agents.review.softmaxes import written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.sequence_layers import SequenceValue
    from esper_agents.review.tables import FileTables, Function

_REDUCTIONS = frozenset({"mean", "sum", "max", "amax", "min", "amin"})


@dataclass(frozen=True, slots=True)
class _Read:
    """A read of one position, or of all positions, along an axis.

    Attributes:
        node: The expression.
        base: What is read.
        axis: The axis.
        text: What the read does, in words.
    """

    node: ast.expr
    base: ast.expr
    axis: int
    text: str


class SequenceAxes(Rule):
    """A step, or a mean over the steps, of a layer's output that is taken along the axis of the batch.

    ## Why it costs
    Recurrent layers, `nn.MultiheadAttention` and the transformer layers of torch take and give (time, batch, features)
    unless they are made with `batch_first=True`. `out[:, -1]` is then the last sample of the batch at every step, not
    the last step of every sample, and `out.mean(dim=1)` mixes the samples. The shapes often fit, and nothing raises.

    ## When it is right
    A batch of one that was put in by hand is not reported. With `batch_first=True`, `out[-1]` is the last step of a
    single sequence without a batch.

    ## Sources
    PyTorch documentation of `torch.nn.LSTM` (`batch_first`, and the shapes of `output` and `h_n`) and of
    `torch.nn.TransformerEncoderLayer`.
    """

    code, name = "ESP261", "sequence-axes"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "from torch import nn\n"
        "\n"
        "\n"
        "class Tagger(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.lstm = nn.LSTM(64, 128)\n"
        "        self.head = nn.Linear(128, 5)\n"
        "\n"
        "    def forward(self, x):\n"
        "        out, _ = self.lstm(x)\n"
        "        return self.head(out[:, -1])\n"
    )
    good = bad.replace("nn.LSTM(64, 128)", "nn.LSTM(64, 128, batch_first=True)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the reads of a layer's output along the wrong axis."""
        if not mentions_sequences(file):
            return
        for function in file.functions:
            for read in _reads(function):
                value = sequence_value(read.base, function, read.node.lineno, index)
                if value is not None and (match := self._judged(read, value)) is not None:
                    yield match

    def _judged(self, read: _Read, value: SequenceValue) -> RuleMatch | None:
        is_state = value.part is SequencePart.STATE
        if read.axis == (1 if is_state or not value.is_batch_first else 0) and not (
            is_state and "one" not in read.text
        ):
            what = "the batch is axis 1 of the last states" if is_state else f"axis {read.axis} is the batch"
            why = "" if is_state else f", because `batch_first` is {value.is_batch_first} (line {value.made.lineno})"
            remedy = "take the last layer, `h[-1]`" if is_state else _remedy(value)
            is_sure = is_state or not value.is_batch_first
            return self.hit(
                read.node,
                f"this takes {read.text} of what `{value.layer}` gave on line {value.line}, and {what}{why}",
                remedy=remedy,
                confidence=Confidence.HIGH if is_sure else Confidence.MODERATE,
                basis=SEEN if is_sure else f"{SEEN}; that the layer is given a batch is assumed",
                severity=None if is_sure else Severity.WARNING,
            )
        return None


def _remedy(value: SequenceValue) -> str:
    if not value.is_batch_first:
        return "make the layer with `batch_first=True` if it is given (batch, time, features), or read along axis 0"
    return "read along axis 1: `out[:, -1]`"


def _reads(function: Function) -> Iterator[_Read]:
    """Yield the reads of one position and the reductions along axis 1 in a function."""
    for call in function.calls:
        if call.tail not in _REDUCTIONS:
            continue
        is_function = call.receiver == "torch"
        base = call.argument(0, "input") if is_function else getattr(call.node.func, "value", None)
        axis = written(call.argument(int(is_function), "dim"))
        if isinstance(base, ast.Name | ast.Subscript | ast.Call) and axis == 1:
            yield _Read(call.node, base, axis, f"the {call.tail} along axis {axis}")
    for node, axis, at in positions(function):
        if at == -1 or (at == 0 and axis == 1):
            yield _Read(node, node.value, axis, f"one position along axis {axis}")
