"""Loops over the samples or the elements of one tensor: what they go over, and what in them depends on the round."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.blocks import BlockKind
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, FileTables, Function

_BATCH_SIZE = pattern(r"B|bs|bsz|N|batch_?size|n_?batch|num_?samples|n_?samples|self\.batch_?size|batch_?len")
_WRAPPINGS = frozenset({"tqdm", "trange", "list", "tuple", "reversed", "iter", "track", "progress_bar"})
_STEPS = 4
# What hands out more than a sample, its label and one more is a reader of files or a stream.
_FIELDS = 3
_DATA_SET = pattern(r"data_?set|(?:train|val|valid|test|eval)_?(?:set|data)$|^data$|(?:^|_)ds$", re.IGNORECASE)
# Methods that give back the same rows as an array.
_ARRAYS = frozenset({"to_numpy", "numpy", "cpu", "detach", "flatten", "ravel"})


@dataclass(frozen=True, slots=True)
class Over:
    """What a loop goes over.

    Attributes:
        path: The value whose axis or elements these are; empty where only a size is known.
        axis: The axis.
        counter: The name that counts the rounds; empty where there is none.
        element: The name that holds the element of the round; empty where there is none.
        is_tensor: Whether the way it is asked says that it is a tensor: `x.size(0)`, `x.unbind()`.
        has_shape: Whether it is at least an array: `x.shape[0]`.
    """

    path: str
    axis: int
    counter: str = ""
    element: str = ""
    is_tensor: bool = False
    has_shape: bool = False


def sample_loops(file: FileTables, index: ProjectIndex) -> dict[Block, tuple[Over, ...]]:
    """Return the loops of a file that go over something that can be told, each with what that is."""
    return index.once(("sample loops", file.path), lambda: _sample_loops(file))


def _sample_loops(file: FileTables) -> dict[Block, tuple[Over, ...]]:
    kinds = {BlockKind.FOR, BlockKind.COMPREHENSION, BlockKind.WHILE}
    loops = [block for function in file.functions for block in function.blocks if block.kind in kinds]
    found = ((block, overs(block)) for block in loops)
    return {block: over for block, over in found if over}


def overs(loop: Block) -> tuple[Over, ...]:
    """Return what a loop goes over, each part of a `zip` for itself."""
    if isinstance(loop.node, ast.While):
        return tuple(_stepped(loop, loop.node))
    target, rounds = _head(loop)
    if target is None or rounds is None:
        return ()
    return tuple(_over(target, rounds, loop.function, loop.node.lineno))  # type: ignore[attr-defined]


def _head(loop: Block) -> tuple[ast.expr | None, ast.expr | None]:
    node = loop.node
    if isinstance(node, ast.For | ast.AsyncFor):
        return node.target, node.iter
    if loop.kind is BlockKind.COMPREHENSION:
        for each in getattr(node, "generators", ()):
            if tuple(_names(each.target)) == loop.targets:
                return each.target, each.iter
    return None, None


def _stepped(loop: Block, node: ast.While) -> Iterator[Over]:
    """Yield what `while i < len(x):` goes over, where it goes on by one."""
    test = node.test
    if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name) or not isinstance(test.ops[0], ast.Lt):
        return
    steps = [each for each in loop.function.assignments.get(test.left.id, ()) if each.block.within(loop)]
    if len(steps) == 1 and steps[0].is_augmented and _integer(steps[0].value) == 1:
        yield from _counted(test.left, test.comparators[0], loop.function, node.lineno)


def _names(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Tuple | ast.List):
        for elt in target.elts:
            yield from _names(elt)
    elif isinstance(target, ast.Starred):
        yield from _names(target.value)
    else:
        yield dotted(target)


def _over(target: ast.expr, rounds: ast.expr, function: Function, line: int) -> Iterator[Over]:
    name = tail_of(dotted(rounds.func)) if isinstance(rounds, ast.Call) else ""
    arguments = rounds.args if isinstance(rounds, ast.Call) else []
    if name == "enumerate" and arguments and isinstance(target, ast.Tuple) and len(target.elts) == 2:  # noqa: PLR2004
        counter = dotted(target.elts[0])
        for each in _over(target.elts[1], arguments[0], function, line):
            yield Over(each.path, each.axis, counter, each.element, each.is_tensor, each.has_shape)
    elif name == "zip" and isinstance(target, ast.Tuple) and len(target.elts) == len(arguments):
        for part, value in zip(target.elts, arguments, strict=True):
            yield from _over(part, value, function, line)
    elif name in _WRAPPINGS and arguments:
        inner = arguments[0]
        yield from _counted(target, inner, function, line) if name == "trange" else _over(target, inner, function, line)
    elif name == "range" and arguments:
        starts_at_zero = len(arguments) == 1 or (isinstance(arguments[0], ast.Constant) and arguments[0].value == 0)
        if starts_at_zero:
            yield from _counted(target, arguments[min(len(arguments), 2) - 1], function, line)
    else:
        yield from _handed_out(target, rounds)


def _handed_out(target: ast.expr, rounds: ast.expr) -> Iterator[Over]:
    """Yield what a loop goes over whose target is its elements, or a data set's samples with their labels."""
    if isinstance(target, ast.Name):
        yield from _elements(target.id, rounds)
    elif isinstance(target, ast.Tuple) and isinstance(rounds, ast.Name | ast.Attribute):
        is_data_set = _DATA_SET.search(tail_of(dotted(rounds))) is not None and len(target.elts) <= _FIELDS
        yield from (Over(dotted(rounds), 0, "", name) for name in _names(target) if is_data_set)


