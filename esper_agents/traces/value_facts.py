"""Facts about where the values of the failing line come from."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Location
from esper_agents.traces.facts import TraceFact, fact, tree_of
from esper_agents.traces.origins import OriginTracer
from esper_agents.traces.program_index import called_name, made_value, place_of
from esper_agents.traces.scopes import marked_node, statement_at
from esper_agents.traces.written_numbers import number_of, numbers_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.traces.facts import FactContext
    from esper_agents.traces.program_index import CodeScope, OriginValue

_LONGEST = 70
_MOST_PARTS = 20
_INDEX_TABLES = frozenset(("Embedding", "EmbeddingBag"))
_DOUBLE = re.compile(r"\bfloat64\b|\.double\(|\btorch\.double\b|\bDoubleTensor\b")
_OUTPUTS = {"Linear": 1, "Bilinear": 2, "Conv1d": 1, "Conv2d": 1, "Conv3d": 1}


def tracer_of(context: FactContext) -> OriginTracer:
    """Return a tracer of values in the project of a trace; `context.sources` must not be None."""
    if context.sources is None:
        raise LookupError("a trace without a project has no code")
    return OriginTracer(context.sources, context.frames)


def failing_node(context: FactContext) -> tuple[OriginTracer, CodeScope, ast.AST] | None:
    """Return the part of the innermost line that failed, with its scope."""
    if not context.frames or context.sources is None:
        return None
    frame, tracer = context.frames[0], tracer_of(context)
    tree = tree_of(context, frame)
    node = marked_node(tree, frame.location.line, frame.frame.marked) or statement_at(tree, frame.location.line)
    return tracer, tracer.frame_scope(0), node


def shown(text: str) -> str:
    """Return a text of code, bounded."""
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def origin_text(tracer: OriginTracer, node: ast.expr, scope: CodeScope, size: int | None = None) -> str:
    """Return where a value is made, and what writes one of its sizes; empty if the code does not decide it.

    Args:
        tracer: The program.
        node: The value.
        scope: Where it is used.
        size: A size of it that the message names.
    """
    made = made_value(tracer.chain(node, scope))
    if made is None:
        return ""
    text = f"made at {place_of(made)} by `{shown(made.text)}`"
    creation = made
    if isinstance(made.node, ast.Call):
        layer = tracer.last(made.node.func, made.scope) if not isinstance(made.node.func, ast.Call) else made
        if layer.node is not made.node.func and isinstance(layer.node, ast.Call):
            creation = layer
            text += f", where `{ast.unparse(made.node.func)}` is made at {place_of(layer)} by `{shown(layer.text)}`"
    if size is not None and (written := written_size(tracer, creation, size)):
        text += f"; {written}"
    return text


def written_size(tracer: OriginTracer, creation: OriginValue, size: int) -> str:
    """Return the name whose number is a size of a value, with the place that writes it; empty if not certain."""
    parts = [creation, *tracer.reachable(creation.node, creation.scope)]
    for value in parts[:_MOST_PARTS]:
        call = value.node
        arguments = [*call.args, *(each.value for each in call.keywords)] if isinstance(call, ast.Call) else []
        written = {
            (str(place_of(origin)), ast.unparse(part))
            for argument in arguments
            for part, origin, number in numbers_in(tracer, argument, value.scope)
            if number == size > 1 and not isinstance(part, ast.Constant)
        }
        if len({place for place, _ in written}) == 1:
            place, part = min(written)
            return f"`{part}` is {size} at {place}"
    return ""


@fact
def table_and_index(context: FactContext) -> TraceFact | None:
    """Return the embedding that the failing part calls, its number of rows, and where its indices come from."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    calls = []
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call) and each.args):
        made = tracer.last(call.func, scope) if isinstance(call.func, ast.Name | ast.Attribute) else None
        if made is not None and isinstance(made.node, ast.Call) and called_name(made.node) in _INDEX_TABLES:
            calls.append((call, made))
    if len(calls) != 1:
        return None
    (call, made), creation = calls[0], calls[0][1].node
    rows = call_argument(creation, 0, "num_embeddings") if isinstance(creation, ast.Call) else None
    if rows is None:
        return None
    number, origin = number_of(tracer, rows, made.scope), tracer.last(rows, made.scope)
    values = {
        "table": ast.unparse(call.func),
        "created": shown(made.text),
        "created_at": str(place_of(made)),
        "indices": ast.unparse(call.args[0]),
        "rows": ast.unparse(rows),
    }
    if number is not None:
        at = "" if place_of(origin) == place_of(made) else f", `{values['rows']}` at {place_of(origin)}"
        values |= {"table_rows": f"{number} rows{at}", "count": str(number), "count_at": str(place_of(origin))}
    else:
        last = f", and `{values['rows']}` is `{shown(origin.text)}` at {place_of(origin)}"
        is_same = origin.text == values["rows"] and place_of(origin) == place_of(made)
        values["table_rows"] = f"`{values['rows']}` rows" + ("" if is_same else last)
    return TraceFact(values | _index_values(tracer, call.args[0], scope))


