"""Facts about the steps, ranks and regions of a run, and what one step keeps for the next."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Location
from esper_agents.traces.dataflow import assignments, cut_off, loaded_names, names_behind
from esper_agents.traces.facts import TraceFact, fact, files_with, method_calls, tree_of
from esper_agents.traces.program_index import CodeScope, OriginValue, called_name, own_nodes, place_of
from esper_agents.traces.scopes import FunctionNode, is_self, statement_at
from esper_agents.traces.value_facts import failing_node, shown, tracer_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.traces.facts import FactContext
    from esper_agents.traces.origins import OriginTracer


_NO_GRADIENT = re.compile(r"\b(?:no_grad|inference_mode)\b|set_grad_enabled\(False\)")
_COLLECTIVES = frozenset(
    (
        *("all_gather", "all_gather_into_tensor", "all_reduce", "all_to_all", "broadcast", "gather", "reduce"),
        *("scatter", "barrier", "all_gather_object", "broadcast_object_list", "reduce_scatter"),
    )
)
_PARAMETERS = {"Linear": 2, "Conv1d": 2, "Conv2d": 2, "Conv3d": 2, "Embedding": 1, "LayerNorm": 2, "BatchNorm1d": 2}
_PARAMETERS |= {"BatchNorm2d": 2, "GroupNorm": 2, "ConvTranspose2d": 2, "Parameter": 1, "ReLU": 0, "Dropout": 0}
_PARAMETERS |= {
    "GELU": 0,
    "Tanh": 0,
    "Sigmoid": 0,
    "SiLU": 0,
    "MaxPool2d": 0,
    "Flatten": 0,
    "Softmax": 0,
    "Identity": 0,
}
_PARAMETERS |= {"AdaptiveAvgPool2d": 0, "AvgPool2d": 0, "LeakyReLU": 0, "ELU": 0, "GRUCell": 4, "LSTMCell": 4}
_MOST_CALLS = 60


@fact
def steps_outside_condition(context: FactContext) -> TraceFact | None:
    """Return the step of the optimizer that is under a condition, if the scheduler's step beside it is not."""
    found = failing_node(context)
    if found is None or found[1].function is None:
        return None
    _, scope, node = found
    line = getattr(node, "lineno", 0)
    conditions = [
        each
        for each in own_nodes(scope.function or ast.Module([], []))
        if isinstance(each, ast.If) and any(isinstance(part, ast.Mod) for part in ast.walk(each.test))
    ]
    for each in conditions:
        steps = [call for statement in each.body for call in method_calls(statement, "step")]
        if steps and not each.lineno <= line <= (each.end_lineno or 0):
            values = {
                "condition": ast.unparse(each.test),
                "condition_at": str(Location(scope.path, each.lineno)),
                "optimizer_step": ast.unparse(steps[0]),
            }
            return TraceFact(values)
    return None


