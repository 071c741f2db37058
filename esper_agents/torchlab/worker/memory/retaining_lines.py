"""Find source lines that retain objects: appends to a list, assignments to an attribute."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_ADDING = frozenset(("append", "appendleft", "add", "extend", "insert", "setdefault", "update", "put", "put_nowait"))

# Rank of statements that retain an object: `name.append(...)`, `name[...] = ...`, `name += ...`, `name = ...`.
_CALLS, _SETS, _ADDS, _ASSIGNS = 4, 3, 2, 1
_UNREADABLE = (OSError, ValueError, SyntaxError, RecursionError)


class SourceLine(NamedTuple):
    """One line of source.

    Attributes:
        number: Line number, from 1.
        text: Text without surrounding blanks.
    """

    number: int
    text: str


def keeping_line(
    filename: str, name: str, *, is_attribute: bool, near: int = 0, only_near: bool = False
) -> SourceLine | None:
    """Return the line that stores an object under `name`; None if none is found.

    A call such as `name.append(...)` ranks before `name[...] = ...`, that before `name += ...` and `name = ...`; of
    several of equal rank the last one is returned, as the first is often the empty initialization.

    Args:
        filename: A Python file.
        name: Name of a variable or an attribute.
        is_attribute: Search for `something.name`, not for a variable.
        near: A line of the class or function of `name`, which is searched first.
        only_near: Search nothing else.
    """
    try:
        text, tree = _read(filename)
    except _UNREADABLE:
        return None
    search = _Search(name, ast.Attribute if is_attribute else ast.Name)
    scopes = [*_around(tree, near), *([] if only_near else [tree])]
    for least in (_ADDS, _ASSIGNS):
        for scope in scopes:
            sureness, number = max(search.candidates(scope), default=(0, 0))
            if sureness >= least:
                return SourceLine(number, _text(text, number))
    return None


def graph_keeping_line(filename: str, near: int) -> SourceLine | None:
    """Return the last call that retains a graph after backward: with `create_graph=True` or `retain_graph=True`.

    Args:
        filename: A Python file.
        near: A line of the class or function to search first.
    """
    try:
        text, tree = _read(filename)
    except _UNREADABLE:
        return None
    for scope in (*_around(tree, near), tree):
        numbers = [
            node.lineno
            for node in ast.walk(scope)
            if isinstance(node, ast.Call)
            for option in node.keywords
            if option.arg in {"create_graph", "retain_graph"}
            and isinstance(option.value, ast.Constant)
            and option.value.value is True
        ]
        if numbers:
            return SourceLine(max(numbers), _text(text, max(numbers)))
    return None


def is_compared(filename: str, near: int, attribute: str) -> bool:
    """Return whether a class compares an attribute with a value, as a bounded container does.

    Args:
        filename: A Python file.
        near: A line of the class.
        attribute: Name of the attribute.
    """
    try:
        _, tree = _read(filename)
    except _UNREADABLE:
        return False
    return any(
        isinstance(part, ast.Attribute) and part.attr == attribute
        for scope in _around(tree, near)
        for comparison in ast.walk(scope)
        if isinstance(comparison, ast.Compare)
        for part in ast.walk(comparison)
    )


def _read(filename: str) -> tuple[str, ast.Module]:
    text = Path(filename).read_text(encoding="utf-8")
    return text, ast.parse(text)


def _around(tree: ast.Module, line: int) -> list[ast.AST]:
    return [each for each in tree.body if each.lineno <= line <= (each.end_lineno or 0)]


class _Search(NamedTuple):
    name: str
    kind: type[ast.Attribute | ast.Name]

    def candidates(self, tree: ast.AST) -> Iterator[tuple[int, int]]:
        """Yield the rank and the number of each line that stores an object."""
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in _ADDING and self.is_it(owner):
                    yield _CALLS, node.lineno
                case ast.Assign(targets=targets):
                    for target in targets:
                        yield from self.assigned(target, node.lineno)
                case ast.AnnAssign(target=target, value=ast.expr()):
                    yield from self.assigned(target, node.lineno)
                case ast.AugAssign(target=target) if self.is_it(target):
                    yield _ADDS, node.lineno
                case _:
                    pass

    def assigned(self, target: ast.expr, line: int) -> Iterator[tuple[int, int]]:
        match target:
            case ast.Subscript(value=owner) if self.is_it(owner):
                yield _SETS, line
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    yield from self.assigned(part, line)
            case _ if self.is_it(target):
                yield _ASSIGNS, line
            case _:
                pass

    def is_it(self, node: ast.expr) -> bool:
        """Return whether an expression is the variable or attribute, or an element of it."""
        match node:
            case ast.Name(id=found) | ast.Attribute(attr=found) if isinstance(node, self.kind):
                return found == self.name
            case ast.Subscript(value=owner):
                return self.is_it(owner)
            case ast.Call(func=ast.Attribute(value=owner, attr="setdefault" | "get")):
                return self.is_it(owner)
            case _:
                return False


def _text(text: str, number: int) -> str:
    lines = text.splitlines()
    return lines[number - 1].strip() if number <= len(lines) else ""
