"""ESP216: a functional dropout that goes on in evaluation."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.conditions import tests_around
from esper_agents.review.definitions import owner_of
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
_NAMES = tuple(f"torch.nn.functional.{dropout}" for dropout in _DROPOUTS)
_ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
# Where the noise is wanted at test time.
_WANTED = pattern(r"(?i)monte|mc_?drop|bayes|uncertain|stochastic|always")
# Input, p, training.
_ALL = 3


class DropoutAlwaysOn(Rule):
    """A functional dropout in a module that is not told whether the module is in training mode.

    ## Why it costs
    `F.dropout` drops unless it is given `training=False`, and `scaled_dot_product_attention` drops whenever
    `dropout_p` is above 0. Neither knows of `model.eval()`: evaluation goes on dropping, so that its numbers are too
    bad and differ from run to run.

    ## When it is right
    The noise is wanted at test time, as in Monte Carlo dropout. Code under a test of `self.training`, and functions
    whose callers make that test, are not reported.

    ## Sources
    PyTorch documentation of `torch.nn.functional.dropout` (`training` is True by default) and of
    `torch.nn.functional.scaled_dot_product_attention`: dropout is always applied according to `dropout_p`.
    """

    code, name = "ESP216", "dropout-always-on"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch.nn.functional as F\n"
        "from torch import nn\n"
        "\n"
        "\n"
        "class Head(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.out = nn.Linear(64, 10)\n"
        "\n"
        "    def forward(self, x):\n"
        "        return self.out(F.dropout(x, 0.5))\n"
    )
    good = bad.replace("F.dropout(x, 0.5)", "F.dropout(x, 0.5, training=self.training)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the dropouts of modules that evaluation does not turn off."""
        for call in file.calls_to(*_NAMES):
            is_said = len(call.node.args) >= _ALL or any(keyword.arg == "training" for keyword in call.node.keywords)
            p = call.argument(1, "p")
            if not is_said and not call.has_splat() and not _is_zero(p) and _is_of_module(call, index):
                yield self._found(call, "pass `training=self.training`")
        for call in file.calls_to(_ATTENTION):
            p = call.argument(4, "dropout_p")
            if p is not None and _is_kept_on(p, call) and _is_of_module(call, index):
                yield self._found(call, "pass `dropout_p=p if self.training else 0.0`")

    def _found(self, call: Call, remedy: str) -> RuleMatch:
        return self.hit(
            call.node,
            f"`{call.tail}` goes on dropping in evaluation: it does not know of `.eval()`",
            remedy=remedy,
            basis=SEEN,
        )


def _is_zero(p: ast.expr | None) -> bool:
    return isinstance(p, ast.Constant) and not p.value


def _is_kept_on(p: ast.expr, call: Call) -> bool:
    """Return whether a share to drop is a number, or an attribute that no method but `__init__` sets."""
    if isinstance(p, ast.Constant):
        return bool(p.value)
    owner = owner_of(call.function)
    is_own = isinstance(p, ast.Attribute) and isinstance(p.value, ast.Name) and p.value.id == "self"
    if owner is None or not is_own:
        return False
    return all(each.block.function.name == "__init__" for each in owner.attributes.get(ast.unparse(p), ()))


def _is_of_module(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call stands in a module that could tell it the mode, and does not ask for the mode first."""
    owner = owner_of(call.function)
    if owner is None or not index.is_module(owner) or _WANTED.search(f"{owner.name}.{call.function.name}"):
        return False
    asked = (each for place in (call, *index.callers(call.function)) for each in _asked(place))
    return not any("training" in each for each in asked)


def _asked(call: Call) -> Iterator[str]:
    """Yield the tests on which a call depends, as text."""
    yield from (ast.unparse(test) for test in tests_around(call.block, call.function.block))
    is_simple = not isinstance(call.statement, ast.If | ast.For | ast.While | ast.With | ast.Try)
    yield from [ast.unparse(call.statement)] if is_simple else []
    for block in call.function.blocks:
        if (
            isinstance(block.node, ast.If)
            and block.node.lineno < call.line
            and isinstance(block.node.body[-1], ast.Return)
        ):
            yield ast.unparse(block.node.test)
