"""Which arrays and tensors share their memory, and what changes it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.definitions import owner_of
from esper_agents.review.devices import uses_gpu
from esper_agents.review.index import argument_for, resolve
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from esper_agents.review.flow import Event
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Call, Function

# Methods that change an array, and functions that change the one they are given.
_CHANGING = frozenset({"fill", "sort", "partition", "put", "resize", "shuffle", "setfield", "itemset", "byteswap"})
_CHANGING_ARGUMENT = frozenset(
    {"shuffle", "copyto", "put", "place", "putmask", "fill_diagonal", "readinto", "recv_into", "readinto1"}
)
SHARING = ("torch.from_numpy", "torch.as_tensor", "torch.frombuffer", "torch.asarray")
_OUT = frozenset({"out", "dst"})
# Methods and functions of arrays that give a view.
_VIEWS = frozenset({"reshape", "transpose", "view", "ravel", "squeeze", "swapaxes", "T"})
_VIEWING = frozenset({"expand_dims", "moveaxis", "swapaxes", "transpose", "asarray", "squeeze", "reshape", "flip"})
# What makes a plain row of places.
_PLACES = frozenset(
    {"flatnonzero", "arange", "permutation", "randperm", "range", "list", "sorted", "argsort", "tolist"}
)
# What gives the same array again, or one like it.
_LIKE = frozenset(
    {"astype", "copy", "to_numpy", "reshape", "transpose", "float", "double", "half", "to", "clone", "long"}
)
_WEIGHTS = pattern(r"(?:^|\.)(?:weight|bias|data|param|params|p)$")
_KEPT = pattern(r"(?:numpy|torch)\.\w+")


def viewed_array(node: ast.expr, function: Function) -> ast.Name | ast.Attribute | None:
    """Return the array that an expression is or views; None where it copies, or holds something else."""
    while True:
        match node:
            case ast.Name():
                return node
            case ast.Attribute(attr="T", value=inner):
                node = inner
            case ast.Attribute():
                return node
            case ast.Subscript(value=inner, slice=part) if _gives_view(part, inner, function):
                node = inner
            case ast.Call(func=ast.Attribute(attr=name, value=inner)) if name in _VIEWS and not _is_numpy(
                node, function
            ):
                node = inner
            case ast.Call(args=[inner, *_]) if _is_numpy(node, function) and tail_of(dotted(node.func)) in _VIEWING:
                node = inner
            case _:
                return None


def _is_numpy(node: ast.expr, function: Function) -> bool:
    return isinstance(node, ast.Call) and resolve(dotted(node.func), function).startswith("numpy.")


def _gives_view(part: ast.expr, whole: ast.expr, function: Function) -> bool:
    """Return whether a subscript takes slices or single rows, which NumPy gives as views."""
    parts = part.elts if isinstance(part, ast.Tuple) else [part]
    sliced = [
        isinstance(each, ast.Slice) or (isinstance(each, ast.Constant) and each.value in {None, ...}) for each in parts
    ]
    if any(sliced):
        return all(flag or _is_number(each, function) for flag, each in zip(sliced, parts, strict=True))
    is_kept = dotted(whole).startswith("self.")
    return is_kept and function.name == "__getitem__" and len(parts) == 1 and _is_number(part, function)


def _is_number(node: ast.expr, function: Function) -> bool:
    """Return whether an index surely is a whole number."""
    match node:
        case ast.Constant(value=int()):
            return True
        case ast.UnaryOp(operand=operand):
            return _is_number(operand, function)
        case ast.Name(id=name):
            if function.name == "__getitem__" and name in function.parameters:
                return True
            bound = function.assignments.get(name, ())
            return bool(bound) and all(
                tail_of(dotted(each.value)) in {"range", "enumerate"}
                if isinstance(each.statement, ast.For)
                else not each.is_unpacked and _picks_number(each.value, function)
                for each in bound
            )
        case _:
            return _picks_number(node, function)


def _picks_number(node: ast.expr, function: Function) -> bool:
    """Return whether an expression is a whole number: made one, or picked from the places that the class keeps."""
    match node:
        case ast.Call(func=ast.Name(id="int" | "len" | "round")):
            return True
        case ast.Call(func=ast.Attribute(value=inner, attr="item")):
            return isinstance(inner, ast.expr)
        case ast.BinOp(left=left, op=ast.FloorDiv() | ast.Mod() | ast.Add() | ast.Sub() | ast.Mult(), right=right):
            return _is_number(left, function) and _is_number(right, function)
        case ast.Subscript(value=ast.Attribute() as kept, slice=part) if dotted(kept).startswith("self."):
            return _is_number(part, function) and _keeps_places(dotted(kept), function)
        case _:
            return False


def _keeps_places(path: str, function: Function) -> bool:
    """Return whether an attribute surely holds a plain row of places, such as those of the samples of a split."""
    owner = owner_of(function)
    found = owner.attributes.get(path, ()) if owner is not None else ()
    values = [each.value for each in found if not each.is_augmented]
    return bool(values) and all(
        (isinstance(value, ast.Call) and tail_of(dotted(value.func)) in _PLACES)
        or (isinstance(value, ast.Subscript) and "nonzero" in ast.unparse(value.value))
        for value in values
    )


def changes(path: str, function: Function, sharing: Call | None, index: ProjectIndex) -> list[Event]:
    """Return what changes an array or a tensor in place in a function, but for the call that shares it."""
    found: list[Event] = list(function.assignments.get(f"{path}[]", ()))
    found += [each for each in function.assignments.get(path, ()) if each.is_augmented]
    found += [
        call
        for call in function.calls
        if call is not sharing and call.tail != "requires_grad_" and _changes(call, path, index)
    ]
    return found


def _changes(call: Call, path: str, index: ProjectIndex) -> bool:
    """Return whether a call changes what a path holds."""
    is_method = call.receiver.rstrip("[]") == path and (
        call.tail in _CHANGING or (call.tail.endswith("_") and not call.tail.startswith("_"))
    )
    first = [dotted(arg).rstrip("[]") for arg in call.node.args[:1]]
    is_handed = call.tail in _CHANGING_ARGUMENT and path in first
    is_out = any(keyword.arg in _OUT and dotted(keyword.value).rstrip("[]") == path for keyword in call.node.keywords)
    if is_method or is_handed or is_out:
        return True
    if not any(isinstance(arg, ast.Name | ast.Attribute) and dotted(arg) == path for arg in call.node.args):
        return _WEIGHTS.search(path) is not None and _is_optimizer_step(call, index)
    return any(_writes_parameter(called, call, path) for called in index.callees(call))


def _is_optimizer_step(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call changes all weights: an optimizer's step, on a machine without a GPU."""
    return call.tail == "step" and "opt" in call.receiver.lower() and not call.node.args and not uses_gpu(index)


