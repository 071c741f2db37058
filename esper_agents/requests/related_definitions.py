"""Find the definitions of a project that named ones inherit from and use: a cause may be there."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.requests.project_names import definitions
from esper_agents.requests.spoken_names import MOST_FILES
from esper_agents.review.discover import python_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from esper_agents.domain.request import SymbolReference

_ROUNDS = 3
_MOST_RELATED, _MOST_NAMES = 40, 40
# Shorter names are those of many things.
_SHORTEST = 4
_SHORTEST_METHOD, _MOST_IMPLEMENTATIONS = 10, 12


def related_definitions(root: Path, symbols: Sequence[SymbolReference]) -> tuple[SymbolReference, ...]:
    """Return the base classes of definitions, and the classes and functions that these use, nearest first.

    Only names that the project defines once at the top level of a file are followed, so that none is mistaken.

    Args:
        root: The project's folder.
        symbols: The definitions.
    """
    if not symbols:
        return ()
    known = python_files(root, most=MOST_FILES)
    seen, recent = {(each.path, each.name) for each in symbols}, list(symbols)
    found: list[SymbolReference] = []
    methods = list(_methods_used(root, symbols, known))
    for _ in range(_ROUNDS):
        names = [name for name in dict.fromkeys(_used(root, recent)) if len(name) >= _SHORTEST][:_MOST_NAMES]
        places = [each for each in definitions(root, names, known).values() if len(each) == 1]
        recent = [one for (one,) in places if "." not in one.name and (one.path, one.name) not in seen]
        seen |= {(each.path, each.name) for each in recent}
        found += recent
        if not recent or len(found) >= _MOST_RELATED:
            break
    return tuple((*found, *methods)[:_MOST_RELATED])


def _methods_used(root: Path, symbols: Sequence[SymbolReference], known: Sequence[str]) -> Iterator[SymbolReference]:
    """Yield the methods that named definitions call on objects, by names so long that they mean one interface.

    An evaluator that calls `self.model.score_candidates(...)` is followed into each class that has the method.
    """
    called = {
        call.func.attr
        for symbol in symbols
        for node, imported in _nodes(root, symbol)
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        if _last(call.func.value) not in imported and len(call.func.attr) >= _SHORTEST_METHOD
    }
    for places in definitions(root, sorted(called)[:_MOST_NAMES], known).values():
        if len(places) <= _MOST_IMPLEMENTATIONS and all("." in each.name for each in places):
            yield from places


def _used(root: Path, symbols: Sequence[SymbolReference]) -> Iterator[str]:
    """Yield the names of base classes first, then of what is called and is no method of an object."""
    nodes = [each for symbol in symbols for each in _nodes(root, symbol)]
    for node, _ in nodes:
        if isinstance(node, ast.ClassDef):
            yield from (_last(base) for base in node.bases)
    for node, imported in nodes:
        for each in ast.walk(node):
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Name):
                yield each.func.id
            # What is imported may be called later by another name.
            elif isinstance(each, ast.Attribute) and _last(each.value) in imported:
                yield each.attr
            elif isinstance(each, ast.Name) and each.id in imported:
                yield each.id


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _nodes(root: Path, symbol: SymbolReference) -> Iterator[tuple[ast.stmt, frozenset[str]]]:
    """Yield the syntax tree of a definition, with the bases of its class, and the names that its file imports."""
    try:
        tree = ast.parse((root / symbol.path).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    imports = [each for each in ast.walk(tree) if isinstance(each, ast.Import | ast.ImportFrom)]
    imported = frozenset(name.asname or name.name for each in imports for name in each.names)
    for node in tree.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.lineno <= symbol.line <= (node.end_lineno or node.lineno):
            inner = [each for each in node.body if each.lineno == symbol.line and each is not node]
            if inner and isinstance(node, ast.ClassDef):
                yield ast.ClassDef(node.name, node.bases, [], inner, []), imported
            else:
                yield node, imported
