"""ESP130: a diffusion model is trained on samples that are noised by one step, whatever the step is."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.rule import INFERRED, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Class, FileTables, Function

_STEPS = 6


class NoiseOfOneStep(FileRule):
    """A jump to step t of a diffusion that uses `alpha` of the step instead of the product of all steps before.

    ## Why it costs
    The sample at step t is `sqrt(alpha_bar[t]) * x0 + sqrt(1 - alpha_bar[t]) * noise`, where `alpha_bar` is the
    cumulative product of `alpha`. With `alpha[t]` itself the image is hardly noised at any step: the network learns to
    remove a trace of noise, and sampling from pure noise gives noise.

    ## When it is right
    A single step from t - 1 to t. Only classes are reported that also make the cumulative product, and only code that
    draws the step at random.

    ## Sources
    Ho et al., "Denoising Diffusion Probabilistic Models", equation 4 and algorithm 1.
    """

    code, name = "ESP130", "noise-of-one-step"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "class Diffusion:\n"
        "    def __init__(self, betas):\n"
        "        self.alphas = 1.0 - betas\n"
        "        self.alpha_bars = torch.cumprod(self.alphas, dim=0)\n"
        "\n"
        "    def noised(self, x0):\n"
        "        t = torch.randint(0, 1000, (len(x0),))\n"
        "        a = self.alphas[t].view(-1, 1)\n"
        "        return a.sqrt() * x0 + (1 - a).sqrt() * torch.randn_like(x0)\n"
    )
    good = bad.replace("self.alphas[t]", "self.alpha_bars[t]")

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the jumps that use the noise of one step."""
        if "cumprod" not in file.text or not file.calls_ending("randint"):
            return
        for cls in file.classes:
            functions = list(cls.methods.values())
            if not any(call.tail == "cumprod" for each in functions for call in each.calls):
                continue
            if not any(call.tail == "randint" for each in functions for call in each.calls):
                continue
            for function in functions:
                for node in _mixtures(function):
                    names = [_schedule(side, function, node.lineno, cls) for side in (node.left, node.right)]
                    if all(names) and _is_pair(names):
                        yield self.hit(
                            node,
                            "this mixes a sample and noise by `alpha` of one step, not by the cumulative product that "
                            "leads to it",
                            remedy="use `sqrt(alpha_bar[t])` and `sqrt(1 - alpha_bar[t])`",
                            confidence=Confidence.MODERATE,
                            basis=f"{INFERRED}: from how the factors are made",
                        )


def _mixtures(function: Function) -> Iterator[ast.BinOp]:
    """Yield the sums of two products of a function."""
    for node in walk(function.node):
        match node:
            case ast.BinOp(left=ast.BinOp(op=ast.Mult()), op=ast.Add(), right=ast.BinOp(op=ast.Mult())):
                yield node
            case _:
                pass


def _schedule(side: ast.expr, function: Function, line: int, cls: Class) -> str:
    """Return all that a factor of a product is made of, as text; empty if no factor is of the class's schedule."""
    if not isinstance(side, ast.BinOp):
        return ""
    texts = [" ".join(_sources(each, function, line, cls, _STEPS)) for each in (side.left, side.right)]
    # A step back, from t to t - 1, divides, and has the cumulative product in its other factor.
    if any("cumprod" in each or "/" in each for each in texts):
        return ""
    return next((each for each in texts if "sqrt" in each and "self." in each), "")


def _sources(node: ast.expr, function: Function, line: int, cls: Class, steps: int) -> Iterator[str]:
    """Yield the texts of an expression and of what its names and attributes were made of."""
    yield ast.unparse(node)
    if not steps:
        return
    for each in walk(node):
        path = dotted(each) if isinstance(each, ast.Name | ast.Attribute) else ""
        made = function.last_assignment(path, line) if path else None
        if made is not None:
            yield from _sources(made.value, made.block.function, made.line, cls, steps - 1)
        elif path.startswith("self.") and path.count(".") == 1:
            for found in cls.attributes.get(path, ()):
                yield from _sources(found.value, found.block.function, found.line, cls, steps - 1)
            for buffer, maker, at in _buffers(path.removeprefix("self."), cls):
                yield from _sources(buffer, maker, at, cls, steps - 1)


def _buffers(name: str, cls: Class) -> Iterator[tuple[ast.expr, Function, int]]:
    for method in cls.methods.values():
        for call in method.calls:
            if tail_of(call.path) == "register_buffer" and len(call.node.args) > 1:
                first = call.node.args[0]
                if isinstance(first, ast.Constant) and first.value == name:
                    yield call.node.args[1], method, call.line


def _is_pair(names: list[str]) -> bool:
    """Return whether one factor is made of one minus the other."""
    return any("1 - " in each or "1.0 - " in each for each in names) and names[0] != names[1]
