"""Which tensors are leaves that require gradients: parameters, and what was made with `requires_grad=True`."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.conditions import tests_around
from esper_agents.review.definitions import owner_of
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.tables import Assignment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.flow import Event
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Block, Class, Function

_MAKING = re.compile(
    r"torch\.(?:(?:zeros|ones|empty|full|rand|randn|tensor|eye|arange|linspace|normal)(?:_like)?|from_numpy|as_tensor"
    r"|(?:Float|Double|Half)?Tensor|autograd\.Variable)"
)
_LAYERS = re.compile(
    r"torch\.nn\.(?:Linear|Bilinear|Conv\w+|BatchNorm\w+|LayerNorm|GroupNorm|InstanceNorm\w+|Embedding(?:Bag)?|PReLU)"
)
_PARAMETERS = frozenset({"parameters", "named_parameters"})
_LISTS = frozenset({"torch.nn.ParameterList", "torch.nn.ParameterDict"})
# Methods that give a leaf of a leaf that requires no gradients.
_PASSING = frozenset({"to", "cuda", "cpu", "float", "double", "half", "clone", "contiguous", "detach"})
_MODEL = re.compile(
    r"(?:self\.)?(?:\w*_)?(?:model|net|network|encoder|decoder|backbone|generator|discriminator)\.\w[\w.]*"
)
# Copies that are commonly frozen where they are made.
_COPIES = re.compile(r"ema|target|teacher|momentum|avg|averag|copy|shadow|frozen|key|reference|ref_|old", re.IGNORECASE)
_FREEZING = re.compile(r"requires_grad\s*=\s*False|requires_grad_\((?:requires_grad=)?False|\.detach_\(|freeze")


def is_leaf(
    target: ast.Name | ast.Attribute, block: Block, line: int, index: ProjectIndex, *, is_part: bool = False
) -> bool | None:
    """Return whether what a path holds at a line is surely a leaf that requires gradients.

    Args:
        target: The path.
        block: The block it is written in.
        line: The line it is written on.
        index: The files of the review.
        is_part: Whether a part of it is written, such as one of a list.

    Returns:
        True where the function shows it, False where the class or a loop over parameters does, None where nothing does.
    """
    function, path = block.function, dotted(target)
    last = _last_events(path, function, line, index)
    if last:
        found = [_leaves_a_leaf(each, function, index) for each in last]
        return found[0] if all(each is not None for each in found) else None
    if _is_frozen(function):
        return None
    if path.startswith("self.") and path.count(".") == 1:
        return False if _is_parameter_of_class(path, function, index, is_part=is_part) else None
    is_weight = isinstance(target, ast.Attribute) and target.attr in {"weight", "bias"}
    if is_weight and isinstance(target, ast.Attribute):
        is_inside_model = _MODEL.fullmatch(dotted(target.value)) is not None and not _COPIES.search(path)
        return False if is_inside_model or _is_layer(target.value, block, line, index) else None
    return None


def _last_events(path: str, function: Function, line: int, index: ProjectIndex) -> tuple[Event, ...]:
    """Return what may have decided last whether a path requires gradients: its bindings, and switches of it."""
    events: list[Event] = [each for each in function.assignments.get(path, ()) if not each.is_augmented]
    events += function.assignments.get(f"{path}.requires_grad", ())
    events += [call for call in function.calls if call.receiver == path and call.tail in {"requires_grad_", "detach_"}]
    return index.flow(function).last_above(line, events).events if events else ()


def _leaves_a_leaf(event: Event, function: Function, index: ProjectIndex) -> bool | None:
    if not isinstance(event, Assignment):
        given = event.argument(0, "requires_grad")
        is_on = event.tail == "requires_grad_" and (given is None or _is_true(given))
        return False if is_on and _was_leaf(event.receiver, function) else None
    if event.target.endswith(".requires_grad"):
        made = event.target.removesuffix(".requires_grad")
        if not _is_true(event.value):
            return None
        return True if _was_made_here(made, function) else False if _was_leaf(made, function) else None
    if isinstance(event.statement, ast.For):
        return False if _goes_over_parameters(event, index) else None
    return True if not event.is_unpacked and _makes_leaf(event.value, function) else None


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _was_made_here(path: str, function: Function) -> bool:
    """Return whether a path holds a leaf whether or not it required gradients before: made, detached or cloned so."""
    values = [each.value for each in function.assignments.get(path, ()) if not each.is_augmented]
    return bool(values) and all(
        isinstance(each, ast.Call)
        and (_MAKING.fullmatch(resolve(dotted(each.func), function)) or tail_of(dotted(each.func)) == "detach")
        for each in values
    )


def _was_leaf(path: str, function: Function) -> bool:
    """Return whether a path most likely holds a leaf: what the function was given, or what a loop draws."""
    found = [each for each in function.assignments.get(path, ()) if not each.is_augmented]
    if not found:
        return path in function.parameters
    return all(
        isinstance(each.statement, ast.For | ast.AsyncFor) or _passes_leaf(each.value, function, path) for each in found
    )


def _passes_leaf(value: ast.expr, function: Function, path: str) -> bool:
    """Return whether an expression gives a leaf: one that was made, detached, or moved as it was given."""
    while isinstance(value, ast.Call):
        if _MAKING.fullmatch(resolve(dotted(value.func), function)):
            return True
        if not isinstance(value.func, ast.Attribute) or value.func.attr not in _PASSING:
            return False
        if value.func.attr == "detach":
            return True
        value = value.func.value
    is_data = isinstance(value, ast.Attribute) and value.attr == "data"
    return is_data or (isinstance(value, ast.Name) and (value.id == path or value.id in function.parameters))


def _makes_leaf(value: ast.expr, function: Function) -> bool:
    """Return whether an expression makes a leaf that requires gradients."""
    if not isinstance(value, ast.Call):
        return False
    name = resolve(dotted(value.func), function)
    wanted = {each.arg: each.value for each in value.keywords}.get("requires_grad")
    if name.endswith("nn.Parameter") or name == "torch.nn.parameter.Parameter":
        return wanted is None
    if _MAKING.fullmatch(name):
        return wanted is not None and _is_true(wanted)
    if isinstance(value.func, ast.Attribute) and value.func.attr == "requires_grad_":
        is_on = not value.args or _is_true(value.args[0])
        inner = dotted(value.func.value)
        return is_on and (tail_of(inner) == "detach" or _MAKING.fullmatch(resolve(inner, function)[:-2]) is not None)
    return False


def _is_parameter_of_class(path: str, function: Function, index: ProjectIndex, *, is_part: bool) -> bool:
    owner = owner_of(function)
    if owner is None:
        return False
    found = [each for one in index.lineage(owner).classes for each in one.attributes.get(path, ())]
    plain = [each for each in found if not each.is_augmented and not _is_nothing(each.value)]
    if not plain:
        return path.removeprefix("self.") in _registered_parameters(owner, index)
    if is_part and all(tail_of(dotted(each.value)) in {tail_of(one) for one in _LISTS} for each in plain):
        return True
    return all(_makes_leaf(each.value, each.block.function) for each in plain)


def _is_nothing(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _registered_parameters(owner: Class, index: ProjectIndex) -> set[str]:
    """Return the names of the parameters that a class registers by `register_parameter`, with a value."""
    return {
        str(call.node.args[0].value)
        for each in index.lineage(owner).classes
        for method in each.methods.values()
        for call in method.calls
        if call.tail == "register_parameter"
        and len(call.node.args) > 1
        and isinstance(call.node.args[0], ast.Constant)
        and _makes_leaf(call.node.args[1], method)
    }


def _is_layer(holder: ast.expr, block: Block, line: int, index: ProjectIndex) -> bool:
    """Return whether an expression holds a layer of torch: by what made it, or by an `isinstance` around."""
    path = dotted(holder)
    for test in tests_around(block, block.function.block):
        if _asks_for_layer(test, path, block.function):
            return True
        for each in walk(test):
            if isinstance(each, ast.Call) and dotted(each.func) == "isinstance" and dotted(each.args[0]) == path:
                kinds = each.args[1].elts if isinstance(each.args[1], ast.Tuple) else [each.args[1]]
                return all(_LAYERS.fullmatch(resolve(dotted(kind), block.function)) for kind in kinds)
    origins = index.origins(holder, block.function, line)
    return bool(origins) and all(
        isinstance(each.value, ast.Call)
        and _LAYERS.fullmatch(resolve(dotted(each.value.func), each.function)) is not None
        for each in origins
    )


def _asks_for_layer(test: ast.expr, path: str, function: Function) -> bool:
    """Return whether a test compares the type of a layer, or looks for a kind of layer in its name."""
    text = ast.unparse(test)
    if f"type({path})" in text and isinstance(test, ast.Compare):
        kinds = test.comparators[0].elts if isinstance(test.comparators[0], ast.Tuple | ast.List) else test.comparators
        return all(_LAYERS.fullmatch(resolve(dotted(kind), function)) for kind in kinds)
    names = {
        path,
        *(
            name
            for name, found in function.assignments.items()
            if any(_is_class_name(each.value, path) for each in found)
        ),
    }
    is_named = (
        any(f"{name}.find(" in text or f"in {name}" in text for name in names) or f"{path}.__class__.__name__" in text
    )
    return is_named and re.search(r"['\"](?:Conv|Linear|BatchNorm|Embedding|LayerNorm)", text) is not None


def _is_class_name(value: ast.expr, path: str) -> bool:
    return ast.unparse(value) in {f"{path}.__class__.__name__", f"type({path}).__name__"}


def _goes_over_parameters(found: Assignment, index: ProjectIndex) -> bool:
    """Return whether a loop goes over `model.parameters()`, of a model that nothing freezes."""
    function = found.block.function
    values = [found.value]
    if isinstance(found.value, ast.Name):
        values = [each.value for each in function.assignments.get(found.value.id, ()) if not each.is_augmented]
    over = [each for value in values for each in walk(value) if isinstance(each, ast.Call) and _over(each)]
    is_last_name = not found.is_unpacked or not isinstance(found.statement, ast.For) or _holds_tensor(found)
    if ast.unparse(found.value) in {"group['params']", "param_group['params']"}:
        return not _is_frozen(function)
    if not over or not is_last_name:
        return False
    text = ast.unparse(found.value) + found.target
    return not (_freezes(index) if _COPIES.search(text + function.name) else _is_frozen(function))


def _over(node: ast.Call) -> bool:
    return tail_of(dotted(node.func)) in _PARAMETERS


def _holds_tensor(found: Assignment) -> bool:
    """Return whether a target of a loop over parameters is bound to the tensor and not to its name."""
    target = found.statement.target if isinstance(found.statement, ast.For) else None
    parts = list(_names(target)) if target is not None else []
    named = isinstance(found.value, ast.Call) and tail_of(dotted(found.value.func)) == "named_parameters"
    return not named or (bool(parts) and parts[-1] == found.target)


def _names(target: ast.expr) -> Iterator[str]:
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else None
    if parts is None:
        yield dotted(target)
    else:
        for each in parts:
            yield from _names(each)


def _freezes(index: ProjectIndex) -> bool:
    """Return whether some file freezes parameters."""
    return index.once("freezes parameters", lambda: any(_FREEZING.search(file.text) for file in index.files.values()))


def _is_frozen(function: Function) -> bool:
    """Return whether the file freezes something, which may be what is written here."""
    file = function.file
    return file.once("freezes parameters", lambda: _FREEZING.search(file.text) is not None)
