"""ESP208: `view` on a tensor whose dimensions do not follow each other in memory."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.blocks import BlockKind
from esper_agents.review.conditions import tests_around
from esper_agents.review.names import dotted, walk
from esper_agents.review.rule import INFERRED, SEEN, Rule, RuntimeExpectation
from esper_agents.review.shapes import shapes_of
from esper_agents.review.shapes.facts import Tensor
from esper_agents.review.shapes.viewing import cannot_view

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_STRIDING = frozenset(
    {"permute", "transpose", "t", "T", "mT", "expand", "expand_as", "swapaxes", "swapdims", "broadcast_to", "einsum"}
)
# Layers that put the batch first by turning their result.
_TURNING = ("LSTM", "GRU", "RNN", "MultiheadAttention")
# How many assignments away a name is followed.
_NAMES_DEEP = 4


class ViewOfStrided(Rule):
    """A `view` that merges dimensions which `permute`, `transpose`, `expand` or slicing has torn apart in memory.

    ## Why it costs
    `view` never copies. Dimensions that do not follow each other in memory cannot become one without a copy, and torch
    raises `view size is not compatible with input tensor's size and stride`. Where it happens to work, because a size
    is 1 or the layout came from elsewhere, it breaks with the next batch.

    ## When it is right
    A `contiguous()` stands between, or `view` only splits dimensions or leaves them alone: neither is reported.
    `reshape` copies where it must.

    ## Sources
    PyTorch documentation of `torch.Tensor.view`, on the condition for strides.
    """

    code, name = "ESP208", "view-of-strided"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    shown = RuntimeExpectation.RAISES
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def merge_heads(attention, values):\n"
        "    B, H, T, D = values.shape\n"
        "    mixed = attention @ values\n"
        "    return mixed.transpose(1, 2).view(B, T, H * D)\n"
    )
    good = bad.replace(".view(", ".reshape(")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the views that torch refuses."""
        shapes = shapes_of(index)
        for call in file.calls_ending("view") if file.imports_torch else ():
            if not isinstance(call.node.func, ast.Attribute) or not _may_be_strided(
                call.node.func.value, call.function
            ):
                continue
            base = shapes.ask(call.node.func.value, call)
            sizes = shapes.given(call).sizes()
            if not isinstance(base, Tensor) or not sizes:
                continue
            if cannot_view(base, sizes, is_merging=not _has_quotient(call)) and not _is_asked(call):
                yield self._found(call, base)

    def _found(self, call: Call, base: Tensor) -> RuleMatch:
        return self.hit(
            call.node,
            "this `view` merges dimensions that do not follow each other in memory, so torch raises",
            remedy="use `reshape`, or put `.contiguous()` in front",
            confidence=Confidence.HIGH if base.is_fresh else Confidence.MODERATE,
            basis=SEEN if base.is_fresh else f"{INFERRED}: what was handed in is contiguous",
            severity=None if base.is_fresh else Severity.WARNING,
        )


def _may_be_strided(node: ast.expr, function: Function) -> bool:
    """Return whether an expression, or what its names are assigned, moves, repeats or cuts dimensions."""
    has_turning = bool(function.file.calls_ending(*_TURNING))
    edge, seen = [node], set[str]()
    for _ in range(_NAMES_DEEP):
        names: set[str] = set()
        for each in (part for value in edge for part in walk(value)):
            is_turned = isinstance(each, ast.Attribute) and each.attr in _STRIDING
            if isinstance(each, ast.Slice) or is_turned or (has_turning and isinstance(each, ast.Call)):
                return True
            if isinstance(each, ast.Name | ast.Attribute):
                names.add(dotted(each))
        edge = [each.value for name in sorted(names - seen) for each in function.assignments.get(name, ())]
        seen |= names
    return False


def _has_quotient(call: Call) -> bool:
    """Return whether a size is written as a part of another: with a divisor of 1 that merges nothing."""
    return any(
        isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div | ast.FloorDiv)
        for part in call.node.args
        for each in walk(part)
    )


def _is_asked(call: Call) -> bool:
    """Return whether the code asks for the layout first, or catches what `view` raises."""
    asks = any("contiguous" in ast.unparse(test) for test in tests_around(call.block, call.function.block))
    return asks or any(each.kind is BlockKind.TRY for each in call.block.chain())
