"""Facts about the arguments of the failing call."""

from __future__ import annotations

import ast
import re
from math import prod
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Location
from esper_agents.traces.facts import TraceFact, fact, tree_of
from esper_agents.traces.program_index import called_name, made_value, own_nodes, place_of
from esper_agents.traces.scopes import FunctionNode, enclosing_class, is_self, statement_at
from esper_agents.traces.value_facts import call_argument, failing_node, origin_text, shown, tracer_of, values_of
from esper_agents.traces.written_numbers import number_of

if TYPE_CHECKING:
    from esper_agents.traces.facts import FactContext
    from esper_agents.traces.origins import OriginTracer
    from esper_agents.traces.program_index import CodeScope, OriginValue

_MOST_COPIES = 4


@fact
def rows_of_batch(context: FactContext) -> TraceFact | None:
    """Return what the failing call makes a tensor of, if it is a list with one row for each sample of a batch."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call) and each.args):
        if ast.unparse(call.func) not in {"torch.tensor", "torch.as_tensor", "torch.LongTensor", "torch.FloatTensor"}:
            continue
        rows = tracer.last(call.args[0], scope)
        if not isinstance(rows.node, ast.ListComp) or rows.depth:
            if rows.depth != 1:
                return None
            text = f"[torch.as_tensor(row) for row in {ast.unparse(call.args[0])}]"
            source = rows
        else:
            element, loop = ast.unparse(rows.node.elt), rows.node.generators[0]
            text = f"[torch.as_tensor({element}) for {ast.unparse(loop.target)} in {ast.unparse(loop.iter)}]"
            source = tracer.last(rows.node.elt, rows.scope)
        padded = f"torch.nn.utils.rnn.pad_sequence({text}, batch_first=True)"
        values = {"padded": padded, "call": shown(ast.unparse(call))}
        if place_of(source) != context.frames[0].location and source.node is not rows.node:
            values["rows_from"] = f"`{shown(source.text)}` at {place_of(source)}"
        return TraceFact(values)
    return None


@fact
def argument_numbers(context: FactContext) -> TraceFact | None:
    """Return the embedding size and the number of heads that the failing call passes, each with its place."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
        names = {"embed_dim": 0, "d_model": 0}, {"num_heads": 1, "nhead": 1}
        if called_name(call) not in {
            "MultiheadAttention",
            "TransformerEncoderLayer",
            "TransformerDecoderLayer",
            "Transformer",
        }:
            continue
        numbers = []
        for options in names:
            argument = next(
                (a for name, at in options.items() if (a := call_argument(call, at, name)) is not None), None
            )
            number = number_of(tracer, argument, scope) if argument is not None else None
            if argument is None or number is None:
                return None
            numbers.append((ast.unparse(argument), number, place_of(tracer.last(argument, scope))))
        (size, embed, embed_at), (heads_text, heads, heads_at) = numbers
        if heads <= 0 or embed % heads == 0:
            return None
        near = f"{embed // heads * heads} or {-(-embed // heads) * heads}"
        fitting = ", ".join(str(each) for each in range(1, min(embed, 33)) if embed % each == 0)
        return TraceFact(
            {
                "size": size,
                "embed": str(embed),
                "embed_at": str(embed_at),
                "heads_text": heads_text,
                "heads": str(heads),
                "heads_at": str(heads_at),
                "near": near,
                "fitting": fitting,
            }
        )
    return None


