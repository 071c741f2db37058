"""Facts about the sizes that meet at a line."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Location
from esper_agents.traces.dataflow import assignments, loaded_names
from esper_agents.traces.facts import TraceFact, fact, function_of, method_calls, tree_of
from esper_agents.traces.layers import find_layer, size_change
from esper_agents.traces.scopes import statement_at

if TYPE_CHECKING:
    from esper_agents.traces.facts import FactContext


@fact
def layer_of_call(context: FactContext) -> TraceFact | None:
    """Return the layer that the line of a frame calls and whose size the message names, and the change of that size."""
    if context.sources is None:
        return None
    parameter, size = _named_size(context)
    wanted = next((context.groups[name] for name in ("features", "channels", "got") if name in context.groups), "")
    wanted = wanted.strip("[]").rpartition(", ")[2]
    others = tuple(dict.fromkeys(frame.location.path for frame in context.frames))
    for frame in context.frames:
        layer = find_layer(context.sources, frame.location, parameter, int(size) if size else None, others)
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
        return TraceFact(values)
    return None


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
