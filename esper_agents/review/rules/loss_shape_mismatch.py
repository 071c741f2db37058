"""ESP105: a loss, or a difference, of tensors whose shapes do not belong together."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.gathered_values import is_column_of_actions, is_row_of_best
from esper_agents.review.loss_calls import (
    BY_ELEMENT,
    OF_CLASSES,
    STRICT,
    combined,
    is_asked,
    is_output,
    loss_called,
    loss_calls,
)
from esper_agents.review.loss_targets import squeezed_elsewhere, target_by_key
from esper_agents.review.rule import FOLLOWED, INFERRED, SEEN, Rule
from esper_agents.review.shapes import shapes_of
from esper_agents.review.shapes.facts import UNKNOWN, Kind, Layer, Object, Tensor, shown
from esper_agents.review.shapes.fitting import is_crossed, is_deeper
from esper_agents.review.shapes.layers import size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import Origin, ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.shapes.interpreter import Interpreter
    from esper_agents.review.tables import Call, FileTables

# What a squared or absolute error, or a share of right answers, ends with.
_ENDS = ("mean", "sum", "pow", "square", "abs", "float")


_NAMES: dict[type[ast.operator], str] = {ast.Sub: "subtraction", ast.Mult: "product"}


@dataclass(frozen=True, slots=True)
class _Wrong:
    """What does not belong together.

    Attributes:
        message: What is wrong, in one sentence.
        remedy: What to do.
    """

    message: str
    remedy: str


_VALUES_OF_ACTIONS = _Wrong(
    "the values of the chosen actions are a column, (batch, 1), and their targets a row, (batch,): every value meets "
    "every target",
    "add `.squeeze(1)` behind `gather`",
)


class LossShapeMismatch(Rule):
    """A loss of a prediction and a target whose shapes do not belong together: `(batch, 1)` and `(batch,)` above all.

    ## Why it costs
    `(batch, 1)` against `(batch,)` is stretched to `(batch, batch)`: every prediction meets every target. The
    loss falls until the model predicts the mean of the targets, and no further; torch warns once, or, in a plain
    subtraction, not at all. The losses that check sizes raise instead: binary cross entropy wants equal shapes, cross
    entropy wants class numbers without the dimension of the classes, and with one class its loss is always 0.

    ## When it is right
    Shapes are compared only where the reviewed files show them: layers, data sets, literals, and the key under which a
    batch was given its targets. Where nothing shows the target, a column is a warning if the same model's output is
    squeezed elsewhere before it meets targets. A difference of `x.unsqueeze(1)` and `y` is a table of all pairs on
    purpose and not reported; a loss of the two is.

    ## Sources
    PyTorch documentation: "Broadcasting semantics", `torch.nn.MSELoss`, `torch.nn.BCEWithLogitsLoss` and
    `torch.nn.CrossEntropyLoss`, on the shapes of input and target.
    """

    code, name = "ESP105", "loss-shape-mismatch"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "import torch\n"
        "import torch.nn.functional as F\n"
        "from torch import nn\n"
        "\n"
        "x, y = torch.randn(64, 8), torch.randn(64)\n"
        "model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))\n"
        "loss = F.mse_loss(model(x), y)\n"
    )
    good = bad.replace("F.mse_loss(model(x), y)", "F.mse_loss(model(x).squeeze(-1), y)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the losses, differences and comparisons of shapes that do not belong together."""
        if not file.imports_torch:
            return
        shapes = shapes_of(index)
        for call in loss_calls(file, index):
            loss = loss_called(call, shapes)
            input_, target = call.argument(0, "input"), call.argument(1, "target")
            if loss in BY_ELEMENT.values() and input_ is not None and target is not None and not is_asked(call):
                columns = [is_column_of_actions(each, call) for each in (input_, target)]
                rows = [is_row_of_best(each, call, index) for each in (target, input_)]
                if (columns[0] and rows[0]) or (columns[1] and rows[1]):
                    yield self._found(call, _VALUES_OF_ACTIONS)
                    continue
            if loss and input_ is not None and target is not None and not is_asked(call):
                one, two = shapes.ask(input_, call), shapes.ask(target, call)
                two = two if isinstance(two, Tensor) else UNKNOWN
                if isinstance(one, Tensor):
                    by_key = (
                        target_by_key(target, call, index) if two.is_open and not two.dims and one.last == 1 else None
                    )
                    found = list(self._judged(call, loss, one, by_key or two))
                    yield from found or self._seen_elsewhere(call, loss, one, two, index)
                if loss in OF_CLASSES.values() and isinstance(one, Tensor) and _is_of_tokens(input_, one, call, index):
                    yield self._found(call, _sequence(loss, one, two))
        for call in file.calls_ending(*_ENDS):
            yield from self._by_hand(call, index, shapes)

    def _judged(self, call: Call, loss: str, one: Tensor, two: Tensor) -> Iterator[RuleMatch]:
        if loss in OF_CLASSES.values():
            found = _of_classes(loss, one, two)
        elif loss in STRICT.values():
            found = _strict(loss, one, two)
        else:
            found = _by_element(loss, one, two)
        if found is not None:
            yield self._found(call, found)

    def _seen_elsewhere(
        self, call: Call, loss: str, one: Tensor, two: Tensor, index: ProjectIndex
    ) -> Iterator[RuleMatch]:
        """Yield a loss of a column whose last dimension is taken off wherever else it is held against targets."""
        input_, target = call.argument(0, "input"), call.argument(1, "target")
        is_column = one.last == 1 and (one.is_open or one.rank == 2)  # noqa: PLR2004 - rows and columns
        if not is_column or two.dims or not two.is_open or loss in OF_CLASSES.values() or not input_ or not target:
            return
        other = squeezed_elsewhere(input_, target, call, index)
        if other is not None:
            yield self.hit(
                call.node,
                f"`{loss}` is given shape {shown(one)}, while line {other.line} takes the last dimension off before it "
                "is held against targets",
                remedy="give both the same shape here as well: `prediction.squeeze(-1)`",
                confidence=Confidence.MODERATE,
                basis=f"{INFERRED}: that both uses have targets of one shape",
                severity=Severity.WARNING,
            )

    def _by_hand(self, call: Call, index: ProjectIndex, shapes: Interpreter) -> Iterator[RuleMatch]:
        """Yield the differences and comparisons that are made into an error or an accuracy."""
        node = combined(call, index)
        if node is None or is_asked(call):
            return
        left, right = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.left, node.comparators[0])
        if not (is_output(left, call, index, shapes) or is_output(right, call, index, shapes)):
            return
        one, two = shapes.ask(left, call), shapes.ask(right, call)
        if isinstance(one, Tensor) and isinstance(two, Tensor) and is_crossed(one, two):
            what = "comparison" if isinstance(node, ast.Compare) else _NAMES[type(node.op)]
            yield self._found(call, _stretched(f"this {what}", one, two), node)

    def _found(self, call: Call, wrong: _Wrong, node: ast.AST | None = None) -> RuleMatch:
        return self.hit(
            node or call.node,
            wrong.message,
            remedy=wrong.remedy,
            confidence=Confidence.HIGH if call.function.is_module else Confidence.MODERATE,
            basis=SEEN if call.function.is_module else FOLLOWED,
        )


