"""Facts about what a dataset gives for a sample, and what its dictionaries lack."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.traces.argument_facts import empty_function
from esper_agents.traces.facts import TraceFact, fact
from esper_agents.traces.program_index import CodeScope, OriginValue, own_nodes, place_of
from esper_agents.traces.value_facts import failing_node, shown, tracer_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.finding import Location
    from esper_agents.traces.facts import FactContext
    from esper_agents.traces.origins import OriginTracer
    from esper_agents.traces.scopes import FunctionNode

_MOST_FUNCTIONS = 30
_SPARE = re.compile(r"unk|oov|default|other", re.IGNORECASE)


@fact
def none_in_sample(context: FactContext) -> TraceFact | None:
    """Return the only `return None`, or the end without a value, of a function that makes a part of a sample."""
    if context.sources is None:
        return None
    tracer = tracer_of(context)
    paths = {frame.location.path for frame in context.frames}
    found: dict[str, TraceFact] = {}
    for path, loader in tracer.index.calls_of("DataLoader"):
        if path in paths and loader.args:
            dataset = OriginValue(loader.args[0], tracer.index.scope_of(loader, path))
            for result in _empty_functions(tracer, dataset):
                found[result.values["nothing_at"]] = result
    return next(iter(found.values())) if len(found) == 1 else None


def _empty_functions(tracer: OriginTracer, dataset: OriginValue) -> Iterator[TraceFact]:
    """Yield the functions that give None on some way, of those that a dataset calls for a sample."""
    made = tracer.class_of(dataset)
    method = tracer.index.method(made[1], "__getitem__") if made is not None else None
    if made is None or method is None:
        return
    end = tracer.last(dataset.node, dataset.scope)
    pending: list[tuple[FunctionNode, CodeScope]] = [(method, CodeScope(made[0], method, made[1], -1, {}, end))]
    seen = {id(method)}
    while pending and len(seen) < _MOST_FUNCTIONS:
        function, scope = pending.pop()
        for call in (each for each in own_nodes(function) if isinstance(each, ast.Call)):
            if not _is_used(call, function) or _tests_none(function):
                continue
            if (result := empty_function(tracer, call, scope)) is not None:
                yield result
            callee = tracer.callee(call, scope)
            if callee is not None and id(callee[1]) not in seen:
                seen.add(id(callee[1]))
                pending.append((callee[1], CodeScope(callee[0], callee[1], callee[2], -1, {}, callee[3])))


def _is_used(call: ast.Call, function: FunctionNode) -> bool:
    """Return whether a function uses the result of a call: a statement of its own drops it."""
    return not any(isinstance(each, ast.Expr) and each.value is call for each in ast.walk(function))


def _tests_none(function: FunctionNode) -> bool:
    """Return whether a function compares a value with None, and so may handle it."""
    return any(
        isinstance(each, ast.Compare) and any(ast.unparse(side) == "None" for side in each.comparators)
        for each in own_nodes(function)
    )


@fact
def filtered_dictionary(context: FactContext) -> TraceFact | None:
    """Return the condition by which the code leaves entries out of the dictionary that the failing part reads."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    items = [each for each in ast.walk(node) if isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Load)]
    results = []
    for item in (each for each in items if not isinstance(each.slice, ast.Constant | ast.Slice)):
        end = tracer.last(item.value, scope)
        if not isinstance(end.node, ast.DictComp):
            continue
        conditions = dict(_conditions(tracer, end, end.node))
        if len(conditions) == 1:
            ((place, test),) = conditions.items()
            values = {"dictionary": ast.unparse(item.value), "made_at": str(place_of(end)), "filtered_at": str(place)}
            values |= {"condition": shown(ast.unparse(test)), "index": ast.unparse(item.slice)}
            results.append(TraceFact(values | _spare_entry(end, item)))
    return results[0] if len(results) == 1 else None


def _conditions(tracer: OriginTracer, end: OriginValue, made: ast.DictComp) -> Iterator[tuple[Location, ast.expr]]:
    """Yield the conditions by which a comprehension, and what it runs over, keep entries, with their lines."""
    for loop in made.generators:
        yield from ((place_of(end), test) for test in loop.ifs)
        for part in tracer.reachable(loop.iter, end.scope):
            for each in ast.walk(part.node):
                if isinstance(each, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
                    for inner in each.generators:
                        yield from ((place_of(part), test) for test in inner.ifs)


def _spare_entry(end: OriginValue, item: ast.Subscript) -> dict[str, str]:
    """Return the entry of a dictionary for unknown keys, by its name."""
    names = [
        each.value
        for each in ast.walk(end.node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and _SPARE.search(each.value)
    ]
    table = ast.unparse(item.value)
    return {"lookup": f"{table}.get({ast.unparse(item.slice)}, {table}[{names[0]!r}])"} if len(names) == 1 else {}
