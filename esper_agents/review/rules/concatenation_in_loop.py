"""ESP401: a tensor grows by concatenation in every round of a loop."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.conditions import names_in, tests_around
from esper_agents.review.names import dotted
from esper_agents.review.rule import FileRule
from esper_agents.review.tables import BlockKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import Block, Call, FileTables

_JOINING = ("torch.cat", "torch.concat", "torch.concatenate", "torch.hstack", "torch.vstack")


class ConcatenationInLoop(FileRule):
    """A `torch.cat` in a loop whose result replaces one of its own parts.

    ## Why it costs
    Every round copies all that was gathered before: n rounds move on the order of n squared elements, and both the old
    and the new tensor are alive at once. A list that is joined once after the loop moves every element once.

    ## When it is right
    Each round needs what was gathered so far, as in generation token by token: a loop that reads the tensor elsewhere
    is not reported, nor is one over a short literal range or over the layers of a model.

    ## Sources
    PyTorch documentation of `torch.cat`, which returns a new tensor.
    """

    code, name = "ESP401", "concatenation-in-loop"
    severity, category = Severity.WARNING, Category.PERFORMANCE
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def collect(model, loader):\n"
        "    features = torch.empty(0, 128)\n"
        "    for x in loader:\n"
        "        features = torch.cat([features, model(x)])\n"
        "    return features\n"
    )
    good = (
        "import torch\n"
        "\n"
        "\n"
        "def collect(model, loader):\n"
        "    features = []\n"
        "    for x in loader:\n"
        "        features.append(model(x))\n"
        "    return torch.cat(features)\n"
    )

    def look(self, file: FileTables) -> Iterator[Hit]:
        """Yield the concatenations that a loop feeds to itself."""
        for call in file.calls_to(*_JOINING):
            target = _replaced(call)
            loop = _growing_loop(call, target) if target else None
            if loop is not None and not _is_read_elsewhere(call, loop, target):
                yield self.hit(
                    call.node,
                    f"{target!r} is copied as a whole in every round of the loop",
                    remedy="append the parts to a list and join them once after the loop",
                )


def _replaced(call: Call) -> str:
    """Return the path that the result replaces and that is one of the parts as well; empty otherwise."""
    statement, parts = call.statement, call.argument(0, "tensors")
    if (
        not isinstance(statement, ast.Assign)
        or statement.value is not call.node
        or not isinstance(parts, ast.List | ast.Tuple)
    ):
        return ""
    target = dotted(statement.targets[0])
    return (
        target if target in {dotted(part) for part in parts.elts if isinstance(part, ast.Name | ast.Attribute)} else ""
    )


def _growing_loop(call: Call, target: str) -> Block | None:
    """Return the innermost loop over which the tensor grows: it is not made anew inside."""
    loop = call.block.loop
    if loop is None or loop.kind is BlockKind.COMPREHENSION or _is_short(loop):
        return None
    made_inside = any(
        each.statement is not call.statement
        and each.block.within(loop)
        and target not in names_in(each.value)
        and not _is_first_round(each.block, loop, target)
        for each in call.function.assignments.get(target, ())
    )
    return None if made_inside else loop


def _is_first_round(block: Block, loop: Block, target: str) -> bool:
    """Return whether code runs only while nothing was gathered yet: under `if out is None`."""
    return any(_asks_for_the_first(test, target) for test in tests_around(block, loop))


def _asks_for_the_first(test: ast.expr, target: str) -> bool:
    return isinstance(test, ast.Compare) and dotted(test.left) == target and isinstance(test.ops[0], ast.Is | ast.IsNot)


def _is_short(loop: Block) -> bool:
    """Return whether a loop has few rounds by the look of it: `range(4)`, a literal, or the layers of a model."""
    rounds = loop.node.iter if isinstance(loop.node, ast.For | ast.AsyncFor) else None
    if isinstance(rounds, ast.Tuple | ast.List):
        return True
    if loop.function.owner is not None and loop.function.name.startswith("forward") and rounds is not None:
        return any(path.startswith("self.") for path in names_in(rounds))
    is_range = isinstance(rounds, ast.Call) and dotted(rounds.func) == "range"
    return is_range and all(isinstance(each, ast.Constant) for each in rounds.args)  # type: ignore[union-attr]


def _is_read_elsewhere(call: Call, loop: Block, target: str) -> bool:
    """Return whether the loop reads the tensor in another statement, so that it cannot wait until the end."""
    for statement in ast.walk(loop.node):
        is_leaf = isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return | ast.Assert)
        if is_leaf and statement is not call.statement and _reads(statement, target):
            return True
        is_test = isinstance(statement, ast.If | ast.While) and not _asks_for_the_first(statement.test, target)
        if is_test and target in names_in(statement.test):  # type: ignore[attr-defined]
            return True
    return False


def _reads(statement: ast.AST, target: str) -> bool:
    return any(
        isinstance(each, ast.Name | ast.Attribute) and isinstance(each.ctx, ast.Load) and dotted(each) == target
        for each in ast.walk(statement)
    )