def _writes_parameter(called: Function, call: Call, path: str) -> bool:
    """Return whether a function writes into what a call hands it under a path."""
    for parameter in called.parameters:
        given = argument_for(call, called, parameter)
        if given is not None and dotted(given) == path and f"{parameter}[]" in called.assignments:
            return all(each.is_augmented for each in called.assignments.get(parameter, ()))
    return False


def changed_after(call: Call, path: str, found: list[Event], index: ProjectIndex, *, shared: str) -> Event | None:
    """Return a change that may follow the sharing while the path still holds the same object."""
    rebound = [each for each in call.function.assignments.get(path, ()) if not each.is_augmented]
    bound = [each for each in rebound if each.statement is call.statement and path != shared]
    start: Event = bound[0] if bound else call
    nearest = index.flow(call.function).first_after(start, [*found, *rebound]).events if found else ()
    return next((each for each in nearest if each in found), None)


def changed_in_class(path: str, call: Call, index: ProjectIndex) -> Event | None:
    """Return a change of an array that a class keeps, by one of its methods; None where it is made anew there."""
    owner = owner_of(call.function)
    if owner is None or not path.startswith("self.") or call.function.name == "__getitem__":
        return None
    for method in owner.methods.values():
        if method.name == "__init__":
            continue
        rebound = [each for each in method.assignments.get(path, ()) if not each.is_augmented]
        found = changes(path, method, call, index)
        if found and not rebound and _is_kept_array(path, method, index):
            return found[0]
    return None


def _is_kept_array(path: str, function: Function, index: ProjectIndex) -> bool:
    """Return whether an attribute surely holds an array or a tensor, and one that only the constructor makes."""
    owner = owner_of(function)
    found = [each for one in index.lineage(owner).classes for each in one.attributes.get(path, ())] if owner else []
    plain = [each for each in found if not each.is_augmented]
    return bool(plain) and all(
        each.block.function.name in {"__init__", "reset", "_reset", "setup", "_init", "load", "_load"}
        and not each.is_unpacked
        and _makes_array(each.value, each.block.function)
        for each in plain
    )


def _makes_array(value: ast.expr, function: Function) -> bool:
    """Return whether an expression surely makes an array or a tensor: `np.load(p)["x"].astype("float32")`."""
    is_changed = False
    while True:
        match value:
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _LIKE and not _is_numpy(
                value, function
            ):
                value, is_changed = inner, True
            case ast.Subscript(value=inner):
                value = inner
            case ast.Attribute(value=inner, attr="values"):
                return not isinstance(inner, ast.Name) or inner.id != "self"
            case ast.BinOp(left=left):
                value, is_changed = left, True
            case ast.Name(id=name):
                made = function.assignments.get(name, ())
                if len(made) != 1 or made[0].is_unpacked or made[0].value is value:
                    return is_changed and name in function.parameters
                value = made[0].value
            case ast.Call():
                return _KEPT.match(resolve(dotted(value.func), function)) is not None
            case _:
                return False


def _unshared(value: ast.expr, function: Function) -> ast.expr:
    """Return what a tensor or an array shares its memory with: `x` of `torch.from_numpy(x)`."""
    while isinstance(value, ast.Call):
        name = resolve(dotted(value.func), function)
        if (
            name in SHARING
            and value.args
            and not any(keyword.arg in {"dtype", "device", "copy"} for keyword in value.keywords)
        ):
            value = value.args[0]
        elif isinstance(value.func, ast.Attribute) and value.func.attr in {"view", "reshape", "squeeze", "unsqueeze"}:
            value = value.func.value
        else:
            break
    return value


def changed_item(found: Assignment, path: str, index: ProjectIndex) -> Event | None:
    """Return what changes a name in place that holds a view of one item of a data set."""
    value, function = _unshared(found.value, found.block.function), found.block.function
    if not isinstance(value, ast.Subscript) or found.is_augmented or found.is_unpacked:
        return None
    kept = dotted(value.value)
    if not kept.startswith("self.") or not _gives_view(value.slice, value.value, function):
        return None
    if not _is_kept_array(kept, function, index):
        return None
    rebound = [each for each in function.assignments.get(path, ()) if not each.is_augmented and each is not found]
    writes = changes(path, function, None, index)
    nearest = index.flow(function).first_after(found, [*writes, *rebound]).events if writes else ()
    return next((each for each in nearest if each in writes), None)
