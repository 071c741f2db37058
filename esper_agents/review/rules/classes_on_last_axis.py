"""ESP126: cross entropy is given (batch, time, classes) with labels (batch, time)."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.activations import Activation
from esper_agents.review.called_losses import called_loss, calls_of_losses
from esper_agents.review.endings import last_operation
from esper_agents.review.rule import FOLLOWED, SEEN, Rule
from esper_agents.review.shapes import shapes_of
from esper_agents.review.shapes.facts import Kind, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_SAME = frozenset({"contiguous", "long", "to", "float", "clone", "cuda"})


class ClassesOnLastAxis(Rule):
    """A cross entropy of scores whose classes are the last of three axes.

    ## Why it costs
    `cross_entropy` takes the classes on axis 1: (batch, classes, time) with labels (batch, time). Given (batch, time,
    classes) it takes the time for the classes and raises, or, where the sizes agree by chance, learns nonsense.

    ## When it is right
    Scores that are flattened, `logits.reshape(-1, classes)` with `labels.reshape(-1)`, or turned by `transpose(1, 2)`.

    ## Sources
    PyTorch documentation of `torch.nn.CrossEntropyLoss`, on the shapes of its input and target.
    """

    code, name = "ESP126", "classes-on-last-axis"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "import torch.nn.functional as F\n"
        "\n"
        "\n"
        "def step(model, ids):\n"
        "    logits = model(ids)\n"
        "    return F.cross_entropy(logits[:, :-1], ids[:, 1:])\n"
    )
    good = bad.replace("logits[:, :-1], ids[:, 1:]", "logits[:, :-1].transpose(1, 2), ids[:, 1:]")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the losses whose classes are surely on the last of three axes."""
        if not file.imports_torch:
            return
        for call in calls_of_losses(file, index):
            scores, labels = call.argument(0, "input"), call.argument(1, "target")
            if scores is None or labels is None or called_loss(call, index)[0] not in {"cross_entropy", "nll_loss"}:
                continue
            if not _is_table(labels, call, index):
                continue
            is_cut = _is_cut_at_axis_1(_origin(scores, call, index))
            if is_cut or _ends_linear(scores, call, index):
                yield self.hit(
                    call.node,
                    "the classes of these scores are the last axis, and with labels of two axes this loss takes axis 1",
                    remedy="flatten both, `logits.reshape(-1, logits.size(-1))` and `labels.reshape(-1)`, "
                    "or pass `logits.transpose(1, 2)`",
                    confidence=Confidence.HIGH if is_cut else Confidence.MODERATE,
                    basis=SEEN if is_cut else FOLLOWED,
                )


def _origin(node: ast.expr, call: Call, index: ProjectIndex) -> ast.expr:
    """Return what a value is, copies and casts aside."""
    for _ in range(3):
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME:
            node = node.func.value
        origins = index.origins(node, call.function, call.line) if isinstance(node, ast.Name) else ()
        if len(origins) != 1 or origins[0].function is not call.function or origins[0].value is node:
            break
        node = origins[0].value
    return node


def _is_cut_at_axis_1(node: ast.expr) -> bool:
    """Return whether the last position along axis 1 is cut off: `logits[:, :-1]`, so that this is the time."""
    match node:
        case ast.Subscript(slice=ast.Tuple(elts=[ast.Slice(lower=None, upper=None), ast.Slice(upper=upper), *rest])):
            is_end = isinstance(upper, ast.UnaryOp) and isinstance(upper.op, ast.USub)
            return is_end and all(isinstance(each, ast.Slice) and each.lower is None for each in rest)
        case _:
            return False


def _is_table(labels: ast.expr, call: Call, index: ProjectIndex) -> bool:
    """Return whether labels are class numbers of two axes: shifted along axis 1, or integers of a known shape."""
    match _origin(labels, call, index):
        case ast.Subscript(
            slice=ast.Tuple(
                elts=[ast.Slice(lower=None, upper=None), ast.Slice(lower=ast.Constant(value=1), upper=None)]
            )
        ):
            return True
        case _:
            found = shapes_of(index).ask(labels, call)
            return isinstance(found, Tensor) and found.rank == 2 and found.kind is Kind.INTEGER  # noqa: PLR2004


def _ends_linear(scores: ast.expr, call: Call, index: ProjectIndex) -> bool:
    """Return whether scores are what a linear layer gave as it is, whose classes are the last axis."""
    if (
        isinstance(scores, ast.Call)
        and isinstance(scores.func, ast.Attribute)
        and scores.func.attr in {"transpose", "permute"}
    ):
        return False
    made = last_operation(scores, call.function, call.line, index)
    found = shapes_of(index).ask(scores, call)
    is_scores = made is not None and made.activation is Activation.SCORES
    return is_scores and isinstance(found, Tensor) and found.last is not None and found.rank in {None, 3}
