"""Where a tensor on the host meets one on the device."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.inputs import follows_inputs, is_said_to_be_tensor, is_tensor, takes_inputs
from esper_agents.review.making import SIZED
from esper_agents.review.meetings_in_calls import meeting_in_call
from esper_agents.review.names import dotted, walk
from esper_agents.review.objects import resolve
from esper_agents.review.placement import Places, places_of
from esper_agents.review.places import Effect, Meeting, Where, mixed

if TYPE_CHECKING:
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.places import Place
    from esper_agents.review.tables import Function


def meeting(node: ast.AST, function: Function, index: ProjectIndex) -> Meeting | None:
    """Return the tensors that meet in a part of a function's code; None where none do."""
    places = places_of(function, index)
    found: Meeting | None = None
    match node:
        case ast.BinOp(left=left, right=right) if not {type(left), type(right)} & {ast.Tuple, ast.List}:
            both = [places.of(left, node.lineno), places.of(right, node.lineno)]
            found = mixed(both) or _in_size_of_other(node, both, function, index)
        case ast.Compare(left=left, comparators=others, ops=ops) if not _is_identity(ops):
            found = mixed([places.of(each, node.lineno) for each in (left, *others)])
        case ast.AugAssign(target=ast.Name() as target, value=value):
            found = mixed([places.of(target, node.lineno), places.of(value, node.lineno)])
        case ast.Subscript(ctx=ast.Load()):
            found = _indexed(node, places)
        case ast.Assign(targets=[*_, ast.Subscript() as stored], value=value):
            found = _stored(stored, value, places, function, index)
        case ast.Call():
            found = meeting_in_call(node, places, function, index)
        case ast.Return(value=ast.expr() as value):
            found = _handed_back(value, places, function, index)
        case _:
            pass
    return found


def _is_identity(ops: list[ast.cmpop]) -> bool:
    return any(isinstance(each, ast.Is | ast.IsNot | ast.In | ast.NotIn) for each in ops)


def _in_size_of_other(node: ast.BinOp, found: list[Place], function: Function, index: ProjectIndex) -> Meeting | None:
    """Return the meeting of a tensor on the host with the very tensor whose size it was made in, wherever that is."""
    for host, other, value in ((found[0], found[1], node.right), (found[1], found[0], node.left)):
        if host.where is not Where.HOST or other.where is not Where.UNKNOWN or not isinstance(host.source, ast.Call):
            continue
        sizes = {
            dotted(each.value)
            for each in walk(host.source)
            if isinstance(each, ast.Attribute) and each.attr in {"shape", "size"}
        }
        if dotted(value) in sizes - {""} and _is_for_any_device(function, index):
            return Meeting(host, other)
    return None


def _indexed(node: ast.Subscript, places: Places) -> Meeting | None:
    """Return the meeting of a tensor on the host with the tensor on the device that indexes it."""
    whole = places.of(node.value, node.lineno)
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    parts = [part for part in parts if not isinstance(part, ast.Slice | ast.Constant)]
    if whole.where is Where.DEVICE:
        kept = [places.of(part, node.lineno) for part in parts if dotted(part).startswith("self.")]
        host = next((each for each in kept if each.where is Where.HOST), None)
        return Meeting(host, whole, Effect.COPIES) if host is not None else None
    if whole.where is not Where.HOST or isinstance(whole.source, ast.Name):
        return None
    found = [places.of(part, node.lineno) for part in parts]
    index = next((each for each in found if each.where is Where.DEVICE), None)
    return Meeting(whole, index) if index is not None else None


def _stored(
    target: ast.Subscript, value: ast.expr, places: Places, function: Function, index: ProjectIndex
) -> Meeting | None:
    """Return the meeting of what is written to, what says where, and what is written."""
    by_index = _indexed(target, places)
    if by_index is not None:
        return by_index
    whole, given = places.of(target.value, target.lineno), places.of(value, target.lineno)
    is_input = (given.where is Where.DEVICE and given.source is None) or (
        given.where is Where.UNKNOWN and isinstance(value, ast.Call) and _takes_device(value, places)
    )
    is_input = is_input and _is_for_any_device(function, index)
    if whole.where is Where.HOST and is_input and _is_sized_by_input(whole.source, function, index):
        return Meeting(whole, given, Effect.LEAVES if takes_inputs(function, index) else Effect.RETURNS)
    return None


def _takes_device(node: ast.Call, places: Places) -> bool:
    return any(places.of(arg, node.lineno).where is Where.DEVICE for arg in node.args)


def _handed_back(value: ast.expr, places: Places, function: Function, index: ProjectIndex) -> Meeting | None:
    """Return the tensor on the host that a function makes in the size of its input and hands back."""
    if not _is_for_any_device(function, index):
        return None
    for each in value.elts if isinstance(value, ast.Tuple) else [value]:
        place = places.of(each, value.lineno)
        if (
            place.where is Where.HOST
            and place.function is function
            and _is_sized_by_input(place.source, function, index)
        ):
            return Meeting(place, place, Effect.RETURNS)
    return None


def _is_for_any_device(function: Function, index: ProjectIndex) -> bool:
    return takes_inputs(function, index) or follows_inputs(function, index)


def _is_sized_by_input(source: ast.expr | None, function: Function, index: ProjectIndex) -> bool:
    """Return whether a call makes a tensor in the size of one that the function was given."""
    if not isinstance(source, ast.Call) or resolve(dotted(source.func), function) not in SIZED:
        return False
    inputs = [
        parameter
        for parameter in function.parameters
        if is_said_to_be_tensor(parameter, function)
        or (takes_inputs(function, index) and is_tensor(parameter, function, index))
    ]
    return _tells_size(source, inputs, function, 2)


def _tells_size(node: ast.AST, inputs: list[str], function: Function, steps: int) -> bool:
    for each in walk(node):
        if isinstance(each, ast.Attribute) and each.attr in {"shape", "size"} and dotted(each.value) in inputs:
            return True
        if isinstance(each, ast.Call) and dotted(each.func) == "len" and each.args and dotted(each.args[0]) in inputs:
            return True
        if isinstance(each, ast.Name) and steps:
            bound = function.assignments.get(each.id, ())
            if any(_tells_size(one.value, inputs, function, steps - 1) for one in bound if one.value is not node):
                return True
    return False
