"""Dotted names: the text of an expression as a path, and what a path means through the imports of a file."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# Fields that hold text, or only say how a node is used or which operator it has.
_NO_NODES = frozenset(
    {"id", "attr", "arg", "kind", "ctx", "op", "ops", "level", "module", "conversion", "is_async", "simple", "rest"}
    | {"type_comment", "asname", "kwd_attrs", "type_ignores"}
)
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.alias, ast.MatchAs, ast.MatchStar)
_PLAIN = (ast.Constant, ast.Global, ast.Nonlocal, ast.MatchSingleton)
_below: dict[type, tuple[str, ...]] = {}


def walk(node: ast.AST) -> Iterator[Any]:
    """Yield a node and all below it, outermost first, as `ast.walk` does, but for contexts and operators.

    Those hang on the nodes that are yielded, and take half the time.
    """
    nodes = [node]
    for each in nodes:
        yield each
        kind = each.__class__
        fields = _below.get(kind)
        for name in _fields_of(kind) if fields is None else fields:
            value = getattr(each, name, None)
            if value.__class__ is list:
                nodes += value if None not in value else [one for one in value if one is not None]
            elif value is not None:
                nodes.append(value)


def _fields_of(kind: type) -> tuple[str, ...]:
    """Return the fields of a kind of node that may hold nodes."""
    fields: tuple[str, ...] = getattr(kind, "_fields", ())
    aside = _NO_NODES | ({"name"} if issubclass(kind, _NAMED) else frozenset())
    _below[kind] = () if issubclass(kind, _PLAIN) else tuple(field for field in fields if field not in aside)
    return _below[kind]


def below(node: ast.AST) -> list[Any]:
    """Return the nodes directly below one, in order, as `walk` takes them."""
    kind = node.__class__
    fields = _below.get(kind)
    nodes: list[Any] = []
    for name in _fields_of(kind) if fields is None else fields:
        value = getattr(node, name, None)
        if value.__class__ is list:
            nodes += value if None not in value else [one for one in value if one is not None]
        elif value is not None:
            nodes.append(value)
    return nodes


def dotted(node: ast.expr) -> str:
    """Return an expression as a path such as `self.layers[].forward` or `scaler.scale().backward`.

    Calls become `()`, subscripts `[]`. What cannot be written so is empty: `(a + b).sum` is `.sum`.
    """
    if node.__class__ is ast.Name:
        return node.id
    # Most paths are a name, or one with one attribute, and this is asked more often than all else.
    if node.__class__ is ast.Attribute and node.value.__class__ is ast.Name:
        return f"{node.value.id}.{node.attr}"
    ends: list[str] = []
    while True:
        kind = node.__class__
        if kind is ast.Name:
            ends.append(node.id)  # type: ignore[attr-defined]
            break
        if kind is ast.Attribute:
            ends.append(f".{node.attr}")  # type: ignore[attr-defined]
            node = node.value  # type: ignore[attr-defined]
        elif kind is ast.Call:
            ends.append("()")
            node = node.func  # type: ignore[attr-defined]
        elif kind is ast.Subscript:
            ends.append("[]")
            node = node.value  # type: ignore[attr-defined]
        else:
            break
    return "".join(reversed(ends))


def root_of(path: str) -> str:
    """Return the name a path starts with: `self` of `self.net().x`; empty where it starts with no name."""
    root = path.partition(".")[0]
    return root if root.isidentifier() else root.partition("(")[0].partition("[")[0]


def tail_of(path: str) -> str:
    """Return the last name of a path, calls and subscripts left out: `backward` of `a.backward()`."""
    return path.rpartition(".")[2].rstrip("()[]")


def absolute_module(module: str, *, is_package: bool, level: int, name: str) -> str:
    """Return what `from ...name` means inside a module.

    Args:
        module: The module's own dotted name.
        is_package: Whether it is the `__init__` of a package.
        level: How many dots the import has; 0 is an absolute import.
        name: What stands after the dots, or empty.
    """
    if not level:
        return name
    parts = module.split(".") if module else []
    keep = len(parts) - level + (1 if is_package else 0)
    base = parts[: max(keep, 0)]
    return ".".join([*base, name] if name else base)
