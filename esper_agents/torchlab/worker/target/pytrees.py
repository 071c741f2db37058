"""Description of a pytree: tensors, plain numbers and texts, and objects known by name only."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections import OrderedDict
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# `type` saved before user code runs: a candidate may have replaced it.
_type_of = type
_Tensor = torch.Tensor
_NAMED = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_DEEPEST = 40

Node = dict[str, Any]


def is_tensor(thing: Any) -> bool:
    """Return whether an object is a tensor of any type, whatever its `__class__` claims."""
    return issubclass(_type_of(thing), _Tensor)


def type_name(thing: Any) -> str:
    """Return the name of an object's exact type, such as `builtins.list`."""
    kind = _type_of(thing)
    return f"{kind.__module__}.{kind.__qualname__}"


def describe(thing: Any, tensors: list[torch.Tensor], depth: int = 0) -> Node:
    """Return a description of an object as JSON, and append its tensors to a list.

    Calls no code of the object: the parts of a lazy container are not visible.

    Args:
        thing: The object.
        tensors: Receives the tensors, in the order of their nodes.
        depth: Nesting depth.

    Returns:
        A node: `kind` (`tensor`, `scalar`, `list`, `tuple`, `dict`, `sequence`, `mapping`, `record`, `opaque`), with
        its data.
    """
    if is_tensor(thing):
        # One object in two positions is one tensor in two positions, also after restoring.
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
        node["keys"] = [_key(key) for key in keys]
    node["items"] = [describe(item, tensors, depth + 1) for item in items]
    return node


def walk(node: Node, path: str) -> Iterator[tuple[str, Node]]:
    """Yield every leaf of a description with its path, such as `output[0].hidden`."""
    if "items" not in node:
        yield path, node
        return
    keys = node.get("keys") or range(len(node["items"]))
    for key, item in zip(keys, node["items"], strict=True):
        yield from walk(item, f"{path}.{key}" if node["kind"] == "record" else f"{path}[{_key(key)}]")


def rebuild(node: Node, tensors: list[torch.Tensor], template: Any = None) -> Any:
    """Return the object of a description, with these tensors at its leaves.

    Args:
        node: The description.
        tensors: Tensors at its leaves, in its order.
        template: A live object of the same structure, the source of parts that cannot be created by name.

    Raises:
        ValueError: The template has another structure, or is required and missing.
    """
    kind = node["kind"]
    if kind == "tensor":
        return tensors[node["tensor"]]
    if kind == "scalar" and template is None:
        return _from_scalar(node)
    if "items" not in node:
        return _given(node, template)
    before = _parts(template)
    if before is not None and (before[0] != kind or len(before[2]) != len(node["items"])):
        raise ValueError(f"expected a {node['type']}, got a {type_name(template)}")
    olds = before[2] if before is not None else [None] * len(node["items"])
    items = [rebuild(each, tensors, old) for each, old in zip(node["items"], olds, strict=True)]
    if kind in _PLAIN:
        keys = node.get("keys") if before is None else before[1]
        return _PLAIN[kind](items) if keys is None else dict(zip(keys, items, strict=True))
    return _like(_given(node, template), kind, before[1] if before is not None else None, items)


_PLAIN: dict[str, Callable[[list[Any]], Any]] = {"list": list, "tuple": tuple, "dict": dict}


def _given(node: Node, template: Any) -> Any:
    """Return a template.

    Raises:
        ValueError: There is no template.
    """
    if template is None:
        raise ValueError(f"a {node['type']} cannot be made from its name")
    return template


def _scalar(thing: Any) -> Node | None:
    """Return the node of a plain value; None for other objects."""
    kind = _type_of(thing)
    if thing is None or kind in _BY_SHORT_NAME:
        return {"kind": "scalar", "type": kind.__name__, "value": thing}
    for base, value in _SCALARS:
        if issubclass(kind, base):
            is_named = base is _NAMED
            return {"kind": "scalar", "type": kind.__name__ if is_named else type_name(thing), "value": value(thing)}
    return None


_BY_SHORT_NAME = (bool, int, str)
_SCALARS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (float, float.hex),
    (complex, lambda each: [each.real.hex(), each.imag.hex()]),
    (torch.Size, lambda each: [int(size) for size in tuple.__iter__(each)]),
    (_NAMED, str),
    (int, int.__int__),
    (str, str.__str__),
)
_MADE: dict[str, Callable[[Any], Any]] = {
    "builtins.float": float.fromhex,
    "builtins.complex": lambda value: complex(float.fromhex(value[0]), float.fromhex(value[1])),
    "torch.Size": torch.Size,
    "device": torch.device,
    **dict.fromkeys(("dtype", "layout", "memory_format"), lambda value: getattr(torch, value.removeprefix("torch."))),
    **dict.fromkeys(("NoneType", "bool", "int", "str"), lambda value: value),
}


def _from_scalar(node: Node) -> Any:
    if node["type"] not in _MADE:
        return _given(node, None)
    return _MADE[node["type"]](node["value"])


def _parts(thing: Any) -> tuple[str, list[Any] | None, list[Any]] | None:
    """Return the kind of a container, its keys and its parts, bypassing overrides of its class."""
    kind = _type_of(thing)
    if kind in (list, tuple):
        return kind.__name__, None, list(thing)
    if issubclass(kind, dict):
        return "dict" if kind is dict else "mapping", list(_in_order(thing)), list(_items_of(thing))
    if issubclass(kind, tuple):
        names = getattr(kind, "_fields", None)
        parts = list(tuple.__iter__(thing))
        return ("sequence", None, parts) if names is None else ("record", list(names), parts)
    if issubclass(kind, list):
        return "sequence", None, list(list.__iter__(thing))
    return _fields(thing) if dataclasses.is_dataclass(kind) else None


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
    names = [field.name for field in dataclasses.fields(thing)]
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
    for key, item in zip(keys or (), items, strict=True):
        if kind == "mapping":
            copied[key] = item
        else:
            object.__setattr__(copied, key, item)
    return copied


def _key(key: Any) -> Any:
    """Return a key in JSON form."""
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
    return rebuild(node, [change(tensor) for tensor in tensors], thing)


def tensors_of(thing: Any) -> list[torch.Tensor]:
    """Return the tensors of a pytree, in order."""
    tensors: list[torch.Tensor] = []
    describe(thing, tensors)
    return tensors


def tensors_in(thing: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in an operation's arguments or results: only lists, tuples and dictionaries occur there."""
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, (list, tuple)):
        for each in thing:
            yield from tensors_in(each)
    elif isinstance(thing, dict):
        for each in thing.values():
            yield from tensors_in(each)
