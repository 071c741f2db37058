"""ESP210: the logarithm of a softmax or sigmoid, which is minus infinity once the probability is zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.activations import Activation
from esper_agents.review.endings import activation_of_part
from esper_agents.review.in_place import is_changed_in_place
from esper_agents.review.names import dotted
from esper_agents.review.rule import FOLLOWED, SEEN, Rule
from esper_agents.review.zeros import softmax_by_hand

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from esper_agents.review.activations import Activated
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_LOGARITHMS = ("torch.log", "torch.log2", "torch.log10")
_INSTEAD = {Activation.SOFTMAX: "F.log_softmax(scores, dim=-1)", Activation.SIGMOID: "F.logsigmoid(scores)"}


class LogOfProbability(Rule):
    """A logarithm taken of what a softmax or sigmoid has just made.

    ## Why it costs
    In float32 a softmax gives exactly 0 once a score lies about 104 below the largest, in float16 about 17. Its
    logarithm is minus infinity, the loss becomes infinite, and its gradient NaN: one such example ends the training.

    ## When it is right
    The probabilities are clamped away from zero first, in place as well, or something is added to them: neither is
    reported.

    ## Sources
    PyTorch documentation of `torch.nn.functional.log_softmax`: slower and numerically unstable when done in two
    steps.
    """

    code, name = "ESP210", "log-of-probability"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def entropy(scores):\n"
        "    p = torch.softmax(scores, dim=-1)\n"
        "    return -(p * torch.log(p)).sum(-1)\n"
    )
    good = (
        "import torch\n"
        "import torch.nn.functional as F\n"
        "\n"
        "\n"
        "def entropy(scores):\n"
        "    p = torch.softmax(scores, dim=-1)\n"
        "    return -(p * F.log_softmax(scores, dim=-1)).sum(-1)\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the logarithms of probabilities."""
        for call in file.calls_ending("log", "log2", "log10"):
            value = _operand(call)
            found = _probability(value, call, index) if value is not None else None
            if value is None or found is None or found.activation not in _INSTEAD:
                continue
            here = found.function is call.function
            if here and is_changed_in_place(dotted(value), call, found.line):
                continue
            yield self.hit(
                call.node,
                f"the logarithm of a {found.activation} (line {found.line}) is minus infinity where that is 0",
                remedy=f"use `{_INSTEAD[found.activation]}`, which stays finite",
                confidence=Confidence.HIGH if here else Confidence.MODERATE,
                basis=SEEN if here else FOLLOWED,
            )


def _probability(value: ast.expr, call: Call, index: ProjectIndex) -> Activated | None:
    found = activation_of_part(value, call.function, call.line, index)
    return found or softmax_by_hand(value, call.function, call.line, index)


def _operand(call: Call) -> ast.expr | None:
    """Return what the logarithm is taken of: the argument of `torch.log`, or the tensor before `.log()`."""
    if call.name in _LOGARITHMS:
        return call.argument(0, "input")
    is_method = call.receiver and not call.node.args and not call.node.keywords
    return call.node.func.value if is_method else None  # type: ignore[attr-defined]