def _elements(element: str, rounds: ast.expr) -> Iterator[Over]:
    if isinstance(rounds, ast.Name | ast.Attribute | ast.Subscript):
        yield Over(dotted(rounds), 0, "", element)
    elif isinstance(rounds, ast.Call) and isinstance(rounds.func, ast.Attribute) and rounds.func.attr in _ARRAYS:
        yield Over(dotted(rounds.func.value), 0, "", element)
    elif isinstance(rounds, ast.Call) and tail_of(dotted(rounds.func)) == "unbind":
        is_method = isinstance(rounds.func, ast.Attribute) and dotted(rounds.func.value) != "torch"
        value = rounds.func.value if is_method else rounds.args[0] if rounds.args else None  # type: ignore[attr-defined]
        axes = rounds.args if is_method else rounds.args[1:]
        named = [keyword.value for keyword in rounds.keywords if keyword.arg == "dim"]
        axis = _integer((axes or named or [ast.Constant(0)])[0])
        if value is not None and axis is not None:
            yield Over(dotted(value), axis, "", element, is_tensor=True, has_shape=True)


def _counted(target: ast.expr, size: ast.expr, function: Function, line: int) -> Iterator[Over]:
    if not isinstance(target, ast.Name):
        return
    found = _size(size, function, line, _STEPS)
    if found is not None:
        yield Over(found.path, found.axis, target.id, "", found.is_tensor, found.has_shape)


def _size(size: ast.expr, function: Function, line: int, steps: int) -> Over | None:
    """Return of what an expression is the size: `x.size(0)`, `x.shape[0]`, `len(x)`, or a name bound to one."""
    if isinstance(size, ast.Call) and isinstance(size.func, ast.Attribute) and size.func.attr == "size" and size.args:
        axis = _integer(size.args[0])
        return None if axis is None else Over(dotted(size.func.value), axis, is_tensor=True, has_shape=True)
    if isinstance(size, ast.Subscript):
        axis, whole = _integer(size.slice), size.value
        if axis is not None and isinstance(whole, ast.Attribute) and whole.attr == "shape":
            return Over(dotted(whole.value), axis, has_shape=True)
        return None
    if isinstance(size, ast.Call) and dotted(size.func) == "len" and len(size.args) == 1:
        return Over(dotted(size.args[0]), 0)
    if isinstance(size, ast.Name | ast.Attribute):
        return _named_size(dotted(size), function, line, steps)
    return None


