"""Which functions take a model's inputs or tensors of any device, and which of their parameters are tensors."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.frameworks import is_framework_step
from esper_agents.review.making import MAKING
from esper_agents.review.names import dotted, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.tables import Purpose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Class, Function

_SETTING_UP = pattern(
    r"__init__|__post_init__|__new__|reset_|_?init|build|_?make|_?setup|_?register|from_|_?load|_?create|_?prepare"
    r"|_?get_(?:relative|anchor|default)|collate|__getitem__|__len__"
)
# Lengths and counts are commonly kept on the host, whatever else is on the device.
_COUNTS = pattern(r"(?:^|_)(?:n|num|len|lens|length|lengths|size|sizes|count|counts|steps?|shape|shapes|idx)(?:_|$)")
_TENSOR = pattern(r"(?:Optional\[)?(?:torch\.)?(?:Tensor|FloatTensor|LongTensor|BoolTensor)\]?(?: \| None)?")
# Functions that prepare data where the loader works, on the host.
_PREPARING = pattern(
    r"__call__|__getitem__|_?process|_?load|_?read|_?parse|_?download|_?collate|transform|__iter__|plot|_?draw|show|save"
    r"|_?test|to_|from_|_?get_transform|_?visuali[sz]e|_?sample|_?generate|_?random|_?init|_?make|_?create|_?build|_?reset"
)
# Files that prepare data where the loader works.
_DATA = pattern(r"data|loader|transform|sampler|preprocess|(?:^|[/_])io(?:[/_.]|$)|augment|collat|tokeniz")
_FOLLOWING = pattern(r"device=\w+(?:\.\w+)*\.device\b|\.to\(\w+(?:\.\w+)*\.device\b")
# Methods that only tensors have, to tell the parameters that are tensors.
_OF_TENSORS = frozenset(
    {"size", "view", "dim", "reshape", "permute", "transpose", "unsqueeze", "squeeze", "flatten", "contiguous", "mean"}
    | {"long", "clone", "abs", "pow", "argmax", "sigmoid", "clamp", "gather", "view_as", "new_ones", "new_full", "bmm"}
    | {"expand", "float", "detach", "chunk", "exp", "sum", "matmul", "new_zeros", "masked_fill", "repeat", "softmax"}
)


def takes_inputs(function: Function, index: ProjectIndex) -> bool:
    """Return whether a function is called with a model's inputs, which are where its parameters are."""
    return index.once(("takes inputs", function), lambda: _takes_inputs(function, index))


def _takes_inputs(function: Function, index: ProjectIndex) -> bool:
    if function.owner is None:
        return False
    if is_framework_step(function, index):
        return True
    is_module = index.is_module(function.owner) or _is_metric(function.owner, index)
    if not is_module or sets_up(function):
        return False
    if {"staticmethod", "classmethod"} & set(function.decorators):
        return False
    callers = [call.function for call in index.callers(function)]
    return not callers or not all(_SETTING_UP.match(caller.name) for caller in callers)


def _is_metric(owner: Class, index: ProjectIndex) -> bool:
    """Return whether a class is a metric of Lightning or torchmetrics, which are modules."""
    return any(base.endswith("Metric") and "metrics" in base for base in index.lineage(owner).foreign)


def sets_up(function: Function) -> bool:
    """Return whether a method is named like one that makes an object's parts, before anybody can move them."""
    return _SETTING_UP.match(function.name) is not None


def follows_inputs(function: Function, index: ProjectIndex) -> bool:
    """Return whether a function takes tensors of any device, as far as its annotations say that it takes tensors.

    That is known where its project makes tensors on the device of one that it was given; what prepares data does not.
    """
    return index.once(("follows inputs", function), lambda: _follows_inputs(function, index))


def _follows_inputs(function: Function, index: ProjectIndex) -> bool:
    owner = function.owner
    if function.is_module or _PREPARING.match(function.name) is not None or function.file.purpose is not Purpose.CODE:
        return False
    if owner is not None and ({"__getitem__", "__call__", "__iter__"} & owner.methods.keys() or sets_up(function)):
        return False
    if _DATA.search(function.file.path.lower()):
        return False
    return index.once(
        "follows inputs", lambda: any(_FOLLOWING.search(file.text) is not None for file in index.files.values())
    )


def counts_something(name: str) -> bool:
    """Return whether a name says that it holds lengths or counts."""
    return _COUNTS.search(name) is not None


def is_tensor(parameter: str, function: Function, index: ProjectIndex) -> bool:
    """Return whether a function treats a parameter as a tensor."""
    if is_said_to_be_tensor(parameter, function):
        return True
    return parameter in index.once(("tensors", function), lambda: frozenset(_tensors(function)))


def is_said_to_be_tensor(parameter: str, function: Function) -> bool:
    """Return whether a parameter is annotated as a tensor."""
    return any(
        argument.arg == parameter
        and argument.annotation is not None
        and _TENSOR.fullmatch(ast.unparse(argument.annotation))
        for argument in _arguments(function)
    )


def _tensors(function: Function) -> Iterator[str]:
    told = {argument.arg: argument.annotation for argument in _arguments(function)}
    read = frozenset(dotted(each) for each in walk(function.node) if isinstance(each, ast.Attribute))
    sliced = frozenset(
        dotted(each.value)
        for each in walk(function.node)
        if isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Tuple)
    )
    for parameter in function.parameters:
        annotation = told.get(parameter)
        if annotation is None or "Tensor" in ast.unparse(annotation):
            used = any(_uses_as_tensor(call, parameter) for call in function.calls)
            if used or {f"{parameter}.shape", f"{parameter}.device"} & read or parameter in sliced:
                yield parameter


def _arguments(function: Function) -> list[ast.arg]:
    if isinstance(function.node, ast.Module):
        return []
    listed = function.node.args
    return [*listed.posonlyargs, *listed.args, *listed.kwonlyargs]


def _uses_as_tensor(call: Call, parameter: str) -> bool:
    if call.receiver == parameter and call.tail in _OF_TENSORS:
        return True
    takes = call.path.startswith("self.") or (call.name.startswith("torch.") and call.name not in MAKING)
    return takes and any(isinstance(arg, ast.Name) and arg.id == parameter for arg in call.node.args)
