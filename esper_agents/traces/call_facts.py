"""Facts about calls of torch in the files of a trace, such as collectives, loaders and schedulers."""

from __future__ import annotations

import ast
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Location
from esper_agents.traces.dataflow import loaded_names, stored_names
from esper_agents.traces.facts import TraceFact, fact
from esper_agents.traces.scopes import assigned_values, statement_at
from esper_agents.traces.value_facts import tracer_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.traces.facts import FactContext

_COLLECTIVES = frozenset(
    ("all_gather", "all_gather_into_tensor", "all_reduce", "all_to_all", "broadcast", "gather", "reduce", "scatter")
)
_SHAPING = frozenset(("view", "reshape", "expand", "repeat", "zeros", "ones", "arange", "new_zeros", "range"))
_SCHEDULER = re.compile(r"(?:^|\.)OneCycleLR$")


@fact
def only_collective(context: FactContext) -> TraceFact | None:
    """Return the collective of the files of the trace, if they call one only."""
    found = [
        (place, call)
        for place, call in _calls(context)
        if _name(call) in _COLLECTIVES and ast.unparse(call.func).startswith(("dist.", "torch.distributed."))
    ]
    if len(found) != 1:
        return None
    place, call = found[0]
    return TraceFact({"collective": ast.unparse(call), "collective_at": str(place)}, place)


@fact
def collective_under_condition(context: FactContext) -> TraceFact | None:
    """Return the collective at a frame that only the ranks of a condition call."""
    for frame in context.frames:
        tree, line = _tree(context, frame.location.path), frame.location.line
        calls = [each for each in ast.walk(statement_at(tree, line)) if isinstance(each, ast.Call)]
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.If)
                and node.lineno <= line <= (node.body[-1].end_lineno or 0)
                and re.search(r"rank", ast.unparse(node.test))
                and not node.orelse
            ):
                named = next((call for call in calls if _name(call) in _COLLECTIVES), None)
                if named is not None:
                    values = {
                        "collective": ast.unparse(named),
                        "collective_at": str(frame.location),
                        "condition": ast.unparse(node.test),
                        "condition_at": str(Location(frame.location.path, node.lineno)),
                    }
                    return TraceFact(values)
    return None


@fact
def leaf_replaced(context: FactContext) -> TraceFact | None:
    """Return the assignment that replaces a tensor whose gradient the line of the frame uses."""
    for frame in context.frames[:1]:
        tree, line = _tree(context, frame.location.path), frame.location.line
        owners = {
            ast.unparse(each.value)
            for each in ast.walk(statement_at(tree, line))
            if isinstance(each, ast.Attribute) and each.attr == "grad"
        }
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.BinOp)
                and isinstance(node.value.op, ast.Sub | ast.Add)
                and ast.unparse(node.targets[0]) in owners & loaded_names(node.value)
            ):
                place = Location(frame.location.path, node.lineno)
                sign = "-" if isinstance(node.value.op, ast.Sub) else "+"
                values = {"name": ast.unparse(node.targets[0]), "replacement": ast.unparse(node), "operator": sign}
                return TraceFact({**values, "replaced_at": str(place)}, place)
    return None


@fact
def owner_of_attribute(context: FactContext) -> TraceFact | None:
    """Return the expression whose missing attribute the line of the innermost frame reads."""
    for frame in context.frames[:1]:
        tree = _tree(context, frame.location.path)
        for node in ast.walk(statement_at(tree, frame.location.line)):
            if isinstance(node, ast.Attribute) and node.attr == context.groups.get("attribute"):
                return TraceFact({"owner": ast.unparse(node.value)})
    return None


@fact
def root_in_forward_line(context: FactContext) -> TraceFact | None:
    """Return the root that the failing line of the forward pass takes."""
    for frame in context.forward[:1]:
        if match := re.search(r"\b(?:torch\.)?(?:sqrt|rsqrt|norm|std|cdist)\b", frame.frame.text):
            return TraceFact({"operation": match[0]}, frame.location)
    return None


