"""ESP124: a sum over samples is divided by the number of batches, or one over batches by the number of samples."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.host_batches import names_loader
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.rule import INFERRED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, FileTables, Function

_NUMBER = frozenset({"item", "float", "double", "cpu", "detach", "data"})
_LOOKING = frozenset({"enumerate", "tqdm", "track", "list"})


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum that a loop over a loader makes.

    Attributes:
        made: The addition.
        loader: The loader, as written.
        node: The expression that names it.
        is_of_samples: Whether it adds up samples, not means of batches.
    """

    made: Assignment
    loader: str
    node: ast.expr
    is_of_samples: bool


class AverageOverOtherCount(Rule):
    """A sum over samples that is divided by `len(loader)`, or a sum of batch means that is by `len(loader.dataset)`.

    ## Why it costs
    The result is wrong by the batch size: an accuracy of 30 instead of 0.94, or a loss that is 64 times too small and
    cannot be compared with the one of training. Early stopping and schedules that read it follow a number that depends
    on the batch size.

    ## When it is right
    Numbers of correct predictions, and losses times the size of their batch, over `len(loader.dataset)`; means of
    batches over `len(loader)`. A loss with `reduction="sum"` adds up samples.

    ## Sources
    PyTorch tutorial "Optimizing Model Parameters", function `test_loop`, which has both divisions.
    """

    code, name = "ESP124", "average-over-other-count"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "@torch.no_grad()\n"
        "def accuracy(model, loader):\n"
        "    model.eval()\n"
        "    correct = 0\n"
        "    for x, y in loader:\n"
        "        correct += (model(x).argmax(1) == y).sum()\n"
        "    return correct.item() / len(loader)\n"
    )
    good = bad.replace("len(loader)", "len(loader.dataset)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the divisions of sums by another count than theirs."""
        if "len" not in file.by_tail or not file.imports_torch:
            return
        for function in file.functions:
            for path, found in _sums(function).items():
                division = _divided(path, found, function)
                size = _batch_size(found, index) if division is not None else None
                if division is not None and size != 1:
                    yield self._found(path, found, division, is_known=bool(size))

    def _found(self, path: str, found: _Sum, division: ast.expr, *, is_known: bool) -> RuleMatch:
        what = "adds up samples" if found.is_of_samples else "adds up one mean for each batch"
        by = "number of batches" if found.is_of_samples else "number of samples"
        right = f"len({found.loader}.dataset)" if found.is_of_samples else f"len({found.loader})"
        is_sure = is_known and found.is_of_samples
        basis = (
            "a batch has more than one sample" if found.is_of_samples else "a loss is the mean of a batch by default"
        )
        return self.hit(
            division,
            f"{path!r} {what} (line {found.made.line}), and is divided by the {by}",
            remedy=f"divide by `{right}`",
            confidence=Confidence.HIGH if is_sure else Confidence.MODERATE,
            basis=SEEN if is_sure else f"{INFERRED}: {basis}",
            severity=None if is_sure else Severity.WARNING,
        )


def _batch_size(found: _Sum, index: ProjectIndex) -> int | None:
    """Return the batch size of a loader; 1 if it may be that, None if it is not known."""
    function, sizes = found.made.block.function, []
    for origin in index.origins(found.node, function, found.made.line):
        call = next((each for each in origin.function.calls if each.node is origin.value), None)
        if call is None or call.tail != "DataLoader" or call.has_splat():
            return None
        given = call.argument(1, "batch_size")
        values = [each.value for each in index.origins(given, call.function, call.line)] if given is not None else []
        numbers = [each.value for each in values if isinstance(each, ast.Constant) and isinstance(each.value, int)]
        if given is not None and len(numbers) < len(values):
            return None
        sizes += numbers or [1]
    return min(sizes, default=None)


def _sums(function: Function) -> dict[str, _Sum]:
    """Return the sums that a function makes in loops over loaders, by path; those that it makes in one place."""
    found: dict[str, _Sum] = {}
    for path, assignments in function.assignments.items():
        added = [each for each in assignments if each.is_augmented]
        loop = added[0].block.loop if len(added) == 1 else None
        node = loop.node if loop is not None else None
        if not isinstance(node, ast.For) or not names_loader(node.iter) or len(assignments) > 2:  # noqa: PLR2004 - the start and the addition
            continue
        kind = _kind(added[0].value, function)
        loader = _loader(node.iter)
        statement = added[0].statement
        is_sum = isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add)
        if kind is not None and loader is not None and is_sum:
            found[path] = _Sum(added[0], dotted(loader), loader, kind)
    return found


def _loader(value: ast.expr) -> ast.expr | None:
    while isinstance(value, ast.Call) and tail_of(dotted(value.func)) in _LOOKING and value.args:
        value = value.args[0]
    path = dotted(value)
    return value if path and "(" not in path and "[" not in path else None


