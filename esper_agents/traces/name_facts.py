"""Facts about names of the failing line: assignments, hidden functions, empty lengths."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Location
from esper_agents.traces.dataflow import stored_names
from esper_agents.traces.facts import TraceFact, fact, function_of
from esper_agents.traces.program_index import made_value, own_nodes, place_of
from esper_agents.traces.scopes import assigned_values
from esper_agents.traces.value_facts import failing_node, origin_text, shown

if TYPE_CHECKING:
    from esper_agents.traces.facts import FactContext

_BLOCKS = (ast.For, ast.While, ast.If)


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