@fact
def state_origin(context: FactContext) -> TraceFact | None:
    """Return where the state that the failing recurrent layer receives is made, and its second size."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call) and len(each.args) > 1):
        end = tracer.last(call.args[1], scope)
        state = end
        if isinstance(end.node, ast.Tuple) and end.node.elts:
            state = tracer.last(end.node.elts[0], end.scope)
        if not isinstance(state.node, ast.Call) or called_name(state.node) not in {"zeros", "randn", "ones", "empty"}:
            continue
        sizes = state.node.args[0].elts if isinstance(state.node.args[0], ast.Tuple) else state.node.args
        if len(sizes) < 2:  # noqa: PLR2004 - layers and batch
            continue
        origin = tracer.last(sizes[1], state.scope)
        number = number_of(tracer, sizes[1], state.scope)
        values = {
            "state": ast.unparse(call.args[1]),
            "state_text": shown(state.text),
            "state_at": str(place_of(state)),
            "batch_text": ast.unparse(sizes[1]),
        }
        if number is not None:
            values["batch_from"] = f"`{values['batch_text']}` is {number}, written at {place_of(origin)}"
        return TraceFact(values, place_of(state))
    return None


@fact
def argument_origin(context: FactContext) -> TraceFact | None:
    """Return the second argument of the failing call, with where it is made."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call) and len(each.args) > 1):
        made = made_value(tracer.chain(call.args[1], scope))
        if made is not None:
            values = {"argument": ast.unparse(call.args[1]), "argument_at": str(place_of(made))}
            return TraceFact({**values, "argument_from": f"made at {place_of(made)} by `{shown(made.text)}`"})
    return None


@fact
def joined_values(context: FactContext) -> TraceFact | None:
    """Return the argument of the only `stack` or `cat` of the failing part."""
    found = failing_node(context)
    if found is None:
        return None
    calls = [each for each in ast.walk(found[2]) if isinstance(each, ast.Call) and each.args]
    calls = [each for each in calls if called_name(each) in {"stack", "cat", "concat", "vstack", "hstack"}]
    return TraceFact({"joined": ast.unparse(calls[0].args[0])}) if len(calls) == 1 else None


@fact
def function_without_return(context: FactContext) -> TraceFact | None:
    """Return the function of the project that gave the None of the failing part: it returns nothing on some way."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    statement = statement_at(tree_of(context, context.frames[0]), context.frames[0].location.line)
    for place in (node, statement):
        for _, value in values_of(place):
            end = tracer.last(value, scope)
            if isinstance(end.node, ast.Call) and (result := empty_function(tracer, end.node, end.scope)):
                return result
        for call in (each for each in ast.walk(place) if isinstance(each, ast.Call)):
            if result := empty_function(tracer, call, scope):
                return result
    return None


def empty_function(tracer: OriginTracer, call: ast.Call, scope: CodeScope) -> TraceFact | None:
    """Return where the function of the project that a call runs gives None; None if it always returns a value."""
    known: tuple[str, FunctionNode] | None = None
    if isinstance(call.func, ast.Name):
        known = tracer.index.function_named(call.func.id, near=scope.path)
    if known is None and (callee := tracer.callee(call, scope)) is not None:
        known = (tracer.index.path_of(callee[1]) or callee[0], callee[1])
    if known is None:
        return None
    path, function = known
    nodes = list(own_nodes(function))
    returns = [each for each in nodes if isinstance(each, ast.Return)]
    if any(isinstance(each, ast.Yield | ast.YieldFrom) for each in nodes):
        return None
    empty = [each for each in returns if each.value is None or ast.unparse(each.value) == "None"]
    if len(returns) > len(empty) and not empty:
        return None
    last = function.body[-1]
    line = empty[0].lineno if empty else last.lineno
    what = (
        f"`{ast.unparse(empty[0])}`" if empty else f"its last statement is `{shown(ast.unparse(last).splitlines()[0])}`"
    )
    values = {
        "maker": function.name,
        "maker_at": str(Location(path, function.lineno)),
        "nothing": what,
        "nothing_at": str(Location(path, line)),
        "maker_call": shown(ast.unparse(call)),
    }
    return TraceFact(values, Location(path, line))


@fact
def none_origin(context: FactContext) -> TraceFact | None:
    """Return the value of the failing part that the code sets to None, if there is one only."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    ends = {name: tracer.last(value, scope) for name, value in values_of(node)}
    none = {name: end for name, end in ends.items() if isinstance(end.node, ast.Constant) and end.node.value is None}
    if len(none) != 1:
        return None
    ((name, end),) = none.items()
    statement = statement_at(tracer.index.tree(end.scope.path), end.line)
    text = f"`{shown(ast.unparse(statement).splitlines()[0])}`"
    if isinstance(statement, FunctionNode):
        owner = enclosing_class(tracer.index.tree(end.scope.path), end.line)
        callee = owner.name if owner is not None and statement.name == "__init__" else statement.name
        calls = tracer.index.calls_of(callee)
        called = f", and {calls[0][0]}:{calls[0][1].lineno} does not pass it" if len(calls) == 1 else ""
        text = f"the default of an argument of `{callee}`{called}"
    return TraceFact({"none": name, "none_text": text, "none_at": str(place_of(end))}, place_of(end))


