"""Whether a module that is exported has layers that mind the mode, and which mode it is in."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.review.definitions import owner_of
from esper_agents.review.index import resolve
from esper_agents.review.model_modes import Mode, modes_before
from esper_agents.review.models import switches
from esper_agents.review.names import dotted, root_of, tail_of
from esper_agents.review.objects import wrapped
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Class, Function

_MODED = pattern(r"\w*Dropout\w*|(?:Sync|Lazy)?BatchNorm\w*|RReLU")
# Constructors of whole models; what they return is in training mode.
_WHOLE_MODELS = ("torchvision.models.", "timm.create_model", "timm.models.create_model", "segmentation_models_pytorch.")
_SWITCHES = frozenset({"eval", "train"})
_STEPS = 6


@dataclass(frozen=True, slots=True)
class Made:
    """A module at a line, with what is known of its making.

    Attributes:
        constructor: The call that made it.
        function: The function that call stands in.
        is_training: Whether it is surely in training mode since.
    """

    constructor: ast.Call
    function: Function
    is_training: bool


def made_by(value: ast.expr, function: Function, line: int, index: ProjectIndex, steps: int = _STEPS) -> list[Made]:
    """Return what a module may have been made by, with its mode at a line; nothing where some way is out of sight."""
    if not steps:
        return []
    if isinstance(value, ast.Call):
        return _called(value, function, line, index, steps)
    path = dotted(value)
    found = index.bindings(path, function, line)
    if not path or not found.is_whole or not found.assignments or path.startswith("self."):
        return []
    made: list[Made] = []
    for assignment in found.assignments:
        inside = assignment.block.function in {function, function.file.functions[0]} and not assignment.is_unpacked
        before = (
            made_by(assignment.value, assignment.block.function, assignment.line, index, steps - 1) if inside else []
        )
        if not before:
            return []
        made += [_since(one, path, range(assignment.line + 1, line), function, index) for one in before]
    return made


def _called(value: ast.Call, function: Function, line: int, index: ProjectIndex, steps: int) -> list[Made]:
    """Return what the result of a call was made by: a constructor, `net.to(device)`, or a function of these files."""
    inner = wrapped(value)
    if inner is not None:
        mode = _mode_by(value)
        made = made_by(inner, function, line, index, steps - 1)
        return [replace(one, is_training=mode) for one in made] if mode is not None else made
    name = resolve(dotted(value.func), function)
    called = index.local_function(dotted(value.func), function) or index.function(name, function.file)
    if called is None:
        return [Made(value, function, is_training=True)]
    made = []
    for statement, _ in called.returns:
        given = _argument(statement.value, value, called)
        if statement.value is None:
            return []
        if given is not None:
            before = made_by(given, function, line, index, steps - 1)
            path = dotted(statement.value)
            before = [_since(one, path, range(statement.lineno + 1), called, index) for one in before]
        else:
            before = made_by(statement.value, called, statement.lineno, index, steps - 1)
        if not before:
            return []
        made += before
    return made


def _argument(returned: ast.expr | None, call: ast.Call, called: Function) -> ast.expr | None:
    """Return what a call hands over for the parameter that its function returns, where nothing else has that name."""
    name = dotted(returned) if isinstance(returned, ast.Name) else ""
    if name not in called.parameters or name in called.assignments:
        return None
    place = called.parameters.index(name)
    if place < len(call.args) and not any(isinstance(arg, ast.Starred) for arg in call.args):
        return call.args[place]
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _mode_by(call: ast.Call) -> bool | None:
    """Return the mode that a call such as `net.eval()` puts a module in; None where it puts it in none."""
    name = tail_of(dotted(call.func))
    if name == "train":
        return not call.args and not call.keywords
    return False if name == "eval" else None


def _since(made: Made, path: str, lines: range, function: Function, index: ProjectIndex) -> Made:
    """Return a module after what a function does with it on these lines."""
    switched = [switch for switch in switches(function) if switch.path == path and switch.call.line in lines]
    if switched:
        last = switched[-1]
        return replace(made, is_training=last.to_training is True and last.call.block is function.block)
    calls = [call for call in function.calls if call.line in lines]
    return replace(made, is_training=False) if any(_may_switch(call, path, index) for call in calls) else made


def is_exported_in_training(value: ast.expr, call: Call, index: ProjectIndex) -> bool:
    """Return whether a module that minds the mode is surely in training mode where a call is handed it."""
    made = made_by(value, call.function, call.line, index)
    path = dotted(value)
    switched = [switch for switch in switches(call.function) if switch.path == path and switch.call.line < call.line]
    if not made and switched and switched[-1].to_training is True and switched[-1].call.block in call.block.chain():
        owner = index.class_of(value, call.function, call.line)
        # Whoever switches to training right before an export means layers that mind it, as far as nothing else is seen.
        return owner is None or _has_moded_layer(owner, index)
    if not made and not switched and path.startswith("self.") and path.count(".") == 1:
        return _is_held_in_training(value, call, index)
    return bool(made) and all(each.is_training and _minds(each, index) for each in made)


def _is_held_in_training(value: ast.expr, call: Call, index: ProjectIndex) -> bool:
    """Return whether an object holds a module that minds the mode, and leaves it in training mode until a call."""
    path, holder = dotted(value), owner_of(call.function)
    if holder is None or index.is_module(holder):
        return False
    assigned = [each for base in index.lineage(holder).classes for each in base.attributes.get(path, ())]
    made = [one for each in assigned for one in made_by(each.value, each.block.function, each.line, index)]
    owner = index.class_of(value, call.function, call.line)
    minds = all(_minds(each, index) for each in made) if made else owner is not None and _has_moded_layer(owner, index)
    if not assigned or not minds:
        return False
    is_left_so = bool(made) and all(each.is_training for each in made) and not _may_be_evaluated(path, holder, index)
    return is_left_so or modes_before(call, path, index) == {Mode.TRAINING}


def _may_be_evaluated(path: str, holder: Class, index: ProjectIndex) -> bool:
    """Return whether anything may put what an object holds into evaluation mode: in its class, or by that name."""
    classes = index.lineage(holder).classes
    for each in index.calls_ending("eval"):
        is_elsewhere = root_of(each.receiver) == "self" and owner_of(each.function) not in classes
        if tail_of(each.receiver) in {tail_of(path), "self"} and not is_elsewhere:
            return True
    methods = [method for base in classes for method in base.methods.values()]
    return any({".eval", "eval"} & index.reached(method) for method in methods)


def _minds(made: Made, index: ProjectIndex) -> bool:
    owner = index.class_called(made.constructor, made.function)
    if owner is not None:
        return _has_moded_layer(owner, index)
    return _is_moded_call(made.constructor, resolve(dotted(made.constructor.func), made.function))


def _is_moded_call(node: ast.Call, name: str) -> bool:
    if name.startswith(_WHOLE_MODELS):
        return True
    parts = [dotted(arg.func) for arg in node.args if isinstance(arg, ast.Call)]
    return name == "torch.nn.Sequential" and any(_MODED.fullmatch(tail_of(part)) for part in parts)


def _has_moded_layer(owner: Class, index: ProjectIndex) -> bool:
    parts = [owner]
    for part in parts:
        for base in index.lineage(part).classes:
            init = base.methods.get("__init__")
            for call in init.calls if init is not None else ():
                if call.name.startswith("torch.nn.") and _MODED.fullmatch(call.tail) and not _is_off(call):
                    return True
                inner = index.class_named(call.name, call.function.file)
                if inner is not None and inner not in parts:
                    parts.append(inner)
    return False


def _is_off(call: Call) -> bool:
    """Return whether a dropout drops nothing: `Dropout(0.0)`."""
    rate = call.argument(0, "p")
    return isinstance(rate, ast.Constant) and rate.value == 0


def _may_switch(call: Call, path: str, index: ProjectIndex) -> bool:
    """Return whether a call may switch a module: by its name, or as a helper that is handed it."""
    if call.tail in _SWITCHES:
        return bool(call.receiver) and (path.startswith(call.receiver) or call.receiver.startswith(path))
    handed = any(dotted(each) == path for each in (*call.node.args, *(keyword.value for keyword in call.node.keywords)))
    if call.receiver == path or handed:
        called = index.possible_callees(call)
        is_unknown = handed and not call.name.startswith("torch.") and not called
        return is_unknown or any(
            _leaves_training(inner) for each in called for one in index.closure(each) for inner in one.calls
        )
    return False


def _leaves_training(call: Call) -> bool:
    """Return whether a call may put some module in evaluation mode: `net.eval()`, `net.train(mode)`."""
    return call.tail == "eval" or (
        call.tail == "train" and bool(call.receiver) and bool(call.node.args or call.node.keywords)
    )
