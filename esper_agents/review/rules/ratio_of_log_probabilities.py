"""ESP272: the ratio of two policies is a quotient, or a difference, of log-probabilities."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import INFERRED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables, Function

_LOGARITHM = pattern(r"(?:.*_)?log_?(?:p|pi|pis|ps|probs?|probabilit(?:y|ies))(?:_.*|s)?")
_SAME = frozenset({"detach", "sum", "squeeze", "view", "to", "float", "reshape", "unsqueeze"})


class RatioOfLogProbabilities(Rule):
    """A clipped policy ratio made as `new_logp / old_logp`, or as their difference without `exp`.

    ## Why it costs
    The ratio of two probabilities is `exp(new_logp - old_logp)`. A quotient of the logarithms is above 1 where the
    new policy is less likely, so the update goes the wrong way; a difference is 0 where the policies agree, and the
    clip to `1 - eps` holds it there without any gradient.

    ## When it is right
    A quotient of probabilities. Only ratios that are clipped around 1, as PPO does, are judged.

    ## Sources
    Schulman et al., "Proximal Policy Optimization Algorithms", equations 6 and 7.
    """

    code, name = "ESP272", "ratio-of-log-probabilities"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def loss(dist, action, old_log_prob, advantage, eps=0.2):\n"
        "    ratio = dist.log_prob(action) / old_log_prob\n"
        "    clipped = ratio.clamp(1 - eps, 1 + eps)\n"
        "    return -torch.min(ratio * advantage, clipped * advantage).mean()\n"
    )
    good = bad.replace("dist.log_prob(action) / old_log_prob", "(dist.log_prob(action) - old_log_prob).exp()")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the clipped ratios that are made of logarithms."""
        for call in file.calls_ending("clamp", "clip"):
            is_function = call.receiver == "torch"
            ratio = call.argument(0, "input") if is_function else getattr(call.node.func, "value", None)
            low = call.argument(int(is_function), "min")
            if not isinstance(ratio, ast.expr) or low is None or not _is_below_one(low):
                continue
            for origin in index.origins(ratio, call.function, call.line):
                match origin.value:
                    case ast.BinOp(left=new, op=ast.Div() | ast.Sub() as operator, right=old):
                        kinds = [_kind(each, origin.function, origin.line, index) for each in (new, old)]
                        if all(kinds):
                            is_quotient = isinstance(operator, ast.Div)
                            yield self._found(origin.value, is_quotient=is_quotient, is_named="name" in kinds)
                    case _:
                        pass

    def _found(self, node: ast.expr, *, is_quotient: bool, is_named: bool) -> RuleMatch:
        what = "quotient" if is_quotient else "difference"
        return self.hit(
            node,
            f"this ratio of policies, clipped around 1, is a {what} of log-probabilities",
            remedy="write `torch.exp(new_log_prob - old_log_prob)`",
            confidence=Confidence.MODERATE if is_named else Confidence.HIGH,
            severity=Severity.WARNING if is_named else None,
            basis=f"{INFERRED}: what is named so is a log-probability" if is_named else SEEN,
        )


def _is_below_one(low: ast.expr) -> bool:
    """Return whether a bound is `1 - eps`, written so or as a number."""
    match low:
        case ast.BinOp(left=ast.Constant(value=1 | 1.0), op=ast.Sub()):
            return True
        case ast.Constant(value=float(value)):
            return 0.5 <= value < 1  # noqa: PLR2004 - the bounds that are in use
        case _:
            return False


def _kind(node: ast.expr, function: Function, line: int, index: ProjectIndex) -> str:
    """Return how it is known that a value is a log-probability: by what made it, or by its name."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME:
        node = node.func.value
    made = [origin.value for origin in index.origins(node, function, line)]
    if any(isinstance(each, ast.Call) and tail_of(dotted(each.func)) in {"exp", "softmax"} for each in made):
        return ""
    if any(isinstance(each, ast.Call) and tail_of(dotted(each.func)) in {"log_prob", "log_softmax"} for each in made):
        return "made"
    path = dotted(node.value) if isinstance(node, ast.Subscript) else dotted(node)
    name = (
        node.slice.value if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) else tail_of(path)
    )
    return "name" if isinstance(name, str) and _LOGARITHM.fullmatch(name.lower()) else ""
