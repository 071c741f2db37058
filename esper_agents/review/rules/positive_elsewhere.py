"""ESP278: the labels of a contrastive loss name another column than the one that holds the positive pairs."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.called_losses import called_loss, calls_of_losses
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.rule import SEEN, Rule
from esper_agents.review.softmaxes import written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_PRODUCTS = frozenset({"matmul", "mm", "einsum"})


class PositiveElsewhere(Rule):
    """Labels of zeros for logits whose first columns are the negatives.

    ## Why it costs
    With labels of zeros, `cross_entropy` takes column 0 for the positive pair. If the negatives stand first, the model
    is trained to be like one arbitrary negative and unlike the positive: the loss falls, and the features are useless.

    ## When it is right
    The positive column first, `torch.cat([positive, negatives], dim=1)`, with labels of zeros.

    ## Sources
    He et al., "Momentum Contrast for Unsupervised Visual Representation Learning", algorithm 1.
    """

    code, name = "ESP278", "positive-elsewhere"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "import torch.nn.functional as F\n"
        "\n"
        "\n"
        "def loss(q, k, queue):\n"
        "    positive = (q * k).sum(1, keepdim=True)\n"
        "    negatives = q @ queue\n"
        "    logits = torch.cat([negatives, positive], dim=1) / 0.07\n"
        "    return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))\n"
    )
    good = bad.replace("[negatives, positive]", "[positive, negatives]")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the losses whose labels do not name the positive column."""
        if not file.imports_torch:
            return
        for call in calls_of_losses(file, index):
            scores, labels = call.argument(0, "input"), call.argument(1, "target")
            if scores is None or labels is None or not _are_zeros(labels, call, index):
                continue
            joined = _joined(scores, call)
            if joined is None or called_loss(call, index)[0] != "cross_entropy":
                continue
            kinds = [_kind(each, call, index) for each in joined]
            if kinds[0] == "many" and "one" in kinds:
                yield self.hit(
                    call.node,
                    f"the labels are all 0, and column 0 of the logits is one of {ast.unparse(joined[0])!r}: "
                    f"the column {ast.unparse(joined[kinds.index('one')])!r} stands behind",
                    remedy="join the positive column first, or give its index as the label",
                    basis=SEEN,
                )


def _are_zeros(labels: ast.expr, call: Call, index: ProjectIndex) -> bool:
    while (
        isinstance(labels, ast.Call)
        and isinstance(labels.func, ast.Attribute)
        and labels.func.attr in {"to", "cuda", "long"}
    ):
        labels = labels.func.value
    origins = index.origins(labels, call.function, call.line)
    names = [dotted(each.value.func) for each in origins if isinstance(each.value, ast.Call)]
    return bool(names) and all(any(part in {"zeros", "new_zeros"} for part in _parts(name)) for name in names)


def _parts(name: str) -> list[str]:
    return name.replace("()", "").split(".")


def _joined(scores: ast.expr, call: Call) -> list[ast.expr] | None:
    """Return what logits are joined of along their columns, a temperature aside."""
    for _ in range(3):
        while isinstance(scores, ast.BinOp) and isinstance(scores.op, ast.Div | ast.Mult):
            scores = scores.left
        match scores:
            case ast.Call(args=[ast.List(elts=parts) | ast.Tuple(elts=parts), *rest], keywords=keywords) if tail_of(
                dotted(scores.func)
            ) in {"cat", "concat", "hstack"}:
                axis = [*rest, *(each.value for each in keywords if each.arg in {"dim", "axis"})]
                is_columns = tail_of(dotted(scores.func)) == "hstack" or (axis and written(axis[0]) in {1, -1})
                return parts if is_columns and len(parts) > 1 else None
            case ast.Name():
                made = call.function.last_assignment(scores.id, call.line)
                if made is not None and made.is_augmented:
                    earlier = [each for each in call.function.assignments[scores.id] if not each.is_augmented]
                    made = earlier[-1] if len(earlier) == 1 else None
                if made is None or made.is_unpacked:
                    return None
                scores = made.value
            case _:
                return None
    return None


def _kind(node: ast.expr, call: Call, index: ProjectIndex) -> str:
    """Return whether a part of the logits is a single column or a product with many."""
    kinds = [_kind_of(origin.value) for origin in index.origins(node, call.function, call.line)]
    return kinds[0] if len(set(kinds)) == 1 else ""


def _kind_of(node: ast.expr) -> str:
    match node:
        case ast.Call(func=ast.Attribute(attr="unsqueeze"), args=[axis]) if written(axis) in {1, -1}:
            found = "one"
        case ast.Call(func=ast.Attribute(attr="sum"), keywords=keywords) if any(
            each.arg == "keepdim" for each in keywords
        ):
            found = "one"
        case ast.Call(func=ast.Attribute(attr="view" | "reshape"), args=[_, ast.Constant(value=1)]):
            found = "one"
        case ast.Subscript(slice=ast.Tuple(elts=[ast.Slice(), ast.Constant(value=None)])):
            found = "one"
        case ast.BinOp(op=ast.MatMult()):
            found = "many"
        case ast.Call(func=called) if tail_of(dotted(called)) in _PRODUCTS:
            found = "many"
        case _:
            found = ""
    return found
