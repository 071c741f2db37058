"""ESP240: a causal mask hides each position from itself, and everything from the first one."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.mask_meanings import KEPT, is_very_low, mask_of
from esper_agents.review.names import dotted
from esper_agents.review.objects import resolve
from esper_agents.review.rule import SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_FULL = "torch.full"


class CausalMaskHidesItself(Rule):
    """A mask for attention made by `triu` without `diagonal=1`, which hides the diagonal as well.

    ## Why it costs
    The diagonal of a matrix of scores is each position against itself. Hidden with the later ones, the first position
    sees nothing at all: with minus infinity its row of the softmax is NaN, and with a very low number it attends to
    every position alike, the later ones included.

    ## When it is right
    Each position is to see earlier ones only and the first one is treated apart. Triangles that are used as weights,
    or to count pairs, are not reported.

    ## Sources
    PyTorch source, `torch.nn.Transformer.generate_square_subsequent_mask`: `diagonal=1`. Documentation of
    `torch.triu`: the default `diagonal=0` keeps the main diagonal.
    """

    code, name = "ESP240", "causal-mask-hides-itself"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def attend(scores, length):\n"
        "    future = torch.triu(torch.ones(length, length, dtype=torch.bool))\n"
        "    return scores.masked_fill(future, float('-inf')).softmax(dim=-1)\n"
    )
    good = bad.replace("dtype=torch.bool))", "dtype=torch.bool), diagonal=1)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the masks that hide the diagonal."""
        for call in file.calls_ending("masked_fill", "masked_fill_"):
            mask, value = call.argument(0, "mask"), call.argument(1, "value")
            if mask is None or value is None or not is_very_low(value, call.function):
                continue
            found = mask_of(mask, call.function, call.line, index)
            if found is not None and found.hides_itself and found.meaning not in KEPT:
                yield self._found(call.node, found.line)
        for call in file.calls_ending("triu"):
            if _is_filled(call, index) and _keeps_diagonal(call):
                yield self._found(call.node, call.line)

    def _found(self, node: ast.expr, line: int) -> RuleMatch:
        return self.hit(
            node,
            f"the mask (line {line}) hides the diagonal too: the first position sees nothing, and its row is NaN or "
            "attends to all positions alike",
            remedy="make it with `torch.triu(..., diagonal=1)`",
            basis=SEEN,
        )


def _is_filled(call: Call, index: ProjectIndex) -> bool:
    """Return whether a triangle is made of a matrix that is filled with a very low number."""
    is_function = call.name == "torch.triu"
    matrix = call.argument(0, "input") if is_function else getattr(call.node.func, "value", None)
    if matrix is None:
        return False
    origins = index.origins(matrix, call.function, call.line)
    return bool(origins) and all(
        isinstance(each.value, ast.Call)
        and resolve(dotted(each.value.func), each.function) == _FULL
        and len(each.value.args) > 1
        and is_very_low(each.value.args[1], each.function)
        for each in origins
    )


def _keeps_diagonal(call: Call) -> bool:
    offset = call.argument(1 if call.name == "torch.triu" else 0, "diagonal")
    return offset is None or (isinstance(offset, ast.Constant) and offset.value == 0)
