"""In which mode a model is where code runs: in training, in evaluation, or as a caller left it."""

from __future__ import annotations

import ast
import re
from enum import Enum, auto
from typing import TYPE_CHECKING

from esper_agents.review.blocks import BlockKind
from esper_agents.review.models import is_loss, switch_at
from esper_agents.review.names import dotted, root_of
from esper_agents.review.objects import wrapped
from esper_agents.review.patterns import pattern
from esper_agents.review.renamings import home_of, means_inside, means_outside
from esper_agents.review.training import is_optimizer_step
from esper_agents.review.unpacked import part_assigned

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.review.flow import Event
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Call, Class, Function

_HOPS = 4
# Models that stand beside the one that is trained.
_KEPT_ASIDE = pattern(r"teacher|ema|target|reference|frozen|vgg|lpips|inception|swa|momentum|\bref\b|_ref|old|prev")
# What hands back a model that may already be in evaluation mode.
_LOADING = pattern(r"\.eval\b|from_pretrained|load|restore|\.train\(|evaluat")


class Mode(Enum):
    """The mode of a model at a point."""

    TRAINING = auto()
    EVALUATION = auto()
    UNKNOWN = auto()
    AS_FOUND = auto()


def modes_before(point: Call, path: str, index: ProjectIndex, hops: int = _HOPS) -> frozenset[Mode]:
    """Return the modes in which the model that a path holds may be where a call stands, over all ways that lead there.

    Args:
        point: The call.
        path: The model, as written in the call's function.
        index: The files of the review.
        hops: How many steps from function to function are followed.
    """
    function = point.function
    inside = [block for block in point.block.chain() if block.kind is BlockKind.WITH]
    if any(_may_evaluate_in(context, function, index) for block in inside for context in block.contexts):
        return frozenset({Mode.UNKNOWN})
    if any(_may_evaluate_in(decorator, function, index) for decorator in function.decorators):
        return frozenset({Mode.UNKNOWN})
    events = mode_events(function, path, index, hops)
    reach = index.flow(function).last_before(point, events)
    found = _modes_of(reach.events, events)
    if reach.is_open or not reach.events or Mode.AS_FOUND in found:
        found = (found - {Mode.AS_FOUND}) | _at_start(function, path, index, hops)
    return found


def modes_after(function: Function, path: str, index: ProjectIndex, hops: int = _HOPS) -> frozenset[Mode]:
    """Return the modes in which a function may leave what a path holds; `AS_FOUND` where it does not touch it."""
    key = ("modes after", function, path, hops)
    return index.once(key, lambda: _left_by(function, path, index, hops))


def _left_by(function: Function, path: str, index: ProjectIndex, hops: int) -> frozenset[Mode]:
    if hops <= 0 or not path:
        return frozenset({Mode.UNKNOWN} if ".eval" in index.reached(function) else {Mode.AS_FOUND})
    if any(_may_evaluate_in(decorator, function, index) for decorator in function.decorators):
        return frozenset({Mode.UNKNOWN})
    events = mode_events(function, path, index, hops)
    reach = index.flow(function).last_at_end(events)
    found = _modes_of(reach.events, events)
    return found | {Mode.AS_FOUND} if reach.is_open or not reach.events else found


def mode_events(function: Function, path: str, index: ProjectIndex, hops: int = _HOPS) -> dict[Call, frozenset[Mode]]:
    """Return the calls of a function that may switch what a path holds, each with the modes in which it leaves it."""
    return {call: modes for call in function.calls if (modes := _made_by(call, path, index, hops))}


def _modes_of(reached: Iterable[Event], events: dict[Call, frozenset[Mode]]) -> frozenset[Mode]:
    return frozenset(mode for event, modes in events.items() if event in reached for mode in modes)


def _made_by(call: Call, path: str, index: ProjectIndex, hops: int) -> frozenset[Mode]:
    """Return the modes in which a call leaves a model; nothing where it does not touch it."""
    switch = switch_at(call, index)
    if switch is not None:
        if is_same(switch.path, path) or _hands_to(call, path):
            mode = {True: Mode.TRAINING, False: Mode.EVALUATION, None: Mode.UNKNOWN}[switch.to_training]
            return frozenset({mode})
        may_be = switch.to_training is not True and not is_another(switch.path, path)
        return frozenset({Mode.UNKNOWN}) if may_be else frozenset()
    found: set[Mode] = set()
    for called in index.possible_callees(call):
        if not {".eval", ".train"} & index.reached(called):
            continue
        inner = means_inside(call, called, path, index)
        left = modes_after(called, inner, index, hops - 1) if inner else _left_out_of_sight(called, path, index)
        found |= left
    return frozenset() if found == {Mode.AS_FOUND} else frozenset(found)


