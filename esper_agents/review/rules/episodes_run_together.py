"""ESP268: returns or advantages are added up across the ends of episodes: a flag for the ends is never read."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.blocks import BlockKind
from esper_agents.review.names import dotted, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import SEEN, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, FileTables, Function

_END = pattern(
    r"(?:\w+_)?(?:not_?)?(?:dones?|terminals?|terminateds?|terminations?|episode_ends?|nonterminals?)(?:_\w+)?"
)
# State, action, reward, next state and flag, less one that may be left out.
_TRANSITION = 4


class EpisodesRunTogether(FileRule):
    """A backward recurrence over rewards in a function that is given the ends of episodes and never reads them.

    ## Why it costs
    Returns and generalised advantages are sums over the rest of an episode. Without a reset at each end, the first
    rewards of the next episode flow into the last steps of this one, and the value of a state behind the end counts.
    The agent learns values that no policy has.

    ## When it is right
    Rewards of one episode only; then the function needs no flag.

    ## Sources
    Schulman et al., "High-Dimensional Continuous Control Using Generalized Advantage Estimation", equation 16, for an
    episode that ends at a terminal state.
    """

    code, name = "ESP268", "episodes-run-together"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def advantages(rewards, values, dones, gamma=0.99, lam=0.95):\n"
        "    result, last = torch.zeros_like(rewards), 0.0\n"
        "    for t in reversed(range(len(rewards))):\n"
        "        delta = rewards[t] + gamma * values[t + 1] - values[t]\n"
        "        last = delta + gamma * lam * last\n"
        "        result[t] = last\n"
        "    return result\n"
    )
    good = (
        bad.replace("lam * last", "lam * alive * last")
        .replace("gamma * values", "gamma * alive * values")
        .replace("        delta =", "        alive = 1.0 - dones[t]\n        delta =")
    )

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the recurrences that a flag for ends of episodes does not stop."""
        for function in file.functions:
            yield from self._of_batch(function)
            flags = [each for each in function.parameters if _END.fullmatch(each)]
            if not flags or function.is_module:
                continue
            found = next(
                (each for loop in function.blocks if _is_backward(loop) for each in _sums(loop, function)), None
            )
            if found is None:
                continue
            unread = [each for each in flags if not _is_read(each, function)]
            if len(unread) == len(flags):
                yield self.hit(
                    found.statement,
                    f"{found.target!r} is added up across the ends of episodes: {unread[0]!r} is never read",
                    remedy=f"multiply what comes from the next step by `1 - {unread[0]}[t]`",
                    basis=SEEN,
                )

    def _of_batch(self, function: Function) -> Iterator[RuleMatch]:
        """Yield a flag of a batch of transitions that a bootstrapped target does not use."""
        for path, assignments in function.assignments.items():
            made = assignments[0]
            if len(assignments) > 1 or not made.is_unpacked or not _END.fullmatch(path):
                continue
            target = made.statement.targets[0] if isinstance(made.statement, ast.Assign) else None
            names = [dotted(each) for each in target.elts] if isinstance(target, ast.Tuple) else []
            is_used = any(
                isinstance(each, ast.Name) and each.id == path and isinstance(each.ctx, ast.Load)
                for each in walk(function.node)
            )
            if len(names) < _TRANSITION or is_used or _is_handed_on(made, function):
                continue
            if any(call.tail == "backward" for call in function.calls) and _bootstraps(function, names):
                yield self.hit(
                    made.statement,
                    f"{path!r} is never read, so the target of the last step of an episode counts the value of a state "
                    "that follows its end",
                    remedy=f"multiply the value of the next state by `1 - {path}`",
                    basis=SEEN,
                )


def _is_handed_on(made: Assignment, function: Function) -> bool:
    """Return whether what is unpacked is also used as a whole, flag included."""
    whole = dotted(made.value)
    uses = [each for each in walk(function.node) if isinstance(each, ast.Name) and each.id == whole]
    return not whole.isidentifier() or len(uses) > 1


def _bootstraps(function: Function, names: list[str]) -> bool:
    """Return whether a reward of a batch plus something discounted is a target, here or in a method it calls."""
    owner = function.owner
    called = [owner.methods[call.tail] for call in function.calls if owner is not None and call.tail in owner.methods]
    for each in (function, *called):
        known = {*names} if each is function else {*each.parameters}
        for node in walk(each.node):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                reward, rest = dotted(node.left), node.right
                is_product = isinstance(rest, ast.BinOp) and isinstance(rest.op, ast.Mult)
                if reward in known and is_product and any(isinstance(part, ast.Name | ast.Call) for part in walk(rest)):
                    return True
    return False


def _is_backward(loop: Block) -> bool:
    """Return whether a loop runs from the last step to the first."""
    over = loop.node.iter if loop.kind is BlockKind.FOR and isinstance(loop.node, ast.For) else None
    if not isinstance(over, ast.Call):
        return False
    if dotted(over.func) == "range":
        step = over.args[2] if len(over.args) > 2 else None  # noqa: PLR2004 - start, stop, step
        return isinstance(step, ast.UnaryOp) and isinstance(step.op, ast.USub)
    return any(isinstance(each, ast.Call) and dotted(each.func) == "reversed" for each in walk(over))


def _sums(loop: Block, function: Function) -> Iterator[Assignment]:
    """Yield what is made in each round of something and of itself, discounted: `last = delta + gamma * last`."""
    for path, assignments in function.assignments.items():
        for found in assignments:
            if (
                found.block.within(loop)
                and not found.is_augmented
                and not found.is_unpacked
                and _recurs(path, found.value)
            ):
                yield found


def _recurs(path: str, value: ast.expr) -> bool:
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        return False
    return any(
        isinstance(each, ast.BinOp)
        and isinstance(each.op, ast.Mult)
        and path in {dotted(each.left), dotted(each.right)}
        for each in walk(value)
    )


def _is_read(name: str, function: Function) -> bool:
    body = getattr(function.node, "body", ())
    return any(isinstance(each, ast.Name) and each.id == name for statement in body for each in walk(statement))
