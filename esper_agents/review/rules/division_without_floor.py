"""ESP211: a value is divided by its own sum, norm or spread, which may be zero."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.activations import activated
from esper_agents.review.conditions import tests_around
from esper_agents.review.index import resolve
from esper_agents.review.names import dotted, root_of
from esper_agents.review.rule import INFERRED, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import Call, FileTables

_REDUCTIONS = ("norm", "std", "sum", "vector_norm")
_POSITIVE = frozenset({"exp", "softmax", "sigmoid", "softplus", "cosh"})


class DivisionWithoutFloor(Rule):
    """A tensor divided by its own norm, standard deviation or sum, with nothing that keeps the divisor from zero.

    ## Why it costs
    A padded row, an empty mask, a batch of equal values or of one: the divisor is zero and the result NaN or
    infinite. One such value in a loss turns every weight to NaN in the next step. The standard deviation of a single
    value is NaN by itself.

    ## When it is right
    Something is added to the divisor, it is clamped, or the values are known to be positive (`exp`, `softmax`). A
    test of the divisor round the division counts as well. Divisions of a reduction by a reduction, such as a masked
    mean, are left alone, because masks are usually known not to be empty.

    ## Sources
    PyTorch documentation of `torch.nn.functional.normalize`, which takes the larger of the norm and `eps`, and of
    `torch.nn.LayerNorm`, which adds `eps`.
    """

    code, name = "ESP211", "division-without-floor"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = "import torch\n\n\ndef standardise(x):\n    return (x - x.mean(0)) / x.std(0)\n"
    good = "import torch\n\n\ndef standardise(x):\n    return (x - x.mean(0)) / (x.std(0) + 1e-6)\n"

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[Hit]:
        """Yield divisions whose divisor is a bare reduction of the value that is divided."""
        for call in file.calls_ending(*_REDUCTIONS):
            division = call.parent
            if (
                not isinstance(division, ast.BinOp)
                or not isinstance(division.op, ast.Div)
                or division.right is not call.node
            ):
                continue
            reduced = _reduced(call)
            if reduced is None or not _is_itself(division.left, reduced) or _is_safe(call, reduced, index):
                continue
            likely = call.tail == "std" or "loss" in call.function.name
            yield self.hit(
                division,
                f"the result is NaN or infinite where the {_WORD[call.tail]} of {ast.unparse(reduced)!r} is 0",
                remedy=f"add a small number to the divisor, or `.clamp_min(1e-8)` it{_BETTER.get(call.tail, '')}",
                confidence=Confidence.MODERATE if likely else Confidence.LOW,
                basis=f"{INFERRED}: nothing in sight keeps the divisor from 0",
                severity=Severity.WARNING if likely else Severity.SUGGESTION,
            )


_WORD = {"norm": "norm", "vector_norm": "norm", "std": "standard deviation", "sum": "sum"}
_BETTER = {"norm": "; `F.normalize` does it for you", "vector_norm": "; `F.normalize` does it for you"}


def _reduced(call: Call) -> ast.expr | None:
    """Return the tensor that is reduced: before `.sum()`, or the argument of `torch.sum`."""
    name = resolve(call.path, call.function)
    if name.startswith("torch."):
        return call.argument(0, "input") or call.argument(0, "x")
    if name.startswith(("numpy.", "math.", "scipy.", "tensorflow.", "jax.")) or not isinstance(
        call.node.func, ast.Attribute
    ):
        return None
    return call.node.func.value


def _is_itself(divided: ast.expr, reduced: ast.expr) -> bool:
    """Return whether what is divided is the reduced tensor, plain or with its mean taken off."""
    text = ast.unparse(reduced)
    if ast.unparse(divided) == text:
        return True
    return (
        isinstance(divided, ast.BinOp)
        and isinstance(divided.op, ast.Sub)
        and ast.unparse(divided.left) == text
        and "mean" in ast.unparse(divided.right)
    )


def _is_safe(call: Call, reduced: ast.expr, index: ProjectIndex) -> bool:
    """Return whether the divisor is surely above zero, tested, or no tensor at all."""
    name = dotted(reduced)
    root = root_of(name)
    if not call.function.file.imports_torch or "numpy" in call.function.file.imports.values():
        return True
    if any(root and root in ast.unparse(test) for test in tests_around(call.block, call.function.block)):
        return True
    if activated(reduced, call.function, call.line, index) is not None:
        return True
    origins = index.origins(reduced, call.function, call.line)
    return any(_is_positive(origin.value) for origin in origins) or _was_floored(call, name)


def _is_positive(value: ast.expr) -> bool:
    if isinstance(value, ast.BinOp):
        return isinstance(value.op, ast.Add) and isinstance(value.right, ast.Constant)
    calls = [each for each in ast.walk(value) if isinstance(each, ast.Call)]
    return any(dotted(each.func).rsplit(".", 1)[-1] in _POSITIVE for each in calls) or _is_literal(value)


def _is_literal(value: ast.expr) -> bool:
    """Return whether a value is written out, such as `torch.tensor([1, 2, 1])`, a window or a filter."""
    text = ast.unparse(value)
    return "torch.tensor([" in text or "torch.ones" in text or "arange" in text or "linspace" in text


def _was_floored(call: Call, name: str) -> bool:
    """Return whether the tensor was clamped or added to somewhere above."""
    return any(
        each.is_augmented or "clamp" in ast.unparse(each.value) or "eps" in ast.unparse(each.value)
        for each in call.function.assignments.get(name, ())
        if each.line < call.line
    )
