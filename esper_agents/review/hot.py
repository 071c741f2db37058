"""Which code runs in every training step, and what of it runs only now and then."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.blocks import LOOPS, BlockKind
from esper_agents.review.conditions import is_now_and_then, tests_around
from esper_agents.review.frameworks import repeats_as_training_step
from esper_agents.review.leniency import applies
from esper_agents.review.names import dotted, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, SEEN
from esper_agents.review.training import is_backward, is_optimizer_step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function

# How many steps from function to function are followed, up to the loop and down from it.
_CALLS = 4
# What a loop may call in every round without being part of the step; it decides by itself when to do something.
_ASIDE = pattern(
    r"(?<![a-z])(?:eval\w*|valid\w*|test|log\w*|report|save|plot|draw|show|checkpoint|visuali[sz]e|summary|callbacks?|hooks?|profil\w*"
    r"|prepare|setup|build\w*|create\w*|make\w*|init\w*|load\w*|gather\w*|reset\w*)"
    r"(?![a-z])",
    re.IGNORECASE,
)
_TIME = pattern(
    r"(?<![a-z])(?:time|timer|clock|elapsed|now|interval|freq|frequency|every|period|warmup|debug)(?![a-z])"
)
# Settings that say how often; whether one is set at all holds in every round or in none.
_SETTING = pattern(r"(?<![a-z])(?:interval|freq|frequency|every|period|warmup)(?![a-z])")

_EXITS = frozenset({"sys.exit", "exit", "quit", "os._exit"})


@dataclass(frozen=True, slots=True)
class Hot:
    """Code that runs once, or more often, in every training step.

    Attributes:
        around: The loop, or the own block of a function that every step runs.
        basis: How that is known.
        is_epoch: Whether a round is a whole epoch, so that a step is long and seldom.
    """

    around: Block
    basis: str
    is_epoch: bool = False


def hot_around(block: Block, index: ProjectIndex) -> Hot | None:
    """Return the hot code that a block belongs to, the innermost; None where it does not run in every step."""
    known = _hot(index)
    return next((known[each] for each in block.chain() if each in known), None)


def hot_blocks(index: ProjectIndex) -> dict[Block, Hot]:
    """Return all hot code of the reviewed files, by loop or by a function's own block."""
    return _hot(index)


def hot_in(file: FileTables, index: ProjectIndex) -> list[Hot]:
    """Return the hot code of one file."""
    return index.once("hot code by file", lambda: _by_file(index)).get(file.path, [])


def _by_file(index: ProjectIndex) -> dict[str, list[Hot]]:
    found: dict[str, list[Hot]] = {}
    for hot in _hot(index).values():
        found.setdefault(hot.around.function.file.path, []).append(hot)
    return found


def is_rare(block: Block, around: Block, line: int) -> bool:
    """Return whether a line runs only in some rounds: under a test that says so, or after one that skips the others."""
    if is_now_and_then(block, around) or any(_picks_a_round(test, around) for test in tests_around(block, around)):
        return True
    if any(_is_last(each, around) for each in block.chain() if each is not around and each.within(around)):
        return True
    chain = set(block.chain())
    for each in block.function.blocks:
        if each.kind is BlockKind.IF and isinstance(each.node, ast.If) and each.parent in chain and each.within(around):
            skips = isinstance(each.node.body[-1], ast.Continue | ast.Return) and not each.node.orelse
            if skips and each.node.lineno < line and each not in chain and _is_rare_inside(each, around):
                return True
    return False


def _is_last(block: Block, around: Block) -> bool:
    """Return whether the arm of an `if` ends the loop or the program, so that it runs once at most."""
    if not isinstance(block.node, ast.If):
        return False
    body = block.node.orelse if block.kind is BlockKind.ELSE else block.node.body
    last = body[-1]
    leaves = isinstance(last, ast.Break) and block.loop is around
    leaves |= isinstance(last, ast.Return) and around.kind in LOOPS
    is_exit = isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and dotted(last.value.func) in _EXITS
    return leaves or is_exit or isinstance(last, ast.Raise)


def _is_rare_inside(skipping: Block, around: Block) -> bool:
    return is_now_and_then(skipping, around) or any(
        _picks_a_round(test, around) for test in tests_around(skipping, around)
    )


def _picks_a_round(test: ast.expr, around: Block) -> bool:
    """Return whether a test asks for one round by its number, or for the time that went by."""
    counters = {name for each in around.chain() for name in each.targets} | set(around.targets)
    for each in walk(test):
        if isinstance(each, ast.Compare) and any(isinstance(op, ast.Eq | ast.In | ast.Lt | ast.LtE) for op in each.ops):
            sides = (each.left, *each.comparators)
            if any(isinstance(side, ast.Name) and side.id in counters for side in sides):
                return True
        if isinstance(each, ast.Name | ast.Attribute) and _TIME.search(dotted(each)):
            return not _asks_whether_set(test)
    return False


