"""ESP266: the best class is looked for along the batch, and compared with the labels."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.blocks import BlockKind
from esper_agents.review.host_batches import names_loader
from esper_agents.review.models import forward_calls_in
from esper_agents.review.names import dotted, root_of, tail_of, walk
from esper_agents.review.rule import INFERRED, Rule
from esper_agents.review.softmaxes import written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_SAME = frozenset({"softmax", "log_softmax", "sigmoid", "detach", "cpu", "float", "exp"})


class BestClassOverBatch(Rule):
    """`argmax(dim=0)` of a model's outputs for a batch, compared with the labels of the batch.

    ## Why it costs
    Axis 0 of the outputs is the batch. `argmax(dim=0)` gives the best sample for each class, not the best class for
    each sample. The comparison with the labels raises if the sizes differ; if they do not, or one of them is 1, the
    accuracy is a number without meaning.

    ## When it is right
    Outputs for a single sample, without a batch. Only outputs are judged that a model gives for what a loader hands
    out.

    ## Sources
    PyTorch documentation of `torch.argmax` (`dim`) and of `torch.nn.CrossEntropyLoss` on the shape of its input.
    """

    code, name = "ESP266", "best-class-over-batch"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def accuracy(model, loader):\n"
        "    correct = total = 0\n"
        "    for x, y in loader:\n"
        "        prediction = model(x).argmax(dim=0)\n"
        "        correct += (prediction == y).sum()\n"
        "        total += y.size(0)\n"
        "    return correct / total\n"
    )
    good = bad.replace("argmax(dim=0)", "argmax(dim=1)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the best classes that are looked for along the batch."""
        if not file.imports_torch:
            return
        for call in file.calls_ending("argmax", "max", "topk"):
            is_function = call.receiver == "torch"
            base = call.argument(0, "input") if is_function else getattr(call.node.func, "value", None)
            axis = written(call.argument(int(is_function) + (call.tail == "topk"), "dim"))
            if axis == 0 and isinstance(base, ast.expr) and _is_output(base, call, index) and _is_compared(call):
                yield self.hit(
                    call.node,
                    f"`{call.tail}` along axis 0 of a batch of outputs gives the best sample of each class, "
                    "and this is compared with labels",
                    remedy="look along the axis of the classes: `dim=1`",
                    confidence=Confidence.MODERATE,
                    basis=f"{INFERRED}: the model is given what a loader hands out",
                )


def _is_output(base: ast.expr, call: Call, index: ProjectIndex) -> bool:
    """Return whether a value is what a model gives for a batch that a loader hands out."""
    for _ in range(4):
        while isinstance(base, ast.Call) and tail_of(dotted(base.func)) in _SAME:
            is_function = dotted(base.func).startswith(("torch.", "F.")) and base.args
            base = base.args[0] if is_function else getattr(base.func, "value", base.func)
        if not isinstance(base, ast.Name):
            break
        made = index.bindings(base.id, call.function, call.line)
        if not made.is_whole or len(made.assignments) != 1 or made.assignments[0].is_unpacked:
            return False
        base = made.assignments[0].value
    forward = next((each for each in forward_calls_in(call.function, index) if each.node is base), None)
    if forward is None or len(forward.node.args) != 1 or forward.node.keywords:
        return False
    given = root_of(dotted(forward.node.args[0]))
    loops = [each for each in forward.block.chain() if each.kind is BlockKind.FOR and names_loader(each.node.iter)]  # type: ignore[attr-defined]
    drawn = {target for loop in loops for target in loop.targets}
    moved = [each.value for each in call.function.assignments.get(given, ()) if not each.is_augmented]
    sources = [each for each in moved if not isinstance(each, ast.Name | ast.Subscript)] if given not in drawn else []
    is_moved = all(root_of(dotted(each)) in drawn | {given} for each in moved) and bool(moved)
    return "[]" not in dotted(forward.node.args[0]) and (given in drawn or (is_moved and bool(sources)))


def _is_compared(call: Call) -> bool:
    """Return whether the result is compared with something that has a name, for equality."""
    names = {dotted(each) for target in getattr(call.statement, "targets", ()) for each in walk(target)} - {""}
    for node in walk(call.function.node):
        match node:
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                sides = (left, right)
            case ast.Call(func=ast.Attribute(value=left, attr="eq" | "equal"), args=[right, *_]):
                sides = (left, right)
            case _:
                continue
        for one, other in (sides, sides[::-1]):
            is_result = call.node is one or root_of(dotted(one)) in names
            if is_result and not isinstance(other, ast.Constant) and node.lineno >= call.line:
                return True
    return False
