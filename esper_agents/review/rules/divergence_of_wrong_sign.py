"""ESP243: the divergence of a variational autoencoder is added to the loss with the wrong sign."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.divergences import REDUCING, is_negative, sign, signed_terms
from esper_agents.review.names import dotted, walk
from esper_agents.review.rule import SEEN, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables, Function


class DivergenceOfWrongSign(FileRule):
    """`0.5 * sum(1 + logvar - mu**2 - logvar.exp())` that is added to a loss: it is minus the divergence.

    ## Why it costs
    The Kullback-Leibler divergence to a standard normal distribution is `-0.5 * sum(1 + logvar - mu**2 - exp(logvar))`.
    Without the minus the loss rewards codes that are far from the prior. Training goes on, the loss falls below zero
    and the samples of the model are noise.

    ## When it is right
    The term is subtracted, or a lower bound is computed that is maximised. Only a term that the same function adds to
    another one is reported.

    ## Sources
    Kingma and Welling, "Auto-Encoding Variational Bayes", appendix B.
    """

    code, name = "ESP243", "divergence-of-wrong-sign"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def loss(reconstruction, mu, logvar):\n"
        "    kld = 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())\n"
        "    return reconstruction + kld\n"
    )
    good = bad.replace("0.5 * torch", "-0.5 * torch")

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the divergences that are added with the sign of their opposite."""
        for function in file.functions:
            for path, assignments in function.assignments.items():
                made = assignments[0]
                if (
                    len(assignments) == 1
                    and not made.is_augmented
                    and sign(made.value) > 0
                    and _is_added(path, function)
                ):
                    yield self.hit(
                        made.statement,
                        f"{path!r} is minus the divergence from the standard normal distribution, and is added to the "
                        "loss: the model is driven away from its prior",
                        remedy="multiply by `-0.5`",
                        basis=SEEN,
                    )


def _is_added(path: str, function: Function) -> bool:
    """Return whether a function adds a value, as it is or weighted, to another one, and never subtracts it."""
    is_added = False
    for node in walk(function.node):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            for side, part in signed_terms(node):
                if _weighs(part, path):
                    if side < 0:
                        return False
                    is_added = True
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and _weighs(node.operand, path):
            return False
        elif isinstance(node, ast.AugAssign) and _weighs(node.value, path):
            if not isinstance(node.op, ast.Add):
                return False
            is_added = True
    return is_added


def _weighs(part: ast.expr, path: str) -> bool:
    """Return whether a term is a value, alone or in a product or quotient that is not negative."""
    while isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult | ast.Div):
        if any(is_negative(each) for each in (part.left, part.right)):
            return False
        part = (
            part.left
            if path in {dotted(each) for each in walk(part.left) if isinstance(each, ast.expr)}
            else part.right
        )
    while isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in REDUCING:
        part = part.func.value if dotted(part.func.value) != "torch" else part.args[0] if part.args else part.func
    return dotted(part) == path
