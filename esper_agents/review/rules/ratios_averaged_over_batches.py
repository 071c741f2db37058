"""ESP133: a ratio of counts is computed for each batch, and the ratios are averaged."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.loaders import loops_over_loaders, trains
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.rule import FOLLOWED, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_MEANS = frozenset({"mean", "nanmean"})
_COUNTING = frozenset({"bincount", "histogram", "histc", "confusion_matrix", "logical_and", "logical_or"})
_DROP_LAST = 8


class RatiosAveragedOverBatches(Rule):
    """An evaluation that averages the accuracy, the IoU or the F1 of its batches.

    ## Why it costs
    The last batch of a loader is smaller and weighs as much as the others. For ratios whose divisor is itself a count,
    such as an IoU or an F1, the mean of the ratios is another number than the ratio of the sums, and depends on the
    size of the batches: figures of two runs cannot be compared.

    ## When it is right
    All batches have one size (`drop_last=True`), or only the course of a training is to be watched: loops that train
    are not reported.

    ## Sources
    torchmetrics documentation, "Implementing a Metric": states are summed over batches, and the ratio is computed once.
    """

    code, name = "ESP133", "ratios-averaged-over-batches"
    severity, category = Severity.SUGGESTION, Category.CORRECTNESS
    bad = (
        "import torch\n"
        "from torch.utils.data import DataLoader\n"
        "\n"
        "\n"
        "@torch.no_grad()\n"
        "def evaluate(model, dataset):\n"
        "    loader = DataLoader(dataset, 32)\n"
        "    model.eval()\n"
        "    accuracy = torch.zeros(())\n"
        "    for x, y in loader:\n"
        "        accuracy += (model(x).argmax(1) == y).float().mean()\n"
        "    return accuracy / len(loader)\n"
    )
    good = bad.replace(".float().mean()", ".sum()").replace("len(loader)", "len(dataset)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield what adds up or gathers the ratios of batches of different sizes."""
        if not file.imports_torch:
            return
        kept: dict[Block, Call] = {}
        for made, loops in loops_over_loaders(index).items():
            call = next((each for each in index.calls_ending("DataLoader") if each.node is made), None)
            for loop in loops if call is not None and _keeps_rest(call) else ():
                if loop.function.file is file and call is not None and not trains(loop, index):
                    kept.setdefault(loop, call)
        for loop, loader in kept.items():
            for node, what in _ratios(loop, index):
                where = f"line {loader.line}"
                if loader.function.file is not file:
                    where = f"{loader.function.file.path}:{loader.line}"
                yield self.hit(
                    node,
                    f"{what} of each batch is averaged, and the batches of the loader ({where}) may have different "
                    "sizes: the result depends on the batch size",
                    remedy="add up the counts over all batches, and divide once",
                    confidence=Confidence.MODERATE,
                    basis=FOLLOWED,
                )


def _keeps_rest(call: Call) -> bool:
    """Return whether a loader makes batches of several samples and keeps the last, smaller one."""
    size, drop = call.argument(1, "batch_size"), call.argument(_DROP_LAST, "drop_last")
    is_one = size is None or (isinstance(size, ast.Constant) and size.value in {None, 1})
    is_kept = drop is None or (isinstance(drop, ast.Constant) and not drop.value)
    return is_kept and not is_one and not call.has_splat() and call.argument(4, "batch_sampler") is None


def _ratios(loop: Block, index: ProjectIndex) -> Iterator[tuple[ast.AST, str]]:
    """Yield the statements of a loop that keep a ratio of the batch which the function averages afterwards."""
    function = loop.function
    for path, assignments in function.assignments.items():
        for made in assignments:
            is_inside = made.block.within(loop) and made.is_augmented
            if is_inside and _is_share(made.value, function) and _is_divided(path, function, loop):
                yield made.statement, "the share of right answers"
    for call in function.calls:
        if (
            call.tail == "append"
            and call.block.within(loop)
            and call.node.args
            and _is_averaged(call.receiver, function)
        ):
            value = call.node.args[0]
            if _is_share(value, function):
                yield call.node, "the share of right answers"
            elif (name := _quotient_of(value, call, index)) is not None:
                yield call.node, f"the result of `{name}`"


def _is_share(value: ast.expr, function: Function) -> bool:
    """Return whether a value is the mean of a comparison: `(prediction == y).float().mean().item()`."""
    found = None
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr == "mean" and not value.args and not value.keywords:
            found = value
        elif value.func.attr not in {"item", "float", "double", "cpu", "detach", "to"}:
            return False
        value = value.func.value
    if isinstance(value, ast.Name):
        made = function.last_assignment(value.id, value.lineno)
        value = made.value if made is not None and not made.is_unpacked else value
    return found is not None and isinstance(value, ast.Compare) and isinstance(value.ops[0], ast.Eq)


def _is_divided(path: str, function: Function, loop: Block) -> bool:
    """Return whether a sum is divided by a length after a loop."""
    last = getattr(loop.node, "end_lineno", 0)
    for node in walk(function.node):
        if (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Div)
            and node.lineno > last
            and dotted(node.left) == path
        ):
            return isinstance(node.right, ast.Call) and dotted(node.right.func) == "len"
    return False


def _is_averaged(path: str, function: Function) -> bool:
    """Return whether a function takes the mean of what a list holds."""
    for call in function.calls:
        if call.tail in _MEANS and any(dotted(part) == path for part in walk(call.node) if isinstance(part, ast.Name)):
            return True
    return any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Div)
        and {ast.unparse(node.left), ast.unparse(node.right)} == {f"sum({path})", f"len({path})"}
        for node in walk(function.node)
    )


def _quotient_of(value: ast.expr, call: Call, index: ProjectIndex) -> str | None:
    """Return the function of the project that a value comes from, if it divides counts of the batch by counts."""
    calls = {each.node: each for each in call.function.calls}
    for node in walk(value):
        made = calls.get(node) if isinstance(node, ast.Call) else None
        for called in index.callees(made) if made is not None else ():
            counts = any(tail_of(each.path) in _COUNTING for each in called.calls)
            ends = [end.value for end, _ in called.returns if end.value is not None]
            if counts and any(_divides(end, called) for end in ends):
                return called.name
    return None


def _divides(value: ast.expr, function: Function) -> bool:
    """Return whether a value is a quotient, or picks from one."""
    if isinstance(value, ast.Name):
        made = function.last_assignment(value.id, value.lineno)
        value = made.value if made is not None else value
    return any(isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div) for each in walk(value))
