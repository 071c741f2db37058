"""ESP128: a loss is given the classes that a model chose instead of its scores."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.called_losses import called_loss, calls_of_losses
from esper_agents.review.names import dotted
from esper_agents.review.rule import SEEN, Rule
from esper_agents.review.tensor_kinds import Tensors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_SAME = frozenset({"float", "squeeze", "to", "view", "reshape", "unsqueeze", "double", "type", "cuda", "cpu"})
_CHOOSING = frozenset({"argmax", "round", "sign", "long", "int"})


class LossOfChoices(Rule):
    """A loss of `argmax`, of a rounding or of a comparison of a model's outputs.

    ## Why it costs
    The chosen class does not change if the scores change a little: its gradient is zero or does not exist. `backward`
    raises, or the model learns nothing; and the value of the loss means nothing, because it takes scores.

    ## When it is right
    A number that is only measured; use a metric for that.

    ## Sources
    PyTorch documentation of `torch.nn.CrossEntropyLoss`: its input is unnormalised scores for each class.
    """

    code, name = "ESP128", "loss-of-choices"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "import torch.nn.functional as F\n"
        "\n"
        "\n"
        "def step(model, x, y):\n"
        "    prediction = model(x).argmax(dim=1).float()\n"
        "    return F.cross_entropy(prediction, y)\n"
    )
    good = bad.replace("model(x).argmax(dim=1).float()", "model(x)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the losses that are given choices."""
        if not file.imports_torch:
            return
        for call in calls_of_losses(file, index):
            scores = call.argument(0, "input")
            chosen = _chosen(scores, call, index) if scores is not None else None
            if chosen is None or not called_loss(call, index)[0]:
                continue
            base, what = chosen
            if Tensors(call.function, call.line, index).holds(base) == "graph":
                yield self.hit(
                    call.node,
                    f"this loss is given {what} of the model's outputs, through which no gradient flows",
                    remedy="give the scores themselves to the loss",
                    basis=SEEN,
                )


def _chosen(node: ast.expr, call: Call, index: ProjectIndex) -> tuple[ast.expr, str] | None:
    """Return what a choice is made of, and the choice in words, if a value is one."""
    for _ in range(4):
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME:
            node = node.func.value
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[base, *_]) if (
                name in _CHOOSING
            ):
                return base, f"the `{name}`"
            case ast.Call(func=ast.Attribute(value=base, attr=name)) if name in _CHOOSING and dotted(base) != "torch":
                return base, f"the `{name}`"
            case ast.Compare(left=base, ops=[ast.Gt() | ast.GtE() | ast.Lt() | ast.LtE()]):
                return base, "a comparison"
            case ast.Name():
                found = index.bindings(node.id, call.function, call.line)
                made = found.assignments[0] if found.is_whole and len(found.assignments) == 1 else None
                if made is None or made.is_unpacked or made.is_augmented or made.block.function is not call.function:
                    return None
                node = made.value
            case _:
                return None
    return None
