"""Facts about names of the failing line: assignments, hidden functions, empty lengths."""

from __future__ import annotations

import ast
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Location
from esper_agents.traces.dataflow import stored_names
from esper_agents.traces.facts import TraceFact, fact, files_with, function_of
from esper_agents.traces.program_index import made_value, own_nodes, place_of
from esper_agents.traces.scopes import assigned_values
from esper_agents.traces.value_facts import failing_node, origin_text, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.traces.facts import FactContext
    from esper_agents.traces.program_index import CodeScope

_BLOCKS = (ast.For, ast.While, ast.If)
_MOST_WAYS, _MOST_DIVISORS = 4, 3
_QUOTED = re.compile(r"""(['"])(\w[\w .-]{2,60})\1""")


@fact
def assigned_in_block(context: FactContext) -> TraceFact | None:
    """Return the only line that assigns the name of the message, and the loop or condition around it."""
    function, frame = function_of(context)
    name = context.groups.get("name", "")
    if function is None or frame is None or not name:
        return None
    lines = {
        node.lineno
        for node in own_nodes(function)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and name in _targets(node)
    }
    blocks = [
        block
        for block in own_nodes(function)
        if isinstance(block, _BLOCKS) and len(lines) == 1 and block.lineno < min(lines) <= (block.end_lineno or 0)
    ]
    blocks = [each for each in blocks if not each.lineno <= frame.location.line <= (each.end_lineno or 0)]
    if not blocks:
        return None
    block = min(blocks, key=lambda each: each.lineno)
    path = frame.location.path
    head = ast.unparse(block).splitlines()[0].rstrip(":")
    values = {"block": shown(head), "block_at": str(Location(path, block.lineno))}
    return TraceFact({**values, "assigned_at": str(Location(path, min(lines)))})


@fact
def assigned_on_ways(context: FactContext) -> TraceFact | None:
    """Return the ways on which a function assigns the name of the message, with the value that leads to none of them.

    The value is one that the text quotes and that is near to a value which a way asks for.
    """
    function, frame = function_of(context)
    name = context.groups.get("name", "")
    if function is None or frame is None or not name:
        return None
    path = frame.location.path
    ways = list(dict.fromkeys(_ways(function, name)))
    if not ways or any(not tests for _, tests in ways):
        return None
    texts = [f"{Location(path, line)} only if `{shown(' and '.join(tests))}`" for line, tests in ways]
    asked = [value for _, tests in ways for test in tests for value in _asked_values(test)]
    quoted = {match[2] for match in _QUOTED.finditer(context.text)} - set(asked)
    near = [(value, close[0]) for value in sorted(quoted) if (close := get_close_matches(value, asked, 1, 0.75))]
    values = {
        "ways": "; ".join(texts[:_MOST_WAYS]),
        "asked": " or ".join(f"`{each!r}`" for each in dict.fromkeys(asked)),
    }
    given = {"given": repr(near[0][0]), "nearest": repr(near[0][1])} if len(near) == 1 else {}
    return TraceFact({**values, **given})


@fact
def value_not_foreseen(context: FactContext) -> TraceFact | None:
    """Return the ways on which a name is assigned, if the text quotes a value that is near to one that they ask for."""
    found = assigned_on_ways(context)
    return found if found is not None and "given" in found.values else None


@fact
def divisor_guarded_elsewhere(context: FactContext) -> TraceFact | None:
    """Return the lines that make the divisor, if the project catches the same division elsewhere."""
    found = divisor_made(context)
    return found if found is not None and "guarded_at" in found.values else None