def _by_element(loss: str, one: Tensor, two: Tensor) -> _Wrong | None:
    return _stretched(f"`{loss}`", one, two) if is_crossed(one, two) else None


def _stretched(what: str, one: Tensor, two: Tensor) -> _Wrong:
    return _Wrong(
        f"{what} of shapes {shown(one)} and {shown(two)} compares every element of the one with every one of the other",
        "give both the same shape: `prediction.squeeze(-1)`, or `target.unsqueeze(1)`",
    )


def _strict(loss: str, one: Tensor, two: Tensor) -> _Wrong | None:
    if is_crossed(one, two) or is_deeper(one, two) or is_deeper(two, one):
        return _Wrong(
            f"`{loss}` raises on shapes {shown(one)} and {shown(two)}, which have to be equal",
            "give both the same shape: `logits.squeeze(-1)`, or `target.unsqueeze(1)`",
        )
    return None


def _of_classes(loss: str, scores: Tensor, target: Tensor) -> _Wrong | None:
    classes = scores.dims[1] if scores.rank is not None and scores.rank > 1 else scores.last
    is_flat = scores.rank == 2 or (scores.is_open and bool(scores.dims))  # noqa: PLR2004 - batch and classes
    if target.kind is Kind.INTEGER and _is_one_hot(scores, target):
        return _Wrong(
            f"`{loss}` raises on one-hot targets of whole numbers",
            "hand over the class numbers themselves, or probabilities: `target.float()`",
        )
    if is_flat and classes == 1 and target.last != 1:
        return _Wrong(
            f"`{loss}` of a single class ({shown(scores)}) is 0 whatever the model says",
            "use `F.binary_cross_entropy_with_logits(scores.squeeze(-1), target.float())`, or two outputs",
        )
    # Class numbers of a batch, or of its pixels, in a dimension of their own.
    is_column = (target.rank == 2 and target.last == 1) or (target.is_open and target.ones == (1,))  # noqa: PLR2004
    is_image = scores.rank == 4 and target.rank == 4 and target.dims[1] == 1  # noqa: PLR2004 - batch, classes, height, width
    if (is_column or is_image) and isinstance(classes, int) and classes > 1:
        return _Wrong(
            f"`{loss}` raises on targets of shape {shown(target)}: class numbers have no dimension of their own",
            "hand over `target.squeeze(1)`",
        )
    is_sequence = scores.rank == 3 and target.rank == 2  # noqa: PLR2004 - batch, time and classes; batch and time
    if is_sequence and scores.dims[1] == target.dims[1] is not None and scores.dims[2] != scores.dims[1]:
        return _sequence(loss, scores, target)
    return None


