"""Facts about gradients: in-place changes, what is freed, cut off, disabled or frozen."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Location
from esper_agents.traces.dataflow import NO_GRAPH, assignments, carried_name, cut_off, loaded_names, names_behind
from esper_agents.traces.facts import (
    TraceFact,
    enclosing,
    fact,
    files_with,
    function_of,
    method_calls,
    method_of,
    tree_of,
)
from esper_agents.traces.program_index import OriginValue, called_name, made_value, place_of
from esper_agents.traces.scopes import enclosing_function, statement_at
from esper_agents.traces.value_facts import shown, tracer_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.traces.facts import FactContext
    from esper_agents.traces.locate import LocatedFrame
    from esper_agents.traces.origins import OriginTracer
    from esper_agents.traces.program_index import CodeScope

_MOST_FILES = 400
# Values that belong to no graph: data, samples and numbers.
_DATA = re.compile(r"\.sample\(|\btorch\.(?:rand|ones|zeros|arange|tensor|full|eye|linspace)|\brange\(|^[\d.]+$")
# Functions by the name of their node in the backward graph; all of them keep their output.
KEEPS_OUTPUT = ("sigmoid", "tanh", "exp", "softmax", "sqrt", "relu", "log_softmax", "rsqrt")
# In-place operators, by the name of their node in the backward graph.
_IN_PLACE = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}


@fact
def output_changed_in_place(context: FactContext) -> TraceFact | None:
    """Return the line that changes the kept output of an operation in place, if one line of the project does."""
    operation = re.sub(r"(?<!^)(?=[A-Z])", "_", context.groups.get("node", "").removesuffix("Backward")).lower()
    if context.sources is None or operation not in KEEPS_OUTPUT:
        return None
    named = {frame.location.path for frame in (*context.forward, *context.frames)}
    forward_lines = {(frame.location.path, frame.location.line) for frame in context.forward}
    found: list[tuple[Location, Location, str, str]] = []
    for path in files_with(context.sources, operation, first=named):
        tree = context.sources.tree(path)
        for function in _functions(tree):
            found += _writes_after(function, path, operation, context.sources.lines(path))
    if forward_lines:
        found = [each for each in found if (each[1].path, each[1].line) in forward_lines] or found
    own = [each for each in found if each[0].path in named] or found
    # Without a frame in the file, one of several places would be a guess.
    if not own or (len(own) > 1 and own[0][0].path not in named):
        return None
    (write, kept, name, text), *others = own
    values = {"name": name, "operation": operation, "kept_at": str(kept), "write": text, "rewrite": out_of_place(text)}
    return TraceFact(values, write, tuple(other[0] for other in others[:5]))


@fact
def input_changed_in_place(context: FactContext) -> TraceFact | None:
    """Return the only line of the project that changes a tensor in place, as the message says, after a call took it."""
    operation = re.sub(r"Backward\d*$", "", context.groups.get("node", ""))
    if context.sources is None or operation not in _IN_PLACE:
        return None
    found = []
    for path in context.sources.paths[:_MOST_FILES]:
        if f" {_IN_PLACE[operation]}= " not in (context.sources.text(path) or ""):
            continue
        for function in _functions(context.sources.tree(path)):
            found += [(path, *each) for each in _writes_after_call(function, _IN_PLACE[operation])]
    unique = {(path, write.lineno): (path, write, call) for path, write, call in found}
    if len(unique) != 1:
        return None
    ((path, write, call),) = unique.values()
    place = Location(path, write.lineno)
    text = ast.unparse(write)
    values = {"name": ast.unparse(write.target), "user": ast.unparse(call), "rewrite": out_of_place(text)}
    return TraceFact({**values, "used_at": str(Location(path, call.lineno))}, place)


def _writes_after_call(function: ast.AST, sign: str) -> Iterator[tuple[ast.AugAssign, ast.Call]]:
    """Yield the in-place operations on names that a module of self took as an argument before, with that call."""
    for node in ast.walk(function):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and f" {sign}= " in ast.unparse(node):
            for call in ast.walk(function):
                is_module = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
                if (
                    is_module
                    and isinstance(call, ast.Call)
                    and call.lineno < node.lineno
                    and ast.unparse(call.func).startswith("self.")
                    and any(isinstance(arg, ast.Name) and arg.id == node.target.id for arg in call.args)
                ):
                    yield node, call


@fact
def step_before_backward(context: FactContext) -> TraceFact | None:
    """Return the optimizer step between two backward calls of one function."""
    function, frame = function_of(context)
    if function is None or frame is None:
        return None
    calls = sorted(method_calls(function, "backward", "step"), key=lambda call: call.lineno)
    backwards = [call.lineno for call in calls if method_of(call) == "backward"]
    for call in calls:
        if (
            method_of(call) == "step"
            and any(line < call.lineno for line in backwards[:-1] or backwards)
            and any(line > call.lineno for line in backwards)
        ):
            step = Location(frame.location.path, call.lineno)
            return TraceFact({"step_at": str(step), "second": f"{frame.location.path}:{max(backwards)}"}, step)
    return None


@fact
def backward_twice(context: FactContext) -> TraceFact | None:
    """Return the first backward call, if one function calls backward on two lines."""
    function, frame = function_of(context)
    if function is None or frame is None:
        return None
    lines = sorted({call.lineno for call in method_calls(function, "backward")})
    if len(lines) <= 1:
        return None
    return TraceFact({"first": f"{frame.location.path}:{lines[0]}", "second": f"{frame.location.path}:{lines[-1]}"})


@fact
def state_carried_over(context: FactContext) -> TraceFact | None:
    """Return a variable that carries its graph from one iteration of the loop around backward to the next."""
    function, frame = function_of(context)
    if function is None or frame is None:
        return None
    for loop in _loops_around(function, frame.location.line):
        for call in method_calls(statement_at(tree_of(context, frame), frame.location.line), "backward"):
            if (found := carried_name(loop, call.func)) is not None:
                name, line = found
                place = Location(frame.location.path, line)
                return TraceFact({"name": name, "carried_at": str(place)}, place)
    return None


@fact
def graph_outside_loop(context: FactContext) -> TraceFact | None:
    """Return the line that builds the graph once, before the loop that calls backward."""
    function, frame = function_of(context)
    if function is None or frame is None:
        return None
    for loop in _loops_around(function, frame.location.line):
        assigned = {name for node in ast.walk(loop) for name in _assigned(node)}
        calls = [call for call in method_calls(loop, "backward") if isinstance(call.func, ast.Attribute)]
        for call in calls:
            used = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)} - assigned
            # A loss of the loop may use a tensor from before it.
            used |= {each for each in names_behind(loop, call) if "." not in each} - assigned
            for node in ast.walk(function):
                if (
                    isinstance(node, ast.Assign)
                    and node.lineno < loop.lineno
                    and isinstance(node.value, ast.Call | ast.BinOp)
                ):
                    built = _assigned(node) & used
                    source = ast.unparse(node.value)
                    if built:
                        built = _names_with_graph(context, frame, built, loop.lineno)
                    if built and not re.search(
                        r"\b(?:optim|nn|DataLoader|Adam|SGD|torch\.(?:rand|ones|zeros|tensor))", source
                    ):
                        place = Location(frame.location.path, node.lineno)
                        name = min(built)
                        values = {"name": name, "built_at": str(place)}
                        made = _graph_origin(context, frame, name, loop.lineno)
                        return TraceFact({**values, "made": made} if made else values, place)
    return None


def _names_with_graph(context: FactContext, frame: LocatedFrame, names: set[str], line: int) -> set[str]:
    """Return the only one of several unpacked names whose value carries a graph; empty if that is not certain."""
    tracer = tracer_of(context)
    found = {name for name in names if _carries_graph(tracer, OriginValue(*_read_at(context, frame, name, line)), 0)}
    return found if len(found) == 1 else set()


def _carries_graph(tracer: OriginTracer, value: OriginValue, depth: int) -> bool:
    """Return whether a value may belong to a graph: it is computed, and not from data, samples and numbers only."""
    chain = tracer.chain(value.node, value.scope)
    end = chain[-1]
    if depth > 4 or any(NO_GRAPH.search(each.text) or _DATA.search(each.text) for each in chain):  # noqa: PLR2004
        return False
    match end.node:
        case ast.BinOp(left=left, right=right):
            return any(_carries_graph(tracer, OriginValue(side, end.scope), depth + 1) for side in (left, right))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "nn" | "F" | "optim" | "self"))):
            return not called_name(end.node)[:1].isupper()
        case ast.Call(func=ast.Attribute(value=base)):
            return _carries_graph(tracer, OriginValue(base, end.scope), depth + 1)
        case ast.Call():
            return tracer.class_of(end) is None
        case _:
            return False


def _graph_origin(context: FactContext, frame: LocatedFrame, name: str, line: int) -> str:
    """Return where the value of a name is made, if that is another line than its assignment."""
    steps = _steps_of(context, frame, name, line)
    made = made_value(steps) if len(steps) > 1 else None
    return f"made at {place_of(steps[-1])} by `{shown(steps[-1].text)}`" if made is not None else ""


def _steps_of(context: FactContext, frame: LocatedFrame, name: str, line: int) -> list[OriginValue]:
    return tracer_of(context).chain(*_read_at(context, frame, name, line))[1:]


def _read_at(context: FactContext, frame: LocatedFrame, name: str, line: int) -> tuple[ast.Name, CodeScope]:
    """Return a name as a line of the frame's function reads it."""
    node = ast.Name(name, ast.Load(), lineno=line, col_offset=0, end_lineno=line, end_col_offset=0)
    return node, tracer_of(context).index.scope_at(frame.location)