def _ways(function: ast.AST, name: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the lines that assign a name in a function, with the tests of the branches around them."""
    pending: list[tuple[ast.AST, tuple[str, ...]]] = [(each, ()) for each in getattr(function, "body", [])]
    while pending:
        node, tests = pending.pop(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and name in _targets(node):
            yield node.lineno, tests
        if isinstance(node, ast.If):
            test = ast.unparse(node.test)
            pending += [(each, (*tests, test)) for each in node.body]
            pending += [
                (each, tests if isinstance(each, ast.If) else (*tests, f"not ({test})")) for each in node.orelse
            ]
        else:
            pending += [(each, tests) for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)]


def _asked_values(test: str) -> list[str]:
    """Return the texts that a test compares with."""
    nodes = ast.walk(ast.parse(test, mode="eval"))
    return [each.value for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def _targets(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {name for target in targets for name in stored_names(target)}


@fact
def called_name_assigned(context: FactContext) -> TraceFact | None:
    """Return the line of the function that gives a value to the name that the failing part calls."""
    found, (function, frame) = failing_node(context), function_of(context)
    if found is None or function is None or frame is None:
        return None
    names = {
        each.func.id for each in ast.walk(found[2]) if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)
    }
    values = [(name, value) for name in names for value in assigned_values(function, name)]
    values = [each for each in values if not isinstance(each[1], ast.Lambda) and each[1].lineno <= frame.location.line]
    if len(values) != 1:
        return None
    ((name, value),) = values
    place = Location(frame.location.path, value.lineno)
    return TraceFact({"called": name, "assigned": f"{name} = {shown(ast.unparse(value))}", "assigned_at": str(place)})


@fact
def zero_length(context: FactContext) -> TraceFact | None:
    """Return the only divisor of the failing part that is a length, with where what it counts is made."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    divisions = [
        each
        for each in ast.walk(node)
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div | ast.FloorDiv | ast.Mod)
    ]
    if len(divisions) != 1:
        return None
    length = tracer.last(divisions[0].right, scope)
    match length.node:
        case ast.Call(func=ast.Name(id="len"), args=[counted]):
            made = made_value(tracer.chain(counted, length.scope))
            text = origin_text(tracer, counted, length.scope)
            at = {"counted_from": text} if made is not None and place_of(made) != place_of(length) and text else {}
            return TraceFact({"length": ast.unparse(length.node), "counted": ast.unparse(counted), **at})
        case _:
            return None


@fact
def divisor_made(context: FactContext) -> TraceFact | None:
    """Return the lines that make the only divisor of the failing part, and where the project guards such a division."""
    found = failing_node(context)
    if found is None:
        return None
    _, scope, node = found
    divisors = [
        each.right
        for each in ast.walk(node)
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div | ast.FloorDiv | ast.Mod)
    ]
    if len(divisors) != 1 or not isinstance(divisors[0], ast.Name | ast.Attribute | ast.Subscript):
        return None
    steps = list(_made_by(divisors[0], scope, context))
    if not steps:
        return None
    made = ", ".join(f"{place} `{shown(text)}`" for place, text in steps[:_MOST_DIVISORS])
    guarded = _guarded(context, ast.unparse(divisors[0]))
    values = {"divisor": ast.unparse(divisors[0]), "made": made}
    return TraceFact({**values, "guarded_at": guarded} if guarded else values)


def _made_by(divisor: ast.expr, scope: CodeScope, context: FactContext) -> Iterator[tuple[str, str]]:
    """Yield the assignments before the failing line that a divisor is made by, the nearest first."""
    function, frame = function_of(context)
    if function is None or frame is None:
        return
    wanted, seen = {ast.unparse(divisor)}, set[int]()
    body = sorted(
        (each for each in own_nodes(function) if isinstance(each, ast.Assign | ast.AugAssign | ast.AnnAssign)),
        key=lambda each: -each.lineno,
    )
    for node in body:
        if node.lineno >= frame.location.line or node.lineno in seen or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if {ast.unparse(each) for target in targets for each in _stored(target)} & wanted:
            seen.add(node.lineno)
            wanted |= {
                ast.unparse(each)
                for each in ast.walk(node.value)
                if isinstance(each, ast.Name | ast.Attribute | ast.Subscript)
            }
            yield str(Location(scope.path, node.lineno)), ast.unparse(node)


def _stored(target: ast.expr) -> list[ast.expr]:
    return list(target.elts) if isinstance(target, ast.Tuple | ast.List) else [target]


def _guarded(context: FactContext, divisor: str) -> str:
    """Return where other code of the project catches the division by a divisor of that name; empty if none does."""
    if context.sources is None:
        return ""
    places = []
    for path in files_with(context.sources, "ZeroDivisionError", first=set()):
        for node in ast.walk(context.sources.tree(path) or ast.Module([], [])):
            is_caught = isinstance(node, ast.Try) and any(
                each.type is not None and "ZeroDivisionError" in ast.unparse(each.type) for each in node.handlers
            )
            lines = [
                each.lineno
                for statement in (node.body if isinstance(node, ast.Try) and is_caught else ())
                for each in ast.walk(statement)
                if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div) and ast.unparse(each.right) == divisor
            ]
            places += [str(Location(path, line)) for line in lines[:1]]
    return ", ".join(places[:_MOST_DIVISORS])
