"""Where the parts of a tuple come from that a function of the reviewed files gives back."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.index import Origin
from esper_agents.review.likely_models import likely_forward
from esper_agents.review.names import dotted
from esper_agents.review.objects import wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Call, Function


def parts_returned(value: ast.expr, function: Function, line: int, index: ProjectIndex) -> Iterator[Origin]:
    """Yield what a name holds that takes a part of what a call gives: `_, p = model(x)`, `f(*model(x))`."""
    if not isinstance(value, ast.Name):
        return
    found = index.binding(value.id, function, line)
    if found is None:
        yield from _spread(value.id, function, index)
    else:
        yield from part_assigned(found, index)


def part_assigned(found: Assignment, index: ProjectIndex) -> Iterator[Origin]:
    """Yield what an unpacking binds to one of its names, of what the call gives that it takes apart."""
    if found.is_unpacked and isinstance(found.statement, ast.Assign) and isinstance(found.value, ast.Call):
        target = found.statement.targets[0]
        names = target.elts if isinstance(target, ast.Tuple | ast.List) else []
        place = next((at for at, each in enumerate(names) if each is found.node), None)
        if place is not None and not any(isinstance(name, ast.Starred) for name in names):
            yield from _returned(found.value, found.block.function, place, len(names), index)


def modules_handed_back(found: Assignment, index: ProjectIndex) -> Iterator[tuple[str, Function]]:
    """Yield what a module that is assigned here is called in the functions that hand it back, wherever they put it."""
    value = wrapped(found.value) or found.value
    whole = () if found.is_unpacked else values_returned(value, found.block.function, index)
    for each in (*part_assigned(found, index), *whole):
        inner = each.value
        while (next_inner := wrapped(inner)) is not None:
            inner = next_inner
        if isinstance(inner, ast.Name | ast.Attribute):
            yield dotted(inner), each.function


def called_by(value: ast.expr, function: Function, index: ProjectIndex) -> tuple[Function, ...]:
    """Return the functions of these files that a call in a function surely reaches."""
    call = next((each for each in function.calls if each.node is value), None)
    return index.callees(call) if call is not None else ()


def values_returned(value: ast.expr, function: Function, index: ProjectIndex) -> Iterator[Origin]:
    """Yield what a call gives back, by every `return` of the function of these files that it reaches."""
    for called in called_by(value, function, index):
        for statement, _ in called.returns:
            if statement.value is not None:
                yield Origin(statement.value, called, statement.lineno)


def _spread(name: str, function: Function, index: ProjectIndex) -> Iterator[Origin]:
    """Yield what callers hand to a parameter by `*` in front of a call."""
    if name not in function.parameters:
        return
    own = [parameter for parameter in function.parameters if parameter not in {"self", "cls"} or function.owner is None]
    for call in index.callers(function):
        for at, each in enumerate(call.node.args):
            if isinstance(each, ast.Starred) and isinstance(each.value, ast.Call) and name in own[at:]:
                yield from _returned(each.value, call.function, own.index(name) - at, 0, index)
                break


def _returned(node: ast.Call, function: Function, place: int, count: int, index: ProjectIndex) -> Iterator[Origin]:
    """Yield a part of each tuple that a called function returns; of a known count, if one is asked for."""
    call = next((each for each in function.calls if each.node is node), None)
    for called in _called(call, index) if call is not None else ():
        for statement, _ in called.returns:
            parts = statement.value.elts if isinstance(statement.value, ast.Tuple) else []
            if place < len(parts) and count in {0, len(parts)}:
                yield Origin(parts[place], called, statement.lineno)


def _called(call: Call, index: ProjectIndex) -> tuple[Function, ...]:
    likely = likely_forward(call, index)
    return index.callees(call) or ((likely,) if likely is not None else ())
