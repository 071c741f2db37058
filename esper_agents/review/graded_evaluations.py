"""Loops that evaluate a model while gradients are on, so that each batch builds a graph in vain."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.definitions import owner_of
from esper_agents.review.frameworks import provides_evaluation
from esper_agents.review.index import argument_for
from esper_agents.review.model_modes import Mode, modes_before
from esper_agents.review.models import (
    GRADIENT_USES,
    belongs_to_training,
    callers_around,
    forward_calls,
    forward_calls_in,
    gradients_off_around,
    happens_in,
    is_evaluating,
    switch_at,
    switches,
)
from esper_agents.review.names import dotted, root_of
from esper_agents.review.renamings import means_inside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function

_TURNS_OFF = frozenset({"set_grad_enabled", "requires_grad_"})


def evaluations_with_gradients(file: FileTables, index: ProjectIndex) -> dict[Block, tuple[Call, Call | None]]:
    """Return the loops of a file that evaluate with gradients on, each with its forward and the `.eval()` that holds.

    The forward is the first in the loop, or the call of a function of these files that runs the model.
    """
    return index.once(("evaluations with gradients", file.path), lambda: _find(file, index))


def _find(file: FileTables, index: ProjectIndex) -> dict[Block, tuple[Call, Call | None]]:
    found: dict[Block, tuple[Call, Call | None]] = {}
    for call in forward_calls(file, index):
        loop = call.block.loop
        if loop is None or loop in found or gradients_off_around(call.block, index):
            continue
        switched = _evaluated_by(call, index)
        if not (switched or _is_named_so(call, loop, index)) or _is_made_in(call, loop):
            continue
        if not (happens_in(loop, GRADIENT_USES, index) or is_explained(call, index)):
            found[loop] = call, switched
    for switch in file.calls_ending("eval", "train"):
        for call in _through_helpers(switch, index):
            if call.block.loop is not None:
                found.setdefault(call.block.loop, (call, switch))
    return found


def _is_named_so(call: Call, loop: Block, index: ProjectIndex) -> bool:
    """Return whether a model is left in evaluation mode by who ran it before, or names say that the loop evaluates."""
    if is_evaluating(call, loop, index) and belongs_to_training(call.function, index):
        return True
    return (
        last_switch(call, model_of(call)) is None
        and not _is_of_module(call, index)
        and modes_before(call, model_of(call), index) == {Mode.EVALUATION}
    )


def _through_helpers(switch: Call, index: ProjectIndex) -> Iterator[Call]:
    """Yield the calls in loops after an `.eval()` that run the model in a function of these files."""
    found = switch_at(switch, index)
    if found is None or found.to_training is not False:
        return
    for call in switch.function.calls:
        loop = call.block.loop
        if loop is None or isinstance(loop.node, ast.While):
            continue
        if call.line <= switch.line or last_switch(call, found.path) is not switch:
            continue
        if gradients_off_around(call.block, index) or not _runs_inside(call, found.path, index):
            continue
        if not (happens_in(loop, GRADIENT_USES, index) or is_explained(call, index)):
            yield call


def _runs_inside(call: Call, path: str, index: ProjectIndex) -> bool:
    """Return whether a call surely reaches a function that runs a model with gradients on."""
    return any(
        model_of(each) == means_inside(call, called, path, index) and not gradients_off_around(each.block, index)
        for called in index.callees(call)
        for each in forward_calls_in(called, index)
    )


def model_of(call: Call) -> str:
    """Return the model that a call runs, as written."""
    return call.receiver if call.tail == "forward" else call.path


def _evaluated_by(call: Call, index: ProjectIndex) -> Call | None:
    """Return the `.eval()` that holds where a model is called: the last switch above it, or above every caller."""
    path = call.receiver if call.tail == "forward" else call.path
    last = last_switch(call, path)
    if last is not None:
        return last if last.tail == "eval" else None
    if path not in call.function.parameters:
        return None
    found = [_before_caller(caller, call.function, path) for caller in index.callers(call.function)]
    return found[0] if found and all(found) else None


def _before_caller(caller: Call, function: Function, parameter: str) -> Call | None:
    handed = argument_for(caller, function, parameter)
    last = last_switch(caller, dotted(handed)) if handed is not None else None
    return last if last is not None and last.tail == "eval" else None


def last_switch(call: Call, path: str) -> Call | None:
    """Return the last call above another that switches a model, unless a variable or a branch decides there."""
    above = [switch for switch in switches(call.function) if switch.path == path and switch.call.line <= call.line]
    if not above or above[-1].to_training is None or not call.block.within(above[-1].call.block):
        return None
    return above[-1].call


def is_explained(call: Call, index: ProjectIndex) -> bool:
    """Return whether gradients may be off, or wanted, for a reason that stands elsewhere."""
    function = call.function
    if provides_evaluation(function, index) or _gradients_handled(function):
        return True
    if any(callee.decorators and gradients_off_around(callee.block, index) for callee in index.callees(call)):
        return True
    callers = [call for each in callers_around(function, index) for call in index.callers(each)]
    return any(gradients_off_around(caller.block, index) or _gradients_handled(caller.function) for caller in callers)


def _is_of_module(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call stands in a method of a module, which may be a part of somebody's forward."""
    owner = owner_of(call.function)
    return owner is not None and index.is_module(owner)


def _is_made_in(call: Call, loop: Block) -> bool:
    """Return whether each round makes the model that it runs: then it tries a model, and evaluates none."""
    made = call.function.assignments.get(root_of(model_of(call)), ())
    return any(each.block.within(loop) and isinstance(each.value, ast.Call) for each in made)


def _gradients_handled(function: Function) -> bool:
    """Return whether a function, or the module it stands in, deals with gradients by itself."""
    return function.file.once(("deals with gradients", function), lambda: _deals_with_gradients(function))


def _deals_with_gradients(function: Function) -> bool:
    module = function.file.functions[0]
    return any(
        call.tail in _TURNS_OFF or "requires_grad" in {keyword.arg for keyword in call.node.keywords}
        for each in (function, module)
        for call in each.calls
    ) or any(target.endswith(".requires_grad") for target in function.assignments)
