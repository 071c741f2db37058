"""Modules that a file defines and imports, by their dotted names."""

from __future__ import annotations

import ast
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from esper_agents.review.names import absolute_module

if TYPE_CHECKING:
    from collections.abc import Iterator


def module_names(path: str) -> Iterator[str]:
    """Yield the dotted names by which a file may be imported: from the root, and from each folder above it."""
    parts = list(PurePosixPath(path).with_suffix("").parts)
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    yield from (".".join(parts[start:]) for start in range(len(parts)))


def imports_any(text: str, path: str, modules: set[str]) -> bool:
    """Return whether a file imports one of some modules."""
    return not modules.isdisjoint(imported_names(text, path))


def imported_names(text: str, path: str) -> set[str]:
    """Return the dotted names that a file imports, including the names in `from` imports."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    is_package = path.endswith("__init__.py")
    module = ".".join(PurePosixPath(path).with_suffix("").parts).removesuffix(".__init__")
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found.update(each.name for each in names)
            case ast.ImportFrom(module=name, names=names, level=level):
                base = absolute_module(module, is_package=is_package, level=level, name=name or "")
                found |= {base, *(f"{base}.{each.name}" if base else each.name for each in names)}
            case _:
                continue
    return found
