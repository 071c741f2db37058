"""ESP289: a divergence is summed over the batch and averaged over the latent axis."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.divergences import sign
from esper_agents.review.names import dotted
from esper_agents.review.rule import INFERRED, FileRule
from esper_agents.review.softmaxes import written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function


class DivergenceSummedOverBatch(FileRule):
    """`sum(dim=0).mean()` of the divergence of a variational autoencoder.

    ## Why it costs
    The divergence of a sample is the sum over the axes of its latent, and the loss is the mean over the batch. The
    other way round, it is scaled by the size of the batch over the size of the latent: its weight against the
    reconstruction changes with the batch size, and most often the prior wins.

    ## When it is right
    The first axis is that of the latent, and the batch comes second.

    ## Sources
    Kingma and Welling, "Auto-Encoding Variational Bayes", appendix B.
    """

    code, name = "ESP289", "divergence-summed-over-batch"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def loss(reconstruction, mu, logvar):\n"
        "    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=0).mean()\n"
        "    return reconstruction + kl\n"
    )
    good = bad.replace("dim=0", "dim=1")

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the means over latents of divergences that are summed over the batch."""
        for call in file.calls_ending("mean", "sum"):
            inner = _reduced(call)
            first = _reduction(inner, call.function)
            second = written(call.argument(0, "dim")) if call.receiver != "torch" else written(call.argument(1, "dim"))
            is_last = not call.node.keywords and len(call.node.args) == int(call.receiver == "torch")
            over_batch = first == ("sum", 0) and call.tail == "mean"
            over_latent = first in {("mean", 1), ("mean", -1)} and call.tail == "sum"
            if (over_batch or over_latent) and (is_last or second in {0, -1}):
                yield self.hit(
                    call.node,
                    "this divergence is summed over the batch and averaged over the latent: its weight depends on the "
                    "size of the batch",
                    remedy="sum over the latent and average over the batch: `.sum(dim=1).mean()`",
                    confidence=Confidence.MODERATE,
                    basis=f"{INFERRED}: that axis 0 is the batch",
                )


def _reduced(call: Call) -> ast.expr | None:
    """Return what a reduction reduces, factors and names of the function looked through."""
    func = call.node.func
    value = call.argument(0, "input") if call.receiver == "torch" else getattr(func, "value", None)
    return _plain(value, call.function, call.line) if isinstance(value, ast.expr) else None


def _plain(value: ast.expr, function: Function, line: int) -> ast.expr:
    """Return a value without constant factors, through one name."""
    for _ in range(3):
        while isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult | ast.Div):
            is_factor = isinstance(value.left, ast.Constant | ast.UnaryOp)
            value = value.right if is_factor else value.left
        made = function.last_assignment(value.id, line) if isinstance(value, ast.Name) else None
        if made is None or made.is_unpacked or made.is_augmented:
            break
        value, line = made.value, made.line
    return value


def _reduction(value: ast.expr | None, function: Function) -> tuple[str, int | None] | None:
    """Return the reduction of a divergence that a value is, with its axis."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return None
    of_torch = dotted(value.func.value) == "torch"
    rest = value.args[1:] if of_torch else value.args
    inner = (value.args[0] if value.args else None) if of_torch else value.func.value
    axis = next((each.value for each in value.keywords if each.arg == "dim"), rest[0] if rest else None)
    if inner is None or axis is None or not sign(_plain(inner, function, value.lineno)):
        return None
    return value.func.attr, written(axis)
