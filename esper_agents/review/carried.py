"""Loops whose rounds depend on each other: what a call in them is handed comes from the round before."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.conditions import names_in, tests_around
from esper_agents.review.names import dotted

if TYPE_CHECKING:
    from esper_agents.review.blocks import Block
    from esper_agents.review.tables import Call

_STEPS = 4


def hangs_on_last_round(call: Call, loop: Block) -> bool:
    """Return whether what a call is handed hangs on something that the round before made."""
    return any(_is_carried(name, call, loop) for name in _names_behind(call, loop))


def _names_behind(call: Call, loop: Block) -> set[str]:
    """Return the names that what the model is handed hangs on, through what the loop binds and tests."""
    inside = [
        (path.rstrip("[]"), each)
        for path, group in call.function.assignments.items()
        for each in group
        if each.block.within(loop) and each.statement is not loop.node
    ]
    handed = (*call.node.args, *(keyword.value for keyword in call.node.keywords))
    read = {name for part in handed for name in names_in(part)}
    for _ in range(_STEPS):
        behind = {
            name
            for path, each in inside
            if path in read and each.line < call.line
            for part in (each.value, *tests_around(each.block, loop))
            for name in names_in(part)
        }
        if behind <= read:
            break
        read |= behind
    return read


def _is_carried(name: str, call: Call, loop: Block) -> bool:
    """Return whether a name holds something of the round before when the model reads it."""
    if name in loop.targets or name == _counter(loop):
        return False
    inside = [each for each in call.function.assignments.get(name, ()) if each.block.within(loop)]
    return any(each.line >= call.line or each.is_augmented for each in inside) and not any(
        each.line < call.line and not each.is_augmented and name not in names_in(each.value) for each in inside
    )


def _counter(loop: Block) -> str:
    """Return the name that a `while` counts its rounds by; empty for any other loop."""
    test = loop.node.test if isinstance(loop.node, ast.While) else None
    return dotted(test.left) if isinstance(test, ast.Compare) else ""
