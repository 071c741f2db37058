"""ESP212: a square root whose gradient is infinite at zero."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.rule import INFERRED, Rule
from esper_agents.review.values import without_gradients

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import Call, FileTables

_SQUARES = frozenset({"pow", "square", "mse_loss", "MSELoss"})
_REDUCING = frozenset({"sum", "mean"})


class RootAtZero(Rule):
    """A square root of a sum of squared differences, or of a mean squared error, with nothing added under the root.

    ## Why it costs
    The derivative of the root at 0 is infinite, and the derivative of the squares there is 0: their product is NaN.
    It happens where two points coincide or a prediction is exact, so it strikes late, when the model has become good.

    ## When it is right
    The root is only reported as a metric, under `torch.no_grad()` or on detached values, or a small number stands under
    the root. `torch.linalg.vector_norm` and `torch.cdist` define their gradient at 0 as 0 and are not reported.

    ## Sources
    PyTorch notes, "Autograd mechanics", on gradients for non-differentiable functions.
    """

    code, name = "ESP212", "root-at-zero"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "import torch.nn.functional as F\n"
        "\n"
        "\n"
        "def rmse_loss(prediction, target):\n"
        "    return torch.sqrt(F.mse_loss(prediction, target))\n"
    )
    good = bad.replace("F.mse_loss(prediction, target)", "F.mse_loss(prediction, target) + 1e-8")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[Hit]:
        """Yield the roots of bare sums of squares, where gradients may flow."""
        for call in (*file.calls_ending("sqrt", "pow"), *_powers(file)):
            value = _under_root(call)
            if value is None or without_gradients(call.block) or not _is_differentiated(call):
                continue
            if any(_is_sum_of_squares(origin.value) for origin in index.origins(value, call.function, call.line)):
                yield self.hit(
                    call.node,
                    "the gradient of this root is NaN where the squares under it are all 0",
                    remedy="add a small number under the root, such as `torch.sqrt(squares + 1e-12)`",
                    confidence=Confidence.MODERATE,
                    basis=f"{INFERRED}: that a gradient flows through it",
                )


def _powers(file: FileTables) -> Iterator[Call]:
    """Yield the calls whose result is raised to the power of a half: `squares.sum() ** 0.5`."""
    for call in file.calls_ending(*_REDUCING, "mse_loss"):
        if isinstance(call.parent, ast.BinOp) and isinstance(call.parent.op, ast.Pow) and call.parent.left is call.node:
            yield call


def _under_root(call: Call) -> ast.expr | None:
    if isinstance(call.parent, ast.BinOp) and isinstance(call.parent.op, ast.Pow) and call.tail not in {"sqrt", "pow"}:
        return call.node if _is_half(call.parent.right) else None
    if call.tail == "pow":
        is_root = isinstance(call.node.func, ast.Attribute) and len(call.node.args) == 1 and _is_half(call.node.args[0])
        return call.node.func.value if is_root else None  # type: ignore[attr-defined]
    if call.name == "torch.sqrt":
        return call.argument(0, "input")
    is_method = call.receiver and not call.node.args and not call.name.startswith(("torch.", "math.", "numpy."))
    return call.node.func.value if is_method else None  # type: ignore[attr-defined]


def _is_differentiated(call: Call) -> bool:
    """Return whether a function's name says that its result is a loss or part of a model, not a metric or an update."""
    name = call.function.name
    return "loss" in name or name in {"forward", "distance", "criterion", "objective"} or name.endswith("_distance")


def _is_sum_of_squares(value: ast.expr) -> bool:
    if not isinstance(value, ast.Call):
        return False
    name = tail_of(dotted(value.func))
    if name in {"mse_loss", "MSELoss"}:
        return True
    if name not in _REDUCING or not isinstance(value.func, ast.Attribute):
        return False
    inner = value.args[0] if dotted(value.func.value) == "torch" and value.args else value.func.value
    return _is_square_of_difference(inner)


def _is_square_of_difference(value: ast.expr) -> bool:
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Pow):
        return _is_two(value.right) and _is_difference(value.left)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _SQUARES:
        base = value.args[0] if dotted(value.func.value) == "torch" and value.args else value.func.value
        return _is_difference(base)
    return False


def _is_half(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0.5  # noqa: PLR2004 - the root


def _is_two(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 2  # noqa: PLR2004 - the square


def _is_difference(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)
