"""ESP132: an episode that a time limit cut is stored as one that ended, so that no value follows its last step."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.rule import INFERRED, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables, Function

# Observation, reward, terminated, truncated and information, as an environment of Gymnasium returns them.
_RESULTS = 5
_TERMINATED, _TRUNCATED = 2, 3
_JOINING = frozenset({"logical_or", "bitwise_or", "maximum"})
_CASTS = frozenset({"float", "int", "bool", "as_tensor", "tensor", "array", "float32"})


class TruncationAsEnd(Rule):
    """`terminated or truncated` that is stored as the flag which cuts the value of the next state.

    ## Why it costs
    A time limit does not end a task: the state behind it has a value, and the return of the last step should contain
    it. With the flag of both, the target of that step is its reward alone, and the values of all states before it are
    too low. In a task that only ever ends by its limit every episode is cut like that.

    ## When it is right
    The limit is a part of the task and of the observation, or the value of the final observation is added to the reward
    where an episode is cut. Then the second flag is also read alone, which is looked for.

    ## Sources
    Pardo et al., "Time Limits in Reinforcement Learning"; Gymnasium documentation, "Handling Time Limits".
    """

    code, name = "ESP132", "truncation-as-end"
    severity, category = Severity.SUGGESTION, Category.CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def collect(env, policy, buffer, obs):\n"
        "    action = policy(obs)\n"
        "    obs, reward, terminated, truncated, _ = env.step(action)\n"
        "    buffer.append((obs, reward, terminated or truncated))\n"
        "    return env.reset() if terminated or truncated else obs\n"
        "\n"
        "\n"
        "def target(reward, value, done):\n"
        "    return reward + 0.99 * (1 - done) * value.detach()\n"
    )
    good = bad.replace("reward, terminated or truncated))", "reward, terminated))")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the stored flags that mean both ends."""
        if not any(_cuts_values(each) for each in index.files.values()):
            return
        for function in file.functions:
            for term, trunc, line in _steps(function):
                joined = [node for node in walk(function.node) if _joins(node, term, trunc)]
                if not joined or _is_read_alone(trunc, joined, function):
                    continue
                node = _stored(joined, function)
                if node is not None:
                    yield self.hit(
                        node,
                        f"{trunc!r} (line {line}) is stored as an end: the value of the state behind a time limit is "
                        "not counted",
                        remedy=f"store {term!r} alone, and use both flags only to reset the environment",
                        confidence=Confidence.MODERATE,
                        basis=f"{INFERRED}: the flag cuts the value of the next state",
                    )


def _cuts_values(file: FileTables) -> bool:
    """Return whether a file takes something from one, as a target does with a flag."""
    return file.imports_torch and file.once("taken from one", lambda: _takes_from_one(file))


def _takes_from_one(file: FileTables) -> bool:
    return any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Sub)
        and isinstance(node.left, ast.Constant)
        and node.left.value == 1
        and not isinstance(node.right, ast.Constant)
        for node in walk(file.tree)
    )


def _steps(function: Function) -> Iterator[tuple[str, str, int]]:
    """Yield the names of both flags of each step of an environment, with its line."""
    for call in function.calls:
        statement = call.statement
        if call.tail != "step" or not isinstance(statement, ast.Assign) or statement.value is not call.node:
            continue
        target = statement.targets[0]
        names = [dotted(each) for each in target.elts] if isinstance(target, ast.Tuple) else []
        if len(names) == _RESULTS and names[_TERMINATED].isidentifier() and names[_TRUNCATED].isidentifier():
            yield names[_TERMINATED], names[_TRUNCATED], call.line


def _joins(node: ast.AST, term: str, trunc: str) -> bool:
    """Return whether an expression is true where either flag is."""
    match node:
        case ast.BoolOp(op=ast.Or(), values=[one, two]) | ast.BinOp(left=one, op=ast.BitOr(), right=two):
            return {dotted(one), dotted(two)} == {term, trunc}
        case ast.Call(func=func, args=[one, two]) if tail_of(dotted(func)) in _JOINING:
            return {dotted(one), dotted(two)} == {term, trunc}
        case _:
            return False


def _is_read_alone(trunc: str, joined: list[ast.AST], function: Function) -> bool:
    inside = {id(part) for node in joined for part in walk(node)}
    return any(
        isinstance(node, ast.Name) and node.id == trunc and isinstance(node.ctx, ast.Load) and id(node) not in inside
        for node in walk(function.node)
    )


def _stored(joined: list[ast.AST], function: Function) -> ast.AST | None:
    """Return the flag of both where it is put into something: an item, an attribute, an argument of a method."""
    made = [(path, each.value) for path, found in function.assignments.items() for each in found]
    names = {path: node for path, value in made if path.isidentifier() for node in _flags(value, joined, {})}
    stored = [value for path, value in made if not path.isidentifier()]
    passed = [each for call in function.calls if call.receiver and call.tail not in _CASTS for each in call.node.args]
    return next((node for value in (*stored, *passed) for node in _flags(value, joined, names)), None)


def _flags(value: ast.expr, joined: list[ast.AST], names: dict[str, ast.AST]) -> Iterator[ast.AST]:
    """Yield the flags of both that a value holds, also under a name; what only tests one does not hold it."""
    tests = {id(part) for each in walk(value) if isinstance(each, ast.IfExp) for part in walk(each.test)}
    for part in walk(value):
        if id(part) in tests:
            continue
        if any(part is node for node in joined):
            yield part
        elif isinstance(part, ast.Name) and part.id in names:
            yield names[part.id]
