"""ESP138: the `forward` of a module computes a result and does not return it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import dotted, walk
from esper_agents.review.rule import SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables, Function


class ForwardWithoutResult(Rule):
    """A `forward` whose last statement assigns a name, and that returns nothing.

    ## Why it costs
    The call of the module gives `None`: what uses the result raises an error that names `NoneType` and not this place.

    ## When it is right
    The module is called for its effect. Only a `forward` that ends by computing a local name, and has neither `return`
    nor `yield` nor `raise`, is reported.

    ## Sources
    PyTorch documentation of `torch.nn.Module.forward`.
    """

    code, name = "ESP138", "forward-without-result"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "from torch import nn\n"
        "\n"
        "\n"
        "class Head(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.fc = nn.Linear(8, 2)\n"
        "\n"
        "    def forward(self, x):\n"
        "        x = self.fc(x)\n"
    )
    good = f"{bad}        return x\n"

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the last statements of the methods that lose their result."""
        for owner in file.classes:
            forward = owner.methods.get("forward")
            if forward is not None and index.is_module(owner) and (last := _lost(forward)) is not None:
                yield self.hit(
                    last,
                    f"`forward` of {owner.name!r} ends here and returns nothing: calling the module gives `None`",
                    remedy=f"return `{ast.unparse(last.targets[0])}`",
                    basis=SEEN,
                )


def _lost(forward: Function) -> ast.Assign | None:
    """Return the last statement of a method that only computes a local name; None if anything is returned or kept."""
    node = forward.node
    if isinstance(node, ast.Module) or "abstractmethod" in " ".join(forward.decorators):
        return None
    last = node.body[-1]
    if not isinstance(last, ast.Assign) or len(last.targets) != 1 or not isinstance(last.targets[0], ast.Name):
        return None
    leaving = (ast.Return, ast.Yield, ast.YieldFrom, ast.Raise, ast.Global, ast.Nonlocal)
    is_left = any(isinstance(each, leaving) for each in walk(node))
    has_call = any(isinstance(each, ast.Call) and dotted(each.func) for each in walk(last.value))
    return None if is_left or not has_call else last
