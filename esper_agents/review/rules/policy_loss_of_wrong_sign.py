"""ESP142: a policy gradient without its minus, so that minimising the loss makes good actions less likely."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.bootstrapping import is_environment_step
from esper_agents.review.divergences import is_negative, signed_terms
from esper_agents.review.names import dotted, walk
from esper_agents.review.rule import INFERRED, Rule
from esper_agents.review.training import backward_calls, losses_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables, Function

_REDUCING = frozenset({"mean", "sum"})
_STEPS = 3
# Parts of names that say that a factor is to fall, or weighs the entropy.
_COSTS = ("cost", "loss", "penalt", "regret", "dist", "neg", "err", "alpha", "temp", "coef", "beta", "ent")


class PolicyLossOfWrongSign(Rule):
    """`(log_prob * advantage).mean()` that is sent backward and minimised.

    ## Why it costs
    A policy gradient climbs: the expected return grows along the gradient of `log_prob * advantage`. An optimizer goes
    down, so the loss is minus that. Without the minus, actions that paid become less likely with every step, and the
    return falls from the first update on.

    ## When it is right
    What is multiplied is a cost and no return, the optimizer was made with `maximize=True`, or a minus stands
    elsewhere: before the log-probability, or before what it is multiplied by. All of these are looked for.

    ## Sources
    Williams, "Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement Learning"; PyTorch
    documentation of `torch.distributions`, section "Score function".
    """

    code, name = "ESP142", "policy-loss-of-wrong-sign"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def train(env, policy, optimizer, obs):\n"
        "    dist = policy(obs)\n"
        "    action = dist.sample()\n"
        "    obs, reward, done, _, _ = env.step(action)\n"
        "    loss = (dist.log_prob(action) * reward).mean()\n"
        "    optimizer.zero_grad()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
    )
    good = bad.replace("loss = (dist", "loss = -(dist")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the losses that contain a policy gradient with a plus."""
        if not any(map(is_environment_step, index.calls_ending("step"))) or "maximize" in file.text:
            return
        if any(index.calls_ending("rsample")):
            # Reparametrised samples: there the log-probability stands for the entropy.
            return
        for call in backward_calls(file):
            function = call.function
            for path in sorted(losses_of(call)):
                made = function.last_assignment(path, call.line)
                if made is None or made.is_augmented or made.is_unpacked:
                    continue
                for side, term in signed_terms(made.value):
                    if side > 0 and _is_gain(term, function, made.line):
                        yield self.hit(
                            term,
                            "this loss is minimised and contains the policy gradient with a plus: actions that pay "
                            "become less likely",
                            remedy=f"put a minus before it: `-{ast.unparse(term)}`",
                            confidence=Confidence.MODERATE,
                            basis=f"{INFERRED}: that what the log-probability is multiplied by is to grow",
                        )


def _is_gain(term: ast.expr, function: Function, line: int) -> bool:
    """Return whether a term is the mean or the sum of a log-probability times a gain, with no minus anywhere in it."""
    product = _product(term, function, line)
    if product is None:
        return False
    factors = list(_factors(product))
    logs = [each for each in factors if _is_log_probability(each, function, line)]
    others = [each for each in factors if each not in logs]
    return len(logs) == 1 and bool(others) and all(_is_gain_by_name(each, function, line) for each in others)


def _product(term: ast.expr, function: Function, line: int) -> ast.BinOp | None:
    for _ in range(_STEPS):
        match term:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=tail), args=[inner, *_]) if (
                tail in _REDUCING
            ):
                term = inner
            case ast.Call(func=ast.Attribute(value=inner, attr=tail)) if tail in _REDUCING:
                term = inner
            case ast.Name(id=name):
                made = function.last_assignment(name, line)
                if made is None or made.is_unpacked or made.is_augmented:
                    return None
                term = made.value
            case _:
                break
    return term if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult) else None


def _factors(product: ast.expr) -> Iterator[ast.expr]:
    if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult):
        yield from _factors(product.left)
        yield from _factors(product.right)
    else:
        yield product


def _is_log_probability(value: ast.expr, function: Function, line: int, steps: int = _STEPS) -> bool:
    """Return whether a value is a log-probability as `log_prob` gives it, alone, stacked or from a list."""
    match value:
        case ast.Call(func=ast.Attribute(attr="log_prob")):
            return True
        case ast.Call(func=ast.Attribute(attr="sum" | "squeeze" | "view" | "reshape", value=inner)):
            return _is_log_probability(inner, function, line, steps)
        case ast.Call(func=func, args=[inner, *_]) if dotted(func) in {"torch.stack", "torch.cat"}:
            return _is_log_probability(inner, function, line, steps)
        case ast.Name(id=name) if steps:
            stored = [call.node.args[0] for call in function.calls if call.tail == "append" and call.receiver == name]
            if stored:
                return all(_is_log_probability(each, function, line, steps - 1) for each in stored)
            made = function.last_assignment(name, line)
            is_plain = made is not None and not made.is_unpacked and not made.is_augmented
            return made is not None and is_plain and _is_log_probability(made.value, function, made.line, steps - 1)
        case _:
            return False


def _is_gain_by_name(value: ast.expr, function: Function, line: int) -> bool:
    """Return whether nothing says that a factor is a cost: no minus before it, and no name of a cost."""
    made = function.last_assignment(value.id, line) if isinstance(value, ast.Name) else None
    sources = [value, *([made.value] if made is not None and not made.is_unpacked else [])]
    if any(is_negative(each) for each in sources):
        return False
    names = {
        dotted(part).lower() for each in sources for part in walk(each) if isinstance(part, ast.Name | ast.Attribute)
    }
    return not any(word in name for name in names for word in _COSTS)
