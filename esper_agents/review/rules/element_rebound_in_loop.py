"""ESP246: a loop binds its own variable to a new tensor and never reads it: the old one stays as it is."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.rule import SEEN, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, FileTables, Function

_PARAMETERS = frozenset({"parameters", "named_parameters", "buffers", "named_buffers"})
_MOVING = frozenset({"to", "cuda", "cpu", "detach", "clone", "half", "float", "double", "bfloat16", "requires_grad_"})
_CHANGING = frozenset({"clamp", "add", "sub", "mul", "div", "pow", "abs", "sign", "normal", "masked_fill", "clip"})
_IN_PLACE = frozenset({"requires_grad_", "detach_"})


class ElementReboundInLoop(FileRule):
    """A loop over parameters or tensors that assigns a new tensor to its own variable, as `p = p - lr * g`.

    ## Why it costs
    The assignment binds the name of the loop to another tensor. The parameter, or the tensor in the list or the batch,
    stays as it was: weights are neither stepped nor set, and a batch is not moved. Nothing raises.

    ## When it is right
    The variable is read later in the loop or after it. Modules move themselves in place and are not reported.

    ## Sources
    Python reference, "Assignment statements". PyTorch documentation of `torch.Tensor.to`: it returns a tensor.
    """

    code, name = "ESP246", "element-rebound-in-loop"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "grads = torch.autograd.grad(loss, list(model.parameters()))\n"
        "for p, g in zip(model.parameters(), grads):\n"
        "    p = p - 0.1 * g\n"
    )
    good = bad.replace("    p = p - 0.1 * g\n", "    p.data -= 0.1 * g\n")

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the assignments to a loop's own variable that nothing reads."""
        if not file.imports_torch:
            return
        for function in file.functions:
            for block in function.blocks:
                if isinstance(block.node, ast.For) and block.targets and block.loop is block:
                    yield from self._in_loop(block, function)

    def _in_loop(self, loop: Block, function: Function) -> Iterator[RuleMatch]:
        node = loop.node
        if not isinstance(node, ast.For):
            return
        over_parameters = {dotted(each.func) for each in walk(node.iter) if isinstance(each, ast.Call)}
        is_of_parameters = any(tail_of(path) in _PARAMETERS for path in over_parameters)
        for name in loop.targets:
            for found in function.assignments.get(name, ()) if name.isidentifier() else ():
                is_inside = found.statement is not node and found.block.within(loop) and not found.is_augmented
                if not is_inside or found.is_unpacked or not isinstance(found.statement, ast.Assign):
                    continue
                if len(found.statement.targets) > 1 or _is_read(name, found, loop, function):
                    continue
                is_weight = is_of_parameters and _is_tensor_of(name, node) and _computes(found.value, function)
                if is_weight or _moves(found.value, name):
                    what = "the parameter" if is_weight else "the tensor that the loop goes over"
                    yield self.hit(
                        found.statement,
                        f"this only binds the name {name!r} to a new tensor: {what} stays as it is",
                        remedy=_remedy(name, is_weight=is_weight),
                        basis=SEEN,
                    )


def _remedy(name: str, *, is_weight: bool) -> str:
    if is_weight:
        return f"write into it: `with torch.no_grad(): {name}.copy_(...)`"
    return "build a new list or dictionary of the results, and use that"


def _is_tensor_of(name: str, loop: ast.For) -> bool:
    """Return whether a name of a loop over parameters is the parameter, not the number or the name before it."""
    target = loop.target
    called = tail_of(dotted(loop.iter.func)) if isinstance(loop.iter, ast.Call) else ""
    if isinstance(target, ast.Tuple) and called in {"enumerate", "named_parameters", "named_buffers"}:
        return dotted(target.elts[0]) != name
    return True


def _computes(value: ast.expr, function: Function) -> bool:
    """Return whether a value is a new tensor: an operation, or a call of torch."""
    if isinstance(value, ast.BinOp | ast.UnaryOp):
        return True
    if not isinstance(value, ast.Call):
        return False
    path = dotted(value.func)
    if tail_of(path).endswith("_") or resolve(path, function).startswith("torch.nn.init."):
        # Works in place, whatever it is bound to, unless it works on a new tensor.
        return bool(value.args) and isinstance(value.args[0], ast.Call)
    is_function = resolve(path, function).startswith("torch.")
    return is_function or (isinstance(value.func, ast.Attribute) and tail_of(path) in (_MOVING | _CHANGING) - _IN_PLACE)


def _moves(value: ast.expr, name: str) -> bool:
    """Return whether a value is the element itself, moved or cast: `v.to(device)`, `v.cuda()`."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _MOVING:
        if value.func.attr in _IN_PLACE:
            return False
        value = value.func.value
        if isinstance(value, ast.Name):
            return value.id == name
    return False


def _is_read(name: str, found: Assignment, loop: Block, function: Function) -> bool:
    """Return whether something may read what is bound: below it, after the loop, or in an inner one's next round."""
    inner = found.block.loop
    start = found.value.end_lineno or found.line
    values = set(map(id, walk(found.value)))
    if inner is not loop and inner is not None:
        # The next round of the inner loop reads it, be it in the assigned value.
        start, values = getattr(inner.node, "lineno", start) - 1, set()
    for each in walk(function.node):
        is_use = isinstance(each, ast.Name) and each.id == name and id(each) not in values
        if is_use and isinstance(each.ctx, ast.Load | ast.Del) and each.lineno > start:
            return _comes_first(name, each, loop, function)
        if isinstance(each, ast.Global | ast.Nonlocal) and name in each.names:
            return True
    return _is_on_one_line(name, found, function) or any(
        isinstance(each, ast.Name) and dotted(each) in {"locals", "exec"} for each in walk(function.node)
    )


def _is_on_one_line(name: str, found: Assignment, function: Function) -> bool:
    line = found.line
    return any(
        isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Load)
        for each in walk(function.node)
        if getattr(each, "lineno", 0) == line and (getattr(each, "col_offset", 0) > (found.value.end_col_offset or 0))
    )


def _comes_first(name: str, use: ast.Name, loop: Block, function: Function) -> bool:
    """Return whether a later use may read the value: another loop over that name, or another binding, comes first."""
    end = getattr(loop.node, "end_lineno", 0) or 0
    if use.lineno <= end:
        return True
    bound = [each for each in function.assignments.get(name, ()) if end < each.line <= use.lineno]
    drawn = [
        each
        for each in walk(function.node)
        if isinstance(each, ast.comprehension) and any(dotted(part) == name for part in walk(each.target))
    ]
    is_drawn = any(each.target.lineno <= use.lineno <= (each.iter.end_lineno or 0) + 5 for each in drawn)
    return not (bound or is_drawn)
