"""Facts about the models, loaders, checkpoints and options of a failing program."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Location
from esper_agents.traces.dataflow import cut_off, loaded_names
from esper_agents.traces.facts import TraceFact, fact, files_with, method_calls
from esper_agents.traces.program_index import CodeScope, OriginValue, called_name, own_nodes, place_of, returned_values
from esper_agents.traces.scopes import FunctionNode, enclosing_class, is_self
from esper_agents.traces.value_facts import failing_node, shown, tracer_of
from esper_agents.traces.written_numbers import number_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.traces.facts import FactContext
    from esper_agents.traces.origins import OriginTracer


@fact
def other_creation(context: FactContext) -> TraceFact | None:
    """Return how the model that loads the state is created, and the other call that creates it differently."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
        if called_name(call) != "load_state_dict" or not isinstance(call.func, ast.Attribute):
            continue
        made = tracer.last(call.func.value, scope)
        if not isinstance(made.node, ast.Call) or tracer.class_of(made) is None:
            return None
        name = called_name(made.node)
        others = {
            (path, each.lineno): each
            for path, each in tracer.index.calls_of(name)
            if ast.unparse(each) != ast.unparse(made.node)
        }
        values = {"model_call": shown(made.text), "model_at": str(place_of(made)), "class": name}
        if len(others) == 1:
            (((path, line), other),) = others.items()
            values |= {"other_call": shown(ast.unparse(other)), "other_at": str(Location(path, line))}
        return TraceFact(values, None)
    return None


@fact
def created_differently(context: FactContext) -> TraceFact | None:
    """Return both creations of the model that loads the state, if the project has one other with other arguments."""
    found = other_creation(context)
    return found if found is not None and "other_at" in found.values else None


@fact
def one_layer_differs(context: FactContext) -> TraceFact | None:
    """Hold if one layer only has other sizes than the checkpoint, and in its first dimension only."""
    text = f"{context.trace.message}\n{context.text}"
    found = re.findall(
        r"size mismatch for ([\w.]+): copying a param with shape torch\.Size\(\[([\d, ]*)\]\) from checkpoint, "
        r"the shape in current model is torch\.Size\(\[([\d, ]*)\]\)",
        text,
    )
    layers = {name.rpartition(".")[0] for name, _, _ in found}
    is_first = all(saved.partition(",")[2] == own.partition(",")[2] for _, saved, own in found)
    if len(layers) != 1 or not is_first:
        return None
    sizes = {(saved.partition(",")[0], own.partition(",")[0]) for _, saved, own in found}
    saved, own = min(sizes)
    return TraceFact({"layer": min(layers), "saved_outputs": saved, "own_outputs": own})


@fact
def lambda_of_scope(context: FactContext) -> TraceFact | None:
    """Return the lambda or local function of the function that the message names."""
    match = re.search(r"local object '?([\w.<>]+)", context.trace.message)
    if match is None or context.sources is None:
        return None
    parts = [each for each in match[1].split(".") if each != "<locals>"]
    if len(parts) < 2:  # noqa: PLR2004 - function and local name
        return None
    tracer = tracer_of(context)
    name, function_name = parts[-1], parts[-2]
    for path in files_with(context.sources, f"def {function_name}", first=set()):
        for node in ast.walk(tracer.index.tree(path)):
            if not isinstance(node, FunctionNode) or node.name != function_name:
                continue
            owner = enclosing_class(tracer.index.tree(path), node.lineno)
            if len(parts) > 2 and (owner is None or owner.name != parts[-3]):  # noqa: PLR2004 - class as well
                continue
            local: list[ast.Lambda | FunctionNode | ast.ClassDef] = [
                each
                for each in ast.walk(node)
                if (name == "<lambda>" and isinstance(each, ast.Lambda))
                or (isinstance(each, FunctionNode | ast.ClassDef) and each.name == name and each is not node)
            ]
            if local:
                place, *also = [Location(path, each.lineno) for each in local]
                text = ast.unparse(local[0]) if isinstance(local[0], ast.Lambda) else local[0].name
                return TraceFact({"local_function": shown(text), "lambda_at": str(place)}, place, tuple(also[:5]))
    return None


