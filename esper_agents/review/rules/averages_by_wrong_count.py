"""ESP260: a sum over samples is divided by the number of batches, or a sum over batches by the number of samples."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.blocks import BlockKind
from esper_agents.review.host_batches import names_loader
from esper_agents.review.names import below, dotted, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.rule import SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, FileTables, Function

_LOSSES = frozenset(
    {"cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy"}
    | {"binary_cross_entropy_with_logits", "CrossEntropyLoss", "NLLLoss", "MSELoss", "L1Loss", "SmoothL1Loss"}
    | {"HuberLoss", "BCELoss", "BCEWithLogitsLoss"}
)
_OTHER_REDUCTION = frozenset({"reduction", "size_average", "reduce", None})
_AS_NUMBER = frozenset({"item", "float", "int", "cpu", "detach", "double", "long"})
_WRAPPERS = frozenset({"enumerate", "tqdm", "track", "trange", "progress_bar", "iter"})
_SAMPLES, _BATCHES = "samples", "batches"


class AveragesByWrongCount(Rule):
    """A sum over the samples of an epoch that is divided by its number of batches, or the other way round.

    ## Why it costs
    `total += loss.item() * x.size(0)` and `correct += (prediction == y).sum()` add up samples. Divided by
    `len(loader)`, the number of batches, a loss is too large by the batch size, and an accuracy exceeds 1.
    `total += loss.item()` adds up means of batches; divided by `len(loader.dataset)` it is too small by that factor.
    An integer division of right answers by samples gives 0. Training goes on, and what is reported, compared and
    chosen by is wrong.

    ## When it is right
    A loader that hands out single samples. A loss with `reduction="sum"` adds up samples.

    ## Sources
    PyTorch documentation of `torch.nn.CrossEntropyLoss` (`reduction`) and of `torch.utils.data.DataLoader`: its length
    is a number of batches.
    """

    code, name = "ESP260", "averages-by-wrong-count"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def evaluate(model, loader, criterion):\n"
        "    total = 0.0\n"
        "    with torch.no_grad():\n"
        "        for x, y in loader:\n"
        "            total += criterion(model(x), y) * x.size(0)\n"
        "    return total / len(loader)\n"
    )
    good = bad.replace("total / len(loader)", "total / len(loader.dataset)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the quotients of sums and counts that do not belong together."""
        if not file.imports_torch:
            return
        statements = {id(call.statement): call.statement for call in file.calls_ending("sum") if _is_count(call.node)}
        for node in (each for statement in statements.values() for each in walk(statement)):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv) and _is_count(node.left):
                what = "a number of right answers divided by `//` is 0 unless all are right"
                yield self.hit(node, what, remedy="divide by `/`", basis=SEEN)
        for function in file.functions:
            loops = [each for each in function.blocks if _goes_over(each) and not _is_of_single_samples(each, index)]
            if not loops:
                continue
            for sum_, count, node in _quotients(function):
                for loop in loops:
                    counted = _counted(count, loop, function, node.lineno)
                    added = counted and _added(sum_, loop, function, index)
                    if added and added[0] != counted:
                        yield self._found(node, sum_, added, counted)
                        break

    def _found(self, node: ast.expr | ast.stmt, sum_: str, added: tuple[str, int], counted: str) -> RuleMatch:
        if counted == _BATCHES:
            what = f"{sum_!r} adds up samples (line {added[1]}) and is divided by the number of batches"
            remedy = "divide by the number of samples, `len(loader.dataset)`, or count them in the loop"
        else:
            what = f"{sum_!r} adds up means of batches (line {added[1]}) and is divided by the number of samples"
            remedy = "divide by the number of batches, or add `loss.item() * x.size(0)`"
        return self.hit(node, what, remedy=remedy, basis=SEEN)


def _loader(loop: Block) -> ast.expr | None:
    """Return the loader that a loop goes over; None if it is none by name."""
    over = loop.node.iter if loop.kind is BlockKind.FOR and isinstance(loop.node, ast.For) else None
    while isinstance(over, ast.Call) and tail_of(dotted(over.func)) in _WRAPPERS and over.args:
        over = over.args[0]
    is_path = isinstance(over, ast.Name | ast.Attribute | ast.Subscript)
    return over if is_path and over is not None and names_loader(over) else None


