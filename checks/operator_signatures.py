"""Signatures of the public callables of torch, from operator schemas and Python signatures."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import get_testing_overrides

from esper_agents.review.model.operators import Parameter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Prefix of the names of operators for the callables of each namespace.
_NAMESPACES = {
    "torch": (torch, ""),
    "torch.Tensor": (torch.Tensor, ""),
    "torch.nn.functional": (torch.nn.functional, ""),
    "torch.linalg": (torch.linalg, "linalg_"),
    "torch.special": (torch.special, "special_"),
    "torch.fft": (torch.fft, "fft_"),
}
# Not operators: they read files, start other programs or change what the process has set.
_LEFT_OUT = frozenset({"from_file", "cudnn_is_acceptable", "segment_reduce"})
_UNTYPED = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format", "generator"})
_KINDS = {
    "Tensor": "T",
    "Optional[Tensor]": "T",
    "List[Tensor]": "TL",
    "int": "i",
    "Optional[int]": "i",
    "List[int]": "iL",
    "Optional[List[int]]": "iL",
    "number": "n",
    "Optional[number]": "n",
    "float": "n",
    "Optional[float]": "n",
    "bool": "b",
    "Optional[bool]": "b",
    "str": "s",
    "Optional[str]": "s",
}
_TENSOR_NAMES = frozenset({"self", "input", "other", "target", "weight", "x1", "x2", "query", "key", "value", "tensor"})
_MERGED = {
    frozenset({"T", "n"}): "Tn",
    frozenset({"i", "iL"}): "iL",
    frozenset({"Tn", "n"}): "Tn",
    frozenset({"Tn", "T"}): "Tn",
}


def callables() -> Iterator[tuple[str, Callable[..., Any], list[Any]]]:
    """Yield name, callable and operator schemas of all public callables that compute on tensors."""
    overridable = get_testing_overrides()
    for space, (holder, prefix) in _NAMESPACES.items():
        for name in sorted(dir(holder)):
            function = getattr(holder, name)
            if name.startswith("_") or name in _LEFT_OUT or inspect.isclass(function) or not callable(function):
                continue
            # JIT operators such as `aten::hash` have schemas, but take no tensors: `overloads` leaves them out.
            schemas = torch._C._jit_get_schemas_for_operator(f"aten::{prefix}{name}")
            if schemas or function in overridable:
                yield f"{space}.{name}", function, schemas


def overloads(name: str, function: Callable[..., Any], schemas: list[Any]) -> list[tuple[Parameter, ...]]:
    """Return the parameters of each overload, without those for named dimensions and for results given as `out`."""
    found = [parameters for schema in schemas if (parameters := _of_schema(schema)) is not None]
    if inspect.isfunction(function):
        kinds = {each.name: each.kind for parameters in found for each in parameters}
        written = _of_signature(function, kinds)
        # A dispatcher of the kind `f(*args, **kwargs)` says nothing; torch lists its signature elsewhere.
        found = [written] if written is not None else found or _of_override(function, kinds)
    elif not found:
        found = _of_override(function, {})
    if name.startswith("torch.Tensor."):
        found = [tuple(sorted(parameters, key=lambda each: each.name != "self")) for parameters in found]
    else:
        found = [tuple(_renamed(each) for each in parameters) for parameters in found]
    return _merged(found)


def _renamed(parameter: Parameter) -> Parameter:
    if parameter.name != "self":
        return parameter
    return Parameter("input", parameter.kind, parameter.default, parameter.is_required, parameter.is_keyword_only)


def _of_schema(schema: Any) -> tuple[Parameter, ...] | None:
    types = [str(each.type) for each in schema.arguments]
    names = [each.name for each in schema.arguments]
    is_factory = "device" in names and "dtype" in names
    if not is_factory and (not types or types[0] not in {"Tensor", "List[Tensor]", "Optional[Tensor]", "number"}):
        return None
    if types and types[0] == "List[Tensor]" and names[0] == "self":
        # A list operator of TorchScript: `sort` of a list of tensors.
        return None
    if not is_factory and "Tensor" not in " ".join(types):
        return None
    if any(each.alias_info is not None and each.kwarg_only for each in schema.arguments) or "List[str]" in types:
        return None
    parameters = []
    for argument, type_name in zip(schema.arguments, types, strict=True):
        if argument.name in {"dim", "dims", "dimension"} and "str" in type_name:
            return None
        kind = "" if argument.name in _UNTYPED else _KINDS.get(type_name, "")
        is_optional = type_name.startswith("Optional")
        default = argument.default_value if argument.has_default_value() else None
        is_required = not argument.has_default_value() and not (is_optional and argument.kwarg_only)
        parameters.append(Parameter(argument.name, kind, _jsonable(default), is_required, bool(argument.kwarg_only)))
    return tuple(parameters)


def _jsonable(default: object) -> object:
    try:
        json.dumps(default)
    except (TypeError, ValueError):
        return None
    return default


def _of_signature(function: Callable[..., Any], kinds: dict[str, str]) -> tuple[Parameter, ...] | None:
    try:
        signature = inspect.signature(function)
    except ValueError:
        return None
    found = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    lists = [each for each in found if each.kind is each.VAR_POSITIONAL]
    if len(lists) == len(found) and {each.name for each in lists} <= {"args"}:
        return None
    parameters = []
    for each in found:
        is_required = each.default is each.empty and each.kind is not each.VAR_POSITIONAL
        kind = "TL" if each.kind is each.VAR_POSITIONAL and each.name in {"tensors", "operands"} else _kind(each, kinds)
        default = None if each.default is each.empty else each.default
        parameters.append(Parameter(each.name, kind, _jsonable(default), is_required, each.kind is each.KEYWORD_ONLY))
    return tuple(parameters)


def _of_override(function: Callable[..., Any], kinds: dict[str, str]) -> list[tuple[Parameter, ...]]:
    listed = get_testing_overrides().get(function)
    written = _of_signature(listed, kinds) if listed is not None else None
    return [] if written is None else [written]


def _kind(parameter: inspect.Parameter, kinds: dict[str, str]) -> str:
    if isinstance(parameter.default, str):
        # An int in the operator's schema: `reduction`, `compute_mode`; or a name or a number: `p` of `norm`.
        return ""
    if kinds.get(parameter.name):
        return kinds[parameter.name]
    if parameter.name in _UNTYPED:
        return ""
    annotation = str(parameter.annotation)
    if parameter.name in _TENSOR_NAMES or "Tensor" in annotation:
        return "T"
    if parameter.name in {"dim", "start_dim", "end_dim"}:
        return "i"
    by_default = {bool: "b", float: "n", int: "i"}
    return by_default.get(type(parameter.default), "b" if parameter.name == "keepdim" else "")


def _merged(found: list[tuple[Parameter, ...]]) -> list[tuple[Parameter, ...]]:
    """Return the overloads, with those merged that differ in kinds alone: a tensor or a number for `other`."""
    merged: dict[tuple[tuple[str, bool], ...], tuple[Parameter, ...]] = {}
    for parameters in found:
        key = tuple((each.name, each.is_required) for each in parameters)
        earlier = merged.get(key)
        merged[key] = parameters if earlier is None else tuple(map(_joined, earlier, parameters))
    return sorted(merged.values(), key=lambda each: (len(each), str(each)))


def _joined(one: Parameter, other: Parameter) -> Parameter:
    kind = one.kind if one.kind == other.kind else _MERGED.get(frozenset({one.kind, other.kind}), "")
    return Parameter(one.name, kind, one.default, one.is_required, one.is_keyword_only)


def text(parameters: tuple[Parameter, ...]) -> str:
    """Return an overload's signature as the table states it."""
    parts: list[str] = []
    for each in parameters:
        if each.is_keyword_only and "*" not in parts:
            parts.append("*")
        kind = f":{each.kind}" if each.kind else ""
        default = "" if each.is_required else f"={json.dumps(each.default, separators=(',', ':'))}"
        parts.append(f"{each.name}{kind}{default}")
    return ", ".join(parts)
