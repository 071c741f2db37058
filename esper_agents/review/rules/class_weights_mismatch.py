"""ESP127: a loss has class weights for another number of classes than its model gives scores for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.called_losses import called_loss, calls_of_losses
from esper_agents.review.names import dotted
from esper_agents.review.rule import FOLLOWED, Rule
from esper_agents.review.shapes import shapes_of
from esper_agents.review.shapes.facts import Tensor
from esper_agents.review.softmaxes import written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import Origin, ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_WEIGHTS = {
    "cross_entropy": ("weight", 0, 2),
    "nll_loss": ("weight", 0, 2),
    "binary_cross_entropy_with_logits": ("pos_weight", 4, 5),
}
_FILLED = frozenset({"ones", "zeros", "full", "rand", "empty"})
_PLACING = frozenset({"to", "cuda", "float", "cpu"})


class ClassWeightsMismatch(Rule):
    """Class weights of another number than the model has classes.

    ## Why it costs
    The loss raises at the first batch: "weight tensor should be defined either for all classes or no classes".

    ## When it is right
    Never; a single `pos_weight` is stretched over all outputs and not reported.

    ## Sources
    PyTorch documentation of `torch.nn.CrossEntropyLoss` (`weight`: "a Tensor of size C") and of
    `torch.nn.BCEWithLogitsLoss` (`pos_weight`).
    """

    code, name = "ESP127", "class-weights-mismatch"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "import torch\n"
        "from torch import nn\n"
        "\n"
        "model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5))\n"
        "criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]))\n"
        "for x, y in loader:\n"
        "    criterion(model(x), y).backward()\n"
    )
    good = bad.replace("[1.0, 2.0, 3.0]", "[1.0, 2.0, 3.0, 1.0, 1.0]")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the losses whose weights do not fit the scores."""
        if not file.imports_torch:
            return
        for call in calls_of_losses(file, index):
            loss, made = called_loss(call, index)
            scores = call.argument(0, "input")
            if loss not in _WEIGHTS or scores is None:
                continue
            count = _count_of_weights(call, made, _WEIGHTS[loss], index)
            if count is None or (loss not in {"cross_entropy", "nll_loss"} and count == 1):
                continue
            classes = _count_of_classes(scores, call, index, is_last=loss == "binary_cross_entropy_with_logits")
            if classes is not None and classes != count:
                yield self.hit(
                    call.node,
                    f"this loss has {count} class weights, and its scores are of {classes} classes",
                    remedy=f"give `{_WEIGHTS[loss][0]}` {classes} numbers, one for each class",
                    confidence=Confidence.MODERATE,
                    basis=FOLLOWED,
                )


def _count_of_weights(call: Call, made: ast.Call, at: tuple[str, int, int], index: ProjectIndex) -> int | None:
    name, as_module, as_function = at
    place = as_function if made is call.node else as_module
    given = next((each.value for each in made.keywords if each.arg == name), None)
    if given is None and len(made.args) > place:
        given = made.args[place]
    maker = call.function
    for origin in index.origins(call.node.func, call.function, call.line):
        maker = origin.function if origin.value is made else maker
    line = call.line if made is call.node else made.lineno
    origins = index.origins(_placed(given), maker, line) if given is not None else ()
    counts = {_length(origin, index) for origin in origins}
    return counts.pop() if len(counts) == 1 else None


def _placed(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PLACING:
        if dotted(node.func).startswith("torch.") and "(" not in dotted(node.func):
            break
        node = node.func.value
    return node


def _length(origin: Origin, index: ProjectIndex) -> int | None:
    """Return how many numbers a one-dimensional tensor has that is written out."""
    node = _placed(origin.value)
    if isinstance(node, ast.Call) and node.args and dotted(node.func).startswith("torch."):
        first = node.args[0]
        if dotted(node.func).rpartition(".")[2] in _FILLED:
            return written(first) if len(node.args) == 1 or isinstance(first, ast.Constant) else None
        for inner in index.origins(first, origin.function, origin.line)[:1]:
            node = inner.value
    is_flat = isinstance(node, ast.List | ast.Tuple) and not any(
        isinstance(each, ast.Starred | ast.List | ast.Tuple) for each in node.elts
    )
    return len(node.elts) if is_flat and isinstance(node, ast.List | ast.Tuple) else None


def _count_of_classes(scores: ast.expr, call: Call, index: ProjectIndex, *, is_last: bool) -> int | None:
    found = shapes_of(index).ask(scores, call)
    if not isinstance(found, Tensor):
        return None
    if is_last or found.is_open or found.rank == 2:  # noqa: PLR2004 - batch and classes
        is_channels = len(found.dims) > 2 and not is_last  # noqa: PLR2004 - channels, height, width
        size = found.dims[-3] if is_channels and len(found.dims) == 3 else found.last  # noqa: PLR2004
        return size if isinstance(size, int) and not is_channels else None
    size = found.dims[1] if found.rank is not None and found.rank > 1 else None
    return size if isinstance(size, int) else None