def _kind(value: ast.expr, function: Function) -> bool | None:
    """Return whether an added value is a sum over samples; False for the mean of a batch, None for anything else."""
    while isinstance(value, ast.Call):
        func = value.func
        if isinstance(func, ast.Attribute) and func.attr in _NUMBER:
            value = func.value
        elif isinstance(func, ast.Name) and func.id in {"float", "int"} and value.args:
            value = value.args[0]
        else:
            break
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        sides = (value.left, value.right)
        has_size = any(_is_size(each) for each in sides)
        return True if has_size and any(_is_mean(each, function) for each in sides) else None
    if _is_count(value, function):
        return True
    return False if _is_mean(value, function) else None


def _is_size(value: ast.expr) -> bool:
    """Return whether a value is the size of a batch: `x.size(0)`, `x.shape[0]`, `len(x)`, `batch_size`."""
    text = ast.unparse(value)
    return text.endswith((".size(0)", ".shape[0]")) or text.startswith("len(") or tail_of(text) in {"batch_size", "bs"}


def _is_count(value: ast.expr, function: Function) -> bool:
    """Return whether a value counts samples: `(prediction == y).sum()`, or a name of such a count."""
    if isinstance(value, ast.Name):
        made = function.last_assignment(value.id, value.lineno)
        is_plain = made is not None and not made.is_augmented and not made.is_unpacked
        return made is not None and is_plain and not isinstance(made.value, ast.Name) and _counts(made.value)
    return _counts(value)


def _counts(value: ast.expr) -> bool:
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _NUMBER:
        value = value.func.value
    if not isinstance(value, ast.Call) or (tail_of(dotted(value.func)) != "sum" and not _is_sum(value)):
        return False
    inside: list[ast.expr] = list(value.args)
    if isinstance(value.func, ast.Attribute):
        inside.append(value.func.value)
    compared = [each for part in inside for each in walk(part) if isinstance(each, ast.Compare | ast.Call)]
    is_equal = any(isinstance(each, ast.Compare) and isinstance(each.ops[0], ast.Eq) for each in compared)
    is_eq = any(isinstance(each, ast.Call) and tail_of(dotted(each.func)) == "eq" for each in compared)
    return (is_equal or is_eq) and not any(
        isinstance(each, ast.Call) and tail_of(dotted(each.func)) in {"mean", "all"} for each in compared
    )


def _is_sum(value: ast.Call) -> bool:
    return isinstance(value.func, ast.Attribute) and value.func.attr == "sum"


def _is_mean(value: ast.expr, function: Function) -> bool:
    """Return whether a value is named as a loss, and is the mean of a batch as far as its making shows."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _NUMBER:
        value = value.func.value
    line = getattr(value, "lineno", 0)
    if isinstance(value, ast.Name) and "loss" in value.id.lower():
        made = function.last_assignment(value.id, line)
        if made is None or made.is_unpacked or made.is_augmented:
            return False
        value, line = made.value, made.line
    if not isinstance(value, ast.Call):
        return False
    text, called = ast.unparse(value), dotted(value.func)
    criterion = function.last_assignment(called, line)
    owner = function.owner
    held = owner.attributes.get(called, []) if owner is not None else []
    texts = [text, *(ast.unparse(each.value) for each in ([criterion] if criterion else held))]
    if any("reduction" in each or "size_average" in each for each in texts) or ".sum(" in text:
        return False
    name = resolve(called, function)
    is_torch = name.startswith("torch.nn.functional.") or any("Loss(" in each for each in texts[1:])
    return is_torch or tail_of(name) in {"criterion", "loss_fn", "loss_function", "loss_func"}


def _divided(path: str, found: _Sum, function: Function) -> ast.expr | None:
    """Return where a function divides a sum by the other count."""
    counts = {f"len({found.loader})"} if found.is_of_samples else {f"len({found.loader}.dataset)"}
    names = {
        target
        for target, assignments in function.assignments.items()
        if len(assignments) == 1 and ast.unparse(assignments[0].value) in counts
    }
    for node in walk(function.node):
        is_division = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
        if not is_division or node.lineno < found.made.line or not isinstance(node, ast.BinOp):
            continue
        by = ast.unparse(node.right)
        is_by = by in counts or by in names or by in {f"float({each})" for each in counts}
        if is_by and path in {dotted(each) for each in walk(node.left) if isinstance(each, ast.Name | ast.Attribute)}:
            return None if _is_divided_again(node, function) else node
    for each in function.assignments.get(path, ()):
        is_own = isinstance(each.statement, ast.AugAssign) and isinstance(each.statement.op, ast.Div)
        if is_own and ast.unparse(each.value) in counts | names:
            return each.value
    return None


def _is_divided_again(division: ast.BinOp, function: Function) -> bool:
    """Return whether a quotient is a part of another, or holds one: `correct / len(loader) / batch_size`."""
    return any(
        isinstance(each, ast.BinOp)
        and isinstance(each.op, ast.Div)
        and each is not division
        and (any(part is division for part in walk(each)) or any(part is each for part in walk(division)))
        for each in walk(function.node)
    )