@fact
def set_by_other_method(context: FactContext) -> TraceFact | None:
    """Return the attribute that is None from the constructor until one other method of its class sets it."""
    attribute = context.groups.get("attribute", "")
    if not context.frames or not attribute:
        return None
    frame = context.frames[0]
    tree = tree_of(context, frame)
    owner, failing = enclosing_class(tree, frame.location.line), statement_at(tree, frame.location.line)
    read = {
        each.value.attr
        for each in ast.walk(failing)
        if isinstance(each, ast.Attribute) and each.attr == attribute
        if isinstance(each.value, ast.Attribute) and is_self(each.value.value)
    }
    if owner is None or len(read) != 1:
        return None
    (name,) = read
    none_lines, setters = [], {}
    for method in (each for each in owner.body if isinstance(each, FunctionNode)):
        for node in own_nodes(method):
            if not isinstance(node, ast.Assign) or not any(_is_own(target, name) for target in node.targets):
                continue
            if isinstance(node.value, ast.Constant) and node.value.value is None:
                none_lines += [node.lineno] * (method.name == "__init__")
            else:
                setters[method.name] = node.lineno
    if len(none_lines) != 1 or len(setters) != 1 or "__init__" in setters:
        return None
    path, (setter, line) = frame.location.path, next(iter(setters.items()))
    runs = "a loop over the object begins" if setter == "__iter__" else f"`{setter}` runs"
    caller = f", and {context.frames[1].location} comes before that" if len(context.frames) > 1 else ""
    values = {"owner": f"self.{name}", "none_at": f"{path}:{none_lines[0]}", "set_at": f"{path}:{line}"}
    return TraceFact({**values, "runs": runs, "before": caller}, frame.location)


def _is_own(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Attribute) and target.attr == name and is_self(target.value)


@fact
def unpacked_origin(context: FactContext) -> TraceFact | None:
    """Return what the failing assignment or loop unpacks, and where it is made."""
    if not context.frames or context.sources is None:
        return None
    tracer, scope = tracer_of(context), tracer_of(context).frame_scope(0)
    statement = statement_at(tree_of(context, context.frames[0]), context.frames[0].location.line)
    if isinstance(statement, ast.For) and isinstance(statement.target, ast.Tuple) and statement.target.elts:
        steps = tracer.chain(ast.copy_location(statement.target.elts[0], statement), scope)
        if len(steps) < 2:  # noqa: PLR2004 - the name and its origin
            return None
        place = place_of(steps[1])
        tuple_text = shown(ast.unparse(statement_at(tracer.index.tree(place.path), place.line)).splitlines()[0])
        values = {"unpacked": shown(ast.unparse(statement.iter)), "unpacked_at": str(place)}
        return TraceFact({**values, "unpacked_from": f"made by `{tuple_text}` at {place}"})
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Tuple):
        return None
    chain = tracer.chain(statement.value, scope)
    made = made_value(chain) or chain[-1]
    if made.node is statement.value:
        return None
    values = {"unpacked": shown(ast.unparse(statement.value)), "unpacked_at": str(place_of(made))}
    return TraceFact({**values, "unpacked_from": f"`{shown(made.text)}` at {place_of(made)}"})