def _sequence(loss: str, scores: Tensor, target: Tensor) -> _Wrong:
    targets = "class numbers" if target.is_open else shown(target)
    return _Wrong(
        f"`{loss}` takes dimension 1 of {shown(scores)} for the classes, and raises on targets of {targets}",
        "hand over `logits.transpose(1, 2)`, or flatten both: `logits.flatten(0, 1), target.flatten()`",
    )


def _is_of_tokens(node: ast.expr, scores: Tensor, call: Call, index: ProjectIndex) -> bool:
    """Return whether scores of shape (batch, time, classes) come as they are from a linear layer."""
    if scores.rank != 3:  # noqa: PLR2004 - batch, time and classes
        return False
    for origin in index.origins(node, call.function, call.line):
        if isinstance(origin.value, ast.Call) and origin.function is call.function:
            layer = shapes_of(index).module_at(origin.value.func, origin.function, origin.line)
            if isinstance(layer, Object):
                return _ends_in_linear(layer, scores, index)
            if isinstance(layer, Layer) and layer.name == "Linear":
                return size(layer, "out_features") == scores.last
    return False


def _ends_in_linear(module: Object, scores: Tensor, index: ProjectIndex) -> bool:
    """Return whether every way out of a network's `forward` is what a linear layer gave, as it was."""
    forward = index.method(module.owner, "forward")
    ways = [each.value for each, _ in forward.returns] if forward is not None else []
    return (
        bool(ways)
        and all(
            way is not None
            and forward is not None
            and any(_is_linear(origin, index) for origin in index.origins(way, forward, way.lineno + 1))
            for way in ways
        )
        and scores.last is not None
    )


def _is_linear(origin: Origin, index: ProjectIndex) -> bool:
    if not isinstance(origin.value, ast.Call):
        return False
    layer = shapes_of(index).module_at(origin.value.func, origin.function, origin.line)
    return isinstance(layer, Layer) and layer.name == "Linear"


def _is_one_hot(scores: Tensor, target: Tensor) -> bool:
    is_deep = scores.rank is not None and scores.rank > 1 and scores.rank == target.rank and target.last != 1
    return is_deep or (target.is_open and isinstance(target.last, int) and target.last == scores.last)
