"""Facts about functions of the project on the way of a value: cuts of its graph and writes into it."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Location
from esper_agents.traces.dataflow import NO_GRAPH, assignments, cut_off, loaded_names, names_behind
from esper_agents.traces.facts import TraceFact, fact, method_calls, tree_of
from esper_agents.traces.graph_facts import KEEPS_OUTPUT, out_of_place
from esper_agents.traces.program_index import called_name, own_nodes, place_of, returned_values
from esper_agents.traces.run_facts import functions_on_the_way
from esper_agents.traces.scopes import FunctionNode, parameters_of, statement_at
from esper_agents.traces.value_facts import failing_node, shown, tracer_of, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.traces.facts import FactContext
    from esper_agents.traces.origins import OriginTracer

_CONSTANTS = frozenset(("self", "torch", "nn", "F", "math", "np"))


@fact
def cut_on_the_way(context: FactContext) -> TraceFact | None:
    """Return the line of a function behind the loss through which all of its result loses its graph."""
    for frame in context.frames:
        tracer = tracer_of(context)
        calls = list(method_calls(statement_at(tree_of(context, frame), frame.location.line), "backward"))
        if not calls or not isinstance(calls[0].func, ast.Attribute):
            continue
        scope = tracer.index.scope_at(frame.location)
        for path, function in functions_on_the_way(tracer, calls[0].func.value, scope):
            if (found := _cut_of(function)) is not None:
                value, cut = found
                place = Location(path, value.lineno)
                values = {"cut_line": shown(ast.unparse(value)), "cut": cut, "cut_at": str(place)}
                return TraceFact({**values, "maker": function.name}, place)
    return None


def _cut_of(function: FunctionNode) -> tuple[ast.expr, str] | None:
    """Return the only value that cuts the result of a function off from all of its arguments."""
    returned = returned_values(function)
    if len(returned) != 1:
        return None
    cuts: list[tuple[ast.expr, str]] = []
    known = list(assignments(function))
    pending, seen = [returned[0]], set[str]()
    while pending:
        value = pending.pop()
        if cut := cut_off(value):
            cuts.append((value, cut))
            continue
        names = loaded_names(value) - seen
        seen |= names
        if names & set(parameters_of(function)) - _CONSTANTS or any(name.startswith("self.") for name in names):
            return None
        pending += [each for stored, each, _ in known if stored & names]
    return cuts[0] if len(cuts) == 1 and cuts[0][1].startswith(".") else None


@fact
def output_changed_in_callee(context: FactContext) -> TraceFact | None:
    """Return the line of a function that changes its argument in place, which the operation of the message made."""
    operation = re.sub(r"(?<!^)(?=[A-Z])", "_", context.groups.get("node", "").removesuffix("Backward")).lower()
    if context.sources is None or operation not in KEEPS_OUTPUT:
        return None
    tracer = tracer_of(context)
    found: dict[Location, TraceFact] = {}
    for path in tracer.index.paths:
        for function in (each for each in ast.walk(tracer.index.tree(path)) if isinstance(each, FunctionNode)):
            for write, name in _writes_into_arguments(function):
                if (kept := _made_by(tracer, function, name, operation)) is None:
                    continue
                text = ast.unparse(write)
                place = Location(path, write.lineno)
                values = {"name": name, "operation": operation, "kept_at": kept[0], "write": shown(text)}
                values |= {"call": kept[1], "call_at": kept[2], "maker": function.name, "rewrite": out_of_place(text)}
                found[place] = TraceFact(values, place)
    return next(iter(found.values())) if len(found) == 1 else None


def _writes_into_arguments(function: FunctionNode) -> Iterator[tuple[ast.stmt, str]]:
    """Yield the statements that change an argument in place before the function gives its name another value."""
    names = {name for name in parameters_of(function) if name != "self"}
    first = {
        name: min(line for stored, _, line in assignments(function) if name in stored)
        for name in names
        if any(name in stored for stored, _, _ in assignments(function))
    }
    for node in own_nodes(function):
        name, line = "", getattr(node, "lineno", 0)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            match node.value.func:
                case ast.Attribute(value=ast.Name(id=owner), attr=method) if re.fullmatch(r"[a-z]\w*[a-z0-9]_", method):
                    name = owner
        if name in names and isinstance(node, ast.stmt) and line <= first.get(name, line):
            yield node, name


def _made_by(tracer: OriginTracer, function: FunctionNode, name: str, operation: str) -> tuple[str, str, str] | None:
    """Return where an operation makes the argument of the only call of a function, and that call."""
    calls = tracer.index.calls_of(function.name)
    if len(calls) != 1:
        return None
    path, call = calls[0]
    scope = tracer.index.scope_of(call, path)
    passed = dict(zip([each for each in parameters_of(function) if each != "self"], call.args, strict=False))
    passed |= {each.arg: each.value for each in call.keywords if each.arg}
    if name not in passed:
        return None
    for step in tracer.chain(passed[name], scope):
        if isinstance(step.node, ast.Call) and called_name(step.node) == operation:
            return f"{step.scope.path}:{step.line}", shown(ast.unparse(call)), f"{path}:{call.lineno}"
    return None


@fact
def kept_with_graph(context: FactContext) -> TraceFact | None:
    """Return the only line of the project that keeps values with their graph in an attribute between calls."""
    if context.sources is None:
        return None
    tracer = tracer_of(context)
    found: dict[Location, TraceFact] = {}
    for path in tracer.index.paths:
        for owner in (each for each in ast.walk(tracer.index.tree(path)) if isinstance(each, ast.ClassDef)):
            for node, name in _kept(owner):
                text = shown(ast.unparse(node))
                place = Location(path, node.lineno)
                found[place] = TraceFact({"name": name, "kept_line": text, "kept_at": str(place)}, place)
    return next(iter(found.values())) if len(found) == 1 else None


def _kept(owner: ast.ClassDef) -> Iterator[tuple[ast.stmt, str]]:
    """Yield the statements that compute an attribute of tensors from itself, or add to a list that is summed."""
    text = ast.unparse(owner)
    for method in (each for each in owner.body if isinstance(each, FunctionNode) and each.name != "__init__"):
        if any("no_grad" in ast.unparse(each) or "inference" in ast.unparse(each) for each in method.decorator_list):
            continue
        for node in own_nodes(method):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
                name = ast.unparse(node.targets[0])
                is_tensor = re.search(rf"{re.escape(name)} = torch\.|register_buffer\('{name[5:]}'", text)
                if name in loaded_names(node.value) and is_tensor and not NO_GRAPH.search(ast.unparse(node.value)):
                    yield node, name
            elif (
                isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and called_name(node.value) == "append"
            ):
                name = ast.unparse(getattr(node.value.func, "value", node.value.func))
                is_summed = re.search(rf"(?:\bsum|torch\.(?:stack|cat))\({re.escape(name)}\b", text)
                is_emptied = f"{name}.clear()" in text or text.count(f"{name} = ") > 1
                if name.startswith("self.") and is_summed and not is_emptied and not _has_no_graph(node.value):
                    yield node, name


def _has_no_graph(call: ast.Call) -> bool:
    return any(NO_GRAPH.search(ast.unparse(each)) for each in call.args)


@fact
def parameter_written(context: FactContext) -> TraceFact | None:
    """Return the only line of a method of the project that changes an `nn.Parameter` of its class in place."""
    if context.sources is None:
        return None
    tracer = tracer_of(context)
    found: dict[Location, TraceFact] = {}
    for path in tracer.index.paths:
        for owner in (each for each in ast.walk(tracer.index.tree(path)) if isinstance(each, ast.ClassDef)):
            names = {
                ast.unparse(each.targets[0])
                for each in ast.walk(owner)
                if isinstance(each, ast.Assign)
                and re.match(r"(?:torch\.)?(?:nn\.)?Parameter\(", ast.unparse(each.value))
            }
            for method in (each for each in owner.body if isinstance(each, FunctionNode) and each.name != "__init__"):
                for node in own_nodes(method):
                    if isinstance(node, ast.stmt) and (name := _written_name(node)) in names:
                        place = Location(path, node.lineno)
                        values = {"name": name, "write": shown(ast.unparse(node)), "maker": method.name}
                        found[place] = TraceFact(values, place)
    return next(iter(found.values())) if len(found) == 1 else None


def _written_name(node: ast.stmt) -> str:
    """Return the attribute of self that a statement changes in place; empty for other statements."""
    match node:
        case ast.AugAssign(target=ast.Attribute() as target) | ast.AugAssign(target=ast.Subscript(value=target)):
            return ast.unparse(target)
        case ast.Assign(targets=[ast.Subscript(value=target)]):
            return ast.unparse(target)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=target, attr=method))) if method.endswith("_"):
            return ast.unparse(target)
        case _:
            return ""


@fact
def number_of_loss(context: FactContext) -> TraceFact | None:
    """Return the line of a function behind the value of the failing line that makes a number of a tensor."""
    for frame in context.frames[:1]:
        tracer = tracer_of(context)
        calls = list(method_calls(statement_at(tree_of(context, frame), frame.location.line), "backward"))
        if not calls or not isinstance(calls[0].func, ast.Attribute):
            continue
        loss, scope = calls[0].func.value, tracer.index.scope_at(frame.location)
        for path, function in functions_on_the_way(tracer, loss, scope):
            behind = {name for value in returned_values(function) for name in names_behind(function, value)}
            for stored, value, line in assignments(function):
                items = [each for each in ast.walk(value) if isinstance(each, ast.Call) and called_name(each) == "item"]
                if stored & behind and items:
                    place = Location(path, line)
                    values = {"name": ast.unparse(loss), "maker": function.name, "number_at": str(place)}
                    return TraceFact({**values, "number": shown(ast.unparse(value))}, place)
    return None


@fact
def squeezed_before(context: FactContext) -> TraceFact | None:
    """Return the only `squeeze()` without dimension on the way of a value of the failing part."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    places = {
        place_of(step): step
        for _, value in values_of(node)
        for step in tracer.chain(value, scope)
        if isinstance(step.node, ast.Call) and called_name(step.node) == "squeeze" and not step.node.args
    }
    if len(places) != 1:
        return None
    ((place, step),) = places.items()
    return TraceFact({"squeezed": shown(step.text), "squeezed_at": str(place)}, place)
