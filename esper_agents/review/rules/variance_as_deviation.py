"""ESP270: noise is scaled by a variance, where a standard deviation is meant."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.divergences import signed_terms
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.rule import INFERRED, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables, Function

_NOISE = frozenset({"randn_like", "randn", "normal_", "standard_normal"})


@dataclass(frozen=True, slots=True)
class _Divergence:
    """A divergence of a Gaussian from the standard one, written out.

    Attributes:
        path: The file.
        line: The line.
    """

    path: str
    line: int


class VarianceAsDeviation(Rule):
    """A sample `mu + noise * exp(logvar)`, while the divergence takes `logvar` for the logarithm of the variance.

    ## Why it costs
    The standard deviation is `exp(0.5 * logvar)`. Scaled by the variance, samples come from another distribution than
    the one whose divergence is minimised: for a variance of 0.01 the noise is ten times too small. Reconstructions look
    good, and samples from the prior do not.

    ## When it is right
    A value that is the logarithm of the standard deviation: then the divergence has `exp(2 * log_std)`. Only values are
    reported that a divergence in the same files uses as the logarithm of a variance.

    ## Sources
    Kingma and Welling, "Auto-Encoding Variational Bayes", section 2.4 and appendix B.
    """

    code, name = "ESP270", "variance-as-deviation"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def sample(mu, logvar):\n"
        "    return mu + torch.randn_like(mu) * logvar.exp()\n"
        "\n"
        "\n"
        "def divergence(mu, logvar):\n"
        "    return -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())\n"
    )
    good = bad.replace("* logvar.exp()", "* (0.5 * logvar).exp()")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the samples whose noise is scaled by a variance."""
        if not (file.imports_torch and "exp" in file.text):
            return
        known = index.once("divergences by logarithm of the variance", lambda: _divergences(index))
        if not known:
            return
        for function in file.functions:
            for node in _scales(function, index):
                for origin in index.origins(node, function, node.lineno):
                    path = _exponent(origin.value)
                    found = known.get(tail_of(path)) if path else None
                    if found is not None and not _is_halved(path, origin.function, origin.line):
                        where = (
                            f"the divergence on line {found.line}"
                            if found.path == file.path
                            else f"{found.path}:{found.line}"
                        )
                        yield self.hit(
                            node,
                            f"this scales noise by a variance, as {path!r} is the logarithm of one in {where}",
                            remedy=f"write `torch.exp(0.5 * {path})`",
                            confidence=Confidence.MODERATE,
                            basis=f"{INFERRED}: both mean the same value by its name",
                        )
                        break


def _divergences(index: ProjectIndex) -> dict[str, _Divergence]:
    """Return what divergences take for the logarithm of a variance, by the last name of it."""
    found: dict[str, _Divergence] = {}
    for file in index.files.values():
        if not (file.imports_torch and "exp" in file.text):
            continue
        for node in file.once("additions", lambda file=file: _sums(file)):  # type: ignore[misc]
            name = _log_variance(node)
            if name:
                found.setdefault(tail_of(name), _Divergence(file.path, node.lineno))
    return found


def _sums(file: FileTables) -> list[ast.BinOp]:
    """Return the sums and differences of the statements that take an exponential."""
    statements = {id(call.statement): call.statement for call in file.calls_ending("exp")}
    nodes = [node for statement in statements.values() for node in walk(statement)]
    return [node for node in nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub)]


def _log_variance(node: ast.BinOp) -> str:
    """Return `L` of `1 + L - mu ** 2 - exp(L)`, with these signs or all of the others."""
    terms = [(part, side > 0) for side, part in signed_terms(node)]
    exponents = {_exponent(term): sign for term, sign in terms if _exponent(term)}
    squares = [sign for term, sign in terms if _is_square(term)]
    for path, sign in exponents.items():
        plain = [other for term, other in terms if dotted(term) == path and isinstance(term, ast.Name | ast.Attribute)]
        ones = [other for term, other in terms if isinstance(term, ast.Constant) and term.value == 1]
        if plain == [not sign] and squares == [sign] and ones in ([], [not sign]):
            return path
    return ""


def _is_square(node: ast.expr) -> bool:
    match node:
        case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=2)):
            return True
        case ast.Call(func=ast.Attribute(attr="pow"), args=[*_, ast.Constant(value=2)]):
            return True
        case ast.Call(func=ast.Attribute(attr="square")):
            return True
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return ast.dump(left) == ast.dump(right)
        case _:
            return False


def _exponent(node: ast.expr) -> str:
    """Return the path that an exponential is taken of, as it is."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="torch"), attr="exp"), args=[ast.Name() | ast.Attribute() as of]
        ):
            return dotted(of)
        case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as of, attr="exp" | "exp_"), args=[]):
            return dotted(of)
        case _:
            return ""


def _scales(function: Function, index: ProjectIndex) -> Iterator[ast.expr]:
    """Yield what noise is multiplied by in a function."""
    if not any(call.tail in _NOISE for call in function.calls):
        return
    for node in walk(function.node):
        match node:
            case ast.BinOp(left=one, op=ast.Mult(), right=other):
                pass
            case ast.Call(func=ast.Attribute(value=one, attr="mul" | "mul_"), args=[other]):
                pass
            case _:
                continue
        for noise, scale in ((one, other), (other, one)):
            if any(_is_noise(each.value) for each in index.origins(noise, function, node.lineno)):
                yield scale


def _is_noise(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and tail_of(dotted(node.func)) in _NOISE


def _is_halved(path: str, function: Function, line: int) -> bool:
    """Return whether a name was halved where it is used, so that it is no longer what it is called."""
    made = function.last_assignment(path, line + 1)
    factors = [each for each in walk(made.value) if isinstance(each, ast.BinOp)] if made is not None else []
    return any(isinstance(each.op, ast.Mult | ast.Div) and _is_half(each) for each in factors)


def _is_half(node: ast.BinOp) -> bool:
    return any(isinstance(each, ast.Constant) and each.value in {0.5, 2} for each in (node.left, node.right))
