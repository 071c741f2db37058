"""ESP286: advantages are cut by the flag of the next step, where the flags belong to their own step."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import dotted, walk
from esper_agents.review.objects import position_of
from esper_agents.review.rule import SEEN, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables, Function

# What `step` of an environment returns from here on are flags.
_FLAGS_FROM = 2
_STEPS = 4


class EndFlagOfNextStep(FileRule):
    """`1 - dones[t + 1]` where `dones[t]` is what the environment returned for step t.

    ## Why it costs
    `dones[t]` says that the episode ended with step t, so that the value of t + 1 belongs to another episode. Read one
    step later, values leak over the ends of episodes, and the step before an end gets no value: the advantages around
    each end are wrong.

    ## When it is right
    Flags that are stored before `step`, as CleanRL does: there `dones[t]` says that step t begins an episode, and
    `dones[t + 1]` is right. Only flags are judged that are stored in the same round after `step`.

    ## Sources
    Schulman et al., "High-Dimensional Continuous Control Using Generalized Advantage Estimation".
    """

    code, name = "ESP286", "end-flag-of-next-step"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def collect(env, policy, obs, values, n):\n"
        "    dones, rewards = torch.zeros(n), torch.zeros(n)\n"
        "    for t in range(n):\n"
        "        obs, reward, done, _ = env.step(policy(obs))\n"
        "        rewards[t], dones[t] = reward, done\n"
        "    total = 0.0\n"
        "    for t in reversed(range(n - 1)):\n"
        "        total = rewards[t] + 0.99 * values[t + 1] * (1 - dones[t + 1]) + total\n"
        "    return total\n"
    )
    good = bad.replace("dones[t + 1]", "dones[t]")

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the flags that are read one step late."""
        if ".step(" not in file.text:
            return
        for function in file.functions:
            late = {id(node): (node, path) for node, path in _late(function)}
            for node, path in late.values():
                is_own = path.startswith("self.") and function.owner is not None
                places = list(function.owner.methods.values()) if is_own and function.owner else [function]
                stored = next((line for each in places for line in _stored_after_step(path, each)), None)
                if stored is not None:
                    yield self.hit(
                        node,
                        f"{path!r} holds for each step whether it ended the episode (line {stored}), and is read one "
                        "step late",
                        remedy=f"use `{path}[t]` for the value of step t + 1",
                        basis=SEEN,
                    )


def _late(function: Function) -> Iterator[tuple[ast.expr, str]]:
    """Yield `1 - flags[t + 1]` and its kind in a function, with the path of the flags."""
    for known in function.assignments.values():
        for found in known:
            for node in walk(found.value):
                match node:
                    case ast.BinOp(left=ast.Constant(value=1), op=ast.Sub(), right=inner):
                        pass
                    case ast.UnaryOp(op=ast.Invert() | ast.Not(), operand=inner):
                        pass
                    case ast.Call(func=ast.Attribute(attr="logical_not"), args=[inner]):
                        pass
                    case _:
                        continue
                while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
                    inner = inner.func.value
                if isinstance(inner, ast.Subscript) and _is_next(inner.slice, found.block):
                    yield node, dotted(inner.value)


def _is_next(index: ast.expr, block: Block) -> bool:
    """Return whether an index is the one after the counter of the loop around it."""
    match index:
        case ast.BinOp(left=ast.Name(id=counter), op=ast.Add(), right=ast.Constant(value=1)):
            return any(counter in loop.targets for loop in block.loops())
        case _:
            return False


def _stored_after_step(path: str, function: Function) -> Iterator[int]:
    """Yield the lines on which a flag that `step` has returned in the same round is stored."""
    for found in function.assignments.get(f"{path}[]", ()):
        is_counted = isinstance(found.node, ast.Subscript) and isinstance(found.node.slice, ast.Name)
        counter = dotted(found.node.slice) if isinstance(found.node, ast.Subscript) and is_counted else ""
        loop = next((each for each in found.block.loops() if counter in each.targets), None)
        if loop is not None and _is_flag(found.value, function, found.line, loop, _STEPS):
            yield found.line
    begun = function.assignments.get(path, ())
    if not begun or not all(isinstance(each.value, ast.List) and not each.value.elts for each in begun):
        return
    for call in function.calls:
        loop = call.block.loop
        is_kept = call.tail == "append" and call.receiver == path and bool(call.node.args)
        if is_kept and loop is not None and _is_flag(call.node.args[0], function, call.line, loop, _STEPS):
            yield call.line


def _is_flag(node: ast.expr, function: Function, line: int, loop: Block, steps: int) -> bool:
    """Return whether a value is computed from the flags that `step` returned in this round."""
    for each in walk(node) if steps else ():
        found = function.last_assignment(each.id, line) if isinstance(each, ast.Name) else None
        if found is None or not found.block.within(loop):
            continue
        if not found.is_unpacked:
            if _is_flag(found.value, function, found.line, loop, steps - 1):
                return True
        elif isinstance(found.value, ast.Call) and dotted(found.value.func).endswith(".step"):
            at, count = position_of(found)
            if count > _FLAGS_FROM and at >= _FLAGS_FROM:
                return True
    return False
