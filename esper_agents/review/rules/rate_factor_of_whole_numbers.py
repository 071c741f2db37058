"""ESP145: a whole-number division makes the factor of a learning rate zero."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import dotted, walk
from esper_agents.review.rate_functions import factors_returned
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_SCHEDULE = "torch.optim.lr_scheduler.LambdaLR"


class RateFactorOfWholeNumbers(Rule):
    """A function for `LambdaLR` whose factor is a quotient of whole numbers by `//`.

    ## Why it costs
    `step // warmup` is 0 for all steps before `warmup`. `LambdaLR` multiplies the learning rate by it: the warm-up
    trains nothing, and then the whole rate comes at once.

    ## When it is right
    Exponents (`0.95 ** (epoch // 10)`) and sums. Only quotients are judged that are the factor itself or multiply it.

    ## Sources
    PyTorch documentation of `torch.optim.lr_scheduler.LambdaLR`. Python language reference, floor division.
    """

    code, name = "ESP145", "rate-factor-of-whole-numbers"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "from torch.optim.lr_scheduler import LambdaLR\n"
        "\n"
        "\n"
        "def warm_up(optimizer, warmup):\n"
        "    return LambdaLR(optimizer, lambda step: min(1.0, (step + 1) // warmup))\n"
    )
    good = bad.replace("//", "/")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the factors that are zero up to the divisor."""
        for call in file.calls_to(_SCHEDULE):
            given = call.argument(1, "lr_lambda")
            seen = set[int]()
            for value in factors_returned(given, call, index) if given is not None else ():
                for quotient in _quotients(value):
                    if id(quotient) in seen or not _counts(quotient):
                        continue
                    seen.add(id(quotient))
                    yield self._found(quotient, value, call)

    def _found(self, quotient: ast.BinOp, value: ast.expr, call: Call) -> RuleMatch:
        is_here = any(each is value for each in walk(call.node))
        divisor, line = ast.unparse(quotient.right), quotient.lineno
        return self.hit(
            quotient if _is_in(quotient, call.function) else call.node,
            f"`//` makes the factor of the learning rate 0 until the count reaches `{divisor}` (line {line})",
            remedy="divide with `/`",
            basis=SEEN if is_here else FOLLOWED,
        )


def _is_in(node: ast.AST, function: Function) -> bool:
    """Return whether a node stands in the file of a function."""
    return any(each is node for each in walk(function.file.tree))


def _quotients(value: ast.expr) -> Iterator[ast.BinOp]:
    """Yield the quotients by `//` that make a product 0 when they are 0."""
    match value:
        case ast.BinOp(op=ast.FloorDiv()):
            yield value
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            yield from _quotients(left)
            yield from _quotients(right)
        case ast.BinOp(left=left, op=ast.Div()):
            yield from _quotients(left)
        case ast.IfExp(body=body, orelse=orelse):
            yield from _quotients(body)
            yield from _quotients(orelse)
        case ast.Call(func=ast.Name(id="float" | "min"), args=args):
            for each in args:
                yield from _quotients(each)
        case ast.Call(func=ast.Name(id="max"), args=[ast.Constant(value=low), other]) if low == 0:
            yield from _quotients(other)
        case _:
            pass


def _counts(quotient: ast.BinOp) -> bool:
    """Return whether a quotient is of a count, plain or one more, and by more than 1."""
    left, right = quotient.left, quotient.right
    if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Add) and isinstance(left.right, ast.Constant):
        left = left.left
    if isinstance(left, ast.Call) and dotted(left.func) in {"int", "float"} and left.args:
        left = left.args[0]
    return isinstance(left, ast.Name) and not (isinstance(right, ast.Constant) and right.value == 1)