@fact
def scheduler_total(context: FactContext) -> TraceFact | None:
    """Return the call that creates the scheduler whose `step` failed, with its number of steps."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    for call in method_calls(node, "step"):
        made = tracer.last(call.func.value, scope) if isinstance(call.func, ast.Attribute) else None
        if made is not None and isinstance(made.node, ast.Call) and made.node is not call:
            values = {"scheduler": ast.unparse(made.node.func), "created_at": str(place_of(made))}
            total = next((each.value for each in made.node.keywords if each.arg == "total_steps"), None)
            if total is not None:
                end = tracer.last(total, made.scope)
                values["total"] = f"`total_steps={ast.unparse(total)}`"
                if place_of(end) != place_of(made):
                    values["total"] += f", which is `{shown(end.text)}` at {place_of(end)}"
            return TraceFact(values)
    return None


@fact
def carried_attribute(context: FactContext) -> TraceFact | None:
    """Return the attribute of self that takes part in the loss and keeps its graph until the next call."""
    for frame in context.frames:
        tree = tree_of(context, frame)
        statement = statement_at(tree, frame.location.line)
        calls = list(method_calls(statement, "backward"))
        scope = tracer_of(context).index.scope_at(frame.location) if calls else None
        if scope is None or scope.function is None:
            continue
        loss = calls[0].func
        behind = names_behind(scope.function, loss)
        for stored, value, line in assignments(scope.function):
            for name in sorted(stored & behind):
                reads_itself = name in loaded_names(value) or _is_read_before(scope.function, name, line)
                computed = isinstance(value, ast.BinOp | ast.Call) and not cut_off(value)
                if name.startswith("self.") and reads_itself and computed and line <= frame.location.line:
                    if _reads_cut(value):
                        continue
                    place = Location(frame.location.path, line)
                    return TraceFact({"name": name, "carried_at": str(place)}, place)
        if found := _carried_in_callee(tracer_of(context), calls[0].func, scope):
            return found
    return None


def _carried_in_callee(tracer: OriginTracer, loss: ast.expr, scope: CodeScope) -> TraceFact | None:
    """Return the attribute that a method on the way to the loss computes from itself and keeps with its graph."""
    for path, function in functions_on_the_way(tracer, loss, scope):
        for stored, value, line in assignments(function):
            for name in sorted(stored):
                is_own = name.startswith("self.") and name in loaded_names(value)
                if is_own and isinstance(value, ast.BinOp | ast.Call) and not cut_off(value) and not _reads_cut(value):
                    place = Location(path, line)
                    return TraceFact({"name": name, "carried_at": str(place)}, place)
    return None


def functions_on_the_way(tracer: OriginTracer, loss: ast.expr, scope: CodeScope) -> Iterator[tuple[str, FunctionNode]]:
    """Yield the functions of the project that the values behind a loss are computed by, with their files."""
    body = scope.function or tracer.index.tree(scope.path)
    behind = names_behind(body, loss)
    pending: list[tuple[ast.AST, CodeScope]] = [
        (value, scope) for stored, value, _ in assignments(body) if stored & behind
    ]
    seen: set[int] = set()
    while pending and len(seen) < _MOST_CALLS:
        node, inner = pending.pop(0)
        for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
            callee = _callee(tracer, call, inner)
            if callee is None or id(callee[1]) in seen:
                continue
            path, function, owner = callee
            seen.add(id(function))
            yield path, function
            pending += [(each, CodeScope(path, function, owner)) for each in function.body]


@fact
def index_on_the_way(context: FactContext) -> TraceFact | None:
    """Return the operation without gradient, such as `argmin`, in a function of the project that makes the loss."""
    for frame in context.frames:
        tracer = tracer_of(context)
        calls = list(method_calls(statement_at(tree_of(context, frame), frame.location.line), "backward"))
        if not calls or not isinstance(calls[0].func, ast.Attribute):
            continue
        for path, function in functions_on_the_way(tracer, calls[0].func.value, tracer.index.scope_at(frame.location)):
            for call in (each for each in own_nodes(function) if isinstance(each, ast.Call)):
                if called_name(call) in {"argmax", "argmin", "argsort", "round", "multinomial", "one_hot", "bucketize"}:
                    place = Location(path, call.lineno)
                    values = {
                        "operation": called_name(call),
                        "cut_line": shown(ast.unparse(call)),
                        "cut_at": str(place),
                    }
                    return TraceFact({**values, "maker": function.name}, place)
    return None


def _is_read_before(function: ast.AST, name: str, line: int) -> bool:
    return any(
        isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Load)
        and ast.unparse(each) == name
        and each.lineno < line
        for each in own_nodes(function)
    )


def _reads_cut(value: ast.expr) -> bool:
    return re.search(r"\.item\(\)|\.detach\(\)|\.data\b|\bfloat\(", ast.unparse(value)) is not None


@fact
def disabled_on_the_way(context: FactContext) -> TraceFact | None:
    """Return the `no_grad` around a function of the project that makes a part of the loss."""
    for frame in context.frames:
        tracer = tracer_of(context)
        scope = tracer.index.scope_at(frame.location)
        calls = list(method_calls(statement_at(tree_of(context, frame), frame.location.line), "backward"))
        if not calls or not isinstance(calls[0].func, ast.Attribute):
            continue
        body = scope.function or tracer.index.tree(scope.path)
        behind = names_behind(body, calls[0].func.value)
        values = [value for stored, value, line in assignments(body) if stored & behind and line <= frame.location.line]
        pending = [(value, scope) for value in values]
        for _ in range(_MOST_CALLS):
            if not pending:
                break
            node, inner = pending.pop(0)
            for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
                if (callee := _callee(tracer, call, inner)) is None:
                    continue
                path, function, owner = callee
                if disabled := _disabled(function):
                    place = Location(path, disabled[1])
                    shown_values = {"disabled": disabled[0], "disabled_at": str(place), "maker": function.name}
                    return TraceFact({**shown_values, "user": shown(ast.unparse(call))}, place)
                if all(function is not known.function for _, known in pending) and function is not inner.function:
                    following = CodeScope(path, function, owner)
                    pending += [(each, following) for each in own_nodes(function) if isinstance(each, ast.Call)]
    return None


def _callee(
    tracer: OriginTracer, call: ast.Call, scope: CodeScope
) -> tuple[str, FunctionNode, ast.ClassDef | None] | None:
    if isinstance(call.func, ast.Name):
        found = tracer.index.function_named(call.func.id, near=scope.path)
        if found is not None:
            return found[0], found[1], None
    callee = tracer.callee(call, scope)
    return (callee[0], callee[1], callee[2]) if callee is not None else None


def _disabled(function: FunctionNode) -> tuple[str, int] | None:
    for decorator in function.decorator_list:
        if _NO_GRADIENT.search(ast.unparse(decorator)):
            return f"@{ast.unparse(decorator)}", decorator.lineno
    returned = {
        name
        for each in own_nodes(function)
        if isinstance(each, ast.Return) and each.value
        for name in loaded_names(each.value)
    }
    for node in own_nodes(function):
        if isinstance(node, ast.With):
            text = ", ".join(ast.unparse(item.context_expr) for item in node.items)
            stored = {name for names, _, _ in assignments(node) for name in names}
            is_result = any(isinstance(each, ast.Return) for each in ast.walk(node)) or bool(stored & returned)
            if _NO_GRADIENT.search(text) and is_result:
                return f"with {text}", node.lineno
    return None


@fact
def collective_of_one_rank(context: FactContext) -> TraceFact | None:
    """Return the call under a condition on the rank that reaches a collective, if the project has one only."""
    if context.sources is None:
        return None
    tracer = tracer_of(context)
    found = []
    for path in files_with(context.sources, "rank", first={frame.location.path for frame in context.frames}):
        for node in ast.walk(tracer.index.tree(path)):
            if not isinstance(node, ast.If) or node.orelse or not re.search(r"rank|is_main", ast.unparse(node.test)):
                continue
            scope = tracer.index.scope_of(node, path)
            for statement in node.body:
                found += [
                    (Location(path, node.lineno), node, call, reached)
                    for call in ast.walk(statement)
                    if isinstance(call, ast.Call)
                    if (reached := _collective_in(tracer, call, scope, 0)) is not None
                ]
    if len({str(each[0]) for each in found}) != 1:
        return None
    place, condition, call, (collective, at) = found[0]
    values = {
        "condition": ast.unparse(condition.test),
        "condition_at": str(place),
        "collective": collective,
        "collective_at": str(at),
        "rank_call": f"`{shown(ast.unparse(call))}` at {place.path}:{call.lineno}",
    }
    return TraceFact(values, place)


def _collective_in(tracer: OriginTracer, call: ast.Call, scope: CodeScope, depth: int) -> tuple[str, Location] | None:
    name = ast.unparse(call.func)
    if called_name(call) in _COLLECTIVES and name.startswith(("dist.", "torch.distributed.", "distributed.")):
        return name, Location(scope.path, call.lineno)
    callee = _callee(tracer, call, scope) if depth < 4 else None  # noqa: PLR2004 - levels of calls
    if callee is None:
        return None
    path, function, owner = callee
    inner = CodeScope(path, function, owner)
    calls = (each for each in own_nodes(function) if isinstance(each, ast.Call))
    return next((found for each in calls if (found := _collective_in(tracer, each, inner, depth + 1))), None)


@fact
def parameters_by_index(context: FactContext) -> TraceFact | None:
    """Return the names of the parameters whose indices the message lists, and the lines of their layers."""
    found = failing_node(context)
    listed = re.search(r"did not receive grad for rank \d+: ([\d ]+)", context.trace.message)
    if found is None or listed is None:
        return None
    tracer, scope, node = found
    for each in ast.walk(node):
        if not isinstance(each, ast.Name | ast.Attribute):
            continue
        made = tracer.class_of(OriginValue(each, scope))
        parameters = _parameters(tracer, *made, 0) if made is not None else None
        indices = [int(number) for number in listed[1].split()]
        if made is None or parameters is None or max(indices) >= len(parameters):
            continue
        names = [parameters[number][0] for number in indices]
        places = list(dict.fromkeys(str(parameters[number][1]) for number in indices))
        values = {"parameters": ", ".join(f"`{name}`" for name in names[:6]), "layers_at": ", ".join(places[:3])}
        first = f"self.{names[0].partition('.')[0]}"
        path, owner = made
        forward = tracer.index.method(owner, "forward")
        for part in own_nodes(forward) if forward is not None else ():
            if isinstance(part, ast.If) and any(first in ast.unparse(line) for line in part.body):
                test = f"`if {ast.unparse(part.test)}` at {path}:{part.lineno}"
                values["only_under"] = f"`forward` uses `{first}` only under {test}."
        if forward is not None and first not in ast.unparse(forward):
            values["only_under"] = f"`forward` of `{owner.name}` does not use `{first}`."
        return TraceFact(values, Location(*_split(places[0])))
    return None


def _split(place: str) -> tuple[str, int]:
    path, _, line = place.rpartition(":")
    return path, int(line)


def _parameters(tracer: OriginTracer, path: str, owner: ast.ClassDef, depth: int) -> list[tuple[str, Location]] | None:
    """Return the parameters of a module in their order, with the lines of their layers; None if not certain."""
    init = tracer.index.method(owner, "__init__")
    if init is None or depth > 4:  # noqa: PLR2004 - levels of modules
        return None
    own: list[tuple[str, Location]] = []
    layers: list[tuple[str, Location]] = []
    for node in init.body:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Attribute):
            if isinstance(node, ast.For | ast.If | ast.With):
                return None
            continue
        if not is_self(node.targets[0].value) or not isinstance(node.value, ast.Call):
            continue
        found = _parameters_of(tracer, node.value, path, depth)
        if found is None:
            return None
        name, place = node.targets[0].attr, Location(path, node.lineno)
        if called_name(node.value) == "Parameter":
            own.append((name, place))
        else:
            layers += [(f"{name}.{each}", place) for each in found]
    return [*own, *layers]


def _parameters_of(tracer: OriginTracer, call: ast.Call, path: str, depth: int) -> list[str] | None:
    name = called_name(call)
    if name in _PARAMETERS:
        count = _PARAMETERS[name]
        if any(each.arg in {"bias", "affine", "elementwise_affine"} for each in call.keywords):
            count = min(count, 1)
        return ["weight", "bias"][:count]
    if name == "Sequential":
        parts = [
            _parameters_of(tracer, each, path, depth + 1) if isinstance(each, ast.Call) else None for each in call.args
        ]
        if any(part is None for part in parts):
            return None
        return [f"{number}.{each}" for number, part in enumerate(parts) for each in part or []]
    made = tracer.index.class_named(name)
    if made is not None and tracer.index.is_module_class(made[1]):
        inner = _parameters(tracer, *made, depth + 1)
        return [each for each, _ in inner] if inner is not None else None
    return [] if not name[:1].isupper() else None


@fact
def autocast_above(context: FactContext) -> TraceFact | None:
    """Return the autocast region of a caller, if the innermost frame is under none of its own."""
    for frame in context.frames:
        tree, line = tree_of(context, frame), frame.location.line
        for node in ast.walk(tree or ast.Module([], [])):
            if not isinstance(node, ast.With) or not node.body[0].lineno <= line <= (node.end_lineno or 0):
                continue
            if any("autocast" in ast.unparse(item.context_expr) for item in node.items):
                return TraceFact({"region_at": str(Location(frame.location.path, node.lineno))})
    return None


@fact
def written_under_autocast(context: FactContext) -> TraceFact | None:
    """Return the tensor that an index assignment under autocast writes into, and where it is made."""
    region = autocast_above(context)
    found = failing_node(context)
    if region is None or found is None:
        return None
    tracer, scope, _ = found
    statement = statement_at(tree_of(context, context.frames[0]), context.frames[0].location.line)
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Subscript):
        return None
    target = statement.targets[0]
    made = tracer.last(target.value, scope)
    value = ast.unparse(statement.value)
    cast = value if re.fullmatch(r"[\w.()\[\]]+", value) else f"({value})"
    values = {
        "target": ast.unparse(target.value),
        "cast": f"{ast.unparse(target)} = {cast}.to({ast.unparse(target.value)}.dtype)",
    }
    if made.node is not target.value:
        values["target_from"] = f"made at {place_of(made)} by `{shown(made.text)}`"
    return TraceFact({**values, **region.values})


@fact
def inference_on_the_way(context: FactContext) -> TraceFact | None:
    """Return the function under inference mode that makes a value of the failing line."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    for step in tracer.reachable(node, scope):
        for call in (each for each in ast.walk(step.node) if isinstance(each, ast.Call)):
            callee = _callee(tracer, call, step.scope)
            disabled = _disabled(callee[1]) if callee is not None else None
            if callee is not None and disabled is not None and "inference_mode" in disabled[0]:
                place = Location(callee[0], disabled[1])
                values = {"maker": callee[1].name, "disabled": disabled[0], "disabled_at": str(place)}
                used = f"{step.scope.path}:{call.lineno}"
                return TraceFact({**values, "maker_call": shown(ast.unparse(call)), "used_at": used}, place)
    return None
