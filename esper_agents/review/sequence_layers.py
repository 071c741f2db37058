"""Recurrent and attention layers: where the batch and the time stand in what they give."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from esper_agents.review.names import below, dotted, tail_of
from esper_agents.review.objects import resolve, wrapped
from esper_agents.review.patterns import pattern
from esper_agents.review.softmaxes import written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, FileTables, Function

# The position of `batch_first` among the arguments of each layer that has one.
_RECURRENT = {"torch.nn.LSTM": 4, "torch.nn.GRU": 4, "torch.nn.RNN": 5}
_ATTENTION = {
    "torch.nn.MultiheadAttention": 8,
    "torch.nn.TransformerEncoderLayer": 6,
    "torch.nn.TransformerDecoderLayer": 6,
    "torch.nn.Transformer": 10,
}
_STACKS = frozenset({"torch.nn.TransformerEncoder", "torch.nn.TransformerDecoder"})
_PADDED = "torch.nn.utils.rnn.pad_packed_sequence"
_RESHAPING = frozenset({"view", "reshape", "unsqueeze"})
# What a file says that has to do with such layers.
_MENTION = pattern(r"lstm|gru|rnn|transformer|attention|attn|encoder|decoder|pad_packed", re.IGNORECASE)


class SequencePart(StrEnum):
    """Part of what a layer gives."""

    OUTPUT = "the output of each step"
    STATE = "the last state of each layer"


@dataclass(frozen=True, slots=True)
class SequenceValue:
    """What a layer for sequences gave.

    Attributes:
        layer: The class of the layer, or `pad_packed_sequence`.
        part: Which part of its result.
        is_batch_first: Whether the batch is the first axis of the outputs.
        is_bidirectional: Whether a recurrent layer reads in both directions.
        line: The line of the call.
        made: The call that made the layer.
    """

    layer: str
    part: SequencePart
    is_batch_first: bool
    is_bidirectional: bool
    line: int
    made: ast.Call


def mentions_sequences(file: FileTables) -> bool:
    """Return whether a file may have to do with layers for sequences; asked before all else, because it is quick."""
    return file.imports_torch and _MENTION.search(file.text) is not None


def sequence_value(node: ast.expr, function: Function, line: int, index: ProjectIndex) -> SequenceValue | None:
    """Return what a layer for sequences gave, if a name or a call is that on every way; None if that is not known."""
    found = [_given(call, place, function, at, index) for call, place, at in _calls(node, function, line, index)]
    first = found[0] if found else None
    return first if first is not None and all(each is not None and _alike(each, first) for each in found) else None


def layer_called(call: ast.Call, function: Function, line: int, index: ProjectIndex) -> ast.Call | None:
    """Return the call that made the layer for sequences that a call runs, a stack as its layer."""
    if resolve(dotted(call.func), function) == _PADDED:
        return call
    origins = index.origins(call.func, function, line)
    made = [_layer_made(each.value, each.function, each.line, index) for each in origins]
    return made[0] if len(made) == 1 else None


def is_batch_first(made: ast.Call, function: Function, line: int, index: ProjectIndex) -> bool | None:
    """Return whether a layer takes the batch as the first axis; None if a variable decides."""
    name = resolve(dotted(made.func), function)
    place = (_RECURRENT | _ATTENTION | {_PADDED: 1}).get(name)
    if place is None or any(isinstance(arg, ast.Starred) for arg in made.args):
        return None
    if any(keyword.arg is None for keyword in made.keywords):
        return None
    given = next((keyword.value for keyword in made.keywords if keyword.arg == "batch_first"), None)
    if given is None and len(made.args) > place:
        given = made.args[place]
    return False if given is None else _constant(given, function, line, index)


def _constant(node: ast.expr, function: Function, line: int, index: ProjectIndex) -> bool | None:
    values = {getattr(origin.value, "value", None) for origin in index.origins(node, function, line)}
    only = values.pop() if len(values) == 1 else None
    return only if isinstance(only, bool) else None


def _alike(one: SequenceValue, two: SequenceValue) -> bool:
    return (one.part, one.is_batch_first) == (two.part, two.is_batch_first)


def _calls(
    node: ast.expr, function: Function, line: int, index: ProjectIndex
) -> Iterator[tuple[ast.Call, tuple[int, ...], int]]:
    """Yield the calls whose result, or a part of it, an expression of a function is."""
    if isinstance(node, ast.Call):
        yield node, (), line
    elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
        at = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(at, int):
            yield node.value, (at,), line
    elif isinstance(node, ast.Name):
        found = index.bindings(node.id, function, line)
        for each in found.assignments if found.is_whole else ():
            if each.is_augmented or each.block.function is not function or each.value is node:
                return
            yield from _assigned(each, function, index)


def _assigned(
    found: Assignment, function: Function, index: ProjectIndex
) -> Iterator[tuple[ast.Call, tuple[int, ...], int]]:
    if not found.is_unpacked:
        yield from _calls(found.value, function, found.line, index)
    elif isinstance(found.value, ast.Call) and isinstance(found.statement, ast.Assign):
        place = _place(found.statement.targets[0], found.node)
        if place is not None:
            yield found.value, place, found.line


def _place(target: ast.expr, node: ast.expr) -> tuple[int, ...] | None:
    """Return the position of a name in the targets of an assignment: `(1, 0)` for `h` of `out, (h, c) = ...`."""
    if target is node:
        return ()
    if not isinstance(target, ast.Tuple | ast.List) or any(isinstance(each, ast.Starred) for each in target.elts):
        return None
    for at, each in enumerate(target.elts):
        inner = _place(each, node)
        if inner is not None:
            return (at, *inner)
    return None


def _given(
    call: ast.Call, place: tuple[int, ...], function: Function, line: int, index: ProjectIndex
) -> SequenceValue | None:
    made = layer_called(call, function, line, index)
    if made is None:
        return None
    owner = function if made is call else _maker(call.func, function, line, index)
    name = resolve(dotted(made.func), owner)
    first = is_batch_first(made, owner, line, index)
    part = _part(name, place)
    if first is None or part is None or _is_single(call):
        return None
    both = next((keyword.value for keyword in made.keywords if keyword.arg == "bidirectional"), None)
    return SequenceValue(
        tail_of(name), part, first, isinstance(both, ast.Constant) and both.value is True, call.lineno, made
    )


def _part(name: str, place: tuple[int, ...]) -> SequencePart | None:
    """Return the part of a layer's result that stands at a position."""
    if name in _RECURRENT:
        if place == (0,):
            return SequencePart.OUTPUT
        return SequencePart.STATE if place == ((1, 0) if name == "torch.nn.LSTM" else (1,)) else None
    wanted = (0,) if name in {_PADDED, "torch.nn.MultiheadAttention"} else ()
    return SequencePart.OUTPUT if place == wanted else None