def _index_values(tracer: OriginTracer, node: ast.expr, scope: CodeScope) -> dict[str, str]:
    chain = tracer.chain(node, scope)
    made, end = made_value(chain), chain[-1]
    if made is None:
        return {}
    values = {"index_from": f"made at {place_of(made)} by `{shown(made.text)}`", "index_at": str(place_of(made))}
    if end is not made and not isinstance(end.node, ast.Name | ast.Constant) and place_of(end) != place_of(made):
        values["index_from"] += f", from `{shown(end.text)}` at {place_of(end)}"
        values["index_at"] = str(place_of(end))
    if isinstance(made.node, ast.Call) and called_name(made.node) == "arange" and len(made.node.args) == 1:
        values |= {"positions": ast.unparse(made.node.args[0])}
    for each in ast.walk(end.node):
        default = each.args[1] if isinstance(each, ast.Call) and len(each.args) > 1 else None
        is_length = isinstance(default, ast.Call) and called_name(default) == "len"
        if isinstance(each, ast.Call) and called_name(each) == "get" and default is not None and is_length:
            values |= {"unknown": ast.unparse(each), "past_end": ast.unparse(default)}
    return values


@fact
def index_is_position(context: FactContext) -> TraceFact | None:
    """Hold if the indices of the failing embedding are positions made by `arange`."""
    found = table_and_index(context)
    return found if found is not None and "positions" in found.values and "count" in found.values else None


@fact
def index_past_end(context: FactContext) -> TraceFact | None:
    """Hold if unknown entries get the length of the dictionary as their index, which is one past the last row."""
    found = table_and_index(context)
    return found if found is not None and "unknown" in found.values else None


@fact
def target_and_outputs(context: FactContext) -> TraceFact | None:
    """Return target and input of the failing loss: where the labels come from, and what decides the outputs."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call) and len(each.args) > 1]
    calls = [each for each in calls if _is_loss(tracer, each, scope)]
    if len(calls) != 1:
        return None
    call = calls[0]
    values = {"loss": ast.unparse(call.func), "input": ast.unparse(call.args[0]), "target": ast.unparse(call.args[1])}
    chain = tracer.chain(call.args[1], scope)
    made = made_value(chain)
    if made is None:
        return None
    is_joined = isinstance(made.node, ast.Call) and called_name(made.node) in {"tensor", "stack", "pad_sequence"}
    if is_joined and chain[-1].scope.function is not made.scope.function and not isinstance(chain[-1].node, ast.Name):
        made = chain[-1]
    values |= {"target_from": f"made at {place_of(made)} by `{shown(made.text)}`", "target_at": str(place_of(made))}
    outputs = _outputs(tracer, call.args[0], scope)
    if outputs is not None:
        values |= outputs
    return TraceFact(values)


@fact
def label_is_first_missing(context: FactContext) -> TraceFact | None:
    """Return target and outputs if the label of the message is the number of outputs that the code writes."""
    found = target_and_outputs(context)
    is_equal = found is not None and found.values.get("outputs", "none") == context.groups.get("label")
    return found if is_equal else None


def _is_loss(tracer: OriginTracer, call: ast.Call, scope: CodeScope) -> bool:
    name = called_name(call)
    if re.search(r"loss|criterion|cross_entropy|mse|bce|l1|huber|kl_div", name, re.IGNORECASE):
        return True
    end = tracer.last(call.func, scope) if isinstance(call.func, ast.Name | ast.Attribute) else None
    return end is not None and isinstance(end.node, ast.Call) and called_name(end.node).endswith("Loss")


def _outputs(tracer: OriginTracer, node: ast.expr, scope: CodeScope) -> dict[str, str] | None:
    """Return the number of outputs of the layer that makes a value, and the place that writes it."""
    end = tracer.chain(node, scope)[-1]
    if not isinstance(end.node, ast.Call):
        return None
    made = tracer.last(end.node.func, end.scope)
    creation = made.node
    while isinstance(creation, ast.Call) and called_name(creation) == "Sequential" and creation.args:
        creation = creation.args[-1]
    if not isinstance(creation, ast.Call) or called_name(creation) not in _OUTPUTS:
        return None
    name = "out_channels" if "Conv" in called_name(creation) else "out_features"
    size = call_argument(creation, _OUTPUTS[called_name(creation)], name)
    number = number_of(tracer, size, made.scope) if size is not None else None
    if size is None or number is None:
        return None
    place = place_of(tracer.last(size, made.scope))
    return {
        "outputs": str(number),
        "more": str(number + 1),
        "outputs_text": ast.unparse(size),
        "outputs_at": str(place),
    }


@fact
def double_source(context: FactContext) -> TraceFact | None:
    """Return the line that makes a value of the failing part float64."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    for name, value in values_of(node):
        for step in tracer.reachable(value, scope):
            place = place_of(step)
            written = {"name": name, "double": shown(step.text), "double_at": str(place), "double_by": ""}
            if _DOUBLE.search(step.text):
                return TraceFact(written, place)
            for keyword in step.node.keywords if isinstance(step.node, ast.Call) else ():
                end = tracer.last(keyword.value, step.scope)
                if keyword.arg == "dtype" and _DOUBLE.search(end.text):
                    where = f", where `{ast.unparse(keyword.value)}` is `{end.text}` ({place_of(end)})"
                    return TraceFact({**written, "double_by": where}, place)
    return None


