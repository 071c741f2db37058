"""ESP280: a straight-through estimate whose difference is not detached."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.rule import INFERRED, Rule
from esper_agents.review.values import without_gradients

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables, Function

# What has no gradient, or picks by an index that has none.
_CHOICES = frozenset(
    {"argmax", "argmin", "round", "sign", "floor", "ceil", "one_hot", "embedding", "gather", "index_select", "scatter"}
    | {"scatter_", "bernoulli", "heaviside", "topk", "trunc", "multinomial"}
)
_STEPS = 4
_FROM = 6


class StraightThroughWithoutDetach(Rule):
    """`z + (q - z)` without `.detach()`, where `q` is what `z` was rounded or quantised to.

    ## Why it costs
    Without `.detach()` around the difference `z` cancels: the value is `q`, and so is the gradient. Rounding and
    choosing have no gradient, so that nothing before the quantiser is trained by the loss after it.

    ## When it is right
    `z + (q - z).detach()`, and a difference of values that carry no gradient. Only differences are judged whose one
    part is rounded, chosen by an index, or looked up in the same function.

    ## Sources
    Bengio et al., "Estimating or Propagating Gradients Through Stochastic Neurons". van den Oord et al., "Neural
    Discrete Representation Learning", section 3.2.
    """

    code, name = "ESP280", "straight-through-without-detach"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = "import torch\n\n\ndef quantise(z):\n    q = torch.round(z)\n    return z + (q - z)\n"
    good = bad.replace("(q - z)", "(q - z).detach()")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the sums that are equal to what was quantised."""
        for function in file.functions if file.imports_torch else ():
            seen: set[int] = set()
            for found, block, line in _sums(function):
                kept, other = _difference(found, function, line)
                if kept is None or other is None or id(found) in seen or without_gradients(block):
                    continue
                seen.add(id(found))
                if _is_detached(kept, function, line) or not _is_from(kept, other, function, line, _FROM):
                    continue
                if not _is_chosen(other, function, line, index, _STEPS):
                    continue
                shown = ast.unparse(kept)
                yield self.hit(
                    found,
                    f"this is {ast.unparse(other)!r} again, in value and in gradient: {shown!r} gets no gradient",
                    remedy=f"write `{shown} + ({ast.unparse(other)} - {shown}).detach()`",
                    confidence=Confidence.MODERATE,
                    basis=f"{INFERRED}: that a straight-through estimate is meant",
                )


def _sums(function: Function) -> Iterator[tuple[ast.BinOp, Block, int]]:
    """Yield the sums and differences that a function assigns, returns or hands on, with where they stand."""
    places = [(each.value, each.block, each.line) for known in function.assignments.values() for each in known]
    places += [(each.value, block, each.lineno) for each, block in function.returns if each.value is not None]
    places += [(given, call.block, call.line) for call in function.calls for given in call.node.args]
    for value, block, line in places:
        for node in walk(value):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
                yield node, block, line


def _difference(node: ast.BinOp, function: Function, line: int) -> tuple[ast.expr | None, ast.expr | None]:
    """Return what stands twice in `a + (b - a)`, `(b - a) + a` or `a - (a - b)`, and the other part."""
    sides = [(node.left, node.right)] + ([(node.right, node.left)] if isinstance(node.op, ast.Add) else [])
    for one, two in sides:
        inner = _meant(two, function, line)
        if not isinstance(inner, ast.BinOp) or not isinstance(inner.op, ast.Sub) or isinstance(one, ast.Constant):
            continue
        kept, other = (inner.right, inner.left) if isinstance(node.op, ast.Add) else (inner.left, inner.right)
        if ast.dump(one) == ast.dump(kept) and not any(isinstance(each, ast.Call) for each in walk(one)):
            return one, other
    return None, None


def _meant(node: ast.expr, function: Function, line: int) -> ast.expr:
    """Return what a name was given in the function."""
    found = function.last_assignment(node.id, line) if isinstance(node, ast.Name) else None
    return found.value if found is not None and not found.is_augmented and not found.is_unpacked else node


def _is_chosen(node: ast.expr, function: Function, line: int, index: ProjectIndex, steps: int) -> bool:
    """Return whether a value is rounded, compared, chosen by an index or looked up, in this function or one called."""
    for each in walk(node) if steps else ():
        if isinstance(each, ast.Compare):
            return True
        if isinstance(each, ast.Call):
            if tail_of(dotted(each.func)) in _CHOICES:
                return True
            call = next((known for known in function.calls if known.node is each), None)
            for called in index.callees(call) if call is not None else ():
                if any(_is_choice_returned(value, called, index, steps - 1) for value, _ in called.returns):
                    return True
        elif isinstance(each, ast.Name):
            found = function.last_assignment(each.id, line)
            if found is not None and _is_chosen(found.value, function, found.line, index, steps - 1):
                return True
    return False


def _is_from(kept: ast.expr, node: ast.expr, function: Function, line: int, steps: int) -> bool:
    """Return whether a value is computed from what stands twice."""
    wanted = ast.dump(kept)
    for each in walk(node) if steps else ():
        if isinstance(each, ast.expr) and ast.dump(each) == wanted:
            return True
        if isinstance(each, ast.Name):
            found = function.last_assignment(each.id, line)
            if found is not None and _is_from(kept, found.value, function, found.line, steps - 1):
                return True
    return False


def _is_choice_returned(returned: ast.Return, function: Function, index: ProjectIndex, steps: int) -> bool:
    value = returned.value
    return value is not None and _is_chosen(value, function, returned.lineno, index, steps)


def _is_detached(node: ast.expr, function: Function, line: int) -> bool:
    """Return whether a value has lost its graph before."""
    value = _meant(node, function, line)
    return isinstance(value, ast.Call) and tail_of(dotted(value.func)) == "detach"
