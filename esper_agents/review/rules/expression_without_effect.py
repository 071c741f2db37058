"""ESP291: a statement computes a value and drops it, often the second line of an expression that has ended."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import walk
from esper_agents.review.rule import SEEN, FileRule
from esper_agents.review.tables import Purpose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables

_SETTING = frozenset({"no_grad", "enable_grad", "inference_mode", "autocast", "set_grad_enabled", "device"})


class ExpressionWithoutEffect(FileRule):
    """A statement that is only a sum, a product or a term with a sign, such as `+ penalty` on a line of its own.

    ## Why it costs
    A line that ends with a complete expression is a whole statement. `loss = a.sum()` followed by `+ b.sum()` is two
    statements: the second is computed and dropped, and the loss lacks a term. Nothing raises.

    ## When it is right
    Never in a program; a notebook shows the last expression of a cell, and a test may compute one to see it raise. Both
    are not reported.

    ## Sources
    Python reference, "Logical lines": a statement ends with its line unless it is in brackets.
    """

    code, name = "ESP291", "expression-without-effect"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def loss(a, b):\n"
        "    total = torch.square(a).sum()\n"
        "    + torch.square(b).sum()\n"
        "    return total\n"
    )
    good = bad.replace("sum()\n    + torch", "sum() + torch")

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the statements whose value is dropped."""
        if file.purpose not in {Purpose.CODE, Purpose.EXAMPLE} or file.path.endswith(".ipynb"):
            return
        for statement in walk(file.tree):
            if isinstance(statement, ast.Expr) and _is_computed(statement.value) and not _is_tried(statement, file):
                is_term = isinstance(statement.value, ast.UnaryOp)
                yield self.hit(
                    statement,
                    "this line is a statement of its own, and its value is dropped"
                    + (": the expression before it has ended" if is_term else ""),
                    remedy="put the whole expression in brackets"
                    if is_term
                    else "assign the value, or remove the line",
                    basis=SEEN,
                )


def _is_computed(value: ast.expr) -> bool:
    """Return whether a value is arithmetic with a name in it; shifts and `|` have effects in other libraries."""
    match value:
        case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
            return not isinstance(operand, ast.Constant)
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.Pow() | ast.MatMult()):
            return any(isinstance(each, ast.Name) for each in walk(value))
        case _:
            return False


def _is_tried(statement: ast.Expr, file: FileTables) -> bool:
    """Return whether a statement is tried out: in a `try`, or under a `with` such as that of a timer or a test."""
    return any(
        each.lineno <= statement.lineno <= (each.end_lineno or 0)
        for each in walk(file.tree)
        if isinstance(each, ast.Try) or (isinstance(each, ast.With) and not _is_of_torch(each))
    )


def _is_of_torch(block: ast.With) -> bool:
    """Return whether a `with` only sets how torch computes."""
    names = [ast.unparse(item.context_expr).partition("(")[0].rpartition(".")[2] for item in block.items]
    return all(name in _SETTING for name in names)