def values_of(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names, attributes and items that a piece of code reads, with their text; each once."""
    seen: set[str] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name | ast.Attribute | ast.Subscript) and isinstance(each.ctx, ast.Load):
            text = ast.unparse(each)
            if text not in seen:
                seen.add(text)
                yield text, each


@fact
def index_of_failing_part(context: FactContext) -> TraceFact | None:
    """Return the index tensor of the failing part, with where it comes from."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    for each in ast.walk(node):
        key: ast.expr | None = None
        if isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Load) and isinstance(each.slice, ast.Name):
            key = each.slice
        elif isinstance(each, ast.Call) and called_name(each) in {"index_add", "index_select", "scatter", "gather"}:
            key = each.args[1] if len(each.args) > 1 else None
        chain = tracer.chain(key, scope) if key is not None else []
        made = made_value(chain)
        if key is not None and made is not None:
            values = {"index_name": ast.unparse(key), "index_from": f"made at {place_of(made)} by `{shown(made.text)}`"}
            return TraceFact({**values, "index_at": str(place_of(made))})
    return None


@fact
def transposed_before(context: FactContext) -> TraceFact | None:
    """Return the line that changed the order of the dimensions of the tensor that the failing part views."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "view":
            for step in tracer.chain(call.func.value, scope):
                for part in ast.walk(step.node):
                    is_turn = isinstance(part, ast.Call) and called_name(part) in {
                        *(
                            "permute",
                            "transpose",
                            "t",
                            "movedim",
                            "swapaxes",
                            "expand",
                            "unfold",
                            "narrow",
                            "chunk",
                            "unbind",
                        ),
                    }
                    if isinstance(part, ast.Call) and is_turn:
                        operation = f".{called_name(part)}(...)"
                        place = Location(step.scope.path, part.end_lineno or part.lineno)
                        return TraceFact(
                            {"turn": operation, "turned_at": str(place), "viewed": ast.unparse(call.func.value)}
                        )
            return None
    return None


@fact
def size_from_settings(context: FactContext) -> TraceFact | None:
    """Return the view that gives the first dimension a fixed size although this batch is smaller."""
    found = failing_node(context)
    rows, features = (int(context.groups.get(name, 0)) for name in ("rows", "features"))
    expected = int(context.groups.get("in_features", 0))
    if found is None or not expected:
        return None
    tracer, scope, node = found
    for _, value in values_of(node):
        for step in tracer.chain(value, scope):
            call = step.node
            if not isinstance(call, ast.Call) or called_name(call) not in {"view", "reshape"} or len(call.args) < 2:  # noqa: PLR2004
                continue
            number = number_of(tracer, call.args[0], step.scope)
            if number == rows and rows * features % expected == 0 and rows * features // expected != rows:
                origin = place_of(tracer.last(call.args[0], step.scope))
                values = {
                    "view": shown(step.text),
                    "view_at": str(place_of(step)),
                    "fixed": ast.unparse(call.args[0]),
                    "fixed_at": str(origin),
                    "batch": str(rows * features // expected),
                }
                return TraceFact(values, place_of(step))
    return None


@fact
def division_by_spread(context: FactContext) -> TraceFact | None:
    """Return the line of the project that divides by a standard deviation or norm without a lower bound."""
    if context.sources is None:
        return None
    paths = {frame.location.path for frame in context.frames}
    found = []
    for path in paths:
        for node in ast.walk(context.sources.tree(path) or ast.Module([], [])):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                right = node.right
                if isinstance(right, ast.Call) and called_name(right) in {"std", "norm"}:
                    found.append((Location(path, node.lineno), node))
    if len(found) != 1:
        return None
    place, node = found[0]
    divisor = ast.unparse(node.right)
    return TraceFact({"division": shown(ast.unparse(node)), "division_at": str(place), "divisor": divisor}, place)


def call_argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """Return an argument of a call by name or position; None if it is not passed or not certain."""
    named = next((each.value for each in call.keywords if each.arg == name), None)
    if named is not None or any(isinstance(each, ast.Starred) for each in call.args[: position + 1]):
        return named
    return call.args[position] if position < len(call.args) else None


@fact
def label_is_padding(context: FactContext) -> TraceFact | None:
    """Return the padding value that has the number of the label and is written into the target of the failing loss."""
    found, target = failing_node(context), target_and_outputs(context)
    label = context.groups.get("label", "")
    if found is None or target is None or not label.lstrip("-").isdigit():
        return None
    tracer, scope, node = found
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call) and len(each.args) > 1):
        for step in tracer.chain(call.args[1], scope):
            for keyword in step.node.keywords if isinstance(step.node, ast.Call) else ():
                is_padding = keyword.arg in {"padding_value", "fill_value", "value"}
                if is_padding and number_of(tracer, keyword.value, step.scope) == int(label):
                    origin = place_of(tracer.last(keyword.value, step.scope))
                    values = {"padding": shown(step.text), "padding_at": str(place_of(step)), "set_at": str(origin)}
                    return TraceFact({**target.values, **values, "padding_value": ast.unparse(keyword.value)})
    return None


@fact
def divisor_in_forward_line(context: FactContext) -> TraceFact | None:
    """Return the divisor or the argument of the logarithm of the forward line that anomaly mode printed."""
    if not context.forward or context.sources is None:
        return None
    place, node = context.forward[0].location, context.groups.get("node", "")
    tracer = OriginTracer(context.sources, context.forward)
    found: list[ast.expr] = []
    for each in ast.walk(statement_at(context.sources.tree(place.path), place.line)):
        if node.startswith("Div") and isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div):
            found += [] if isinstance(each.right, ast.Constant) else [each.right]
        elif node.startswith("Log") and isinstance(each, ast.Call) and called_name(each) in {"log", "log2", "log10"}:
            own = each.func.value if isinstance(each.func, ast.Attribute) else each.func
            found += each.args[:1] or [own]
    if len(found) != 1:
        return None
    name = ast.unparse(found[0])
    kind = "divides by" if node.startswith("Div") else "takes the logarithm of"
    values = {"kind": kind, "divisor": name, "bounded": f"{name}.clamp_min(1e-8)"}
    origin = origin_text(tracer, found[0], tracer.frame_scope(0))
    return TraceFact({**values, "divisor_from": origin} if origin else values, place)


@fact
def computed_target(context: FactContext) -> TraceFact | None:
    """Return target and loss of the failing line if arithmetic makes the target."""
    found, target = failing_node(context), target_and_outputs(context)
    if found is None or target is None:
        return None
    tracer, scope, node = found
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call) and len(each.args) > 1):
        end = tracer.last(call.args[1], scope)
        if isinstance(end.node, ast.BinOp) and isinstance(end.node.op, ast.Add | ast.Mult | ast.Div):
            return target
    return None


@fact
def model_converted(context: FactContext) -> TraceFact | None:
    """Return the line that converts the failing module to another dtype, and what the call passes it."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call) and each.args):
        for step in tracer.chain(call.func, scope)[1:]:
            if _is_half_conversion(tracer, step):
                values = {"converted": shown(step.text), "converted_at": str(place_of(step))}
                return TraceFact({**values, "argument": ast.unparse(call.args[0]), "module": ast.unparse(call.func)})
    return None


def _is_half_conversion(tracer: OriginTracer, value: OriginValue) -> bool:
    """Return whether an expression converts a module to half precision."""
    for call in (each for each in ast.walk(value.node) if isinstance(each, ast.Call)):
        passed = [tracer.last(each, value.scope).text for each in (*call.args, *(each.value for each in call.keywords))]
        is_half = any(re.search(r"\b(?:b?float16|half)\b", each) for each in passed)
        if called_name(call) in {"half", "bfloat16"} or (called_name(call) == "to" and is_half):
            return True
    return False
