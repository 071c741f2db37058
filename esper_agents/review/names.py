"""Dotted names: the text of an expression as a path, and what a path means through the imports of a file."""

from __future__ import annotations

import ast


def dotted(node: ast.expr) -> str:
    """Return an expression as a path such as `self.layers[].forward` or `scaler.scale().backward`.

    Calls become `()`, subscripts `[]`. What cannot be written so is empty: `(a + b).sum` is `.sum`.
    """
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
    for place, letter in enumerate(path):
        if letter in ".([":
            return path[:place]
    return path


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
