"""What a nest of containers is made of: tensors at the leaves, plain numbers and texts, and things known by name only."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import MemberDescriptorType
from typing import Any

import torch

# `type` as it was before user code ran: a candidate may have put something else in its place.
_type_of = type
_Tensor = torch.Tensor
_NAMED = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_DEEPEST = 40

Node = dict[str, Any]


def is_tensor(thing: Any) -> bool:
    """Return whether something is a tensor of any type, whatever it says that its class is."""
    return issubclass(_type_of(thing), _Tensor)


def type_name(thing: Any) -> str:
    """Return the name of something's exact type, such as `builtins.list`."""
    kind = _type_of(thing)
    return f"{kind.__module__}.{kind.__qualname__}"


def describe(thing: Any, tensors: list[torch.Tensor], depth: int = 0) -> Node:
    """Return what something is made of, as JSON, and add its tensors to a list.

    Nothing of it is called: a container that makes its parts when they are asked for shows none.

    Args:
        thing: What is described.
        tensors: Gets the tensors, in the order in which the nodes name them.
        depth: How deep in the nest it stands.

    Returns:
        A node: `kind` (`tensor`, `scalar`, `list`, `tuple`, `dict`, `sequence`, `mapping`, `record`, `opaque`), with what
        belongs to it.
    """
    if is_tensor(thing):
        # The same object in two places is one tensor in two places, also when it is made again.
        at = next((number for number, each in enumerate(tensors) if each is thing), len(tensors))
        if at == len(tensors):
            tensors.append(thing)
        return {"kind": "tensor", "tensor": at}
    scalar = _scalar(thing)
    if scalar is not None:
        return scalar
    if depth > _DEEPEST:
        return _opaque(thing)
    parts = _parts(thing)
    if parts is None:
        return _opaque(thing)
    kind, keys, items = parts
    node: Node = {"kind": kind, "type": type_name(thing)}
    if keys is not None:
        node["keys"] = [_key(each) for each in keys]
    node["items"] = [describe(each, tensors, depth + 1) for each in items]
    return node


def walk(node: Node, path: str) -> Iterator[tuple[str, Node]]:
    """Yield every leaf of a description with where it stands, such as `output[0].hidden`."""
    if "items" not in node:
        yield path, node
        return
    keys = node.get("keys") or range(len(node["items"]))
    for key, item in zip(keys, node["items"]):  # noqa: B905 - Python 3.10 and older bundles
        yield from walk(item, f"{path}.{key}" if node["kind"] == "record" else f"{path}[{_key(key)}]")


def rebuild(node: Node, tensors: list[torch.Tensor], template: Any = None) -> Any:
    """Return what a description says, with these tensors at its leaves.

    Args:
        node: The description.
        tensors: What stands at its leaves, in its order.
        template: A living thing of the same shape, from which everything comes that cannot be made from its name.

    Raises:
        ValueError: The template is of another shape, or there is none where one is needed.
    """
    kind = node["kind"]
    if kind == "tensor":
        return tensors[node["tensor"]]
    if kind == "scalar":
        return _from_scalar(node) if template is None else template
    if kind == "opaque":
        if template is None:
            raise ValueError(f"a {node['type']} cannot be made from its name")
        return template
    before = _parts(template)
    if before is not None and (before[0] != kind or len(before[2]) != len(node["items"])):
        raise ValueError(f"a {type_name(template)} stands where a {node['type']} was expected")
    olds = before[2] if before is not None else [None] * len(node["items"])
    items = [rebuild(each, tensors, old) for each, old in zip(node["items"], olds)]  # noqa: B905 - as many
    if kind == "list":
        return items
    if kind == "tuple":
        return tuple(items)
    if kind == "dict":
        return dict(zip(node["keys"] if before is None else before[1] or (), items))  # noqa: B905 - as many
    if before is None:
        raise ValueError(f"a {node['type']} cannot be made from its name")
    return _like(template, kind, before[1], items)