# Written in the request or in the source lines of the trace.
_INFERENCE = re.compile(r"\binference_mode\b(?!\((?:mode=)?False\))")


@fact
def gradient_disabled(context: FactContext) -> TraceFact | None:
    """Return the no_grad block or decorator around the function at a frame."""
    for frame in context.frames:
        function = enclosing(context.sources, frame)
        if function is None or context.sources is None:
            continue
        for decorator in getattr(function, "decorator_list", []):
            if re.search(r"\b(?:no_grad|inference_mode)\b", ast.unparse(decorator)):
                place = Location(frame.location.path, decorator.lineno)
                return TraceFact({"disabled": f"@{ast.unparse(decorator)}", "disabled_at": str(place)}, place)
        for node in ast.walk(function):
            if isinstance(node, ast.With) and node.lineno <= frame.location.line:
                text = ", ".join(ast.unparse(item.context_expr) for item in node.items)
                if re.search(r"\b(?:no_grad|inference_mode)\b|set_grad_enabled\(False\)", text):
                    place = Location(frame.location.path, node.lineno)
                    return TraceFact({"disabled": f"with {text}", "disabled_at": str(place)}, place)
    return _disabled_forward(context)


@fact
def graph_in_inference_mode(context: FactContext) -> TraceFact | None:
    """Return the call of autograd that needs a graph in evaluation, if `inference_mode` is around it."""
    if context.sources is None or not _INFERENCE.search(context.text):
        return None
    for frame in context.frames:
        if "autograd.grad(" not in ast.unparse(statement_at(tree_of(context, frame), frame.location.line)):
            continue
        for other in context.frames:
            function = enclosing_function(tree_of(context, other), other.location.line)
            for node in ast.walk(function) if function is not None else ():
                if isinstance(node, ast.With) and any("enable_grad(" in ast.unparse(each) for each in node.items):
                    enabled_at = f"{other.location.path}:{node.lineno}"
                    return TraceFact({"enabled_at": enabled_at}, frame.location)
    return None