@fact
def saved_entries(context: FactContext) -> TraceFact | None:
    """Return the entries that the only `torch.save` in the files of the trace writes, if the read one is missing."""
    found = [
        (place, [ast.unparse(key).strip("'\"") for key in call.args[0].keys if isinstance(key, ast.Constant)])
        for place, call in _calls(context)
        if ast.unparse(call.func) == "torch.save" and call.args and isinstance(call.args[0], ast.Dict)
    ]
    if len(found) != 1 or not found[0][1] or context.groups.get("entry") in found[0][1]:
        return None
    place, entries = found[0]
    return TraceFact({"saved_at": str(place), "entries": ", ".join(f"`{entry}`" for entry in entries)})


@fact
def scheduler_created(context: FactContext) -> TraceFact | None:
    """Return the line that creates the scheduler, if the files of the trace create one."""
    found = [(place, call) for place, call in _calls(context) if _SCHEDULER.search(ast.unparse(call.func))]
    if len(found) != 1:
        return None
    place, call = found[0]
    return TraceFact({"scheduler": ast.unparse(call.func), "created_at": str(place)})


def _loaders(context: FactContext) -> list[tuple[Location, ast.Call]]:
    """Return the loaders that the files of the trace create; without one, those of the project."""
    found = [(place, call) for place, call in _calls(context) if _name(call) == "DataLoader"]
    if found or context.sources is None:
        return found
    return [(Location(path, call.lineno), call) for path, call in tracer_of(context).index.calls_of("DataLoader")]


@fact
def loader_keeps_last_batch(context: FactContext) -> TraceFact | None:
    """Return the line that creates a DataLoader without `drop_last`, if the trace or the project has one loader."""
    found = _loaders(context)
    if len(found) != 1 or any(keyword.arg in {"drop_last", None} for keyword in found[0][1].keywords):
        return None
    return TraceFact({"loader_at": str(found[0][0])})


@fact
def loader_without_collate(context: FactContext) -> TraceFact | None:
    """Return the line that creates a DataLoader without `collate_fn`, if the trace or the project has one loader."""
    found = _loaders(context)
    if len(found) != 1 or any(keyword.arg in {"collate_fn", None} for keyword in found[0][1].keywords):
        return None
    return TraceFact({"loader_at": str(found[0][0])})


@fact
def none_from_dataset(context: FactContext) -> TraceFact | None:
    """Return a `return None` in a class with `__getitem__` in the files of the trace, if there is one only."""
    found = [
        (Location(path, each.lineno), each)
        for path in _paths(context)
        for node in ast.walk(_tree(context, path))
        if isinstance(node, ast.ClassDef) and _has_method(node, "__getitem__")
        for each in ast.walk(node)
        if isinstance(each, ast.Return) and _is_none(each.value)
    ]
    if len(found) != 1:
        return None
    place, statement = found[0]
    return TraceFact({"returned": ast.unparse(statement), "returned_at": str(place)}, place)


@fact
def similar_to_forward(context: FactContext) -> TraceFact | None:
    """Return the method of the module without `forward` whose name is almost that."""
    model = context.groups.get("model", "")
    for path in _paths(context):
        for node in ast.walk(_tree(context, path)):
            if isinstance(node, ast.ClassDef) and node.name == model:
                methods = {each.name: each for each in ast.walk(node) if isinstance(each, ast.FunctionDef)}
                if near := get_close_matches("forward", methods, n=1, cutoff=0.8):
                    place = Location(path, methods[near[0]].lineno)
                    return TraceFact({"method": near[0], "method_at": str(place)}, place)
    return None


