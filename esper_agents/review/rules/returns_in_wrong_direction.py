"""ESP134: discounted returns are added up from the first reward on, and so contain the past instead of the future."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.bootstrapping import is_environment_step
from esper_agents.review.index import argument_for
from esper_agents.review.names import dotted, walk
from esper_agents.review.rule import FOLLOWED, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables, Function

_TURNING = frozenset({"reverse", "flip", "flipud"})


class ReturnsInWrongDirection(Rule):
    """`for r in rewards: g = r + gamma * g`, without `reversed`, over the rewards of an episode.

    ## Why it costs
    The return of a step is its reward plus the discounted return of the next step, so the sum runs from the end. From
    the front, `g` contains the rewards before the step: actions are credited for what happened before them, the first
    one least. The agent learns little or the opposite, and nothing raises.

    ## When it is right
    A running average of rewards for the log, or a trace of the past that is meant as such.

    ## Sources
    Sutton and Barto, "Reinforcement Learning: An Introduction", section 3.3: returns obey G(t) = R(t+1) + gamma G(t+1).
    """

    code, name = "ESP134", "returns-in-wrong-direction"
    severity, category = Severity.WARNING, Category.CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def returns(rewards, gamma):\n"
        "    result, g = [], 0.0\n"
        "    for r in rewards:\n"
        "        g = r + gamma * g\n"
        "        result.append(g)\n"
        "    return torch.tensor(result)\n"
        "\n"
        "\n"
        "def episode(env, policy, obs):\n"
        "    rewards, done = [], False\n"
        "    while not done:\n"
        "        obs, reward, done, _, _ = env.step(policy(obs))\n"
        "        rewards.append(reward)\n"
        "    return returns(rewards, 0.99)\n"
    )
    good = bad.replace("for r in rewards", "for r in reversed(rewards)").replace(
        "tensor(result)", "tensor(result[::-1])"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the sums of rewards that run from the first to the last."""
        if not any(map(is_environment_step, index.calls_ending("step"))):
            return
        for function in file.functions:
            for block in function.blocks:
                loop = block.node
                if not isinstance(loop, ast.For) or (found := _recurrence(loop)) is None:
                    continue
                path = dotted(loop.iter)
                if path and _is_of_rewards(path, function, index) and not _is_turned(path, function):
                    yield self.hit(
                        found,
                        f"this adds up {path!r} from the first reward on: each return contains the rewards before its "
                        "step, not those after it",
                        remedy=f"go from the end, over `reversed({path})`, and turn the result round",
                        confidence=Confidence.MODERATE,
                        basis=FOLLOWED,
                    )


def _recurrence(loop: ast.For) -> ast.stmt | None:
    """Return the statement `g = r + gamma * g` of a loop over `r` that keeps each `g`."""
    for statement in loop.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=total)], value=ast.BinOp(left=left, op=ast.Add(), right=right)):
                sides = [left, right]
            case _:
                continue
        is_drawn = any(dotted(each) == dotted(loop.target) for each in sides)
        is_carried = any(
            isinstance(each, ast.BinOp)
            and isinstance(each.op, ast.Mult)
            and total in {part.id for part in walk(each) if isinstance(part, ast.Name)}
            for each in sides
        )
        if is_drawn and is_carried and _is_kept(total, loop):
            return statement
    return None


def _is_kept(total: str, loop: ast.For) -> bool:
    """Return whether a loop puts each value of a sum into a list."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"append", "insert", "appendleft"}
        and any(dotted(each) == total for each in node.args)
        for node in walk(loop)
    )


def _is_of_rewards(path: str, function: Function, index: ProjectIndex) -> bool:
    """Return whether a list holds the rewards that an environment gave, in order, on all ways that lead to it."""
    if any(call.tail == "append" and call.receiver == path for call in function.calls):
        return _gathers_rewards(path, function)
    given = [(call, argument_for(call, function, path)) for call in index.callers(function)]
    return bool(given) and all(
        value is not None
        and _gathers_rewards(dotted(value), call.function)
        and not _is_turned(dotted(value), call.function)
        for call, value in given
    )


def _gathers_rewards(path: str, function: Function) -> bool:
    rewards = {
        dotted(call.statement.targets[0].elts[1])  # type: ignore[attr-defined]
        for call in function.calls
        if call.tail == "step" and is_environment_step(call)
    }
    return any(
        call.tail == "append" and call.receiver == path and any(dotted(each) in rewards for each in call.node.args)
        for call in function.calls
    )


def _is_turned(path: str, function: Function) -> bool:
    """Return whether a function turns a list round."""
    return any(
        call.tail in _TURNING and path in {call.receiver, *(dotted(each) for each in call.node.args)}
        for call in function.calls
    ) or any(f"{path}[::-1]" in ast.unparse(made.value) for made in function.assignments.get(path, ()))