def _hands_to(call: Call, path: str) -> bool:
    """Return whether a switch is the last thing done to a new model before it gets its name: `net = Net().eval()`."""
    if "(" not in call.receiver or not isinstance(call.statement, ast.Assign):
        return False
    return call.statement.value is call.node and path in map(dotted, call.statement.targets)


def _left_out_of_sight(called: Function, path: str, index: ProjectIndex) -> frozenset[Mode]:
    """Return what a function may do to a model that it is not handed in sight: it may hold it in an object."""
    evaluates = any(
        call.receiver and call.tail == "eval" and not is_another(call.receiver, path)
        for function in index.closure(called)
        for call in function.calls
        if not call.node.args
    )
    return frozenset({Mode.UNKNOWN} if evaluates and called.owner is not None else {Mode.AS_FOUND})


def _at_start(function: Function, path: str, index: ProjectIndex, hops: int) -> frozenset[Mode]:
    """Return the modes of a model where a function starts, or where the function makes it."""
    root = root_of(path)
    known = function.assignments.get(path) or function.assignments.get(root) or ()
    made = [each for each in known if not _is_made_of_itself(each.value, path if root == "self" else root)]
    if made:
        return frozenset(mode for each in made for mode in _as_assigned(each, function, index, hops))
    if is_trained_in(function, path, index):
        return frozenset({Mode.TRAINING})
    if hops <= 0 or (root not in function.parameters and home_of(root, function) in {None, function}):
        return frozenset({Mode.UNKNOWN})
    if root == "self" and function.owner is not None and _is_set_up_for_evaluation(function, path, index):
        return frozenset({Mode.UNKNOWN if _is_switched_in_class(function.owner, path, index) else Mode.EVALUATION})
    found: set[Mode] = set()
    for call in index.callers(function):
        outside = means_outside(call, function, path, index)
        found |= modes_before(call, outside, index, hops - 1) if outside else {Mode.UNKNOWN}
    return frozenset(found) or frozenset({Mode.UNKNOWN})


def _is_made_of_itself(value: ast.expr, name: str) -> bool:
    """Return whether a value is what the name held before, wrapped or unwrapped: `model.module`, `DDP(model)`."""
    parts = [value, *(value.args if isinstance(value, ast.Call) else ())]
    return any(path == name or path.startswith(f"{name}.") for path in map(dotted, parts))


def _as_assigned(found: Assignment, function: Function, index: ProjectIndex, hops: int) -> frozenset[Mode]:
    """Return the modes in which a model is that an assignment gives a name to: alone, or out of a tuple."""
    given = list(part_assigned(found, index)) if hops > 0 else []
    if given:
        return frozenset(mode for each in given for mode in _handed_back(each.value, each.function, index, hops - 1))
    return _as_made(found.value, function, index, hops)


def _handed_back(value: ast.expr, called: Function, index: ProjectIndex, hops: int) -> frozenset[Mode]:
    """Return the modes of what a function hands back, wherever it puts it: `return model.to(device)`."""
    if isinstance(value, ast.Name):
        return _handed_over(called, value.id, index, hops)
    switched = value.func.attr if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) else ""
    inner = wrapped(value)
    if inner is None or switched in {"eval", "train"}:
        return _as_made(value, called, index, hops)
    return _handed_back(inner, called, index, hops)


def _as_made(value: ast.expr, function: Function, index: ProjectIndex, hops: int) -> frozenset[Mode]:
    """Return the modes in which an expression makes a model: as the function that hands it over leaves it."""
    if isinstance(value, ast.Name | ast.Attribute):
        other = dotted(value)
        is_left = hops > 0 and not mode_events(function, other, index, hops - 1)
        return _at_start(function, other, index, hops - 1) if is_left else frozenset({Mode.UNKNOWN})
    if not isinstance(value, ast.Call):
        return frozenset({Mode.UNKNOWN})
    if isinstance(value.func, ast.Attribute) and value.func.attr == "eval":
        return frozenset({Mode.EVALUATION})
    inner = wrapped(value) or value
    call = next((each for each in function.calls if each.node is inner), None)
    found: set[Mode] = set()
    for called in index.callees(call) if call is not None and hops > 0 else ():
        values = [each.value for each, _ in called.returns if isinstance(each.value, ast.Name | ast.Call)]
        if called.name != "__init__" and len(values) == len(called.returns):
            found |= {mode for each in values for mode in _handed_back(each, called, index, hops - 1)}
    if found:
        return frozenset(found)
    return frozenset({Mode.UNKNOWN if _LOADING.search(ast.unparse(value)) else Mode.TRAINING})


