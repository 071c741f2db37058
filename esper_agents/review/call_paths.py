"""Code that runs with named definitions: their callees, their callers and the rest of their classes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.models import callers_around
from esper_agents.review.names import dotted, tail_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Class, FileTables, Function

# A name so long means one interface, however many classes have it.
_SHORTEST_METHOD = 10
_ROUNDS = 2


def lines_run_with(
    symbols: Iterable[str], index: ProjectIndex, *, has_callers: bool = True
) -> dict[str, set[int]] | None:
    """Return the lines, by file, that run with named definitions; None if none of them is known.

    Args:
        symbols: Definitions as `FILE.py:Qualified.name`.
        index: Facts about all files of the project.
        has_callers: Whether what calls them, what that calls, and the code outside of functions run with them, too.
    """
    named = {symbol for symbol in symbols if ":" in symbol}
    roots = [function for file in index.files.values() for function in file.functions if _is_of(function, named)]
    if not roots:
        return None
    run: dict[Function, None] = {}
    for root in dict.fromkeys((*roots, *_inherited(roots, index))):
        for around in callers_around(root, index) if has_callers else (root,):
            run |= dict.fromkeys(index.closure(around))
    for _ in range(_ROUNDS):
        found = (*_implementations(run, index), *_referred(run, index), *_of_parts(run, index))
        more = [each for each in found if each not in run]
        for function in more:
            run |= dict.fromkeys(index.closure(function))
    siblings = _siblings(roots, index)
    lines: dict[str, set[int]] = {}
    for function in (each for each in run if each.owner not in siblings):
        lines.setdefault(function.file.path, set()).update(_lines(function))
    for file in index.files.values() if has_callers else ():
        lines.setdefault(file.path, set()).update(_lines_of_module(file))
    return lines


def _is_of(function: Function, named: set[str]) -> bool:
    place = f"{function.file.path}:{function.qualname}"
    return any(place == symbol or place.startswith(f"{symbol}.") for symbol in named)


def _inherited(roots: Sequence[Function], index: ProjectIndex) -> Iterator[Function]:
    for owner in dict.fromkeys(root.owner for root in roots if root.owner is not None):
        for base in index.lineage(owner).classes:
            yield from base.methods.values()


def _siblings(roots: Sequence[Function], index: ProjectIndex) -> frozenset[Class]:
    """Return the classes that share a base with a named class: what they override does not run with it."""
    named = {root.owner for root in roots if root.owner is not None}
    own = {base for owner in named for base in index.lineage(owner).classes}
    classes = {each for file in index.files.values() for each in file.classes if each not in own}
    return frozenset(
        each
        for each in classes
        if own & set(index.lineage(each).classes) and not named & set(index.lineage(each).classes)
    )


def _implementations(run: Iterable[Function], index: ProjectIndex) -> Iterator[Function]:
    """Yield the methods that functions call on objects by a name of one interface, of every class that has it."""
    names = {call.tail for function in run for call in function.calls if call.receiver}
    for name in names:
        if len(name) >= _SHORTEST_METHOD:
            yield from (each for each in index.functions.get(name, ()) if each.owner is not None)


def _referred(run: Iterable[Function], index: ProjectIndex) -> Iterator[Function]:
    """Yield the functions that others name without calling them, as `step = ops.fused_step` before `step(x)`."""
    for name in _names(run):
        found = index.functions.get(name, ()) if len(name) >= _SHORTEST_METHOD else ()
        if len(found) == 1 and found[0].owner is None:
            yield found[0]


def _of_parts(run: Iterable[Function], index: ProjectIndex) -> Iterator[Function]:
    """Yield the methods of the classes that functions name: their objects are parts of what runs."""
    names = _names(run)
    for file in index.files.values():
        for owner in file.classes:
            if owner.name in names:
                for base in index.lineage(owner).classes:
                    yield from base.methods.values()


def _names(run: Iterable[Function]) -> set[str]:
    return {
        tail_of(dotted(node))
        for function in run
        for node in ast.walk(function.node)
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load)
    }


def _lines(function: Function) -> range:
    first = int(getattr(function.node, "lineno", 1))
    return range(first, int(getattr(function.node, "end_lineno", None) or first) + 1)


def _lines_of_module(file: FileTables) -> set[int]:
    """Return the lines outside of functions: settings that hold for all code of the file."""
    inside = {line for function in file.functions if function.outer is not None for line in _lines(function)}
    return set(range(1, len(file.lines) + 1)) - inside
