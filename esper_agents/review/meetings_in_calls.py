"""Where a call brings a tensor on the host together with one on the device."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.definitions import owner_of
from esper_agents.review.devices import holds_parameters, is_moved, made_by, moves
from esper_agents.review.index import argument_for
from esper_agents.review.names import dotted, root_of, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.patterns import pattern
from esper_agents.review.placement import Places, places_of
from esper_agents.review.places import MIXING, Meeting, Place, Where, mixed

if TYPE_CHECKING:
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Function

_LOSS = pattern(r"crit|loss", re.IGNORECASE)
_LOADED = pattern(r"(?:\w+_)?(?:criterion|crit|loss|loss_fn|loss_func|loss_function)")
_FUNCTIONS = frozenset(
    {"cat", "stack", "concat", "where", "matmul", "mm", "bmm", "einsum", "add", "sub", "mul", "div", "addmm", "dot"}
    | {"grid_sample", "linear", "conv1d", "conv2d", "conv3d", "embedding", "scaled_dot_product_attention", "gather"}
    | {"scatter", "masked_fill", "baddbmm", "lerp", "maximum", "minimum", "eq", "hstack", "vstack", "cdist", "mv"}
    | {
        "quantile",
        "nanquantile",
        "searchsorted",
        "bucketize",
        "index_select",
        "take_along_dim",
        "masked_select",
        "isin",
    }
    | {
        "cross_entropy",
        "nll_loss",
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "kl_div",
        "binary_cross_entropy",
        "ge",
        "le",
    }
    | {
        "binary_cross_entropy_with_logits",
        "cosine_similarity",
        "logical_and",
        "logical_or",
        "minimum",
        "outer",
        "cross",
    }
    | {
        "conv_transpose1d",
        "conv_transpose2d",
        "tensordot",
        "kron",
        "gt",
        "lt",
        "ne",
        "logaddexp",
        "hypot",
        "huber_loss",
    }
    | {"block_diag", "column_stack", "row_stack", "dstack", "concatenate", "complex", "atan2", "addcmul", "pow", "dist"}
    | {"batch_norm", "layer_norm", "group_norm", "gaussian_nll_loss", "cosine_embedding_loss", "triplet_margin_loss"}
)
# Functions of torch that also refuse a CPU tensor without dimensions.
_STRICT = frozenset({"quantile", "nanquantile", "searchsorted", "index_select", "gather"})
_GIVEN_ON_HOST = pattern(r"\w*lengths?|generator|sizes?")
# What calculates with nothing, or with one tensor alone.
_ALONE = frozenset(
    {
        "print",
        "len",
        "range",
        "int",
        "float",
        "bool",
        "isinstance",
        "zip",
        "enumerate",
        "list",
        "tuple",
        "dict",
        "super",
    }
    | {"view", "reshape", "size", "to", "cuda", "cpu", "long", "append", "unsqueeze", "squeeze", "expand", "repeat"}
    | {
        "item",
        "sum",
        "mean",
        "max",
        "min",
        "format",
        "transpose",
        "permute",
        "contiguous",
        "tolist",
        "numpy",
        "t",
        "dim",
    }
    | {"clone", "detach", "flatten", "type_as", "exp", "log", "sqrt", "register_buffer", "max", "min", "sorted", "set"}
)
_MOVING = frozenset({"to", "cuda", "cpu", "type_as"})


def meeting_in_call(node: ast.Call, places: Places, function: Function, index: ProjectIndex) -> Meeting | None:
    """Return the tensors that meet in a call; None where none do."""
    if not _may_mix(node, function):
        return None
    line = node.lineno
    arguments = [part for arg in node.args for part in _parts(arg)]
    arguments += [
        part
        for keyword in node.keywords
        for part in _parts(keyword.value)
        if not _GIVEN_ON_HOST.fullmatch(keyword.arg or "")
    ]
    found = [places.of(argument, line) for argument in arguments if not _is_sent_to_host(argument)]
    path, tail = dotted(node.func), tail_of(dotted(node.func))
    if isinstance(node.func, ast.Attribute) and tail in MIXING:
        found.insert(0, places.of(node.func.value, line))
    hosts = [each for each in found if each.where is Where.HOST]
    devices = [each for each in found if each.where is Where.DEVICE]
    if not hosts:
        if tail in _STRICT and devices and resolve(path, function) == f"torch.{tail}":
            return _without_dimensions(node, devices[0], function)
        return _weight_on_host(node, devices[0], function, index) if devices and _LOSS.search(path) else None
    if holds_parameters(node, function, index):
        return Meeting(hosts[0], places.of(node, line))
    if is_moved(node.func, function, index, line):
        wrong = [
            each
            for place, each in enumerate(found)
            if each.where is Where.HOST and (not place or isinstance(each.source, ast.Call))
        ]
        return Meeting(wrong[0], places.of(node, line)) if wrong else None
    met = mixed(found)
    return met if met is not None and _needs_one_place(node, met, function, index) else None


def _may_mix(node: ast.Call, function: Function) -> bool:
    """Return whether a call may calculate with several tensors, by its name."""
    path = dotted(node.func)
    tail = tail_of(path)
    if tail in _ALONE:
        return False
    is_of_torch = resolve(path, function).startswith("torch.") and "(" not in path
    return not is_of_torch or tail in _FUNCTIONS or tail in _STRICT or _LOSS.search(tail) is not None


def _is_sent_to_host(node: ast.expr) -> bool:
    """Return whether an argument is brought to the host where it is handed over, so that it is wanted there."""
    return isinstance(node, ast.Call) and tail_of(dotted(node.func)) == "cpu"


def _without_dimensions(node: ast.Call, device: Place, function: Function) -> Meeting | None:
    for arg in node.args[1:]:
        if (
            isinstance(arg, ast.Call)
            and resolve(dotted(arg.func), function) == "torch.tensor"
            and not any(keyword.arg in {"device", None} for keyword in arg.keywords)
        ):
            return Meeting(type(device)(Where.HOST, arg, function), device)
    return None


def _needs_one_place(node: ast.Call, met: Meeting, function: Function, index: ProjectIndex) -> bool:
    """Return whether a call wants all its tensors in one place."""
    path = dotted(node.func)
    tail = tail_of(path)
    if root_of(path) in function.file.imports and tail in _FUNCTIONS:
        return resolve(path, function).startswith("torch.")
    if "ctc" in tail.lower():
        return False
    if _LOSS.search(tail) and not _is_own(node, function, index):
        is_drawn = isinstance(met.host.source, ast.Name) and _LOADED.fullmatch(tail) is not None
        return is_drawn or _is_loss_of_torch(node, function, index)
    return (isinstance(node.func, ast.Attribute) and tail in MIXING) or _is_mixed_inside(node, function, index)


def _is_loss_of_torch(node: ast.Call, function: Function, index: ProjectIndex) -> bool:
    origins = index.origins(node.func, function, node.lineno)
    return bool(origins) and all(made_by(origin.value, origin.function).startswith("torch.nn.") for origin in origins)


def _weight_on_host(node: ast.Call, device: Place, function: Function, index: ProjectIndex) -> Meeting | None:
    """Return the weights on the host that the loss of a call was made with, and that nothing moves."""
    if any(call.receiver == dotted(node.func) for call in moves(function, index)):
        return None
    for origin in index.origins(node.func, function, node.lineno):
        made = origin.value
        owner = owner_of(origin.function)
        is_module = owner is not None and index.is_module(owner)
        if is_module or not made_by(made, origin.function).startswith("torch.nn.") or not isinstance(made, ast.Call):
            continue
        weights = [keyword.value for keyword in made.keywords if keyword.arg in {"weight", "pos_weight"}]
        for each in (*weights, *made.args[:1]):
            place = places_of(origin.function, index).of(each, made.lineno)
            if place.where is Where.HOST:
                return Meeting(place, device)
    return None


def _is_own(node: ast.Call, function: Function, index: ProjectIndex) -> bool:
    return any(call.node is node and index.possible_callees(call) for call in function.calls)


def _is_mixed_inside(node: ast.Call, function: Function, index: ProjectIndex) -> bool:
    """Return whether the function that a call reaches calculates with one on the host and one on the device."""
    call = next((each for each in function.calls if each.node is node), None)
    places = places_of(function, index)
    for called in index.callees(call) if call is not None else ():
        if call is None or any(each.tail in _MOVING for each in called.calls):
            return False
        given = {
            parameter: places.of(value, node.lineno).where
            for parameter in called.parameters
            if (value := argument_for(call, called, parameter)) is not None
        }
        hosts = {each for each, where in given.items() if where is Where.HOST and each not in called.assignments}
        others = {each for each, where in given.items() if where is Where.DEVICE}
        return _calculates(called, hosts, others) or _feeds_layer(called, hosts, index)
    return False


def _calculates(called: Function, hosts: set[str], others: set[str]) -> bool:
    """Return whether a function calculates with one of each."""
    for each in walk(called.node) if hosts and others else ():
        if isinstance(each, ast.BinOp):
            read = {dotted(part) for part in walk(each) if isinstance(part, ast.Name)}
            if read & hosts and read & others:
                return True
        if isinstance(each, ast.Subscript) and dotted(each.value) in hosts and dotted(each.slice) in others:
            return True
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in MIXING:
            whole = {dotted(each.func.value), *map(dotted, each.args)}
            if whole & hosts and whole & others:
                return True
    return False


def _feeds_layer(called: Function, hosts: set[str], index: ProjectIndex) -> bool:
    """Return whether a function feeds one of its parameters to a layer of torch, as it is."""
    return any(
        dotted(arg) in hosts and holds_parameters(call.node, called, index)
        for call in (called.calls if hosts else ())
        for arg in call.node.args
    )


def _parts(node: ast.expr) -> list[ast.expr]:
    return [part for elt in node.elts for part in _parts(elt)] if isinstance(node, ast.Tuple | ast.List) else [node]
