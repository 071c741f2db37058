"""ESP239: scores are masked with a very low number after the softmax, or the mask hides the position itself."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.mask_meanings import is_very_low
from esper_agents.review.names import dotted
from esper_agents.review.objects import resolve
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_SOFTMAX = frozenset({"torch.softmax", "torch.nn.functional.softmax", "torch.special.softmax"})
# Calls that leave probabilities probabilities.
_PASSING = frozenset({"dropout", "to", "type_as", "float", "contiguous", "view", "reshape", "squeeze", "unsqueeze"})
_STEPS = 4


class MaskAfterSoftmax(Rule):
    """Probabilities of a softmax that are filled with minus infinity or a very low number.

    ## Why it costs
    The low number is meant for scores, which the softmax turns into zero. After the softmax it stands in the result
    itself: the weighted sum is minus infinity or NaN, and the remaining probabilities do not sum to one.

    ## When it is right
    Filled before the softmax; after it only with 0, and then the rest is normalised again.

    ## Sources
    Vaswani et al., "Attention Is All You Need", section 3.2.3: values in the input of the softmax are set to minus
    infinity.
    """

    code, name = "ESP239", "mask-after-softmax"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def attend(scores, mask, values):\n"
        "    weights = torch.softmax(scores, dim=-1)\n"
        "    weights = weights.masked_fill(mask, float('-inf'))\n"
        "    return weights @ values\n"
    )
    good = (
        "import torch\n"
        "\n"
        "\n"
        "def attend(scores, mask, values):\n"
        "    scores = scores.masked_fill(mask, float('-inf'))\n"
        "    weights = torch.softmax(scores, dim=-1)\n"
        "    return weights @ values\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the fillings of probabilities with very low numbers."""
        for call in file.calls_ending("masked_fill", "masked_fill_"):
            value = call.argument(1, "value")
            if not isinstance(call.node.func, ast.Attribute) or value is None:
                continue
            if is_very_low(value, call.function) and (line := _softmax_line(call, index)):
                is_here = line > 0
                yield self.hit(
                    call.node,
                    "this fills probabilities, the result of a softmax, with a number that is meant for scores: what "
                    "follows is infinite or NaN",
                    remedy="mask the scores before the softmax",
                    confidence=Confidence.HIGH if is_here else Confidence.MODERATE,
                    basis=SEEN if is_here else FOLLOWED,
                )


def _softmax_line(call: Call, index: ProjectIndex) -> int:
    """Return the line of the softmax that surely makes what a call fills; negative in another function, 0 if unsure."""
    if not isinstance(call.node.func, ast.Attribute):
        return 0
    lines = []
    for origin in index.origins(call.node.func.value, call.function, call.line):
        value, steps = origin.value, _STEPS
        while isinstance(value, ast.Call) and steps and _passes(value):
            value = (
                value.func.value
                if isinstance(value.func, ast.Attribute) and not value.args
                else value.args[0]
                if value.args
                else value.func
            )
            steps -= 1
        if not isinstance(value, ast.Call):
            return 0
        name = resolve(dotted(value.func), origin.function)
        is_method = isinstance(value.func, ast.Attribute) and value.func.attr == "softmax"
        if name not in _SOFTMAX and not (is_method and not name.startswith("torch.")):
            return 0
        lines.append(value.lineno if origin.function is call.function else -value.lineno)
    return lines[0] if lines else 0


def _passes(value: ast.Call) -> bool:
    return dotted(value.func).rpartition(".")[2] in _PASSING