def _disabled_forward(context: FactContext) -> TraceFact | None:
    """Return the decorator that turns recording off for the only `forward` of the files of the trace."""
    found = [
        (frame.location.path, node)
        for frame in {each.location.path: each for each in context.frames}.values()
        for node in ast.walk(tree_of(context, frame) or ast.Module([], []))
        if isinstance(node, ast.FunctionDef) and node.name == "forward"
    ]
    for path, node in found if len(found) == 1 else ():
        for decorator in node.decorator_list:
            if re.search(r"\b(?:no_grad|inference_mode)\b", ast.unparse(decorator)):
                place = Location(path, decorator.lineno)
                return TraceFact({"disabled": f"@{ast.unparse(decorator)}", "disabled_at": str(place)}, place)
    return None


@fact
def gradient_detached(context: FactContext) -> TraceFact | None:
    """Return the line that cuts the loss off from its graph: detach, item, data, numpy, argmax or a new tensor.

    Assignments that the loss depends on are read, and the results of functions of the same file that compute it.
    """
    function, frame = function_of(context)
    tree = tree_of(context, frame) if frame is not None else None
    if function is None or frame is None or tree is None:
        return None
    for call in method_calls(statement_at(tree, frame.location.line), "backward"):
        behind = names_behind(function, call.func)
        values = [
            (value, line)
            for stored, value, line in assignments(function)
            if stored & behind and line <= frame.location.line
        ]
        called = {
            ast.unparse(node.func).rpartition(".")[2]
            for value, _ in values
            for node in ast.walk(value)
            if isinstance(node, ast.Call)
        }
        results = [
            (node, line)
            for each in _functions(tree)
            if isinstance(each, ast.FunctionDef) and each.name in called
            for node, line in _results(each)
        ]
        for value, line in [*sorted(values, key=lambda each: -each[1]), *results]:
            if cut := cut_off(value):
                place = Location(frame.location.path, line)
                text = context.sources.lines(place.path)[line - 1].strip() if context.sources else ""
                return TraceFact({"cut": cut, "cut_line": text, "cut_at": str(place)}, place)
    return None


