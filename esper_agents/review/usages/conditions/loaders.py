"""Conditions about data loaders and what they yield."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.loaders import loops_over_loaders, trains
from esper_agents.review.models import gradients_off_around
from esper_agents.review.moves import moves_to_device
from esper_agents.review.names import dotted, root_of
from esper_agents.review.usages.registry import ConditionResult, condition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.usages.registry import UsageContext


def _constant(call: ast.Call, name: str) -> object:
    """Return the constant of a keyword, None if it is omitted, and `...` if it is not known."""
    if any(keyword.arg is None for keyword in call.keywords):
        return ...
    value = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    if value is None:
        return None
    return value.value if isinstance(value, ast.Constant) else ...


def _loops_of_source(context: UsageContext) -> list[tuple[ast.Call, Block]]:
    """Return the loaders whose loops yield the receiver, with the loops."""
    call = context.site.call
    if call is None or not isinstance(call.node.func, ast.Attribute):
        return []
    roots = {root_of(dotted(call.node.func.value))}
    for block in call.block.loops():
        for part in getattr(block.node, "generators", ()):
            if roots & set(block.targets):
                roots |= {each.id for each in ast.walk(part.iter) if isinstance(each, ast.Name)}
    around = list(call.block.loops())
    found = []
    for made, loops in loops_over_loaders(context.index).items():
        found += [(made, loop) for loop in loops if loop in around and roots & set(map(root_of, loop.targets))]
    return found


@condition
def source_pinned(context: UsageContext) -> ConditionResult:
    """Whether the tensor that is moved is in pinned memory: its loader pins, or it was pinned by a call."""
    call = context.site.call
    if call is not None and ".pin_memory()" in call.receiver:
        return ConditionResult(True, {"pinned": "`pin_memory()` is called on it"})
    loaders = _loops_of_source(context)
    states = {_constant(made, "pin_memory") for made, _ in loaders}
    if not loaders or ... in states or len({bool(state) for state in states}) > 1:
        return ConditionResult(None)
    place = _place(context, loaders[0][0])
    if states == {True}:
        return ConditionResult(True, {"pinned": f"its loader at {place} has `pin_memory=True`"})
    return ConditionResult(False, {"loader": place})


def _place(context: UsageContext, made: ast.Call) -> str:
    path = next(
        (path for path, file in context.index.files.items() if any(call.node is made for call in file.calls)), ""
    )
    return f"{path}:{made.lineno}"


@condition
def source_is_batch(context: UsageContext) -> ConditionResult:
    """Whether the receiver is what a data loader yields, which holds no graph."""
    loaders = _loops_of_source(context)
    return ConditionResult(True, {"loader": _place(context, loaders[0][0])}) if loaders else ConditionResult(None)


def _loops(context: UsageContext) -> tuple[Block, ...]:
    call = context.site.call
    return loops_over_loaders(context.index).get(call.node, ()) if call is not None else ()


@condition
def loader_trains(context: UsageContext) -> ConditionResult:
    """Whether a loop over this loader trains; false if all its loops run with gradients off."""
    loops = _loops(context)
    trained = [loop for loop in loops if trains(loop, context.index)]
    if trained:
        return ConditionResult(True, {"loop": _line(trained[0])})
    if loops and all(gradients_off_around(loop, context.index) for loop in loops):
        return ConditionResult(False, {"loop": _line(loops[0])})
    return ConditionResult(None)


def _line(loop: Block) -> str:
    return f"{loop.function.file.path}:{getattr(loop.node, 'lineno', 0)}"


@condition
def loader_used_in_epochs(context: UsageContext) -> ConditionResult:
    """Whether a loop over this loader is in another loop, so that it begins more than once."""
    loops = _loops(context)
    nested = [loop for loop in loops if loop.parent is not None and loop.parent.loop is not None]
    if nested:
        return ConditionResult(True, {"loop": _line(nested[0])})
    if not loops or any(not loop.function.is_module for loop in loops):
        return ConditionResult(None)
    return ConditionResult(False, {"loop": _line(loops[0])})


@condition
def project_moves_to_device(context: UsageContext) -> ConditionResult:
    """Whether any code of the project moves tensors to an accelerator."""
    for path, line in _moves(context):
        return ConditionResult(True, {"move": f"{path}:{line}"})
    return ConditionResult(False)


def _moves(context: UsageContext) -> Iterator[tuple[str, int]]:
    for path, file in sorted(context.index.files.items()):
        yield from ((path, call.line) for call in file.calls_ending("to", "cuda") if moves_to_device(call))
        if "Trainer(" in file.text or "accelerat" in file.text:
            # A library moves the batches.
            yield path, 1


@condition
def moves_to_host(context: UsageContext) -> ConditionResult:
    """Whether the call moves to the host: `.cpu()`, `.to("cpu")`."""
    call = context.site.call
    if call is None:
        return ConditionResult(None)
    first = call.argument(0, "device")
    is_host = call.tail == "cpu" or (isinstance(first, ast.Constant) and first.value == "cpu")
    return ConditionResult(True) if is_host else ConditionResult(bool(call.tail == "to" and first is None))
