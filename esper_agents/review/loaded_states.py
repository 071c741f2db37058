"""Where the weights come from that a module is given."""

from __future__ import annotations

import ast
import re
from enum import Enum, auto
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, root_of, tail_of
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Function

_STEPS = 6
_READING = pattern(r"(?:\w*_)?(?:load|read|restore|download|fetch|from_url|from_pretrained|open)(?:_\w+)?")
_FROM_FILE = pattern(r"(?:\w*_)?(?:checkpoints?|ckpt|chkpt|path|file|filename|pretrained)(?:_\w+)?", re.IGNORECASE)
_PRETRAINED = pattern(r"pretrained|weights=")


class Source(Enum):
    """What a state is: read from a file, said key by key, that of an object in memory, or unknown."""

    FILE = auto()
    SAID = auto()
    MEMORY = auto()
    UNKNOWN = auto()


def source_of(value: ast.expr, load: Call, index: ProjectIndex) -> Source:
    """Return where the state that a call loads comes from."""
    found = set(_sources(value, load.function, load.line, index, _STEPS))
    for each in (Source.FILE, Source.UNKNOWN, Source.MEMORY, Source.SAID):
        if each in found:
            return each
    return Source.UNKNOWN


def _sources(value: ast.expr, function: Function, line: int, index: ProjectIndex, steps: int) -> Iterator[Source]:
    match value:
        case ast.Dict(keys=keys, values=values):
            is_said = all(isinstance(each, ast.Constant) for each in keys)
            spread = [part for key, part in zip(keys, values, strict=True) if key is None]
            yield Source.SAID if is_said and keys else Source.UNKNOWN
            for each in spread:
                yield from _sources(each, function, line, index, steps)
        case ast.DictComp(generators=[ast.comprehension(iter=over), *_]):
            yield from _sources(over, function, line, index, steps)
        case ast.Subscript(value=whole):
            yield from _sources(whole, function, line, index, steps)
        case ast.BoolOp(values=parts) | ast.Tuple(elts=parts):
            for each in parts:
                yield from _sources(each, function, line, index, steps)
        case ast.IfExp(body=body, orelse=orelse):
            yield from _sources(body, function, line, index, steps)
            yield from _sources(orelse, function, line, index, steps)
        case ast.Call():
            yield from _of_call(value, function, line, index, steps)
        case ast.Name() | ast.Attribute():
            yield from _of_name(value, function, line, index, steps)
        case _:
            yield Source.UNKNOWN


def _of_call(value: ast.Call, function: Function, line: int, index: ProjectIndex, steps: int) -> Iterator[Source]:
    path = dotted(value.func)
    tail = tail_of(path)
    if _READING.fullmatch(tail) or _READING.search(path.partition("(")[0].rpartition(".")[2]):
        yield Source.FILE
    elif tail == "state_dict" and isinstance(value.func, ast.Attribute):
        made = index.bindings(dotted(value.func.value), function, line).assignments
        is_pretrained = any(_PRETRAINED.search(ast.unparse(each.value)) for each in made)
        yield Source.FILE if is_pretrained else Source.MEMORY
    elif (
        isinstance(value.func, ast.Attribute) and root_of(path) not in function.file.imports and path != f"self.{tail}"
    ):
        yield from _sources(value.func.value, function, line, index, steps)
    elif value.args:
        for arg in value.args[:1]:
            yield from _sources(arg, function, line, index, steps)
    else:
        yield Source.UNKNOWN


def _of_name(
    value: ast.Name | ast.Attribute, function: Function, line: int, index: ProjectIndex, steps: int
) -> Iterator[Source]:
    path = dotted(value)
    found = index.bindings(path, function, line).assignments if steps else ()
    for each in found:
        if isinstance(each.statement, ast.For | ast.AsyncFor):
            yield Source.UNKNOWN
        elif _is_empty(each.value):
            yield from _filled(path, each.block.function, index, steps)
        else:
            yield from _sources(each.value, each.block.function, each.line, index, steps - 1)
    if not found:
        is_told = _FROM_FILE.fullmatch(tail_of(path)) is not None
        yield Source.FILE if is_told else Source.UNKNOWN


def _is_empty(value: ast.expr) -> bool:
    """Return whether a value is an empty dictionary, to be filled."""
    if isinstance(value, ast.Dict):
        return not value.keys
    return isinstance(value, ast.Call) and not value.args and tail_of(dotted(value.func)) in {"dict", "OrderedDict"}


def _filled(path: str, function: Function, index: ProjectIndex, steps: int) -> Iterator[Source]:
    """Yield where the values come from that are put into a dictionary one by one."""
    stores = function.assignments.get(f"{path}[]", ())
    for store in stores:
        loop = store.block.loop.node if store.block.loop is not None else None
        if isinstance(loop, ast.For) and steps:
            yield from _sources(loop.iter, function, loop.lineno, index, steps - 1)
        elif isinstance(store.node, ast.Subscript) and isinstance(store.node.slice, ast.Constant):
            yield Source.SAID
        else:
            yield Source.UNKNOWN
    if not stores:
        yield Source.UNKNOWN