def _results(function: ast.FunctionDef) -> Iterator[tuple[ast.expr, int]]:
    """Yield what a function returns, and the assignments that the result depends on, the latest first."""
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value, node.lineno
            behind = names_behind(function, node.value)
            own = [(value, line) for stored, value, line in assignments(function) if stored & behind]
            yield from sorted(own, key=lambda each: -each[1])


@fact
def frozen_parameters(context: FactContext) -> TraceFact | None:
    """Return the line that sets requires_grad to False."""
    if context.sources is None:
        return None
    paths = {frame.location.path for frame in context.frames}
    for path in files_with(context.sources, "requires_grad", first=paths):
        for number, line in enumerate(context.sources.lines(path), 1):
            if re.search(r"requires_grad(?:_\(False\)|\s*=\s*False)", line) and (path in paths or not paths):
                place = Location(path, number)
                return TraceFact({"frozen": line.strip(), "frozen_at": str(place)}, place)
    return None


def _functions(tree: ast.Module | None) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.Module]:
    if tree is not None:
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        yield ast.Module([node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.ClassDef)], [])


def _writes_after(
    function: ast.AST, path: str, operation: str, lines: list[str]
) -> Iterator[tuple[Location, Location, str, str]]:
    """Yield the writes into names that hold the output of an operation, with where they got it."""
    kept: dict[str, int] = {}
    statements = [node for node in ast.walk(function) if isinstance(node, ast.stmt)]
    for node in sorted(statements, key=lambda each: each.lineno):
        name = _written_name(node)
        if name in kept and node.lineno > kept[name]:
            text = lines[node.lineno - 1].strip()
            yield Location(path, node.lineno), Location(path, kept[name]), name, text
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            called = ast.unparse(node.value.func).rpartition(".")[2].lower()
            for target in _assigned(node):
                if called.rstrip("_") == operation:
                    kept[target] = node.lineno
                else:
                    kept.pop(target, None)


def _written_name(node: ast.stmt) -> str:
    """Return the name of the tensor that a statement changes in place; empty if it changes none."""
    target: ast.expr | None = None
    if isinstance(node, ast.AugAssign):
        target = node.target
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        target = node.targets[0]
    elif isinstance(node, ast.Expr | ast.Assign) and isinstance(node.value, ast.Call):
        function = node.value.func
        if isinstance(function, ast.Attribute) and re.fullmatch(r"[a-z]\w*[a-z0-9]_", function.attr):
            target = function.value
    while isinstance(target, ast.Subscript):
        target = target.value
    return ast.unparse(target) if isinstance(target, ast.Name | ast.Attribute) else ""


