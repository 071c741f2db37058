"""Results of one forward that two backwards reach, as the code of one training loop shows it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.bootstrapping import undetached
from esper_agents.review.conditions import tests_around
from esper_agents.review.models import gradients_off_around
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.training import innermost_training_loops, is_optimizer_step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Call, FileTables, Function

_CUTTING = frozenset({"detach", "detach_", "no_grad", "clone_detached", "repackage_hidden"})
_STEPS = 6
_TWO = 2


def carried_states(
    file: FileTables, index: ProjectIndex, *, retained: bool = False
) -> Iterator[tuple[Call, Call, str]]:
    """Yield the backwards of loops that give a state of one round to the same model in the next, as it is.

    Args:
        file: The tables of the file.
        index: Facts about all files of the review.
        retained: Whether backwards that keep their graphs count as well.

    Yields:
        The backward, the forward, and the path of the state.
    """
    for loop, sent in innermost_training_loops(file).items():
        last = sent[-1]
        if (
            len(sent) > 1
            or (_retains(last) and not retained)
            or any(tests_around(last.block, loop))
            or _cuts(loop, index)
        ):
            continue
        for call, path in _fed_back(loop):
            is_whole = call.line < last.line and not any(tests_around(call.block, loop))
            if is_whole and not gradients_off_around(call.block, index) and _reaches(last, call):
                yield last, call, path


def shared_results(file: FileTables, index: ProjectIndex) -> Iterator[tuple[Call, Call, Call]]:
    """Yield the two backwards of a loop that reach one forward, with that forward.

    Only where an optimizer steps between the two, as in the training of two networks against each other.
    """
    for loop, sent in innermost_training_loops(file).items():
        whole = [each for each in sent if not any(tests_around(each.block, loop))]
        if len(whole) != _TWO or _retains(whole[0]):
            continue
        first, second = whole
        function = loop.function
        between = [call for call in function.calls if first.line < call.line < second.line]
        if not any(is_optimizer_step(call, index) for call in between):
            continue
        early, late = forwards_of(first, loop), forwards_of(second, loop)
        for node, call in early.items():
            is_open = not gradients_off_around(call.block, index) and not _cuts_inside(call, index)
            if node in late and is_open and call.line < first.line:
                yield first, second, call


def _retains(sent: Call) -> bool:
    return any(each.arg in {"retain_graph", "create_graph"} for each in sent.node.keywords)


def _cuts(loop: Block, index: ProjectIndex) -> bool:
    """Return whether something in a loop, or a function that it may call, detaches a tensor."""
    inside = [call for call in loop.function.calls if call.block.within(loop)]
    return any(
        call.tail in _CUTTING or any(_CUTTING & index.reached(each) for each in index.possible_callees(call))
        for call in inside
    ) or any(path.endswith(".data") for call in inside for path in (dotted(each) for each in call.node.args))


def _cuts_inside(call: Call, index: ProjectIndex) -> bool:
    return any(_CUTTING & index.reached(each) for each in index.possible_callees(call))


def _fed_back(loop: Block) -> Iterator[tuple[Call, str]]:
    """Yield the calls of a loop whose result, or a part of it, is an argument of the same call in the next round."""
    calls = {call.node: call for call in loop.function.calls if call.block.loop is loop}
    for path, assignments in loop.function.assignments.items():
        inside = [each for each in assignments if each.block.within(loop)]
        call = calls.get(inside[0].value) if len(inside) == 1 and isinstance(inside[0].value, ast.Call) else None
        if call is None or call.tail in {"step", "reset", "zip", "next"}:
            continue
        given = [*call.node.args, *(each.value for each in call.node.keywords)]
        is_part = inside[0].is_unpacked and isinstance(inside[0].statement, ast.Assign)
        if is_part and any(dotted(each) == path for each in given):
            yield call, path


def _reaches(sent: Call, forward: Call) -> bool:
    """Return whether what is sent backward is computed from a forward, as far as names show it."""
    return forward.node in forwards_of(sent, forward.block.loop) if forward.block.loop is not None else False


def forwards_of(sent: Call, loop: Block) -> dict[ast.AST, Call]:
    """Return the calls of a loop whose results go into a loss without a `detach`."""
    function = sent.function
    calls = {call.node: call for call in function.calls if call.block.within(loop)}
    found: dict[ast.AST, Call] = {}
    queue: list[tuple[ast.expr, int, int]] = [(sent.node, sent.line + 1, _STEPS)]
    seen: set[Assignment] = set()
    for value, line, steps in queue:
        for node in undetached(value):
            if node in calls and node is not sent.node:
                found[node] = calls[node]
            if not isinstance(node, ast.Name | ast.Attribute) or not steps:
                continue
            made = _bound(dotted(node), function, loop, line)
            if made is not None and made not in seen and not _is_plain_number(made.value):
                seen.add(made)
                queue.append((made.value, made.line, steps - 1))
    return found


def _bound(path: str, function: Function, loop: Block, line: int) -> Assignment | None:
    made = function.last_assignment(path, line) if path else None
    is_inside = made is not None and made.block.within(loop) and made.statement is not loop.node
    return made if is_inside else None


def _is_plain_number(value: ast.expr) -> bool:
    """Return whether a value is a number or a shape, which carries no graph."""
    while isinstance(value, ast.Subscript | ast.Attribute):
        value = value.value
    return isinstance(value, ast.Call) and tail_of(dotted(value.func)) in {"item", "size", "len", "argmax", "tolist"}
