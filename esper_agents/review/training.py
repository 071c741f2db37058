"""What a training step looks like: where gradients are made, used and cleared."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, tail_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Block, Call, FileTables, Function

_BACKWARD = ("backward", "manual_backward")
_IN_PLACE = frozenset({"add_", "sub_"})
_CLEARING = re.compile(r"(zero|clear|reset)_?(the_)?grad", re.IGNORECASE)
_OPTIMIZER = re.compile(r"opt(im|imi[sz]er)?s?(_|\d|$)|optim|scaler|solver|adam|sgd", re.IGNORECASE)
_NOT_OPTIMIZER = re.compile(r"sched|options?$", re.IGNORECASE)


def backward_calls(file: FileTables) -> Iterator[Call]:
    """Yield the calls that send a loss backward: `loss.backward()`, `accelerator.backward(loss)` and their like."""
    yield from filter(is_backward, file.calls_ending(*_BACKWARD))


def is_backward(call: Call) -> bool:
    """Return whether a call sends a loss backward; a `backward` that passes on to another is no such call."""
    passes_on = call.receiver in {"", "super()"} or call.function.name in _BACKWARD
    return call.tail in _BACKWARD and not passes_on


def loss_of(backward: Call) -> str:
    """Return the path of what a backward call sends backward; empty where it is no name."""
    first = backward.argument(0)
    if first is not None and backward.tail == "manual_backward":
        return dotted(first)
    if first is not None and re.search(r"accelerator|fabric|engine|booster", backward.receiver):
        return dotted(first)
    if backward.receiver.endswith(".scale()") and isinstance(backward.node.func, ast.Attribute):
        scaled = backward.node.func.value
        return dotted(scaled.args[0]) if isinstance(scaled, ast.Call) and scaled.args else ""
    return backward.receiver


def innermost_training_loops(file: FileTables) -> dict[Block, list[Call]]:
    """Return each loop that itself sends a loss backward, inner loops aside, with the calls that do it."""
    found: dict[Block, list[Call]] = {}
    for call in backward_calls(file):
        if call.block.loop is not None:
            found.setdefault(call.block.loop, []).append(call)
    return found


@dataclass(frozen=True, slots=True)
class Step:
    """A place where gradients are used up: an optimizer steps, or parameters are changed by hand.

    Attributes:
        call: The call, where it is one.
        block: Where it stands.
        line: The line.
        optimizer: The optimizer, as written; empty for an update by hand.
    """

    call: Call | None
    block: Block
    line: int
    optimizer: str


def steps(function: Function, index: ProjectIndex) -> Iterator[Step]:
    """Yield the steps that a function itself takes."""
    for call in function.calls:
        if is_optimizer_step(call, index):
            handed = call.argument(0) if "scaler" in call.receiver.lower() else None
            optimizer = call.receiver if handed is None else dotted(handed)
            yield Step(call, call.block, call.line, optimizer)
        elif call.tail in _IN_PLACE and any(_reads_grad(each) for each in (*call.node.args, *call.node.keywords)):
            yield Step(None, call.block, call.line, "")
    for target, assignments in function.assignments.items():
        for each in assignments:
            if each.is_augmented and "grad" not in target and _reads_grad(each.value):
                yield Step(None, each.block, each.line, "")


def _reads_grad(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr == "grad" for each in ast.walk(node))


def is_optimizer_step(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call lets an optimizer use the gradients."""
    if call.tail != "step" or not call.receiver:
        return False
    last = tail_of(call.receiver)
    if _NOT_OPTIMIZER.search(last):
        return False
    if _OPTIMIZER.search(last):
        return True
    found = index.binding(call.receiver, call.function, call.line)
    return found is not None and isinstance(found.value, ast.Call) and ".optim." in f".{_made_by(found.value, call)}"


def _made_by(value: ast.Call, call: Call) -> str:
    path = dotted(value.func)
    root = path.partition(".")[0]
    return call.function.file.imports.get(root, root) + path[len(root) :]


def clears_gradients(call: Call) -> bool:
    """Return whether a call's own name says that it clears gradients: `zero_grad`, `p.grad.zero_`."""
    if _CLEARING.search(call.tail):
        return True
    return call.tail in {"zero_", "fill_", "_foreach_zero_"} and "grad" in (call.receiver or dotted_arguments(call))


def dotted_arguments(call: Call) -> str:
    """Return the paths of a call's plain arguments, joined."""
    return " ".join(dotted(each) for each in call.node.args)


def cleared_by_assignment(function: Function) -> list[Block]:
    """Return the blocks in which a function assigns to a `.grad`."""
    return [
        each.block
        for path, assignments in function.assignments.items()
        if path.endswith(".grad")
        for each in assignments
        if not each.is_augmented
    ]


def reaches_clearing(function: Function, index: ProjectIndex) -> bool:
    """Return whether a function clears gradients, itself or through what it calls."""
    return any(_CLEARING.search(tail) for tail in index.reached(function)) or bool(cleared_by_assignment(function))