@fact
def recurrent_in_sequential(context: FactContext) -> TraceFact | None:
    """Return an `nn.Sequential` with a recurrent layer that is not its last, in the files of the trace."""
    for place, call in _calls(context):
        if _name(call) == "Sequential" and any(
            isinstance(arg, ast.Call) and _name(arg) in {"GRU", "LSTM", "RNN"} for arg in call.args[:-1]
        ):
            return TraceFact({"sequential": ast.unparse(call), "sequential_at": str(place)}, place)
    return None


def _has_method(node: ast.ClassDef, name: str) -> bool:
    return any(isinstance(each, ast.FunctionDef) and each.name == name for each in node.body)


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


@fact
def fixed_size(context: FactContext) -> TraceFact | None:
    """Return the line that writes the number of the message as a size, if there is one in the files of the trace."""
    value = re.search(r"be a constant \((\d+)\)", context.trace.message)
    found = [
        (place, call)
        for place, call in _calls(context)
        if value
        and _name(call) in _SHAPING
        and any(isinstance(each, ast.Constant) and each.value == int(value[1]) for each in ast.walk(call))
    ]
    if len(found) != 1:
        return None
    place, call = found[0]
    return TraceFact({"fixed": ast.unparse(call), "fixed_at": str(place)}, place)


@fact
def custom_backward(context: FactContext) -> TraceFact | None:
    """Return the last line of the `backward` of the function that the message names."""
    name = context.groups.get("name", "")
    for path in _paths(context):
        for node in ast.walk(_tree(context, path)):
            if not isinstance(node, ast.ClassDef) or node.name != name:
                continue
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "backward"]
            returns = [each for method in methods for each in ast.walk(method) if isinstance(each, ast.Return)]
            if returns:
                place = Location(path, max(each.lineno for each in returns))
                return TraceFact({"returned_at": str(place)}, place)
    return None


@fact
def checkpointed_branch(context: FactContext) -> TraceFact | None:
    """Return a condition of the checkpointed function on something that the function changes itself."""
    for place, call in _calls(context):
        if _name(call) != "checkpoint" or not call.args:
            continue
        for path, function in _functions_named(context, place.path, call.args[0]):
            changed = {name for node in ast.walk(function) for name in _changed(node)}
            for node in ast.walk(function):
                if isinstance(node, ast.If | ast.IfExp) and (loaded_names(node.test) & changed):
                    branch = Location(path, node.test.lineno)
                    values = {
                        "checkpoint": ast.unparse(call.func),
                        "checkpoint_at": str(place),
                        "condition": ast.unparse(node.test),
                        "branch_at": str(branch),
                    }
                    return TraceFact(values, branch)
    return None


def _changed(node: ast.AST) -> set[str]:
    """Return the attributes of self and outer names that a statement changes, not its local names."""
    if isinstance(node, ast.AugAssign | ast.Assign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return {name for target in targets for name in stored_names(target) if name.startswith("self.")}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"append", "add"}:
        return {ast.unparse(node.func.value)}
    return set()


def _functions_named(context: FactContext, path: str, argument: ast.expr) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the functions that an argument may be: a function of the file, or the forward of an object's class."""
    tree = _tree(context, path)
    text = ast.unparse(argument)
    created = {
        ast.unparse(value.func).rpartition(".")[2]
        for value in assigned_values(tree, text)
        if isinstance(value, ast.Call)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == text:
            yield path, node
        elif isinstance(node, ast.ClassDef) and node.name in created:
            yield from (
                (path, each) for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "forward"
            )


def _calls(context: FactContext) -> Iterator[tuple[Location, ast.Call]]:
    """Yield the calls in the files of the trace."""
    for path in _paths(context):
        for node in ast.walk(_tree(context, path)):
            if isinstance(node, ast.Call):
                yield Location(path, node.lineno), node


def _paths(context: FactContext) -> tuple[str, ...]:
    return tuple(dict.fromkeys(frame.location.path for frame in context.frames))


def _tree(context: FactContext, path: str) -> ast.Module:
    return (context.sources.tree(path) if context.sources else None) or ast.Module([], [])


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]