def _goes_over(loop: Block) -> str:
    over = _loader(loop)
    return ast.unparse(over) if over is not None else ""


def _is_of_single_samples(loop: Block, index: ProjectIndex) -> bool:
    """Return whether a loader in sight hands out one sample at a time, or may do so."""
    over = _loader(loop)
    origins = index.origins(over, loop.function, over.lineno) if over is not None else ()
    made = [each.value for each in origins if isinstance(each.value, ast.Call)]
    sizes = [(*each.args[1:2], *(one.value for one in each.keywords if one.arg == "batch_size")) for each in made]
    return any(not size or (isinstance(size[0], ast.Constant) and size[0].value in {1, None}) for size in sizes)


def _quotients(function: Function) -> Iterator[tuple[str, ast.expr, ast.expr | ast.stmt]]:
    """Yield the divisions of a function: the path that is divided, the divisor, and the node."""
    for node, parent in _own_nodes(function):
        match node:
            case ast.BinOp(left=left, op=ast.Div(), right=right) if not _goes_on(node, parent):
                path = _path(left)
            case ast.AugAssign(target=left, op=ast.Div(), value=right):
                path = dotted(left)
            case _:
                continue
        if path:
            yield path, right, node


def _own_nodes(function: Function) -> Iterator[tuple[ast.AST, ast.AST]]:
    nodes = [(each, function.node) for each in getattr(function.node, "body", ())]
    while nodes:
        node, parent = nodes.pop(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        yield node, parent
        nodes += [(each, node) for each in below(node)]


def _goes_on(node: ast.BinOp, parent: ast.AST) -> bool:
    """Return whether a quotient is divided, or multiplied, by something else than a number that is written out."""
    if not isinstance(parent, ast.BinOp) or not isinstance(parent.op, ast.Div | ast.Mult):
        return False
    other = parent.right if parent.left is node else parent.left
    return not isinstance(other, ast.Constant)


def _path(node: ast.expr) -> str:
    """Return the path in `100 * correct`, `correct.item()` and `float(correct)`."""
    match node:
        case (
            ast.BinOp(left=ast.Constant(), op=ast.Mult(), right=inner)
            | ast.BinOp(left=inner, op=ast.Mult(), right=ast.Constant())
        ):
            return _path(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr=name), args=[]) if name in _AS_NUMBER:
            return _path(inner)
        case ast.Call(func=ast.Name(id="float" | "int"), args=[inner]):
            return _path(inner)
        case ast.Name() | ast.Attribute():
            return dotted(node)
        case _:
            return ""


def _counted(count: ast.expr, loop: Block, function: Function, line: int) -> str:
    """Return what a divisor is the number of."""
    loader = _goes_over(loop)
    if isinstance(count, ast.Name | ast.Attribute):
        path = dotted(count)
        inside = [each for each in function.assignments.get(path, ()) if each.block.within(loop)]
        if inside:
            is_step = [each.is_augmented and _is_one(each.value) and each.block is loop for each in inside]
            return _BATCHES if all(is_step) else ""
        made = function.last_assignment(path, line)
        if made is None or made.is_augmented or made.is_unpacked:
            return ""
        count = made.value
    if isinstance(count, ast.Call) and dotted(count.func) in {"float", "int"} and len(count.args) == 1:
        count = count.args[0]
    if not isinstance(count, ast.Call) or dotted(count.func) != "len" or len(count.args) != 1:
        return ""
    shown = ast.unparse(count.args[0])
    if shown == loader:
        return _BATCHES
    return _SAMPLES if shown in {f"{loader}.dataset", f"{loader}.sampler"} else ""


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1


def _added(path: str, loop: Block, function: Function, index: ProjectIndex) -> tuple[str, int] | None:
    """Return what each round of a loop adds to a path, samples or the mean of a batch, and the line."""
    found = [each for each in function.assignments.get(path, ()) if each.block.within(loop)]
    if len(found) != 1 or not found[0].is_augmented or found[0].block.loop is not loop:
        return None
    if not isinstance(getattr(found[0].statement, "op", None), ast.Add):
        return None
    kind = _kind(found[0].value, found[0], index)
    return (kind, found[0].line) if kind else None