def out_of_place(text: str) -> str:
    """Return a statement that makes a new tensor instead of changing one."""
    if match := re.fullmatch(r"(?P<name>[\w.]+) (?P<operator>[-+*/@%]|\*\*|//)= (?P<value>.+)", text):
        value = match["value"] if re.fullmatch(r"[\w.()\[\]]+", match["value"]) else f"({match['value']})"
        return f"{match['name']} = {match['name']} {match['operator']} {value}"
    if match := re.fullmatch(r"(?P<name>[\w.]+)\.(?P<method>[a-z]\w*[a-z0-9])_\((?P<arguments>.*)\)", text):
        return f"{match['name']} = {match['name']}.{match['method']}({match['arguments']})"
    if match := re.fullmatch(r"(?P<name>[\w.]+)\[.+", text):
        return f"{match['name']} = {match['name']}.clone()` before `{text}"
    return f"the operation on a clone instead of {text}"


def _loops_around(function: ast.AST, line: int) -> Iterator[ast.For | ast.While]:
    for node in ast.walk(function):
        if isinstance(node, ast.For | ast.While) and node.lineno <= line <= (node.end_lineno or 0):
            yield node


def _names(target: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _assigned(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Assign):
        return {name for target in node.targets for name in _names(target)}
    return _names(node.target) if isinstance(node, ast.For | ast.AugAssign | ast.AnnAssign) else set()


def _fits_message(context: FactContext, function: ast.AST, write: ast.stmt) -> bool:
    """Return whether a write can change the output of the operation that the message names."""
    node = re.sub(r"Backward\d*$", "", context.groups.get("node", ""))
    if node in _IN_PLACE:
        return f" {_IN_PLACE[node]}= " in ast.unparse(write)
    operation = re.sub(r"(?<!^)(?=[A-Z])", "_", node).lower()
    return not node or re.search(rf"\b{re.escape(operation)}\b", ast.unparse(function)) is not None


@fact
def only_write_in_forward(context: FactContext) -> TraceFact | None:
    """Return the only line in the `forward` methods of the project that changes a tensor in place."""
    if context.sources is None:
        return None
    found = []
    for path in files_with(context.sources, "def forward", first=set()):
        for function in _functions(context.sources.tree(path)):
            if isinstance(function, ast.FunctionDef) and function.name == "forward":
                for node in (each for each in ast.walk(function) if isinstance(each, ast.stmt)):
                    name = _written_name(node)
                    if not _fits_message(context, function, node):
                        continue
                    is_step = re.search(r"\bstep|count|loss\b|^self\.\w*(?:step|n|calls)$", name) is not None
                    if name and not is_step:
                        text = context.sources.lines(path)[node.lineno - 1].strip()
                        found.append((Location(path, node.lineno), name, text))
    if len(found) != 1:
        return None
    place, name, text = found[0]
    return TraceFact({"name": name, "write": text, "rewrite": out_of_place(text)}, place)


@fact
def written_between(context: FactContext) -> TraceFact | None:
    """Return the call between the loss and its backward call that runs a function with in-place writes."""
    function, frame = function_of(context)
    if function is None or frame is None:
        return None
    line = frame.location.line
    names = {
        each
        for call in method_calls(statement_at(tree_of(context, frame), line), "backward")
        for each in loaded_names(call)
    }
    made = [at for stored, _, at in assignments(function) if stored & names and at < line]
    if not made:
        return None
    tracer = tracer_of(context)
    scope = tracer.index.scope_at(frame.location)
    for call in (each for each in ast.walk(function) if isinstance(each, ast.Call) and max(made) < each.lineno < line):
        callee = tracer.callee(call, scope)
        for node in ast.walk(callee[1]) if callee is not None else ():
            name = _written_name(node) if isinstance(node, ast.Expr | ast.AugAssign) else ""
            if callee is not None and name and isinstance(node, ast.stmt):
                place = Location(callee[0], node.lineno)
                values = {"between": ast.unparse(call), "between_at": f"{frame.location.path}:{call.lineno}"}
                return TraceFact({**values, "write": ast.unparse(node), "write_at": str(place)}, place)
    return None