@fact
def unregistered_modules(context: FactContext) -> TraceFact | None:
    """Return the attribute by which the class of the failing line's model holds modules in a plain container."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    classes = [
        made
        for each in ast.walk(node)
        if isinstance(each, ast.Name | ast.Attribute) and isinstance(each.ctx, ast.Load)
        if (made := tracer.class_of(OriginValue(each, scope))) is not None
    ]
    if scope.owner is not None and not classes:
        classes = [(scope.path, scope.owner)]
    for path, owner in classes:
        for method in (each for each in owner.body if isinstance(each, FunctionNode)):
            for each in own_nodes(method):
                if not isinstance(each, ast.Assign) or not isinstance(each.targets[0], ast.Attribute):
                    continue
                if is_self(each.targets[0].value) and _holds_modules(
                    tracer, each.value, CodeScope(path, method, owner)
                ):
                    place = Location(path, each.lineno)
                    is_named = isinstance(each.value, ast.Dict | ast.DictComp)
                    container = "nn.ModuleDict" if is_named else "nn.ModuleList"
                    name = ast.unparse(each.targets[0])
                    return TraceFact({"name": name, "container": container, "list_at": str(place)}, place)
    return None


def _holds_modules(tracer: OriginTracer, value: ast.expr, scope: CodeScope) -> bool:
    """Return whether a plain container contains modules."""
    inner: list[ast.expr] = []
    match value:
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            inner = elements
        case ast.ListComp(elt=element) | ast.DictComp(value=element):
            inner = [element]
        case ast.Dict(values=elements):
            inner = elements
        case _:
            return False
    for each in inner:
        made = tracer.last(each, scope).node
        if isinstance(made, ast.Call):
            name = ast.unparse(made.func)
            found = tracer.index.class_named(called_name(made))
            if re.match(r"(?:torch\.)?nn\.[A-Z]", name) or (found and tracer.index.is_module_class(found[1])):
                return True
    return False


@fact
def kept_activation(context: FactContext) -> TraceFact | None:
    """Return the only line of a `forward` in the project that stores a computed tensor in an attribute."""
    if context.sources is None:
        return None
    tracer = tracer_of(context)
    found = []
    for path in files_with(context.sources, "def forward", first=set()):
        for owner in (each for each in ast.walk(tracer.index.tree(path)) if isinstance(each, ast.ClassDef)):
            method = next(
                (each for each in owner.body if isinstance(each, FunctionNode) and each.name == "forward"), None
            )
            for node in own_nodes(method) if method is not None else ():
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
                    is_own = is_self(node.targets[0].value)
                    if is_own and not cut_off(node.value) and not isinstance(node.value, ast.Constant):
                        found.append((Location(path, node.lineno), node))
    if len(found) != 1:
        return None
    place, node = found[0]
    kept, value = ast.unparse(node.targets[0]), ast.unparse(node.value)
    detached = f"{value}.detach()" if re.fullmatch(r"[\w.()\[\]]+", value) else f"({value}).detach()"
    return TraceFact({"kept": kept, "kept_at": str(place), "rewrite": f"{kept} = {detached}"}, place)


@fact
def made_on_meta(context: FactContext) -> TraceFact | None:
    """Return the only line of the project that creates modules on the meta device, and a partial load of weights."""
    if context.sources is None:
        return None
    found, partial = [], []
    for path in files_with(context.sources, "meta", first=set()):
        for number, line in enumerate(context.sources.lines(path), 1):
            if re.search(r"device\(\s*['\"]meta['\"]\s*\)|device\s*=\s*['\"]meta['\"]|init_empty_weights", line):
                found.append((Location(path, number), line.strip()))
    for path in files_with(context.sources, "strict", first=set()):
        for call in method_calls(context.sources.tree(path) or ast.Module([], []), "load_state_dict"):
            is_partial = any(each.arg == "strict" and ast.unparse(each.value) == "False" for each in call.keywords)
            partial += [Location(path, call.lineno)] if is_partial else []
    if len(found) != 1:
        return None
    place, text = found[0]
    values = {"meta": shown(text), "meta_at": str(place)}
    if len(partial) == 1:
        values["partial_at"] = str(partial[0])
    return TraceFact(values)


@fact
def meta_with_partial_load(context: FactContext) -> TraceFact | None:
    """Hold if a model on the meta device gets a part of its weights from a checkpoint with `strict=False`."""
    found = made_on_meta(context)
    return found if found is not None and "partial_at" in found.values else None


@fact
def fixed_by_name(context: FactContext) -> TraceFact | None:
    """Return the only line of a `forward` in the project that writes the number of the message into a shape."""
    value = re.search(r"be a constant \((\d+)\)", context.trace.message)
    if value is None or context.sources is None:
        return None
    tracer, found = tracer_of(context), []
    for path in files_with(context.sources, "def forward", first=set()):
        for function in (each for each in ast.walk(tracer.index.tree(path)) if isinstance(each, FunctionNode)):
            scope = tracer.index.scope_of(function, path)
            for call in (each for each in own_nodes(function) if isinstance(each, ast.Call)):
                if called_name(call) not in {
                    "view",
                    "reshape",
                    "expand",
                    "repeat",
                    "zeros",
                    "ones",
                    "new_zeros",
                    "split",
                }:
                    continue
                inner = CodeScope(path, function, scope.owner)
                if any(number_of(tracer, each, inner) == int(value[1]) for each in call.args):
                    found.append((Location(path, call.lineno), call))
    if len(found) != 1:
        return None
    place, call = found[0]
    return TraceFact({"fixed": shown(ast.unparse(call)), "fixed_at": str(place)}, place)


@fact
def checkpointed_module(context: FactContext) -> TraceFact | None:
    """Return the condition on an attribute that the checkpointed module changes itself, of its class."""
    if context.sources is None:
        return None
    tracer = tracer_of(context)
    for path, call in tracer.index.calls_of("checkpoint"):
        if not call.args:
            continue
        scope = tracer.index.scope_of(call, path)
        made = tracer.class_of(OriginValue(call.args[0], scope))
        forward = tracer.index.method(made[1], "forward") if made is not None else None
        if forward is None and isinstance(call.args[0], ast.Attribute) and is_self(call.args[0].value) and scope.owner:
            made, forward = (path, scope.owner), tracer.index.method(scope.owner, call.args[0].attr)
        if made is None or forward is None:
            continue
        changed = {
            name
            for node in own_nodes(forward)
            if isinstance(node, ast.Assign | ast.AugAssign)
            for name in _targets(node)
            if name.startswith("self.")
        }
        for node in own_nodes(forward):
            if isinstance(node, ast.If | ast.IfExp) and loaded_names(node.test) & changed:
                branch = Location(made[0], node.test.lineno)
                values = {
                    "checkpoint": ast.unparse(call.func),
                    "checkpoint_at": str(Location(path, call.lineno)),
                    "condition": ast.unparse(node.test),
                    "branch_at": str(branch),
                }
                return TraceFact(values, branch)
    return None


def _targets(node: ast.Assign | ast.AugAssign) -> Iterator[str]:
    """Yield the targets of an assignment as text."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        yield ast.unparse(target)