def _asks_whether_set(test: ast.expr) -> bool:
    """Return whether a test asks only whether a setting is on: `interval > 0`, `self.every is not None`, `if freq`."""
    if isinstance(test, ast.BoolOp):
        return all(map(_asks_whether_set, test.values))
    if isinstance(test, ast.UnaryOp):
        return _asks_whether_set(test.operand)
    if isinstance(test, ast.Compare):
        is_fixed = all(
            isinstance(comparator, ast.Constant) and comparator.value in {0, None} for comparator in test.comparators
        )
        return is_fixed and _asks_whether_set(test.left)
    return isinstance(test, ast.Name | ast.Attribute) and _SETTING.search(dotted(test)) is not None


def _hot(index: ProjectIndex) -> dict[Block, Hot]:
    return index.once("hot code", lambda: _find(index))


def _find(index: ProjectIndex) -> dict[Block, Hot]:
    found: dict[Block, Hot] = {}
    stepping: list[Function] = []
    for call in index.calls_ending("backward", "manual_backward"):
        if not is_backward(call) or not applies(Category.PERFORMANCE, call.function.file.purpose):
            continue
        if call.block.loop is None:
            stepping.append(call.function)
        elif not _wants_input_gradients(call.block.loop):
            for loop in _step_loops(call, index):
                found.setdefault(loop, Hot(loop, SEEN, _is_epoch(loop, [call])))
    for file in index.files.values():
        for function in file.functions:
            if repeats_as_training_step(function, index):
                found.setdefault(function.block, Hot(function.block, FOLLOWED))
    for function in dict.fromkeys(stepping):
        _go_up(function, index, found)
    _go_down(index, found)
    return found


def _wants_input_gradients(loop: Block) -> bool:
    """Return whether a loop asks for gradients of its inputs: an attack or a saliency map, no training."""
    return any(call.tail == "requires_grad_" and call.block.within(loop) for call in loop.function.calls)


def _step_loops(backward: Call, index: ProjectIndex) -> Iterator[Block]:
    """Yield the innermost loop round a backward, and the loop round it that takes the optimizer's step.

    Where the innermost steps as well, the outer one only uses up what is left over at its end.
    """
    loops = list(backward.block.loops())
    yield loops[0]
    taken = [call for call in backward.function.calls if call.block.loop in loops and is_optimizer_step(call, index)]
    if not any(call.block.loop is loops[0] for call in taken):
        yield from (call.block.loop for call in taken if call.block.loop is not None)


def _is_epoch(loop: Block, backwards: list[Call]) -> bool:
    """Return whether each round of a loop is an epoch whose only step is its own."""
    named = any(name.lower().strip("_").startswith(("epoch", "ep", "iteration_of_epoch")) for name in loop.targets)
    return named and all(backward.block.loop is loop for backward in backwards)


def _go_up(start: Function, index: ProjectIndex, found: dict[Block, Hot]) -> None:
    """Note a function that sends one loss backward where a loop calls it, with that loop and all between."""
    edge, path = [start], {start}
    for _ in range(_CALLS):
        following: list[Function] = []
        for function in edge:
            outside = function.outer.loop if function.outer is not None else None
            if outside is not None:
                found.setdefault(function.block, Hot(function.block, FOLLOWED))
            for caller in index.callers(function):
                is_sure = function in index.callees(caller)
                if caller.block.loop is not None:
                    found.setdefault(function.block, Hot(function.block, FOLLOWED))
                    if is_sure:
                        loop = caller.block.loop
                        found.setdefault(loop, Hot(loop, FOLLOWED, _is_epoch(loop, [caller])))
                elif caller.function not in path and is_sure:
                    following.append(caller.function)
        path.update(following)
        edge = following


def _go_down(index: ProjectIndex, found: dict[Block, Hot]) -> None:
    """Note what hot code surely calls, save what looks after itself."""
    edge = list(found.values())
    for _ in range(_CALLS):
        following: list[Hot] = []
        for hot in edge:
            for call in hot.around.function.calls:
                if not call.block.within(hot.around) or _ASIDE.search(call.tail):
                    continue
                for called in index.callees(call):
                    if called.block in found or called.is_module or is_rare(call.block, hot.around, call.line):
                        continue
                    found[called.block] = Hot(called.block, FOLLOWED, hot.is_epoch)
                    following.append(found[called.block])
        edge = following