def _handed_over(called: Function, name: str, index: ProjectIndex, hops: int) -> frozenset[Mode]:
    left = modes_after(called, name, index, hops)
    if Mode.AS_FOUND not in left:
        return left
    made = called.assignments.get(name, ())
    before = {mode for each in made for mode in _as_made(each.value, called, index, hops)} or {Mode.UNKNOWN}
    return (left - {Mode.AS_FOUND}) | before


def _is_set_up_for_evaluation(function: Function, path: str, index: ProjectIndex) -> bool:
    """Return whether a class is given, or makes, its model in evaluation mode."""
    classes = index.lineage(function.owner).classes if function.owner is not None else ()
    makers = [cls.methods["__init__"] for cls in classes if "__init__" in cls.methods]
    texts = [ast.unparse(each.value) for one in classes for each in one.attributes.get(path, ())]
    return any(re.search(r"\.eval\(|from_pretrained", text) for text in texts) or any(
        call.tail == "eval" and call.receiver and is_same(call.receiver, path)
        for maker in makers
        for call in maker.calls
    )


def _is_switched_in_class(owner: Class, path: str, index: ProjectIndex) -> bool:
    """Return whether a method of a class may put what a path holds back into training mode, or switches it often."""
    methods = [method for one in index.lineage(owner).classes for method in one.methods.values()]
    return any(
        call.tail == "train" and (is_same(call.receiver, path) or call.receiver == "self")
        for method in methods
        for call in method.calls
    )


def is_trained_in(function: Function, path: str, index: ProjectIndex) -> bool:
    """Return whether a function itself runs a model, sends a loss backward and lets an optimizer step.

    One that is made of tensors, and of no parameters, changes an input.
    """
    tails = {call.tail for call in function.calls}
    if not {"backward", "manual_backward"} & tails or not any(_runs(call, path, index) for call in function.calls):
        return False
    made = [call for call in function.calls if ".optim." in f".{call.name}" and call.tail[:1].isupper()]
    if made and not any("param" in ast.unparse(call.node) for call in made):
        return False
    return "zero_grad" in tails or any(is_optimizer_step(call, index) for call in function.calls)


def _runs(call: Call, path: str, index: ProjectIndex) -> bool:
    """Return whether a call runs a model, itself or in the function that it surely reaches."""
    return call.path == path or any(
        each.path == inner
        for called in index.callees(call)
        if (inner := means_inside(call, called, path, index))
        for each in called.calls
    )


def _may_evaluate_in(path: str, function: Function, index: ProjectIndex) -> bool:
    """Return whether a context or a decorator may put a model into evaluation mode for what it holds."""
    name = path.removesuffix("()")
    if re.search(r"eval|infer(?!ence_mode)|freeze|mode\b(?<!inference_mode)", name.rpartition(".")[2]):
        return True
    found = index.function(name, function.file) or index.local_function(name, function)
    return found is not None and ".eval" in index.reached(found)


def is_same(receiver: str, path: str) -> bool:
    """Return whether switching what one path holds also switches what another does: `model` holds `model.head`."""
    mine, other = _plain(receiver), _plain(path)
    return mine == other or other.startswith(f"{mine}.")


def _plain(path: str) -> str:
    """Return a path without the wrapper that `DataParallel` and its kind put round a model."""
    return path.removesuffix(".module").replace("super()", "self")


def is_another(receiver: str, path: str) -> bool:
    """Return whether two paths are surely two models: `self.teacher` and `self.student`, `teacher` and `model`."""
    if receiver.startswith("self.") and path.startswith("self."):
        return receiver.split(".")[1].rstrip("()[]") != path.split(".")[1].rstrip("()[]")
    if is_loss(receiver):
        return not is_loss(path)
    one, other = _KEPT_ASIDE.search(receiver), _KEPT_ASIDE.search(path)
    if one is not None or other is not None:
        return (one[0] if one else "") != (other[0] if other else "")
    return False