def _scalar(thing: Any) -> Node | None:
    kind = _type_of(thing)
    if thing is None or kind in (bool, int, str):
        return {"kind": "scalar", "type": kind.__name__, "value": thing}
    if issubclass(kind, float):
        return {"kind": "scalar", "type": type_name(thing), "value": float.hex(thing)}
    if issubclass(kind, complex):
        return {"kind": "scalar", "type": type_name(thing), "value": [thing.real.hex(), thing.imag.hex()]}
    if kind is torch.Size:
        return {"kind": "scalar", "type": "torch.Size", "value": [int(each) for each in thing]}
    if issubclass(kind, _NAMED):
        return {"kind": "scalar", "type": kind.__name__, "value": str(thing)}
    if issubclass(kind, (int, str)):
        plain = int(thing) if issubclass(kind, int) else str.__str__(thing)
        return {"kind": "scalar", "type": type_name(thing), "value": plain}
    return None


def _from_scalar(node: Node) -> Any:
    kind, value = node["type"], node["value"]
    if kind == "builtins.float":
        return float.fromhex(value)
    if kind == "builtins.complex":
        return complex(float.fromhex(value[0]), float.fromhex(value[1]))
    if kind == "torch.Size":
        return torch.Size(value)
    if kind == "device":
        return torch.device(value)
    if kind in {"dtype", "layout", "memory_format"}:
        return getattr(torch, value.removeprefix("torch."))
    if kind in {"NoneType", "bool", "int", "str"}:
        return value
    raise ValueError(f"a {kind} cannot be made from its name")


def _parts(thing: Any) -> tuple[str, list[Any] | None, list[Any]] | None:
    """Return the kind of a container, its keys and its parts, read past whatever its class defines over them."""
    kind = _type_of(thing)
    if kind is list:
        return "list", None, thing
    if kind is tuple:
        return "tuple", None, list(thing)
    if kind is dict:
        return "dict", list(thing), list(thing.values())
    if issubclass(kind, dict):
        return "mapping", list(_in_order(thing)), list(_items_of(thing))
    if issubclass(kind, tuple):
        names = getattr(kind, "_fields", None)
        parts = list(tuple.__iter__(thing))
        return ("record", list(names), parts) if names is not None else ("sequence", None, parts)
    if issubclass(kind, list):
        return "sequence", None, list(list.__iter__(thing))
    if dataclasses.is_dataclass(kind):
        return _fields(thing)
    return None


def _in_order(thing: Any) -> Iterator[Any]:
    return OrderedDict.__iter__(thing) if isinstance(thing, OrderedDict) else dict.__iter__(thing)


def _items_of(thing: Any) -> Iterator[Any]:
    return (dict.__getitem__(thing, key) for key in _in_order(thing))


def _fields(thing: Any) -> tuple[str, list[Any] | None, list[Any]] | None:
    kind = _type_of(thing)
    try:
        kept = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        kept = {}
    names = [each.name for each in dataclasses.fields(thing)]
    items = []
    for name in names:
        slot = next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), None)
        if name in kept and not hasattr(_type_of(slot), "__set__"):
            items.append(kept[name])
        elif _type_of(slot) is MemberDescriptorType:
            items.append(slot.__get__(thing))
        else:
            return None
    return "record", names, items


def _like(template: Any, kind: str, keys: list[Any] | None, items: list[Any]) -> Any:
    made = _type_of(template)
    if kind == "sequence":
        return made(items)
    if isinstance(template, tuple):
        return made(*items)
    copied = copy.copy(template)
    for key, item in zip(keys or (), items):  # noqa: B905 - as many
        if kind == "mapping":
            copied[key] = item
        else:
            object.__setattr__(copied, key, item)
    return copied


def _key(key: Any) -> Any:
    """Return a key as JSON has it."""
    if _type_of(key) in (str, int, bool) or key is None:
        return key
    if _type_of(key) is float:
        return repr(key) if not math.isfinite(key) else key
    return f"<{type_name(key)}>"


def _opaque(thing: Any) -> Node:
    return {"kind": "opaque", "type": type_name(thing)}


def map_tensors(thing: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """Return the same nest with every tensor replaced by what `change` returns for it."""
    tensors: list[torch.Tensor] = []
    node = describe(thing, tensors)
    return rebuild(node, [change(each) for each in tensors], thing)


def tensors_of(thing: Any) -> list[torch.Tensor]:
    """Return the tensors of a nest, in order."""
    tensors: list[torch.Tensor] = []
    describe(thing, tensors)
    return tensors