@fact
def dictionary_keys(context: FactContext) -> TraceFact | None:
    """Return the keys of the dictionary that the failing part reads, if one line makes it."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    for each in ast.walk(node):
        if not isinstance(each, ast.Subscript) or not isinstance(each.slice, ast.Constant):
            continue
        if str(each.slice.value) != context.groups.get("entry"):
            continue
        end = _with_same_keys(tracer, tracer.last(each.value, scope))
        if isinstance(end.node, ast.Dict) and all(isinstance(key, ast.Constant) for key in end.node.keys):
            names = [str(key.value) for key in end.node.keys if isinstance(key, ast.Constant)]
            if context.groups.get("entry") not in names:
                keys = ", ".join(f"`{name}`" for name in names[:12])
                values = {"dictionary": ast.unparse(each.value), "keys": keys, "keys_at": str(place_of(end))}
                return TraceFact(values)
    return None


def _with_same_keys(tracer: OriginTracer, value: OriginValue) -> OriginValue:
    """Return the dictionary whose keys a comprehension such as `{name: f(part) for name, part in it.items()}` keeps."""
    for _ in range(_MOST_COPIES):
        match value.node:
            case ast.DictComp(
                key=ast.Name(id=key),
                generators=[
                    ast.comprehension(
                        target=ast.Tuple(elts=[ast.Name(id=name), *_]),
                        iter=ast.Call(func=ast.Attribute(value=inner, attr="items")),
                        ifs=[],
                    )
                ],
            ) if key == name:
                value = tracer.last(inner, value.scope)
            case _:
                return value
    return value


@fact
def flattened_into_batch(context: FactContext) -> TraceFact | None:
    """Return the view that puts -1 first on the way to the input of the failing loss."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call) and len(each.args) > 1):
        for argument in call.args[:2]:
            for step in tracer.chain(argument, scope):
                if isinstance(step.node, ast.Call) and called_name(step.node) in {"view", "reshape"}:
                    sizes = [ast.unparse(each) for each in step.node.args]
                    if len(sizes) > 1 and sizes[0] == "-1":
                        return TraceFact({"view": shown(step.text), "view_at": str(place_of(step))}, place_of(step))
    return None


@fact
def joined_parts(context: FactContext) -> TraceFact | None:
    """Return the parts that the failing `cat` or `stack` lists, each with the place where it is made."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call) and called_name(each) in {"cat", "stack"}]
    if len(calls) != 1 or not calls[0].args:
        return None
    joined = tracer.last(calls[0].args[0], scope)
    if not isinstance(joined.node, ast.List | ast.Tuple) or joined.depth:
        return None
    parts = []
    for each in joined.node.elts:
        origin = origin_text(tracer, each, joined.scope)
        parts.append(f"`{shown(ast.unparse(each))}`" + (f" ({origin})" if origin else ""))
    return TraceFact({"parts": ", ".join(parts)}) if any("(made at" in each for each in parts) else None


@fact
def fraction_value(context: FactContext) -> TraceFact | None:
    """Return the value of the failing part that a division or a number with a point makes a float."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    fractions: dict[str, dict[str, str]] = {}
    for name, value in values_of(node):
        end = tracer.last(value, scope)
        is_division = isinstance(end.node, ast.BinOp) and isinstance(end.node.op, ast.Div)
        is_written = isinstance(end.node, ast.Constant) and isinstance(end.node.value, float)
        if (is_division or is_written) and not end.depth:
            change = ast.unparse(end.node).replace(" / ", " // ") if is_division else ""
            values = {"name": name, "fraction": shown(end.text), "fraction_at": str(place_of(end))}
            fractions.setdefault(
                values["fraction_at"], values | ({"change": change} if change.count("//") == 1 else {})
            )
    if len(fractions) != 1:
        return None
    ((_, values),) = fractions.items()
    path, _, line = values["fraction_at"].rpartition(":")
    return TraceFact(values, Location(path, int(line)) if path.endswith(".py") else None)


