"""Which names of a function may hold a tensor on the host: what is worth a closer look at its place."""

from __future__ import annotations

import ast
from bisect import bisect_left
from typing import TYPE_CHECKING

from esper_agents.review.blocks import BlockKind
from esper_agents.review.devices import moves, moves_itself
from esper_agents.review.frameworks import places_batches
from esper_agents.review.host_batches import is_drawn_on_host
from esper_agents.review.making import making_calls
from esper_agents.review.names import below, walk
from esper_agents.review.placement import places_of
from esper_agents.review.places import Where

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.placement import Places
    from esper_agents.review.tables import Assignment, Class, FileTables, Function

_MIXING = (ast.BinOp, ast.Compare, ast.AugAssign, ast.Call, ast.Subscript, ast.Assign, ast.Return)


def functions_with_host_tensors(file: FileTables, index: ProjectIndex) -> dict[Function, frozenset[object]]:
    """Return the functions of a file that may hold tensors on the host, each with what its own code got them from.

    That is a call that makes one, an attribute that keeps one, or the name under which a loop draws a batch.
    """
    found: dict[Function, set[object]] = {}
    for function, calls in making_calls(file).items():
        found.setdefault(function, set()).update(call.node for call in calls)
    for function, handed in _helper_calls(file, index).items():
        found.setdefault(function, set()).update(handed)
    for owner in file.classes:
        kept = attributes_on_host(owner, index)
        for method in owner.methods.values() if kept else ():
            if method.name != "__init__":
                found.setdefault(method, set()).update(kept)
    for function, names in _drawing(file, index):
        found.setdefault(function, set()).update(names)
    return {function: frozenset(seeds) for function, seeds in found.items()}


def _helpers(index: ProjectIndex) -> frozenset[Function]:
    """Return the functions that hand back a tensor they may have made on the host."""
    return index.once(
        "makers of tensors on the host",
        lambda: frozenset(
            making_call
            for file in index.files.values()
            for making_call in making_calls(file)
            if making_call.returns and not making_call.is_module
        ),
    )


def _helper_calls(file: FileTables, index: ProjectIndex) -> dict[Function, list[ast.Call]]:
    """Return the calls of a file that may hand back a tensor on the host, by the function they stand in."""
    return index.once(("calls of makers", file.path), lambda: _find_helper_calls(file, index))


def _find_helper_calls(file: FileTables, index: ProjectIndex) -> dict[Function, list[ast.Call]]:
    helpers = _helpers(index)
    names = index.once("names of makers", lambda: frozenset(helper.name for helper in helpers))
    found: dict[Function, list[ast.Call]] = {}
    for tail in sorted(names & file.by_tail.keys()):
        for call in file.calls_ending(tail):
            if any(callee in helpers for callee in index.callees(call)):
                found.setdefault(call.function, []).append(call.node)
    return found


def attributes_on_host(owner: Class, index: ProjectIndex) -> frozenset[str]:
    """Return the attributes that keep a tensor on the host, of a class or what it inherits from."""
    return index.once(("attributes on the host", owner), lambda: frozenset(_attributes_on_host(owner, index)))


def _attributes_on_host(owner: Class, index: ProjectIndex) -> Iterator[str]:
    if moves_itself(owner, index):
        return
    for base in index.lineage(owner).classes:
        makers, helped = making_calls(base.file), _helper_calls(base.file, index)
        for method in base.methods.values():
            seeds = [call.node for call in makers.get(method, ())] + helped.get(method, [])
            if not seeds:
                continue
            names = holding(method, frozenset(seeds))
            places = places_of(method, index)
            for path in names:
                plain = [each for each in base.attributes.get(path, ()) if each.block.function is method]
                is_kept = any(places.of(each.value, each.line).where is Where.HOST for each in plain)
                is_plain = not index.is_module(owner)
                if is_kept or (is_plain and any(_has_weight_on_host(each, places) for each in plain)):
                    yield path


def _has_weight_on_host(found: Assignment, places: Places) -> bool:
    """Return whether what is assigned is a loss that was made with weights on the host."""
    given = found.value.keywords if isinstance(found.value, ast.Call) else []
    return any(
        each.arg in {"weight", "pos_weight"} and places.of(each.value, found.line).where is Where.HOST for each in given
    )


def _drawing(file: FileTables, index: ProjectIndex) -> Iterator[tuple[Function, set[str]]]:
    """Yield the functions whose loops draw batches that stay on the host, with the names they are drawn under."""
    if places_batches(file):
        return
    for function in dict.fromkeys(call.function for call in file.calls_ending("to", "cuda", "backward")):
        if not any(block.kind is BlockKind.FOR for block in function.blocks):
            continue
        if not moves(function, index) and not any(call.tail == "backward" for call in function.calls):
            continue
        names = {
            path
            for path, assignments in function.assignments.items()
            for assignment in assignments
            if isinstance(assignment.statement, ast.For | ast.AsyncFor)
            and is_drawn_on_host(assignment, function, index)
        }
        if names:
            yield function, names


