"""Facts about the sizes that meet at a line."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Location
from esper_agents.traces.dataflow import assignments, loaded_names
from esper_agents.traces.facts import TraceFact, fact, function_of, method_calls, tree_of
from esper_agents.traces.layers import SIZE_PARAMETERS, CalledLayer, SizeOrigin, argument_of, find_layer, size_change
from esper_agents.traces.program_index import place_of
from esper_agents.traces.scopes import statement_at
from esper_agents.traces.value_facts import failing_node, origin_text, shown, tracer_of
from esper_agents.traces.written_numbers import number_of

if TYPE_CHECKING:
    from esper_agents.traces.facts import FactContext
    from esper_agents.traces.origins import OriginTracer

_MOST_STEPS = 4


@fact
def layer_of_call(context: FactContext) -> TraceFact | None:
    """Return the layer that the line of a frame calls and whose size the message names, and the change of that size."""
    if context.sources is None:
        return None
    parameter, size = _named_size(context)
    wanted = next((context.groups[name] for name in ("features", "channels", "got") if name in context.groups), "")
    wanted = wanted.strip("[]").rpartition(", ")[2]
    others = tuple(dict.fromkeys(frame.location.path for frame in context.frames))
    failed = failing_node(context)
    if failed is not None and isinstance(failed[2], ast.BinOp):
        return None  # an operator failed, no layer
    for frame in context.frames:
        marked = frame.frame.marked
        layer = find_layer(
            context.sources, frame.location, parameter, int(size) if size else None, others, marked=marked
        )
        if layer is None and frame is context.frames[0]:
            layer = _layer_of_helper(context, parameter, int(size) if size else None)
        if layer is None:
            continue
        is_first = layer.argument != "its input"
        values = {
            "layer": layer.name,
            "created": layer.creation,
            "created_at": str(layer.place),
            "argument": f"`{layer.argument}`" if is_first else layer.argument,
            "change": size_change(layer, size, wanted),
        }
        if path := _size_path(tracer_of(context), layer, parameter, int(size) if size else None):
            values["size_from"] = path
        if joined := _joined(statement_at(context.sources.tree(frame.location.path), frame.location.line)):
            values["joined"] = f"`{joined}` adds up the channels of its parts"
        return TraceFact(values)
    return None


def _size_path(tracer: OriginTracer, layer: CalledLayer, parameter: str, expected: int | None) -> str:
    """Return how the names in the size that a layer is created with get their values; empty if they are written there.

    Of a loop over sizes the first one counts, so that more than one step is certain only if the number is right.

    Args:
        tracer: The program.
        layer: The layer.
        parameter: Parameter of the layer that holds the size.
        expected: The size in the failed run; None if it is not known.
    """
    tree = tracer.index.tree(layer.place.path)
    calls = [each for each in ast.walk(statement_at(tree, layer.place.line)) if isinstance(each, ast.Call)]
    made = next((each for each in calls if ast.unparse(each) == layer.creation), None)
    size = argument_of(made, 0, parameter) if made is not None else None
    if size is None:
        return ""
    scope, paths = tracer.index.scope_at(layer.place), []
    most = _MOST_STEPS if expected is not None and number_of(tracer, size, scope) == expected else 1
    names = [each for each in ast.walk(size) if isinstance(each, ast.Name | ast.Attribute)]
    inner = {id(each.value) for each in names if isinstance(each, ast.Attribute)}
    for name in (each for each in names if id(each) not in inner):
        steps = [step for step in tracer.chain(name, scope)[1:] if not step.depth][:most]
        parts = [f"`{shown(step.text)}` ({place_of(step)})" for step in steps]
        paths += [f"`{ast.unparse(name)}` is {', which is '.join(parts)}"] if parts else []
    return "; ".join(paths)


def _joined(statement: ast.AST) -> str:
    """Return the concatenation in a statement; empty if there is none."""
    calls = (each for each in ast.walk(statement) if isinstance(each, ast.Call))
    return next((ast.unparse(each) for each in calls if ast.unparse(each.func) in {"torch.cat", "torch.concat"}), "")


def _layer_of_helper(context: FactContext, parameter: str, size: int | None) -> CalledLayer | None:
    """Return the layer of the failing call that a function of the project creates, with the size passed to it."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    calls = [node] if isinstance(node, ast.Call) else [each for each in ast.walk(node) if isinstance(each, ast.Call)]
    layers = []
    for call in calls:
        chain = tracer.chain(call.func, scope)
        end = chain[-1]
        for made in ast.walk(end.node) if len(chain) > 2 and isinstance(end.node, ast.Call) else ():  # noqa: PLR2004
            expression = argument_of(made, 0, parameter) if isinstance(made, ast.Call) else None
            if not isinstance(made, ast.Call) or expression is None:
                continue
            if SIZE_PARAMETERS.get(ast.unparse(made.func).rpartition(".")[2]) != parameter:
                continue
            passed = end.scope.bound.get(expression.id) if isinstance(expression, ast.Name) else None
            number = number_of(tracer, expression, end.scope)
            if passed is None or (size is not None and number not in {size, None}):
                continue
            origin = SizeOrigin(number, ast.unparse(passed.node), place_of(passed), ast.unparse(expression))
            name, place = ast.unparse(call.func), place_of(chain[-2])
            layers.append(CalledLayer(name, "its input", ast.unparse(chain[-2].node), place, origin))
    return layers[0] if len(layers) == 1 else None


