"""ESP135: the backward of an autograd function does not use the gradient that comes in."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import walk
from esper_agents.review.rule import SEEN, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables

_FUNCTION = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})
# Calls that make a gradient of nothing.
_ZEROS = ("zeros", "zeros_like", "new_zeros")


class IncomingGradientIgnored(FileRule):
    """A `backward` of `torch.autograd.Function` whose result does not depend on the gradient that it is given.

    ## Why it costs
    By the chain rule the result is the incoming gradient times the derivative. Without it every layer before the
    function is trained as if the loss depended on nothing behind it: signs and sizes of gradients are wrong, a scaled
    loss (mixed precision, accumulation, weights of several losses) scales nothing, and nothing raises.

    ## When it is right
    The function is itself the loss, at the very end, and its result is sent backward as it is. A `backward` that
    returns only `None` or zeros is not reported.

    ## Sources
    PyTorch notes, "Extending PyTorch": `backward` gets the gradient with respect to the output and returns that with
    respect to each input; `torch.autograd.gradcheck` finds the fault.
    """

    code, name = "ESP135", "incoming-gradient-ignored"
    severity, category = Severity.WARNING, Category.CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "class Sign(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        ctx.save_for_backward(x)\n"
        "        return x.sign()\n"
        "\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        (x,) = ctx.saved_tensors\n"
        "        return (x.abs() <= 1).float()\n"
    )
    good = bad.replace("return (x", "return grad * (x")

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the results that ignore the gradient."""
        for owner in file.classes:
            backward = owner.methods.get("backward")
            if backward is None or not set(owner.bases) & _FUNCTION or isinstance(backward.node, ast.Module):
                continue
            arguments = backward.node.args
            given = {each.arg for each in (*arguments.posonlyargs, *arguments.args)[1:]}
            given |= {each.arg for each in (arguments.vararg, arguments.kwarg) if each is not None}
            read = {each.id for each in walk(backward.node) if isinstance(each, ast.Name)}
            if not given or given & read or "locals" in read:
                continue
            for statement, _ in backward.returns:
                if statement.value is not None and _is_gradient(statement.value):
                    yield self.hit(
                        statement,
                        f"this gradient does not depend on {' and '.join(map(repr, sorted(given)))}, the gradient that "
                        "comes in: what is trained before the function gets wrong gradients",
                        remedy="multiply by the incoming gradient, and test it with `torch.autograd.gradcheck`",
                        basis=SEEN,
                    )


def _is_gradient(value: ast.expr) -> bool:
    """Return whether a result holds a gradient other than `None` and zeros."""
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return any(not isinstance(each, ast.Constant) and not _is_zeros(each) for each in parts)


def _is_zeros(value: ast.expr) -> bool:
    if not isinstance(value, ast.Call):
        return False
    return ast.unparse(value.func).rpartition(".")[2] in _ZEROS
