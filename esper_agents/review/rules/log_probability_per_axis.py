"""ESP283: the log-probability of an action with several parts is not summed over them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import walk
from esper_agents.review.rule import INFERRED, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_LAST = frozenset({"-1", "1"})
_SUMMING = frozenset({"sum", "mean", "sum_to_size", "einsum", "prod", "sum_independent_dims", "sum_rightmost"})
# What makes a distribution of all parts at once.
_JOINT = ("Independent", "MultivariateNormal")


class LogProbabilityPerAxis(Rule):
    """`log_prob` of a vector of actions that is used part by part, while the entropy is summed over the parts.

    ## Why it costs
    `Normal.log_prob` returns a number for each part of an action. The log-probability of the action is their sum. Part
    by part, the ratio of a policy gradient is clipped for each part by itself, and advantages are spread over an axis
    that they do not belong to.

    ## When it is right
    Actions of one part, distributions of the whole vector (`Independent`, `MultivariateNormal`), and parts that the
    caller sums. Only functions are judged that sum the entropy of the same distribution over the last axis.

    ## Sources
    PyTorch documentation of `torch.distributions.Normal.log_prob` and `torch.distributions.Independent`.
    """

    code, name = "ESP283", "log-probability-per-axis"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "from torch.distributions import Normal\n"
        "\n"
        "\n"
        "def evaluate(mean, std, action):\n"
        "    policy = Normal(mean, std)\n"
        "    return policy.log_prob(action), policy.entropy().sum(-1)\n"
    )
    good = bad.replace("log_prob(action)", "log_prob(action).sum(-1)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the log-probabilities that are not summed beside an entropy that is."""
        if any(each in file.text for each in _JOINT):
            return
        for call in file.calls_ending("log_prob"):
            entropies = [
                each for each in call.function.calls if each.tail == "entropy" and each.receiver == call.receiver
            ]
            if not entropies or not all(_is_summed(each) for each in entropies) or _is_reduced(call, index):
                continue
            yield self.hit(
                call.node,
                "this has a number for each part of the action, and the entropy of the same distribution is summed "
                f"over them (line {entropies[0].line})",
                remedy="sum it as well: `.log_prob(action).sum(-1)`",
                confidence=Confidence.MODERATE,
                basis=f"{INFERRED}: from the sum over the entropy",
            )


def _is_summed(call: Call) -> bool:
    """Return whether the result of a call is summed over its last axis at once."""
    for other in call.function.calls:
        func = other.node.func
        if other.tail == "sum" and isinstance(func, ast.Attribute) and func.value is call.node:
            axis = other.argument(0, "dim") or other.argument(9, "axis")
            return axis is not None and ast.unparse(axis) in _LAST
    return False


def _is_reduced(call: Call, index: ProjectIndex) -> bool:
    """Return whether a log-probability may be summed later: in this function, or by a caller."""
    names = {
        path
        for path, known in call.function.assignments.items()
        for each in known
        if any(part is call.node for part in walk(each.value))
    }
    for other in call.function.calls:
        if other.tail in _SUMMING:
            parts = list(walk(other.node))
            if any(part is call.node for part in parts):
                return True
            if any(isinstance(part, ast.expr) and ast.unparse(part) in names for part in parts if _is_path(part)):
                return True
    return any(
        other.tail in _SUMMING and "log" in ast.unparse(other.node).lower()
        for caller in index.callers(call.function)
        for other in caller.function.calls
        if caller.function is not call.function
    )


def _is_path(node: ast.AST) -> bool:
    return isinstance(node, ast.Name | ast.Attribute)
