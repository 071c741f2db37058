"""ESP116: the backward of an autograd function returns another number of gradients than its forward has inputs."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.domain.pluralize import number_of
from esper_agents.review.names import walk
from esper_agents.review.rule import FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Class, FileTables, Function

_FUNCTION = ("torch.autograd.Function", "torch.autograd.function.Function")
# Values that are one gradient, whatever they hold: no call and no name, which may be a tuple.
_SINGLE = (ast.BinOp, ast.UnaryOp, ast.Subscript, ast.Compare)


class GradientCount(FileRule):
    """A `backward` of `torch.autograd.Function` that returns fewer or more gradients than `forward` has inputs.

    ## Why it costs
    Autograd hands the results to the inputs by position. With too few it raises "returned an incorrect number of
    gradients" in the first backward; with too many it does unless the rest is `None`.

    ## When it is right
    One gradient for each input of `forward` after `ctx`, `None` for what is no tensor. Inputs with defaults may be left
    out by callers and are not demanded. Functions that take or return a sequence are not judged.

    ## Sources
    PyTorch notes, "Extending PyTorch": "It should return as many tensors as there were inputs to forward()".
    """

    code, name = "ESP116", "gradient-count"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "class Scale(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x, factor):\n"
        "        ctx.factor = factor\n"
        "        return x * factor\n"
        "\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        return grad * ctx.factor\n"
    )
    good = bad.replace("return grad * ctx.factor", "return grad * ctx.factor, None")

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the results of `backward` whose number does not fit."""
        for owner in file.classes:
            forward, backward = owner.methods.get("forward"), owner.methods.get("backward")
            if not set(owner.bases) & set(_FUNCTION) or forward is None or backward is None:
                continue
            inputs = _inputs(forward, owner)
            if inputs is None:
                continue
            least, most = inputs
            for statement, _ in backward.returns:
                given = _gradients(statement.value)
                if given is None or (least <= given[0] and given[1] <= most):
                    continue
                expected = str(least) if least == most else f"{least} to {most}"
                yield self.hit(
                    statement,
                    f"`forward` has {number_of(most, 'input') if least == most else f'{expected} inputs'}, and this "
                    f"returns {number_of(given[0], 'gradient')}: the first backward raises",
                    remedy="return one gradient for each input, `None` for what needs none",
                )


def _inputs(forward: Function, owner: Class) -> tuple[int, int] | None:
    """Return the least and the largest number of inputs of `forward`; None if it takes a sequence."""
    node = forward.node
    if isinstance(node, ast.Module) or node.args.vararg or node.args.kwarg or node.args.kwonlyargs:
        return None
    if not {"staticmethod"} & set(forward.decorators):
        return None
    count = len(node.args.posonlyargs) + len(node.args.args)
    count -= 0 if "setup_context" in owner.methods else 1
    return count - len(node.args.defaults), count


def _gradients(value: ast.expr | None) -> tuple[int, int] | None:
    """Return the number of results, and the number up to the last that is not `None`; None if that is not written."""
    if isinstance(value, ast.BinOp) and any(isinstance(each, ast.Tuple) for each in walk(value)):
        return None
    if isinstance(value, _SINGLE):
        return 1, 1
    if not isinstance(value, ast.Tuple) or any(isinstance(each, ast.Starred) for each in value.elts):
        return None
    places = [place for place, each in enumerate(value.elts, 1) if not _is_none(each)]
    return len(value.elts), max(places, default=0)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None
