"""Ends of episodes in reinforcement learning: flags, resets, and sums that cross an end."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function

_NEW_API, _OLD_API = 5, 4
_ENVIRONMENT = pattern(r"(?:^|[._])(?:\w*env(?:s|ironments?)?\d?|vec_?env\w*)(?:\[\])*$", re.IGNORECASE)
_VECTOR = pattern(r"envs|vec|venv|make_vec|SyncVector|AsyncVector|SubprocVec|DummyVec", re.IGNORECASE)
_END = pattern(
    r"done|term|mask|(?:^|_)ends?(?:_|$)|not_?end|final|trunc|alive|continue|episode|boundar|is_last|reset",
    re.IGNORECASE,
)
_DISCOUNT = pattern(r"gamma|lam|lambda_?|lmbda|\w+_lambda|discount\w*|tau", re.IGNORECASE)


class EpisodeEnds(FactQuery):
    """What code does when an episode ends: `terminated` or `truncated`, the reset, and what is summed over ends."""

    name = "episode-ends"
    topics = ("reinforcement learning",)
    claim = "values or observations of one episode reach into the next"
    refutes = False
    category = Category.SILENT_CORRECTNESS
    unseen = "whether the environment limits the time of an episode or resets itself"
    bad = (
        "def collect(env, policy, buffer):\n    obs, _ = env.reset()\n    for _ in range(100):\n"
        "        action = policy(obs)\n        following, reward, terminated, truncated, _ = env.step(action)\n"
        "        buffer.add(obs, action, reward, terminated)\n        obs = following\n"
        "        if terminated:\n            obs, _ = env.reset()\n"
    )
    good = bad.replace("if terminated:", "if terminated or truncated:")

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield what happens after each step of an environment, and sums that no end interrupts."""
        for file in files:
            for call in file.calls_ending("step"):
                if _ENVIRONMENT.search(call.receiver):
                    yield from self._step(file, call)
            for function in file.functions:
                yield from self._sums(file, function)

    def _step(self, file: FileTables, call: Call) -> Iterator[Fact]:
        statement = call.statement
        if not isinstance(statement, ast.Assign) or statement.value is not call.node:
            return
        target = statement.targets[0]
        if not isinstance(target, ast.Tuple):
            return
        names = [dotted(elt) for elt in target.elts]
        if len(names) == _OLD_API:
            text = f"`{call.path}` gives one flag, `{names[2]}`, which is also true at a time limit"
            yield self.fact(file, statement, Assessment.OPEN, text)
        elif len(names) == _NEW_API:
            yield from self._flags(file, call, names[2], names[3])
        is_vector = _VECTOR.search(call.receiver) is not None
        if not is_vector and len(names) in {_OLD_API, _NEW_API}:
            yield from self._reset(file, call)

    def _flags(self, file: FileTables, call: Call, terminated: str, truncated: str) -> Iterator[Fact]:
        reads = _reads(call.function)
        if truncated in reads and truncated != "_":
            if terminated in reads:
                text = f"`{terminated}` and `{truncated}` are both used after `{call.path}`"
                yield self.fact(file, call.node, Assessment.FINE, text)
            return
        dropped = "drops its flag `truncated`" if truncated == "_" else f"gives `{truncated}`, which nothing reads"
        text = f"`{call.path}` {dropped}: at a time limit the episode goes on"
        remedy = "reset at `terminated or truncated`, and mask the next value by `terminated` alone"
        yield self.problem(file, call.node, text, remedy, assumption="the environment has a time limit")

    def _reset(self, file: FileTables, call: Call) -> Iterator[Fact]:
        """Yield a loop over steps that an end neither leaves nor resets."""
        loop = call.block.loop.node if call.block.loop is not None else None
        if not isinstance(loop, ast.For | ast.AsyncFor | ast.While):
            return
        inside = range(loop.lineno, (loop.end_lineno or loop.lineno) + 1)
        resets = any(each.tail.startswith("reset") for each in call.function.calls if each.line in inside)
        asks = isinstance(loop, ast.While) and any(_END.search(name) for name in _all_names(loop.test))
        leaves = any(isinstance(each, ast.Break | ast.Return | ast.Yield) for each in walk(loop))
        if not (resets or asks or leaves):
            text = f"the loop around `{call.path}` neither resets the environment nor ends when an episode does"
            remedy = f"call `{call.receiver}.reset()` at the end of an episode"
            yield self.problem(file, call.node, text, remedy, assumption="the environment does not reset itself")

    def _sums(self, file: FileTables, function: Function) -> Iterator[Fact]:
        """Yield `sum = x + gamma * sum` in loops, with what tells it of the end of an episode."""
        reads = _reads(function)
        for path, held in function.assignments.items():
            for each in held:
                if each.block.loop is None or not _is_discounted_sum(path, each.value):
                    continue
                if own := {name for name in _all_names(each.value) if _END.search(name)}:
                    text = f"`{path}` starts again at the end of an episode (`{min(own)}`)"
                    yield self.fact(file, each.statement, Assessment.FINE, text)
                elif not any(map(_END.search, reads)):
                    text = f"`{path}` adds up over the whole loop, also from one episode into the one before"
                    remedy = f"multiply `{path}` by `(1 - done)` of the step"
                    is_given = any(_END.search(name) for name in function.parameters)
                    if is_given:
                        yield self.problem(file, each.statement, text, remedy)
                    else:
                        text = f"`{path}` adds up over the whole loop, which is right for steps of one episode only"
                        yield self.fact(file, each.statement, Assessment.OPEN, text)


def _all_names(node: ast.AST) -> set[str]:
    found = {tail_of(dotted(each)) for each in walk(node) if isinstance(each, ast.Name | ast.Attribute)}
    return found | {str(each.value) for each in walk(node) if isinstance(each, ast.Constant) and str(each.value)}


def _reads(function: Function) -> set[str]:
    """Return the names and attributes that a function reads."""
    paths = (each for each in walk(function.node) if isinstance(each, ast.Name | ast.Attribute))
    return {dotted(path) for path in paths if isinstance(path.ctx, ast.Load)}


def _is_discounted_sum(path: str, value: ast.expr) -> bool:
    """Return whether a value is something plus a discounted amount of the path that it is assigned to."""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        return False
    for side in (value.left, value.right):
        factors = list(_factors(side))
        has_itself = any(dotted(factor) == path for factor in factors)
        if has_itself and any(_DISCOUNT.fullmatch(tail_of(dotted(factor))) for factor in factors):
            return True
    return False


def _factors(value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        yield from _factors(value.left)
        yield from _factors(value.right)
    else:
        yield value
