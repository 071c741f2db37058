"""ESP212: a square root whose gradient is infinite at zero."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.in_place import is_changed_in_place
from esper_agents.review.magnitudes import bare, cut_at_zero, is_number, squared, sum_of_squares
from esper_agents.review.names import dotted, root_of, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.roots import is_differentiated, may_be_differentiated, roots
from esper_agents.review.rule import INFERRED, Rule
from esper_agents.review.values import without_gradients

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import Origin, ProjectIndex
    from esper_agents.review.roots import Root
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables, Function

_DETACHED = pattern(r"detach|\.data\b|\.item\(|no_grad|numpy|\bnp\.")
_GRADIENT = pattern(r"grad", re.IGNORECASE)
_MADE = frozenset(
    {
        "arange",
        "linspace",
        "logspace",
        "meshgrid",
        "tensor",
        "as_tensor",
        "eye",
        "zeros",
        "ones",
        "rand",
        "randn",
        "randint",
    }
    | {"full", "fftfreq", "rfftfreq", "indices", "nonzero", "range", "len", "float", "int"}
)
_ANGLE = pattern(r"cos|sin|tanh|sim|dot|corr", re.IGNORECASE)
_WEIGHT = pattern(r"weight|param|kernel", re.IGNORECASE)
_REPLACING = frozenset({"where", "masked_fill", "nan_to_num"})
_PRODUCTS = frozenset({"matmul", "mm", "bmm", "einsum", "baddbmm", "addmm"})


@dataclass(frozen=True, slots=True)
class _Reason:
    """Why what stands under a root may be zero.

    Attributes:
        where: Where it is, in words.
        base: What the root is taken of in the end.
        is_likely: Whether ordinary inputs get there.
    """

    where: str
    base: Origin
    is_likely: bool = True


class RootAtZero(Rule):
    """A square root of summed squares, of a variance, or of what is cut off at 0, with nothing added under it.

    ## Why it costs
    The derivative of the root at 0 is infinite, and the derivative of the squares there is 0: their product is NaN.
    It happens where two points coincide or a prediction is exact, so it strikes late, when the model has become good.

    ## When it is right
    The root is only reported as a metric, under `torch.no_grad()` or on detached values, or a small number stands under
    the root; behind it, as in `x / (root + eps)`, it does not help. Where no loss or network with layers is in sight
    that uses the root, it is a suggestion. `torch.linalg.vector_norm` and `torch.cdist` define their gradient at 0 as 0
    and are not reported.

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

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the roots of what may be zero, where gradients may flow."""
        for root in roots(file) if file.imports_torch else ():
            reason = _reason(root, index)
            if reason is None or without_gradients(root.block) or not may_be_differentiated(root):
                continue
            if _has_no_gradient(root, reason.base, index):
                continue
            is_used = is_differentiated(root, index)
            if not is_used and not _is_tensor(root):
                continue
            is_sure = is_used and reason.is_likely and not root.is_divisor and _may_coincide(reason.base, index)
            yield self.hit(
                root.node,
                f"the gradient of this root is NaN where {reason.where}",
                remedy="add a small number under the root: `torch.sqrt(x + torch.finfo(x.dtype).eps)`",
                confidence=Confidence.MODERATE if is_sure else Confidence.LOW,
                basis=f"{INFERRED}: that a gradient flows through it",
                severity=Severity.WARNING if is_sure else Severity.SUGGESTION,
            )


def _is_tensor(root: Root) -> bool:
    """Return whether what the root is taken of shows itself to be a tensor: plain numbers have no methods."""
    return not isinstance(root.node, ast.BinOp) or any(isinstance(each, ast.Call) for each in walk(root.value))


def _reason(root: Root, index: ProjectIndex) -> _Reason | None:
    """Return why what stands under a root may be zero; None where nothing shows that it can."""
    for origin in index.origins(root.value, root.function, root.line):
        is_here = origin.function is root.function
        if is_here and _is_changed(root, origin):
            return None
        found = _zero(origin, index)
        if found is not None:
            return found
    return None


def _is_changed(root: Root, origin: Origin) -> bool:
    call = next((each for each in root.function.calls if each.statement is root.statement), None)
    return call is not None and is_changed_in_place(dotted(root.value), call, origin.line)


def _zero(origin: Origin, index: ProjectIndex) -> _Reason | None:
    value = bare(origin.value, origin.function)
    squares = sum_of_squares(origin, index)
    if squares is not None:
        return _Reason("the squares under it are all 0", squares)
    cut = cut_at_zero(value, origin, index)
    if cut:
        return _Reason(f"{cut} makes what stands under it 0", origin)
    return _difference(value, origin, index) if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub) else None


def _difference(value: ast.BinOp, origin: Origin, index: ProjectIndex) -> _Reason | None:
    """Return why a difference may be zero, or fall under it by rounding."""
    right = index.origins(value.right, origin.function, origin.line)
    if is_number(value.left, 1):
        bases = [
            base for each in right if (base := squared(bare(each.value, each.function), each.function)) is not None
        ]
        if bases:
            return _Reason(
                f"the square of {ast.unparse(bases[0])!r} is 1",
                origin,
                _ANGLE.search(ast.unparse(bases[0])) is not None,
            )
        if any(isinstance(each.value, ast.Call) and tail_of(dotted(each.value.func)) == "exp" for each in right):
            return _Reason("the `exp` is 1", origin, is_likely=False)
        return None
    (left, *_) = index.origins(value.left, origin.function, origin.line)
    if sum_of_squares(left, index) is None:
        return None
    is_spread = any(squared(bare(each.value, each.function), each.function) is not None for each in right)
    return (
        _Reason("rounding makes the difference under it 0 or less", origin)
        if is_spread or _has_product(value)
        else None
    )


def _has_product(value: ast.expr) -> bool:
    return any(
        (isinstance(each, ast.BinOp) and isinstance(each.op, ast.MatMult))
        or (isinstance(each, ast.Call) and tail_of(dotted(each.func)) in _PRODUCTS)
        for each in walk(value)
    )


def _has_no_gradient(root: Root, base: Origin, index: ProjectIndex) -> bool:
    """Return whether what the root is taken of is detached, a gradient by itself, or made of constants."""
    if isinstance(base.value, ast.Constant):
        return True
    origins = (base, *index.origins(base.value, base.function, base.line))
    if any(_DETACHED.search(ast.unparse(origin.value)) for origin in origins) or _is_detached(root):
        return True
    if _GRADIENT.search(ast.unparse(base.value)):
        return not any(keyword.arg == "create_graph" for call in root.function.calls for keyword in call.node.keywords)
    names = {root_of(dotted(each)) for each in walk(base.value) if isinstance(each, ast.Name)} - {"torch", "F"}
    if any(_is_replaced(name, base, index) for name in names):
        return True
    return bool(names) and all(_is_constant(name, base, index) for name in names)


def _is_replaced(name: str, base: Origin, index: ProjectIndex) -> bool:
    """Return whether some values of a name were replaced by others beforehand, as zeros are."""
    made = index.binding(name, base.function, base.line)
    return made is not None and isinstance(made.value, ast.Call) and tail_of(dotted(made.value.func)) in _REPLACING


def _is_detached(root: Root) -> bool:
    """Return whether the root itself is detached where it stands."""
    return any(
        isinstance(each, ast.Attribute) and each.value is root.node and each.attr in {"detach", "data", "item"}
        for each in walk(root.statement)
    )


def _is_constant(name: str, base: Origin, index: ProjectIndex) -> bool:
    """Return whether a name holds a number, a grid or noise that the function made."""
    known = index.binding(name, base.function, base.line)
    if known is None:
        return _is_annotated_number(name, base.function)
    made = (known, *base.function.assignments.get(name, ()))
    if tail_of(dotted(known.value)) in {"shape", "size"} or any("grid" in dotted(each.value) for each in made):
        return True
    values = (
        [known.value]
        if known.is_unpacked
        else [origin.value for origin in index.origins(known.value, known.block.function, known.line)]
    )
    return all(
        isinstance(value, ast.Constant) or (isinstance(value, ast.Call) and tail_of(dotted(value.func)) in _MADE)
        for value in values
    )


def _is_annotated_number(name: str, function: Function) -> bool:
    if isinstance(function.node, ast.Module):
        return False
    arguments = function.node.args
    known = [each for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs) if each.arg == name]
    return any(
        each.annotation is not None and ast.unparse(each.annotation) in {"int", "float", "bool"} for each in known
    )


def _may_coincide(base: Origin, index: ProjectIndex) -> bool:
    """Return whether the two sides of a difference may well be alike, and it is no weight.

    Rows picked from one tensor by two lists of indices, as the ends of edges are, seldom are.
    """
    is_held = isinstance(base.value, ast.Attribute) and dotted(base.value).startswith("self.")
    if is_held or (isinstance(base.value, ast.Name) and _WEIGHT.search(base.value.id)):
        return False
    origins = index.origins(base.value, base.function, base.line)
    return not any(_is_between_picked(origin, index) for origin in origins)


def _is_between_picked(origin: Origin, index: ProjectIndex) -> bool:
    value = origin.value
    if not (isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub)):
        return False
    sides = [
        next((each.value for each in index.origins(side, origin.function, origin.line)), side)
        for side in (value.left, value.right)
    ]
    one, other = (_picked(each) for each in sides)
    return one is not None and other is not None and one[0] == other[0] and one[1] != other[1]


def _picked(node: ast.expr) -> tuple[str, str] | None:
    """Return what rows are picked from and the name of the indices: `pos[i]`, `pos.index_select(0, i)`."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name | ast.Subscript):
        return dotted(node.value), ast.unparse(node.slice)
    if isinstance(node, ast.Call) and tail_of(dotted(node.func)) == "index_select" and node.args:
        return dotted(node.func), ast.unparse(node.args[-1])
    return None
