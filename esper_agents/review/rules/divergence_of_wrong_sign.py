"""ESP243: the divergence of a variational autoencoder is added to the loss with the wrong sign."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import dotted, walk
from esper_agents.review.rule import SEEN, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables, Function

_REDUCING = frozenset({"sum", "mean"})


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
                    and _sign(made.value) > 0
                    and _is_added(path, function)
                ):
                    yield self.hit(
                        made.statement,
                        f"{path!r} is minus the divergence from the standard normal distribution, and is added to the "
                        "loss: the model is driven away from its prior",
                        remedy="multiply by `-0.5`",
                        basis=SEEN,
                    )


def _sign(value: ast.expr) -> int:
    """Return the sign with which `1 + logvar - mu**2 - exp(logvar)` stands in a value, 0 if it does not.

    Factors are constants; a sum or a mean over axes changes nothing.
    """
    match value:
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_sign(inner)
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
            for one, other in ((left, right), (right, left)):
                if sign := _sign(one):
                    return -sign if _is_negative(other) else sign
            return 0
        case ast.Call(func=ast.Attribute(value=inner, attr=tail)) if tail in _REDUCING:
            of_torch = dotted(inner) in {"torch", "tf"}
            return _sign(value.args[0]) if of_torch and value.args else 0 if of_torch else _sign(inner)
        case ast.BinOp():
            return 1 if _is_term(value) else -1 if _is_term(value, turned=True) else 0
        case _:
            return 0


def _is_negative(value: ast.expr) -> bool:
    return isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub)


def _is_term(value: ast.BinOp, *, turned: bool = False) -> bool:
    """Return whether a sum is `1 + a - b**2 - exp(a)` in any order, or, if turned, minus that."""
    parts = [(-sign if turned else sign, part) for sign, part in _parts(value, 1)]
    if len(parts) != 4:  # noqa: PLR2004 - the terms of the formula
        return False
    kinds = {(sign, _kind(part)) for sign, part in parts}
    return kinds == {(1, "one"), (1, "plain"), (-1, "square"), (-1, "exponential")}


def _parts(value: ast.expr, sign: int) -> Iterator[tuple[int, ast.expr]]:
    match value:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from (*_parts(left, sign), *_parts(right, sign))
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            yield from (*_parts(left, sign), *_parts(right, -sign))
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            yield from _parts(inner, -sign)
        case _:
            yield sign, value


def _kind(part: ast.expr) -> str:
    match part:
        case ast.Constant(value=1 | 1.0):
            return "one"
        case ast.BinOp(op=ast.Pow()):
            return "square"
        case ast.BinOp(left=left, op=ast.Mult(), right=right) if ast.dump(left) == ast.dump(right):
            return "square"
        case ast.Call(func=func):
            tail = dotted(func).rpartition(".")[2]
            return {"pow": "square", "square": "square", "exp": "exponential"}.get(tail, "plain")
        case _:
            return "plain"


def _is_added(path: str, function: Function) -> bool:
    """Return whether a function adds a value, as it is or weighted, to another one, and never subtracts it."""
    is_added = False
    for node in walk(function.node):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            for sign, part in _parts(node, 1):
                if _weighs(part, path):
                    if sign < 0:
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
        if any(_is_negative(each) for each in (part.left, part.right)):
            return False
        part = (
            part.left
            if path in {dotted(each) for each in walk(part.left) if isinstance(each, ast.expr)}
            else part.right
        )
    while isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in _REDUCING:
        part = part.func.value if dotted(part.func.value) != "torch" else part.args[0] if part.args else part.func
    return dotted(part) == path
