"""ESP211: a value is divided by its own sum, norm or spread, which may be zero."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.activations import activated
from esper_agents.review.conditions import names_in, tests_around
from esper_agents.review.counts import divisions_by_counts
from esper_agents.review.definitions import owner_of
from esper_agents.review.divisors import (
    bare,
    divides_masked_sum,
    division_around,
    division_by_sums,
    is_comparison,
    is_product_of_norms,
)
from esper_agents.review.index import resolve
from esper_agents.review.inputs import is_tensor
from esper_agents.review.models import belongs_to_training
from esper_agents.review.names import dotted, root_of, walk
from esper_agents.review.quotients import quotients
from esper_agents.review.rule import INFERRED, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.quotients import Division
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_REDUCTIONS = ("norm", "std", "sum", "vector_norm")
_WRITTEN_OUT = (
    *("torch.tensor([", "torch.ones", "arange", "linspace", "torch.rand"),
    *("_init(", "normal_(", "uniform_("),
)
_POSITIVE = frozenset({"exp", "softmax", "sigmoid", "softplus", "cosh"})


class DivisionWithoutFloor(Rule):
    """A tensor divided by its own norm, spread, largest value or sum, with nothing that keeps the divisor from zero.

    ## Why it costs
    A padded row, an empty mask, a batch of equal values or of one: the divisor is zero and the result NaN or infinite.
    One such value in a loss turns every weight to NaN in the next step. The standard deviation of a single value is NaN
    by itself.

    ## When it is right
    Something is added to the divisor, it is clamped, or the values are known to be positive (`exp`, `softmax`). A test
    of the divisor round the division counts as well. Of divisions of a reduction by a reduction, a correlation by hand
    is reported in training. A mean over what a mask lets through is reported in a loss, a suggestion elsewhere; a
    whole padding mask is known not to be empty. A normalised difference and a share of a union are suggestions.

    ## Sources
    PyTorch documentation of `torch.nn.functional.normalize`, which takes the larger of the norm and `eps`, and of
    `torch.nn.LayerNorm`, which adds `eps`.
    """

    code, name = "ESP211", "division-without-floor"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = "import torch\n\n\ndef standardise(x):\n    return (x - x.mean(0)) / x.std(0)\n"
    good = "import torch\n\n\ndef standardise(x):\n    return (x - x.mean(0)) / (x.std(0) + 1e-6)\n"

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield divisions whose divisor is a bare reduction of the value that is divided, each once."""
        seen: set[tuple[int, int]] = set()
        for hit in (*self._of_reductions(file, index), *self._of_quotients(file, index)):
            if (hit.line, hit.column) not in seen:
                seen.add((hit.line, hit.column))
                yield hit

    def _of_quotients(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        for found in (*quotients(file, index), *divisions_by_counts(file, index)) if file.imports_torch else ():
            if _is_safe(found.call, found.tensor, index) or _is_cared_for(found.node, found.call):
                continue
            is_sure = found.is_likely or ("loss" in found.call.function.name and not found.is_padding)
            yield self._several(found.node, found.where, is_sure=is_sure)

    def _of_reductions(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        for call in file.calls_ending(*_REDUCTIONS):
            yield from self._of_several(call, index)
            reduced = _reduced(call)
            for division, divided in _divisions(call) if reduced is not None else ():
                if reduced is None or not _is_itself(divided, reduced) or _is_safe(call, reduced, index):
                    continue
                if not _is_cared_for(division, call):
                    yield self._found(division, call, reduced)

    def _of_several(self, call: Call, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield a correlation by hand, over two norms, and a mean over a mask, over what the mask lets through."""
        reduced = _reduced(call)
        if reduced is None or _is_safe(call, reduced, index):
            return
        division, sums = division_around(call), division_by_sums(call) if call.tail == "sum" else None
        in_loss = "loss" in f"{call.function.qualname} {call.function.file.path}".lower()
        in_training = in_loss or belongs_to_training(call.function, index)
        if sums is not None and not _is_cared_for(sums, call):
            yield self._several(sums, "everything that is summed up is 0", is_sure=in_loss)
        elif division is None or _is_cared_for(division, call):
            return
        elif call.tail in {"norm", "vector_norm"} and is_product_of_norms(division.right):
            what = f"the norm of {ast.unparse(reduced)!r} or of its partner is 0"
            yield self._several(division, what, is_sure=in_training)
        elif call.tail == "sum" and divides_masked_sum(division, reduced) and is_comparison(reduced, call, index):
            yield self._several(division, f"{ast.unparse(reduced)!r} lets nothing through", is_sure=False)

    def _several(self, division: ast.AST, what: str, *, is_sure: bool) -> RuleMatch:
        return self.hit(
            division,
            f"the result is NaN or infinite where {what}",
            remedy=_FLOOR,
            confidence=Confidence.MODERATE if is_sure else Confidence.LOW,
            basis=f"{INFERRED}: nothing in sight keeps the divisor from 0",
            severity=Severity.WARNING if is_sure else Severity.SUGGESTION,
        )

    def _found(self, division: ast.AST, call: Call, reduced: ast.expr) -> RuleMatch:
        likely = call.tail == "std" or "loss" in call.function.name
        return self.hit(
            division,
            f"the result is NaN or infinite where the {_WORD[call.tail]} of {ast.unparse(reduced)!r} is 0",
            remedy=f"add `torch.finfo(x.dtype).eps` to the divisor, or clamp it there{_BETTER.get(call.tail, '')}",
            confidence=Confidence.MODERATE if likely else Confidence.LOW,
            basis=f"{INFERRED}: nothing in sight keeps the divisor from 0",
            severity=Severity.WARNING if likely else Severity.SUGGESTION,
        )


def _divisions(call: Call) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Yield where a reduction divides, in its own statement or under the name it is given, with what is divided."""
    statement = call.statement
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return | ast.Expr):
        return
    yield from _divided_by(statement, lambda node: bare(node) is call.node)
    is_named = isinstance(statement, ast.Assign) and bare(statement.value) is call.node
    if is_named and isinstance(statement.targets[0], ast.Name):  # type: ignore[union-attr]
        name = statement.targets[0].id  # type: ignore[union-attr]
        known = call.function.assignments
        if len(known.get(name, ())) == 1 and f"{name}[]" not in known:
            for later in _statements(call.function):
                yield from _divided_by(later, lambda node: isinstance(bare(node), ast.Name) and dotted(node) == name)


def _statements(function: Function) -> Iterator[ast.stmt]:
    """Yield the statements of a function that make or return values."""
    for assignments in function.assignments.values():
        yield from (
            assignment.statement
            for assignment in assignments
            if isinstance(assignment.statement, ast.Assign | ast.AugAssign)
        )
    yield from (statement for statement, _ in function.returns)


def _divided_by(statement: ast.stmt, is_divisor: Callable[[ast.expr], bool]) -> Iterator[tuple[ast.AST, ast.expr]]:
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Div) and is_divisor(statement.value):
        yield statement, statement.target
    for node in walk(statement):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and is_divisor(node.right):
            yield node, node.left


def _is_cared_for(division: ast.AST, call: Call | Division) -> bool:
    """Return whether the function replaces the results that are no numbers, or asks the divisor beforehand."""
    text = ast.unparse(call.statement)
    if any(word in text for word in ("nan_to_num", "where(", "masked_fill")):
        return True
    names = {ast.unparse(call.node), *(dotted(each) for each in getattr(call.statement, "targets", ()))} - {""}
    line: int = getattr(division, "lineno", call.line)
    choices = (each for one in (call.statement, *_statements(call.function)) for each in walk(one))
    if any(
        isinstance(choice, ast.IfExp)
        and any(name in ast.unparse(choice.test) for name in names)
        and any(part is division for part in walk(choice))
        for choice in choices
    ):
        return True
    return any(
        isinstance(block.node, ast.If)
        and block.node.lineno < line
        and any(name in ast.unparse(block.node.test) for name in names)
        for block in call.function.blocks
    )


# `torch.finfo` refuses the type of a count.
_FLOOR = "put `.clamp_min(1)` behind a divisor that counts, or add `torch.finfo(x.dtype).eps` to one of floats"
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


def _is_safe(call: Call | Division, reduced: ast.expr, index: ProjectIndex) -> bool:
    """Return whether the divisor is surely above zero, tested, or no tensor at all."""
    name = dotted(reduced)
    root = root_of(name)
    # Weights that are just drawn are not all alike.
    if "init" in call.function.name or "reset_parameters" in call.function.name:
        return True
    if not call.function.file.imports_torch or _may_be_array(reduced, call, index):
        return True
    if any(root and root in ast.unparse(test) for test in tests_around(call.block, call.function.block)):
        return True
    if activated(reduced, call.function, call.line, index) is not None:
        return True
    made = index.binding(name, call.function, call.line) if name else None
    if made is not None and made.is_unpacked:
        return True
    origins = index.origins(reduced, call.function, call.line)
    return any(_is_positive(origin.value) for origin in origins) or _was_floored(call, name)


def _may_be_array(reduced: ast.expr, call: Call | Division, index: ProjectIndex) -> bool:
    """Return whether a value may be one of NumPy's: the file uses NumPy, and the function does not show a tensor."""
    function = call.function
    if "numpy" not in function.file.imports.values():
        return False
    made = [origin.value for origin in index.origins(reduced, function, call.line) if origin.function is function]
    roots = {root_of(dotted(each)) for value in (reduced, *made) for each in walk(value) if isinstance(each, ast.Name)}
    of_numpy = [each for each in function.calls if each.name.startswith("numpy.") or each.tail == "numpy"]
    if any(roots & names_in(each.node) or each.node in made for each in of_numpy):
        return True
    if any(is_tensor(root, function, index) for root in roots) or any(_is_of_torch(each) for each in walk(call.node)):
        return False
    owner = owner_of(function)
    methods = owner.methods.values() if owner is not None and "self" in roots else (function,)
    return not any(each.name.startswith("torch.") for method in methods for each in method.calls)


def _is_of_torch(node: ast.AST) -> bool:
    """Return whether a part of an expression is written as only tensors are: `x.norm()`, `x.sum(dim=1)`."""
    if isinstance(node, ast.keyword):
        return node.arg in {"dim", "keepdim"}
    return isinstance(node, ast.Attribute) and node.attr == "norm" and not dotted(node).startswith(("np.", "numpy."))


def _is_positive(value: ast.expr) -> bool:
    if isinstance(value, ast.Compare):
        return False
    if isinstance(value, ast.BinOp):
        return isinstance(value.op, ast.Add) and isinstance(value.right, ast.Constant)
    calls = [each for each in walk(value) if isinstance(each, ast.Call)]
    return any(dotted(call.func).rsplit(".", 1)[-1] in _POSITIVE for call in calls) or _is_literal(value)


def _is_literal(value: ast.expr) -> bool:
    """Return whether a value is written out or drawn, such as `torch.tensor([1, 2, 1])`, a window or noise."""
    text = ast.unparse(value)
    return any(word in text for word in _WRITTEN_OUT)


def _was_floored(call: Call | Division, name: str) -> bool:
    """Return whether the tensor was clamped or added to somewhere above."""
    return any(
        isinstance(getattr(each.statement, "op", None), ast.Add)
        or "clamp" in ast.unparse(each.value)
        or "eps" in ast.unparse(each.value)
        for each in call.function.assignments.get(name, ())
        if each.line < call.line
    )
