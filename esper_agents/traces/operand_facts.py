"""Facts about the operands of the failing line: their sizes, their dtypes and where they were made."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Location
from esper_agents.traces.dataflow import assignments, loaded_names
from esper_agents.traces.facts import TraceFact, fact, function_of, tree_of
from esper_agents.traces.scopes import enclosing_function, marked_node, parameters_of, statement_at
from esper_agents.traces.value_facts import origin_text, tracer_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.traces.facts import FactContext
    from esper_agents.traces.locate import LocatedFrame

_LONGEST = 60
_LETTER = re.compile(
    r"subscript (?P<letter>\w) has size (?P<got>\d+) for operand (?P<operand>\d+) which does not broadcast with"
    r" previously seen size (?P<seen>\d+)"
)
_LETTERS = re.compile(
    r"number of subscripts in the equation \((?P<letters>\d+)\) does not match the number of dimensions"
    r" \((?P<dimensions>\d+)\) for operand (?P<operand>\d+)"
)
_CONSTANT_SIDES = (ast.Constant, ast.UnaryOp)


@fact
def einsum_operands(context: FactContext) -> TraceFact | None:
    """Return the operands of an einsum that give one letter two sizes, each with the place where it was made."""
    frame, named = _frame(context), _LETTER.search(context.trace.message)
    call = next(iter(_einsums(_statement(context))), None)
    if frame is None or call is None or named is None:
        return None
    letter = named["letter"]
    equation = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
    terms = str(equation).replace(" ", "").partition("->")[0].split(",") if isinstance(equation, str) else []
    operands, number = call.args[1:], int(named["operand"])
    if len(terms) != len(operands) or number >= len(terms) or letter not in terms[number]:
        return None
    other = next((at for at, term in enumerate(terms) if letter in term and at != number), None)
    if other is None:
        return None
    sizes = int(named["got"]), int(named["seen"])
    second = f"{_told(context, operands[number], sizes[0])} of `{terms[number]}`"
    first = f"{_told(context, operands[other], sizes[1])} of `{terms[other]}`"
    return TraceFact({**named.groupdict(), "second": second, "first": first})


@fact
def einsum_dimensions(context: FactContext) -> TraceFact | None:
    """Return the operand of an einsum whose number of dimensions is not that of its letters."""
    frame, named = _frame(context), _LETTERS.search(context.trace.message)
    call = next(iter(_einsums(_statement(context))), None)
    if frame is None or call is None or named is None or int(named["operand"]) >= len(call.args) - 1:
        return None
    return TraceFact({**named.groupdict(), "second": _told(context, call.args[int(named["operand"]) + 1])})


@fact
def broadcast_operands(context: FactContext) -> TraceFact | None:
    """Return both operands of the only operation of the line, each with the place where it was made."""
    frame, statement = _frame(context), _statement(context)
    if frame is None:
        return None
    marked = marked_node(tree_of(context, frame), frame.location.line, frame.frame.marked)
    parts = [marked] if isinstance(marked, ast.BinOp) else ast.walk(statement)
    pairs = [(each.left, each.right) for each in parts if isinstance(each, ast.BinOp)]
    if isinstance(statement, ast.AugAssign):
        pairs.append((statement.target, statement.value))
    pairs = [pair for pair in pairs if not any(isinstance(side, _CONSTANT_SIDES) for side in pair)]
    if len(pairs) != 1:
        return None
    sizes = (int(context.groups[name]) if name in context.groups else None for name in ("a", "b"))
    left, right = (_told(context, side, size) for side, size in zip(pairs[0], sizes, strict=True))
    return TraceFact({"left": left, "right": right})


@fact
def assertion_sides(context: FactContext) -> TraceFact | None:
    """Return both sides of a failed comparison, each with the place where its values come from."""
    frame, statement = _frame(context), _statement(context)
    test = statement.test if isinstance(statement, ast.Assert) else None
    if frame is None or not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    sides = [_told(context, side) for side in (test.left, test.comparators[0])]
    is_shape = ".shape" in ast.unparse(test) or ".size(" in ast.unparse(test)
    return TraceFact({"left": sides[0], "right": sides[1], "kind": "shapes" if is_shape else "values"})


@fact
def made_under_autocast(context: FactContext) -> TraceFact | None:
    """Return a value that an autocast region made in half precision and the failing line uses outside of it."""
    for frame in context.frames:
        tree = tree_of(context, frame)
        function = enclosing_function(tree, frame.location.line) or tree
        statement = statement_at(tree, frame.location.line)
        if function is None or _region_around(function, frame.location.line) is not None:
            continue
        used = loaded_names(statement)
        for names, value, line in assignments(function):
            region = _region_around(function, line)
            if region is not None and line < frame.location.line and names & used and _is_computed(value):
                values = {
                    "made": min(names & used),
                    "made_at": str(Location(frame.location.path, line)),
                    "region_at": str(Location(frame.location.path, region.lineno)),
                }
                return TraceFact(values, Location(frame.location.path, frame.location.line))
    return None


@fact
def line_under_autocast(context: FactContext) -> TraceFact | None:
    """Return the autocast region around the failing line."""
    function, frame = function_of(context)
    region = _region_around(function, frame.location.line) if function is not None and frame is not None else None
    if region is None or frame is None:
        return None
    return TraceFact({"region_at": str(Location(frame.location.path, region.lineno))})


def _frame(context: FactContext) -> LocatedFrame | None:
    return context.frames[0] if context.frames and context.sources is not None else None


def _statement(context: FactContext) -> ast.AST:
    frame = _frame(context)
    return statement_at(tree_of(context, frame), frame.location.line) if frame is not None else ast.Module([], [])


def _einsums(statement: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(statement):
        name = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and name == "einsum" and len(node.args) > 1:
            yield node


def _told(context: FactContext, value: ast.expr, size: int | None = None) -> str:
    """Return an operand in code marks, with where it comes from if that is known."""
    text = f"`{ast.unparse(value)[:_LONGEST]}`"
    origin = _origin(context, value, size)
    return f"{text} ({origin})" if origin else text


def _origin(context: FactContext, value: ast.expr, size: int | None) -> str:
    """Return where a value comes from: where it is made, else the caller that passes it."""
    tracer = tracer_of(context)
    scope = tracer.frame_scope(0)
    name = next(iter(_bases(value)), None)
    if name is None:
        return ""
    if text := origin_text(tracer, name, scope, size):
        return text
    function = scope.function
    if function is not None and isinstance(name, ast.Name) and name.id in parameters_of(function):
        caller = context.frames[1].location if len(context.frames) > 1 else None
        passed = f", passed at {caller}" if caller is not None else ""
        return f"an argument of `{function.name}`{passed}"
    return ""


def _bases(value: ast.expr) -> Iterator[ast.expr]:
    """Yield the name or the attribute of self that a value begins with."""
    node: ast.expr = value
    while True:
        match node:
            case ast.Name() | ast.Attribute(value=ast.Name(id="self")):
                yield node
                return
            case ast.Attribute(value=inner) | ast.Subscript(value=inner):
                node = inner
            case ast.Call(func=ast.Attribute(value=inner)) if not isinstance(inner, ast.Name) or inner.id != "self":
                node = inner
            case ast.Call(func=ast.Name(id="len"), args=[inner]):
                node = inner
            case _:
                return


def _region_around(function: ast.AST, line: int) -> ast.With | None:
    """Return the innermost `with autocast(...)` of a function that contains a line."""
    regions = [
        each
        for each in ast.walk(function)
        if isinstance(each, ast.With)
        and each.body[0].lineno <= line <= (each.end_lineno or 0)
        and any("autocast" in ast.unparse(item.context_expr) for item in each.items)
    ]
    return max(regions, key=lambda each: each.lineno, default=None)


def _is_computed(value: ast.expr) -> bool:
    """Return whether a value comes from a call that autocast may run in half precision, without a cast back."""
    text = ast.unparse(value)
    return "(" in text and not text.endswith((".float()", ".double()")) and "float32" not in text