@fact
def dataset_of_loader(context: FactContext) -> TraceFact | None:
    """Return the dataset of the only loader of the files of the trace, and what a sample of it is."""
    if context.sources is None:
        return None
    tracer = tracer_of(context)
    paths = {frame.location.path for frame in context.frames}
    found = [(path, call) for path, call in tracer.index.calls_of("DataLoader") if path in paths and call.args]
    if len(found) != 1:
        return TraceFact({})
    path, call = found[0]
    made = tracer.class_of(OriginValue(call.args[0], tracer.index.scope_of(call, path)))
    methods = [tracer.index.method(made[1], name) for name in ("__getitem__", "__iter__")] if made is not None else []
    method = next((each for each in methods if each is not None), None)
    if made is None or method is None:
        return TraceFact({})
    values = returned_values(method)
    place = Location(made[0], values[-1].lineno if values else method.lineno)
    what = f"`{shown(ast.unparse(values[-1]))}`" if values else f"`{method.name}`"
    return TraceFact({"sample_from": f"A sample of `{made[1].name}` is {what} at {place}"})


@fact
def declared_options(context: FactContext) -> TraceFact | None:
    """Return the options of the command line that the project declares in one file."""
    if context.sources is None:
        return None
    calls = tracer_of(context).index.calls_of("add_argument")
    paths = {path for path, _ in calls}
    names = [str(each.value) for _, call in calls for each in call.args if isinstance(each, ast.Constant)]
    if len(paths) != 1 or not names:
        return None
    first, last = min(call.lineno for _, call in calls), max(call.lineno for _, call in calls)
    path = min(paths)
    return TraceFact(
        {"options": ", ".join(f"`{name}`" for name in names[:15]), "options_at": f"{path}:{first} to {last}"}
    )