def _named_size(context: FactContext) -> tuple[str, str]:
    """Return the parameter of a layer that the message is about, and its value if the message names it."""
    for name in ("in_features", "in_channels"):
        if name in context.groups:
            return name, context.groups[name]
    if found := re.search(r"Given normalized_shape=\[(\d+)\]", context.trace.message):
        return "normalized_shape", found[1]
    if "input_size" in context.trace.message:
        return "input_size", context.groups.get("expected", "")
    return "num_embeddings", ""


@fact
def flattened_input(context: FactContext) -> TraceFact | None:
    """Return the line that flattens the argument of the layer at the frame."""
    function, frame = function_of(context)
    if function is None or frame is None:
        return None
    statement = statement_at(tree_of(context, frame), frame.location.line)
    read = loaded_names(statement)
    for node in sorted(method_calls(function, "flatten", "view", "reshape"), key=lambda call: -call.lineno):
        own = statement_at(tree_of(context, frame), node.lineno)
        is_argument = own is statement or any(stored & read for stored, _, _ in assignments(own))
        if node.lineno <= frame.location.line and is_argument:
            place = Location(frame.location.path, node.lineno)
            return TraceFact({"flatten": ast.unparse(node), "flattened_at": str(place)})
    return None


@fact
def second_fits_transposed(context: FactContext) -> TraceFact | None:
    """Hold if the number of features is the number of columns of the second matrix."""
    is_equal = context.groups.get("features") == context.groups.get("out_features", "none")
    return TraceFact({}) if is_equal else None


@fact
def features_in_other_dimension(context: FactContext) -> TraceFact | None:
    """Hold if the rows are a multiple of the features that the layer expects, so that dimensions may be exchanged."""
    rows, expected = int(context.groups.get("rows", 0)), int(context.groups.get("in_features", 0))
    is_multiple = rows > expected > 1 and rows % expected == 0
    return TraceFact({}) if is_multiple and flattened_input(context) is None else None


@fact
def matrix_operands(context: FactContext) -> TraceFact | None:
    """Return both operands of the failing matrix product, each with the place where it is made."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.MatMult):
        return None
    named = []
    for side in (node.left, node.right):
        base = side.value if isinstance(side, ast.Attribute) and side.attr in {"T", "mT"} else side
        origin = origin_text(tracer, base, scope)
        named.append(f"`{shown(ast.unparse(side))}`" + (f" ({origin})" if origin else ""))
    return TraceFact({"left": named[0], "right": named[1], "right_text": ast.unparse(node.right)})
