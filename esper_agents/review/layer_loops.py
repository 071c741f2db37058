"""Which names surely hold a layer of torch: by an `isinstance` around, or by how what a loop goes over was picked."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.blocks import BlockKind
from esper_agents.review.conditions import tests_around
from esper_agents.review.index import Origin
from esper_agents.review.names import dotted, walk
from esper_agents.review.objects import resolve
from esper_agents.review.patterns import pattern
from esper_agents.review.unpacked import called_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Function

LAYERS = pattern(
    r"torch\.nn\.(?:Linear|Bilinear|Conv\w+|BatchNorm\w+|LayerNorm|GroupNorm|InstanceNorm\w+|Embedding(?:Bag)?|PReLU)"
)
_AS_IT_IS = frozenset({"list", "tuple", "reversed", "sorted"})
_LEAVING = (ast.Continue, ast.Return, ast.Break, ast.Raise)
_STEPS = 3


def is_picked_layer(path: str, block: Block, line: int, index: ProjectIndex) -> bool:
    """Return whether a test around a block, or one that leaves its loop before a line, lets through layers alone."""
    function = block.function
    held = [each.node.test for each in block.chain() if each.kind is BlockKind.IF and isinstance(each.node, ast.If)]
    if any(_asks(test, path, function, index) for test in held):
        return True
    if any(_asks(test, path, function, index) for test in _passed(block, line)):
        return True
    found = [each for each in function.assignments.get(path, ()) if not each.is_augmented]
    return bool(found) and all(_is_drawn_layer(each, index) for each in found)


def _passed(block: Block, line: int) -> Iterator[ast.expr]:
    """Yield what held in a loop, or else it had been left above a line."""
    for loop in block.loops():
        if isinstance(loop.node, ast.For):
            yield from _guards(loop.node, line)


def _guards(loop: ast.For, line: int) -> Iterator[ast.expr]:
    """Yield what a loop asks for above a line, and else goes on: `if not isinstance(m, Linear): continue`."""
    for each in loop.body:
        is_guard = isinstance(each, ast.If) and each.lineno < line and isinstance(each.body[-1], _LEAVING)
        test = each.test if is_guard and isinstance(each, ast.If) else None
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            yield test.operand


def _asks(test: ast.expr, path: str, function: Function, index: ProjectIndex) -> bool:
    """Return whether a test that holds says that a path is a layer."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(_asks(value, path, function, index) for value in test.values)
    if not isinstance(test, ast.Call) or dotted(test.func) != "isinstance" or len(test.args) < 2:  # noqa: PLR2004 - what, and of which kind
        return False
    return dotted(test.args[0]) == path and _are_layers(test.args[1], function, test.lineno, index)


def _are_layers(kinds: ast.expr, function: Function, line: int, index: ProjectIndex) -> bool:
    if isinstance(kinds, ast.Tuple):
        return bool(kinds.elts) and all(_are_layers(elt, function, line, index) for elt in kinds.elts)
    if isinstance(kinds, ast.BinOp):
        return all(_are_layers(each, function, line, index) for each in (kinds.left, kinds.right))
    if LAYERS.fullmatch(resolve(dotted(kinds), function)):
        return True
    made = [origin for origin in index.origins(kinds, function, line) if origin.value is not kinds]
    return bool(made) and all(_are_layers(each.value, each.function, each.line, index) for each in made)


def _is_drawn_layer(found: Assignment, index: ProjectIndex) -> bool:
    """Return whether a loop draws a layer under this name, because only layers were picked into what it goes over."""
    statement = found.statement
    if not isinstance(statement, ast.For):
        return False
    target = statement.target
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    at = next((place for place, each in enumerate(parts) if each is found.node), None)
    if at is None:
        return False
    place = at if len(parts) > 1 else None
    return _picks(Origin(found.value, found.block.function, found.line), place, index, _STEPS)


def _picks(origin: Origin, place: int | None, index: ProjectIndex, steps: int) -> bool:
    """Return whether something holds layers alone, or tuples with one at a place."""
    over, function, line = origin.value, origin.function, origin.line
    match over if steps else None:
        case None:
            return False
        case ast.ListComp(elt=given, generators=drawn) | ast.GeneratorExp(elt=given, generators=drawn):
            tests = [test for each in drawn for test in each.ifs]
            return _is_tested(given, place, tests, function, index)
        case ast.Call(func=ast.Name(id="filter"), args=[ast.Lambda() as picking, _]):
            names = [arg.arg for arg in picking.args.args]
            return place is None and bool(names) and _asks(picking.body, names[0], function, index)
        case ast.Call(func=ast.Name(id=name), args=[inner]) if name in _AS_IT_IS:
            return _picks(Origin(inner, function, line), place, index, steps - 1)
        case ast.Call():
            called = called_by(over, function, index)
            return bool(called) and all(_hands_out(each, place, index, steps - 1) for each in called)
        case _:
            made = [each for each in index.origins(over, function, line) if each.value is not over]
            return bool(made) and all(
                (isinstance(each.value, ast.List) and _gathers(dotted(over), place, each.function, index))
                or _picks(each, place, index, steps - 1)
                for each in made
            )


def _is_tested(
    given: ast.expr, place: int | None, tests: Iterable[ast.expr], function: Function, index: ProjectIndex
) -> bool:
    parts = given.elts if isinstance(given, ast.Tuple) else [given]
    if (place is None) is isinstance(given, ast.Tuple) or (place or 0) >= len(parts):
        return False
    path = dotted(parts[place or 0])
    return bool(path) and any(_asks(test, path, function, index) for test in tests)


def _gathers(path: str, place: int | None, function: Function, index: ProjectIndex) -> bool:
    """Return whether only layers are appended to a list."""
    added = [call for call in function.calls if call.receiver == path and call.tail == "append" and call.node.args]
    return bool(added) and all(
        _is_tested(each.node.args[0], place, tests_around(each.block, function.block), function, index)
        for each in added
    )


def _hands_out(called: Function, place: int | None, index: ProjectIndex, steps: int) -> bool:
    """Return whether a function yields layers alone, or hands back a list of them."""
    given = [each.value for each in walk(called.node) if isinstance(each, ast.Yield) and each.value is not None]
    if given:
        return all(_is_tested(each, place, _tests_over(each, called), called, index) for each in given)
    return bool(called.returns) and all(
        statement.value is not None and _picks(Origin(statement.value, called, statement.lineno), place, index, steps)
        for statement, _ in called.returns
    )


def _tests_over(node: ast.expr, function: Function) -> Iterator[ast.expr]:
    """Yield what must hold in a function where an expression is reached."""
    for each in walk(function.node):
        if isinstance(each, ast.If | ast.For) and any(part is node for inner in each.body for part in walk(inner)):
            yield from [each.test] if isinstance(each, ast.If) else _guards(each, node.lineno)