def _named_size(path: str, function: Function, line: int, steps: int) -> Over | None:
    last = function.last_assignment(path, line + 1)
    if last is None or last.is_augmented or not steps:
        return Over("", 0) if _BATCH_SIZE.fullmatch(path) else None
    if not last.is_unpacked:
        found = _size(last.value, function, last.line, steps - 1)
        return found or (Over("", 0) if _BATCH_SIZE.fullmatch(path) else None)
    return _unpacked_size(path, last)


def _unpacked_size(path: str, found: Assignment) -> Over | None:
    """Return of what a name is the size that was unpacked from a shape: `B, C, H, W = x.shape`."""
    statement, value = found.statement, found.value
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Tuple):
        return None
    names = [dotted(elt) for elt in statement.targets[0].elts]
    if path not in names or any(isinstance(elt, ast.Starred) for elt in statement.targets[0].elts):
        return None
    axis = names.index(path)
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice) and value.slice.lower is None:
        value = value.value
    if isinstance(value, ast.Attribute) and value.attr == "shape":
        return Over(dotted(value.value), axis, has_shape=True)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "size":
        return Over(dotted(value.func.value), axis, is_tensor=True, has_shape=True) if not value.args else None
    return None


def _integer(node: ast.expr) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return -node.operand.value if isinstance(node.operand.value, int) else None
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else None


def indices(node: ast.Subscript) -> list[ast.expr]:
    """Return the indices of a subscript, outermost axis first: those of `x[i, j]` and of `x[i][j]` are the same."""
    own = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    return [*indices(node.value), *own] if isinstance(node.value, ast.Subscript) else own


def picks(node: ast.expr, counter: str, axis: int = 0) -> bool:
    """Return whether an expression takes the round's own sample out of a tensor: `x[i]`, `x[i, :]`, `x[i:i + 1]`."""
    if not isinstance(node, ast.Subscript) or not counter:
        return False
    parts = indices(node)
    if not 0 <= axis < len(parts):
        return False
    part = parts[axis]
    if isinstance(part, ast.Slice):
        return isinstance(part.lower, ast.Name) and part.lower.id == counter and _is_next(part.upper, counter)
    return isinstance(part, ast.Name) and part.id == counter


def _is_next(upper: ast.expr | None, counter: str) -> bool:
    return (
        isinstance(upper, ast.BinOp)
        and isinstance(upper.op, ast.Add)
        and isinstance(upper.left, ast.Name)
        and upper.left.id == counter
        and _integer(upper.right) == 1
    )


def bound_in(
    name: str, function: Function, loop: Block, line: int, *, with_unpacked: bool = False
) -> Assignment | None:
    """Return the last plain binding of a name above a line that a loop itself makes in every round."""
    found = None
    for each in function.assignments.get(name, ()):
        if each.line < line and each.block.within(loop) and each.statement is not loop.node:
            found = each
    if found is None or found.is_augmented or (found.is_unpacked and not with_unpacked):
        return None
    return found


def annotation_of(path: str, function: Function) -> str:
    """Return the annotation of a parameter as source; empty where there is none."""
    node = function.node
    if isinstance(node, ast.Module):
        return ""
    listed = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    found = next((each.annotation for each in listed if each.arg == path), None)
    return ast.unparse(found) if found is not None else ""


def may_be_list(path: str, loop: Block) -> bool:
    """Return whether the code says that a path may hold a list, whose tensors may differ in size."""
    annotation = annotation_of(path, loop.function)
    if re.search(r"\b(?:list|List|Sequence|Iterable|tuple|Tuple|dict|Dict)\b", annotation):
        return True
    return any(
        isinstance(each, ast.Call) and dotted(each.func) == "isinstance" and each.args and dotted(each.args[0]) == path
        for block in loop.chain()
        if isinstance(block.node, ast.If)
        for each in walk(block.node.test)
    )
