"""ESP120: a `LambdaLR` whose function returns a learning rate, by which the learning rate is multiplied."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted
from esper_agents.review.rate_functions import factors_returned
from esper_agents.review.rule import FOLLOWED, SEEN, Rule
from esper_agents.review.training import makers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_LAMBDA = "torch.optim.lr_scheduler.LambdaLR"
_OPTIMIZERS = "torch.optim."


class RateMultipliedTwice(Rule):
    """A `LambdaLR` whose function returns `lr * decay ** epoch` for an optimizer that was made with this `lr`.

    ## Why it costs
    `LambdaLR` multiplies the learning rate of the optimizer by what the function returns. A function that returns a
    learning rate instead of a factor gives its square: 0.001 becomes 0.000001, and the model hardly learns.

    ## When it is right
    The function returns a factor that starts at 1, or the optimizer was made with `lr=1.0`. A division by the learning
    rate, as in `max(factor, min_lr / lr)`, is right and is not reported.

    ## Sources
    PyTorch documentation of `torch.optim.lr_scheduler.LambdaLR`: the initial learning rate times a given function.
    """

    code, name = "ESP120", "rate-multiplied-twice"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\n"
        "scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.01 * 0.95**epoch)\n"
    )
    good = bad.replace("lambda epoch: 0.01 * 0.95**epoch", "lambda epoch: 0.95**epoch")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the schedulers that multiply a learning rate by itself."""
        for call in file.calls_to(_LAMBDA):
            given, optimizer = call.argument(1, "lr_lambda"), call.argument(0, "optimizer")
            if given is None or optimizer is None:
                continue
            rate = _rate(optimizer, call, index)
            if rate is None:
                continue
            factors = [
                dotted_or_text(each) for value in factors_returned(given, call, index) for each in _factors(value)
            ]
            if rate in factors:
                yield self.hit(
                    call.node,
                    f"`LambdaLR` multiplies the learning rate `{rate}` by what its function returns, which is "
                    f"`{rate}` times something: the learning rate is squared",
                    remedy=f"return the factor alone, without `{rate}`",
                    confidence=Confidence.HIGH if isinstance(given, ast.Lambda) else Confidence.MODERATE,
                    basis=SEEN if isinstance(given, ast.Lambda) else FOLLOWED,
                )


def dotted_or_text(value: ast.expr) -> str:
    """Return a path or a number as text; empty for anything else."""
    if isinstance(value, ast.Constant) and isinstance(value.value, float):
        return f"{value.value:g}"
    return dotted(value) if isinstance(value, ast.Name | ast.Attribute) else ""


def _rate(optimizer: ast.expr, call: Call, index: ProjectIndex) -> str | None:
    """Return the learning rate that an optimizer is made with, as text; None if it is 1 or not known."""
    found = set()
    for origin in makers(optimizer, call.function, call.line, index):
        made = next((each for each in origin.function.calls if each.node is origin.value), None)
        is_known = made is not None and made.name.startswith(_OPTIMIZERS) and made.function is call.function
        rate = made.argument(1, "lr") if made is not None and is_known else None
        found.add(dotted_or_text(rate) if rate is not None else "")
    text = found.pop() if len(found) == 1 else ""
    return text if text not in {"", "1", "0"} else None


def _factors(value: ast.expr) -> Iterator[ast.expr]:
    """Yield the factors of a product, also of those that a test or a bound chooses from."""
    match value:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            yield from _factors(left)
            yield from _factors(right)
        case ast.BinOp(left=left, op=ast.Div()):
            yield from _factors(left)
        case ast.IfExp(body=body, orelse=orelse):
            yield from _factors(body)
            yield from _factors(orelse)
        case ast.Call(func=ast.Name(id="max" | "min"), args=args):
            for each in args:
                if isinstance(each, ast.BinOp):
                    yield from _factors(each)
        case _:
            yield value
