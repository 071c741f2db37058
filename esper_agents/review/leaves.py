"""Which tensors are leaves that require gradients: parameters, and what was made with `requires_grad=True`."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.conditions import tests_around
from esper_agents.review.definitions import owner_of
from esper_agents.review.freezing import freezes, may_freeze
from esper_agents.review.layer_loops import LAYERS, is_picked_layer
from esper_agents.review.leaf_making import asks_gradients, is_true, makes_leaf, passes_leaf, switches_on, was_made
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.patterns import pattern
from esper_agents.review.tables import Assignment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.flow import Event
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Class, Function

_PARAMETERS = frozenset({"parameters", "named_parameters"})
_LISTS = frozenset({"torch.nn.ParameterList", "torch.nn.ParameterDict"})
_MODEL = pattern(
    r"(?:self\.)?(?:\w*_)?(?:model|net|network|encoder|decoder|backbone|generator|discriminator)\.\w[\w.]*"
)
# Copies that are commonly frozen where they are made.
_COPIES = pattern(r"ema|target|teacher|momentum|avg|averag|copy|shadow|frozen|key|reference|ref_|old", re.IGNORECASE)


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
    if path.startswith("self.") and path.count(".") == 1:
        return False if _is_parameter_of_class(path, function, index, is_part=is_part) else None
    if may_freeze(path, function):
        return None
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
    if _is_optimized(event, function):
        return True
    if not isinstance(event, Assignment):
        return False if asks_gradients(event.node) and _was_leaf(event.receiver, function) else None
    if event.target.endswith(".requires_grad"):
        made = event.target.removesuffix(".requires_grad")
        if not is_true(event.value):
            return None
        return True if _was_made_here(made, function) else False if _was_leaf(made, function) else None
    if isinstance(event.statement, ast.For):
        return False if _goes_over_parameters(event, index) else None
    return (
        None
        if event.is_unpacked
        else True
        if makes_leaf(event.value, function)
        else False
        if switches_on(event.value, function)
        else None
    )


def _is_optimized(event: Event, function: Function) -> bool:
    """Return whether gradients are asked of what a list hands to an optimizer, which takes leaves alone."""
    if isinstance(event, Assignment):
        path = event.target.removesuffix(".requires_grad")
        is_on = is_true(event.value) if path != event.target else asks_gradients(event.value)
    else:
        path, is_on = event.receiver, asks_gradients(event.node)
    return is_on and any(
        isinstance(each, ast.List | ast.Tuple) and path in map(dotted, each.elts)
        for call in function.calls
        if ".optim." in f".{call.name}" and call.tail[:1].isupper() and call.line > event.line
        for given in (*call.node.args[:1], *(one.value for one in call.node.keywords if one.arg == "params"))
        for each in walk(given)
    )


def _was_made_here(path: str, function: Function) -> bool:
    """Return whether a path holds a leaf whether or not it required gradients before: made, detached or cloned so."""
    values = [each.value for each in function.assignments.get(path, ()) if not each.is_augmented]
    return bool(values) and all(was_made(value, function) for value in values)


def _was_leaf(path: str, function: Function) -> bool:
    """Return whether a path most likely holds a leaf: what the function was given, or what a loop draws."""
    found = [each for each in function.assignments.get(path, ()) if not each.is_augmented]
    if not found:
        return path in function.parameters
    return all(
        isinstance(each.statement, ast.For | ast.AsyncFor) or passes_leaf(each.value, function, path) for each in found
    )


def _is_parameter_of_class(path: str, function: Function, index: ProjectIndex, *, is_part: bool) -> bool:
    owner = owner_of(function)
    if owner is None:
        return False
    found = [each for one in index.lineage(owner).classes for each in one.attributes.get(path, ())]
    plain = [each for each in found if not each.is_augmented and not _is_nothing(each.value)]
    # A plain tensor belongs to no module, and only what names it freezes it.
    is_held = not plain or any("Parameter" in ast.unparse(each.value) for each in plain)
    if may_freeze(path, function, is_part=is_held):
        return False
    if not plain:
        return path.removeprefix("self.") in _registered_parameters(owner, index)
    if is_part and all(tail_of(dotted(each.value)) in {tail_of(one) for one in _LISTS} for each in plain):
        return True
    if all(makes_leaf(each.value, each.block.function) for each in plain):
        return True
    return all(was_made(each.value, each.block.function) for each in plain) and _is_switched_on(path, owner, index)


def _is_switched_on(path: str, owner: Class, index: ProjectIndex) -> bool:
    """Return whether the constructor asks gradients of an attribute: `self.x.requires_grad_()`."""
    for cls in index.lineage(owner).classes:
        made = cls.methods.get("__init__")
        flags = made.assignments.get(f"{path}.requires_grad", ()) if made is not None else ()
        if any(is_true(one.value) for one in flags):
            return True
        for call in made.calls if made is not None else ():
            if call.tail == "requires_grad_" and call.receiver == path:
                given = call.argument(0, "requires_grad")
                return given is None or is_true(given)
    return False


def _is_nothing(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _registered_parameters(owner: Class, index: ProjectIndex) -> set[str]:
    """Return the names of the parameters that a class registers by `register_parameter`, with a value."""
    return {
        str(call.node.args[0].value)
        for cls in index.lineage(owner).classes
        for method in cls.methods.values()
        for call in method.calls
        if call.tail == "register_parameter"
        and len(call.node.args) > 1
        and isinstance(call.node.args[0], ast.Constant)
        and makes_leaf(call.node.args[1], method)
    }


def _is_layer(holder: ast.expr, block: Block, line: int, index: ProjectIndex) -> bool:
    """Return whether an expression holds a layer of torch: by what made it, or by an `isinstance` around."""
    path = dotted(holder)
    for test in tests_around(block, block.function.block):
        if _asks_for_layer(test, path, block.function):
            return True
    if is_picked_layer(path, block, line, index):
        return True
    origins = index.origins(holder, block.function, line)
    return bool(origins) and all(
        isinstance(origin.value, ast.Call)
        and LAYERS.fullmatch(resolve(dotted(origin.value.func), origin.function)) is not None
        for origin in origins
    )


def _asks_for_layer(test: ast.expr, path: str, function: Function) -> bool:
    """Return whether a test compares the type of a layer, or looks for a kind of layer in its name."""
    text = ast.unparse(test)
    if f"type({path})" in text and isinstance(test, ast.Compare):
        kinds = test.comparators[0].elts if isinstance(test.comparators[0], ast.Tuple | ast.List) else test.comparators
        return all(LAYERS.fullmatch(resolve(dotted(kind), function)) for kind in kinds)
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
        return not freezes(function.file)
    if not over or not is_last_name:
        return False
    text = ast.unparse(found.value) + found.target
    if _COPIES.search(text + function.name):
        return not any(freezes(file) for file in index.files.values())
    holders = {dotted(each.func).rpartition(".")[0] for each in over if _holds_it(each, found)}
    return not any(may_freeze(holder, function) for holder in holders)


def _holds_it(call: ast.Call, found: Assignment) -> bool:
    """Return whether a target of a loop over several models' parameters takes those of this one."""
    target = found.statement.target if isinstance(found.statement, ast.For) else None
    is_zipped = (
        isinstance(found.value, ast.Call) and dotted(found.value.func) == "zip" and isinstance(target, ast.Tuple)
    )
    if not is_zipped or not isinstance(found.value, ast.Call) or not isinstance(target, ast.Tuple):
        return True
    pairs = zip(found.value.args, target.elts, strict=False)
    return any(given is call and any(name == found.target for name in _names(each)) for given, each in pairs)


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
        for part in parts:
            yield from _names(part)