def holding(function: Function, seeds: frozenset[object]) -> frozenset[str]:
    """Return the paths that may hold what comes from some calls and names."""
    read = function.file.once(("what is read into what", function), lambda: _read_into(function))
    names = {seed for seed in seeds if isinstance(seed, str)}
    size = -1
    while size != len(names):
        size = len(names)
        known = names | seeds
        names |= {path for path, parts in read if not known.isdisjoint(parts)}
    return frozenset(names)


def _read_into(function: Function) -> list[tuple[str, frozenset[object]]]:
    """Return the paths that a function binds or appends to, each with the calls and paths that it is made of."""
    found = [
        (path, frozenset(_read(assignment.value)))
        for path, assignments in function.assignments.items()
        for assignment in assignments
        if not path.endswith("[]")
    ]
    found += [
        (call.receiver, frozenset(part for arg in call.node.args for part in _read(arg)))
        for call in function.calls
        if call.tail == "append"
    ]
    return found


def _read(node: ast.AST) -> Iterator[object]:
    """Yield the calls and the paths of an expression."""
    for each in walk(node):
        kind = each.__class__
        if kind is ast.Call:
            yield each
        elif kind is ast.Name:
            yield each.id
        elif kind is ast.Attribute and each.value.__class__ is ast.Name:
            yield f"{each.value.id}.{each.attr}"


def mixing_nodes(function: Function, seeds: frozenset[object]) -> list[ast.AST]:
    """Return the parts of a function's code that may bring a tensor on the host together with others, in order."""
    names = holding(function, seeds) | seeds
    lines = _lines_that_read(function, names)
    found: list[ast.AST] = []
    for statement in _statements_on(function.node.body, lines):
        _collect(statement, names, found)
    return sorted(found, key=lambda each: (getattr(each, "lineno", 0), getattr(each, "col_offset", 0)))


def _lines_that_read(function: Function, names: Iterable[object]) -> list[int]:
    """Return the lines of a function on which one of the names, or of the calls, may stand."""
    words = [name for name in names if isinstance(name, str) and name]
    found = {name.lineno for name in names if isinstance(name, ast.Call)}
    if words:
        node = function.node
        first, last = (1, len(function.file.lines)) if isinstance(node, ast.Module) else (node.lineno, node.end_lineno)
        lines = function.file.lines[first - 1 : last]
        found |= {first + place for place, line in enumerate(lines) if any(_is_word(word, line) for word in words)}
    return sorted(found)


def _is_word(name: str, line: str) -> bool:
    """Return whether a name stands in a line, and not as a part of another; no expression to compile for each name."""
    start = line.find(name)
    while start >= 0:
        around = line[start - 1 : start] + line[start + len(name) : start + len(name) + 1]
        if not any(each.isalnum() or each == "_" for each in around):
            return True
        start = line.find(name, start + 1)
    return False


def _statements_on(body: Iterable[ast.stmt], lines: list[int]) -> Iterator[ast.stmt]:
    """Yield the statements that stand on one of the lines, functions and classes left out."""
    for each in body:
        place = bisect_left(lines, each.lineno)
        is_on = place < len(lines) and lines[place] <= (each.end_lineno or each.lineno)
        if not is_on or isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        inner = [part for name in ("body", "orelse", "finalbody") for part in getattr(each, name, ())]
        inner += [part for handler in getattr(each, "handlers", ()) for part in handler.body]
        if inner:
            yield from _statements_on(inner, lines)
            yield from _heads(each)
        else:
            yield each


def _heads(statement: ast.stmt) -> Iterator[ast.stmt]:
    """Yield what a compound statement reads itself, as a statement of its own."""
    for child_node in ast.iter_child_nodes(statement):
        if isinstance(child_node, ast.expr):
            yield ast.copy_location(ast.Expr(child_node), child_node)


def _collect(node: ast.AST, names: Collection[object], found: list[ast.AST]) -> bool:
    """Return whether a part of the code reads one of the names, and keep those of its parts that may mix it."""
    kind = node.__class__
    if kind is ast.Name:
        return node.id in names  # type: ignore[attr-defined]
    if kind is ast.Constant or kind is ast.Lambda:
        return False
    is_read = (
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and f"{node.value.id}.{node.attr}" in names
    )
    for each in below(node):
        is_read |= _collect(each, names, found)
    is_read |= isinstance(node, ast.Call) and node in names
    if is_read and isinstance(node, _MIXING):
        found.append(node)
    return is_read
