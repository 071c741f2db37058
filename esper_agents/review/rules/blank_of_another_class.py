"""ESP131: CTC takes class 0 for the blank, and the project uses another class."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import INFERRED, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables

_BLANK = pattern(r"_?(?:CTC_)?BLANK(?:_(?:ID|IDX|INDEX|TOKEN_ID|LABEL))?")


class BlankOfAnotherClass(Rule):
    """A `CTCLoss` with the default blank of 0 in a project whose blank is another class.

    ## Why it costs
    The loss learns to give class 0 between characters, and treats the project's blank as a character that never occurs.
    Class 0, often the space or a letter, is never learnt. The decoder drops the wrong class: texts come out empty or
    repeated, while the loss falls.

    ## When it is right
    A blank of another model. Only projects with a single constant for the blank are judged.

    ## Sources
    PyTorch documentation of `torch.nn.CTCLoss` (`blank`: "blank label. Default 0").
    """

    code, name = "ESP131", "blank-of-another-class"
    severity, category = Severity.WARNING, Category.CORRECTNESS
    bad = 'from torch import nn\n\nCHARS = " abc"\nBLANK = len(CHARS)\ncriterion = nn.CTCLoss(zero_infinity=True)\n'
    good = bad.replace("zero_infinity=True", "blank=BLANK, zero_infinity=True")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the losses with a blank of 0."""
        calls = [
            *((call, 0) for call in file.calls_to("torch.nn.CTCLoss")),
            *((call, 4) for call in file.calls_to("torch.nn.functional.ctc_loss")),
        ]
        known = _blanks(index) if calls else {}
        for call, place in calls:
            if call.argument(place, "blank") is None and not call.has_splat() and len(known) == 1:
                (name, (value, where)) = next(iter(known.items()))
                yield self.hit(
                    call.node,
                    f"the blank of this loss is class 0, and {name!r} is `{value}` ({where})",
                    remedy=f"pass `blank={name}`",
                    confidence=Confidence.MODERATE,
                    basis=f"{INFERRED}: what the constant is by its name",
                )


def _blanks(index: ProjectIndex) -> dict[str, tuple[str, str]]:
    """Return the constants for the blank that are not 0, each with its value and place."""
    found: dict[str, tuple[str, str]] = {}
    for file in index.files.values():
        if "BLANK" not in file.text:
            continue
        for path, assignments in file.functions[0].assignments.items():
            value = assignments[0].value
            is_number = isinstance(value, ast.Constant) and isinstance(value.value, int)
            is_size = isinstance(value, ast.Call | ast.BinOp) and ast.unparse(value).startswith("len(")
            is_first = isinstance(value, ast.Constant) and value.value == 0
            if _BLANK.fullmatch(path) and len(assignments) == 1 and (is_number or is_size) and not is_first:
                found[path] = (ast.unparse(value), f"{file.path}:{assignments[0].line}")
    return found