@fact
def attention_without_batch_first(context: FactContext) -> TraceFact | None:
    """Return the failing attention that takes the batch as dimension 1, and the sizes that query and key have there."""
    found, numbers = failing_node(context), re.findall(r"\d+", context.groups.get("shape", ""))
    if found is None or len(numbers) != 3:  # noqa: PLR2004 - length, batch times heads, size of a head
        return None
    tracer, scope, node = found
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
        made = tracer.last(call.func, scope) if isinstance(call.func, ast.Name | ast.Attribute) else None
        if made is None or not isinstance(made.node, ast.Call) or called_name(made.node) != "MultiheadAttention":
            continue
        heads = call_argument(made.node, 1, "num_heads")
        number = number_of(tracer, heads, made.scope) if heads is not None else None
        first = call_argument(made.node, 9, "batch_first")
        if (first is not None and ast.unparse(first) != "False") or not number:
            return None
        length, joined, size = map(int, numbers)
        elements = int(context.groups.get("size", 0))
        if joined % number or elements % (length * size * number):
            return None
        values = {"attention": ast.unparse(call.func), "attention_at": str(place_of(made)), "made": shown(made.text)}
        values |= {"query_batch": str(joined // number), "key_batch": str(elements // (length * size * number))}
        return TraceFact({**values, "key_length": str(length)}, place_of(made))
    return None


@fact
def argument_made(context: FactContext) -> TraceFact | None:
    """Return where the first argument of the only call of the failing part is made, outside of the failing line."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    calls = [node] if isinstance(node, ast.Call) else [each for each in ast.walk(node) if isinstance(each, ast.Call)]
    if len(calls) != 1 or not calls[0].args:
        return None
    origin = origin_text(tracer, calls[0].args[0], scope)
    values = {"input": ast.unparse(calls[0].args[0]), "input_origin": origin}
    return TraceFact(values) if origin and str(context.frames[0].location) not in origin else None


@fact
def floor_division_in_view(context: FactContext) -> TraceFact | None:
    """Return the size of the failing view that a division rounds down, if the number of elements proves it."""
    found, numbers = (
        failing_node(context),
        [int(each) for each in re.findall(r"-?\d+", context.groups.get("shape", ""))],
    )
    if found is None:
        return None
    tracer, scope, node = found
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
        if called_name(call) not in {"view", "reshape"} or len(call.args) != len(numbers):
            continue
        pairs = list(zip(call.args, numbers, strict=True))
        rounded = [each for each in pairs if isinstance(each[0], ast.BinOp) and isinstance(each[0].op, ast.FloorDiv)]
        if len(rounded) != 1 or -1 in numbers or rounded[0][1] < 1:
            continue
        quotient = rounded[0][0]
        others = prod(numbers) // rounded[0][1]
        if not others or int(context.groups["size"]) % others == 0 or not isinstance(quotient, ast.BinOp):
            continue
        number, origin = number_of(tracer, quotient.right, scope), tracer.last(quotient.right, scope)
        values = {"quotient": ast.unparse(quotient), "others": str(others), "dividend": ast.unparse(quotient.left)}
        values |= {"divisor": ast.unparse(quotient.right), "divisor_from": ""}
        if number is not None and origin.node is not quotient.right:
            values["divisor_from"] = f", which is {number} at {place_of(origin)}"
        return TraceFact(values)
    return None


@fact
def object_of_attribute(context: FactContext) -> TraceFact | None:
    """Return the object before the attribute of the message, with where it is made, and the change for its elements."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    name, kind = context.groups.get("attribute", ""), context.groups.get("model", "")
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and each.attr == name and isinstance(each.value, ast.Name | ast.Attribute):
            owner = ast.unparse(each.value)
            line = statement_at(tracer.index.tree(scope.path), each.lineno)
            calls = (part for part in ast.walk(line) if isinstance(part, ast.Call))
            call = next((call for call in calls if ast.unparse(call.func) == ast.unparse(each)), None)
            done = f"value.{name}" + (f"({', '.join(map(ast.unparse, call.args))})" if call is not None else "")
            values = {"owner": owner, "each": f"[{done} for value in {owner}]"}
            if kind == "dict":
                values["each"] = f"{{name: {done} for name, value in {owner}.items()}}"
            origin = origin_text(tracer, each.value, scope)
            return TraceFact(values | ({"owner_from": origin} if origin else {}))
    return None


@fact
def text_values(context: FactContext) -> TraceFact | None:
    """Return what the failing call makes a tensor of, with where it comes from."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call) and each.args):
        if ast.unparse(call.func).startswith("torch."):
            end = tracer.last(call.args[0], scope)
            values = {"values": ast.unparse(call.args[0])}
            if end.node is not call.args[0]:
                values |= {
                    "values_from": f"made at {place_of(end)} by `{shown(end.text)}`",
                    "values_at": str(place_of(end)),
                }
            return TraceFact(values)
    return None