def _kind(node: ast.expr, at: Assignment, index: ProjectIndex, steps: int = 4) -> str:
    function = at.block.function
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            is_weighted = _is_batch_size(right, at) or _is_batch_size(left, at)
            return _SAMPLES if is_weighted and not _is_count(left) and not _is_count(right) else ""
        case (
            ast.Call(func=ast.Name(id="float" | "int"), args=[inner])
            | ast.Call(func=ast.Attribute(value=inner, attr="item" | "cpu" | "detach" | "float" | "double"))
        ):
            return _kind(inner, at, index, steps)
        case ast.Call() if _is_count(node):
            return _SAMPLES
        case ast.Call() if _is_mean_loss(node, function, at.line, index):
            return _BATCHES
        case ast.Name(id=name) if steps:
            made = function.last_assignment(name, at.line)
            if made is not None and made.block.loop is at.block.loop and not made.is_augmented and not made.is_unpacked:
                return _kind(made.value, made, index, steps - 1)
    return ""


def _is_batch_size(node: ast.expr, at: Assignment) -> bool:
    """Return whether an expression is the number of samples of a batch: `x.size(0)`, `len(x)`, `x.shape[0]`."""
    match node:
        case ast.Call(func=ast.Attribute(attr="size"), args=[ast.Constant(value=0)]):
            return True
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name() | ast.Attribute() | ast.Subscript()]):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant(value=0)):
            return True
        case ast.Name(id=name):
            made = at.block.function.last_assignment(name, at.line)
            is_plain = made is not None and not made.is_unpacked and not isinstance(made.value, ast.Name)
            return (
                made is not None and is_plain and made.block.loop is at.block.loop and _is_batch_size(made.value, made)
            )
        case _:
            return False


def _is_count(node: ast.expr) -> bool:
    """Return whether an expression counts equal elements: `(a == b).sum()`, `a.eq(b).sum()`, `torch.sum(a == b)`."""
    while isinstance(node, ast.Call) and tail_of(dotted(node.func)) in _AS_NUMBER:
        node = node.func.value if isinstance(node.func, ast.Attribute) else (node.args or [node.func])[0]
    if (
        not isinstance(node, ast.Call)
        or tail_of(dotted(node.func)) != "sum"
        or not isinstance(node.func, ast.Attribute)
    ):
        return False
    of = node.args[0] if dotted(node.func) == "torch.sum" and node.args else node.func.value
    if dotted(node.func) != "torch.sum" and (node.args or node.keywords):
        return False
    for _ in range(3):
        if isinstance(of, ast.Call) and isinstance(of.func, ast.Attribute) and of.func.attr in _AS_NUMBER:
            of = of.func.value
    match of:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            pass
        case ast.Call(func=ast.Attribute(value=left, attr="eq"), args=[right]):
            pass
        case _:
            return False
    return not isinstance(left, ast.Constant) and not isinstance(right, ast.Constant)


def _is_mean_loss(node: ast.Call, function: Function, line: int, index: ProjectIndex) -> bool:
    """Return whether a call computes a loss of torch as the mean over a batch."""
    name = resolve(dotted(node.func), function)
    if len(node.args) + len(node.keywords) < 2:  # noqa: PLR2004 - a prediction and a target
        return False
    if name.startswith("torch.nn.functional."):
        return tail_of(name) in _LOSSES and not _OTHER_REDUCTION & {each.arg for each in node.keywords}
    origins = index.origins(node.func, function, line)
    made = [(each.value, each.function) for each in origins if isinstance(each.value, ast.Call)]
    return bool(made) and len(made) == len(origins) and all(_is_mean_module(*each) for each in made)


def _is_mean_module(made: ast.Call, function: Function) -> bool:
    name = resolve(dotted(made.func), function)
    is_loss = name.startswith("torch.nn.") and tail_of(name) in _LOSSES
    return is_loss and not _OTHER_REDUCTION & {each.arg for each in made.keywords}