def _maker(called: ast.expr, function: Function, line: int, index: ProjectIndex) -> Function:
    origins = index.origins(called, function, line)
    return origins[0].function if origins else function


def _layer_made(value: ast.expr, function: Function, line: int, index: ProjectIndex) -> ast.Call | None:
    while (inner := wrapped(value)) is not None:
        value = inner
    if isinstance(value, ast.Call) and resolve(dotted(value.func), function) in _STACKS:
        given = [*value.args[:1], *(each.value for each in value.keywords if (each.arg or "").endswith("_layer"))]
        made = [each.value for each in index.origins(given[0], function, line)] if given else []
        value = made[0] if len(made) == 1 else value
    is_layer = isinstance(value, ast.Call) and resolve(dotted(value.func), function) in _RECURRENT | _ATTENTION
    return value if isinstance(value, ast.Call) and is_layer else None


def _is_single(call: ast.Call) -> bool:
    """Return whether a layer is given a batch of one that is put in by hand, so that its axis may be taken out."""
    given = call.args[0] if call.args else None
    return isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr in _RESHAPING


def last_steps(function: Function) -> Iterator[tuple[ast.Subscript, ast.expr, int]]:
    """Yield where a function takes the last position along axis 0 or 1: the node, what it is taken of, the axis."""
    for node, axis, at in positions(function):
        if at == -1:
            yield node, node.value, axis


def positions(function: Function) -> Iterator[tuple[ast.Subscript, int, int]]:
    """Yield where a function takes one position along axis 0 or 1 that is written out, and all of the other axes."""
    for each in function.file.once("subscripts by function", lambda: _subscripts_by_function(function.file)).get(
        function, ()
    ):
        index = each.slice
        if (at := written(index)) is not None:
            yield each, 0, at
        elif (
            isinstance(index, ast.Tuple) and len(index.elts) > 1 and all(map(_is_all, index.elts[:1] + index.elts[2:]))
        ):
            at = written(index.elts[1])
            if at is not None:
                yield each, 1, at


def _subscripts_by_function(file: FileTables) -> dict[Function, list[ast.Subscript]]:
    return {function: list(_own_subscripts(function)) for function in file.functions if not function.is_module}


def _own_subscripts(function: Function) -> Iterator[ast.Subscript]:
    nodes: list[ast.AST] = list(getattr(function.node, "body", ()))
    while nodes:
        node = nodes.pop(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            yield node
        nodes += below(node)


def _is_all(node: ast.expr) -> bool:
    """Return whether a part of an index is `:`."""
    return isinstance(node, ast.Slice) and node.lower is None and node.upper is None and node.step is None