_FACTORY = re.compile(r"\btorch\.(?:arange|zeros|ones|tensor|full|linspace|eye|rand|randn|tril|triu|hann_window)\(")
_UNPICKLABLE = {
    "_io.": ("open",),
    "generator": ("iter", "generator"),
    "lock": ("Lock", "RLock"),
    "sqlite3.": ("connect",),
    "h5py.": ("File",),
    "socket": ("socket", "create_connection"),
}


@fact
def unpicklable_attribute(context: FactContext) -> TraceFact | None:
    """Return the only line of the project that keeps an object of the kind that the message names in an attribute."""
    message = context.trace.message
    names = next((calls for word, calls in _UNPICKLABLE.items() if word in message), ())
    if context.sources is None or not names:
        return None
    found = []
    for path in files_with(context.sources, "self.", first={frame.location.path for frame in context.frames}):
        for node in ast.walk(context.sources.tree(path) or ast.Module([], [])):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
                is_kept = is_self(node.targets[0].value) and isinstance(node.value, ast.Call)
                if is_kept and isinstance(node.value, ast.Call) and called_name(node.value) in names:
                    found.append((Location(path, node.lineno), node))
    if len(found) != 1:
        return None
    place, node = found[0]
    return TraceFact(
        {"kept": ast.unparse(node.targets[0]), "made": shown(ast.unparse(node.value)), "kept_at": str(place)}, place
    )


@fact
def size_by_rank(context: FactContext) -> TraceFact | None:
    """Return the argument of the wrapped model that depends on the rank."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    for each in ast.walk(node):
        if not isinstance(each, ast.Call) or tracer.class_of(OriginValue(each, scope)) is None:
            continue
        made = tracer.last(each, scope)
        for argument in made.node.args if isinstance(made.node, ast.Call) else ():
            for step in tracer.reachable(argument, made.scope):
                if re.search(r"\brank\b|get_rank", step.text):
                    values = {
                        "argument": ast.unparse(argument),
                        "model_call": shown(made.text),
                        "model_at": str(place_of(made)),
                    }
                    return TraceFact({**values, "rank_text": shown(step.text), "rank_at": str(place_of(step))})
    return None


@fact
def keyword_in_settings(context: FactContext) -> TraceFact | None:
    """Return the only dictionary of the project with the keyword that the failing call unpacks by `**`."""
    found, keyword = failing_node(context), context.groups.get("keyword", "")
    if found is None or not keyword:
        return None
    calls = [each for each in ast.walk(found[2]) if isinstance(each, ast.Call)]
    if not any(each.arg is None for call in calls for each in call.keywords) or context.sources is None:
        return None
    places = [
        Location(path, key.lineno)
        for path in files_with(context.sources, keyword, first=set())
        for node in ast.walk(context.sources.tree(path) or ast.Module([], []))
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant) and key.value == keyword
    ]
    return TraceFact({"set_at": str(places[0])}, places[0]) if len(places) == 1 else None


@fact
def plain_tensor_attribute(context: FactContext) -> TraceFact | None:
    """Return the tensor that the failing part reads from self and that is neither a buffer nor a parameter."""
    found = failing_node(context)
    if found is None or found[1].owner is None:
        return None
    tracer, scope, node = found
    for each in ast.walk(node):
        if not isinstance(each, ast.Attribute) or not is_self(each.value) or scope.owner is None:
            continue
        made = tracer.index.attribute(scope.owner, scope.path, each.attr, None)
        if made is None or made.value.scope.function is None:
            continue
        text = f"self.{each.attr}"
        is_plain = any(
            isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == text
            for part in own_nodes(made.value.scope.function)
        )
        parts = [made.value, *tracer.reachable(made.value.node, made.value.scope)]
        is_tensor = any(_FACTORY.search(part.text) for part in parts) and "nn." not in made.value.text
        if is_plain and is_tensor and "Parameter" not in made.value.text:
            place = place_of(made.value)
            buffer = f'self.register_buffer("{each.attr}", {shown(made.value.text)})'
            return TraceFact({"plain": text, "plain_at": str(place), "buffer": buffer}, place)
    return None
