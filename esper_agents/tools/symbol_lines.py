"""Lines of functions and classes, by their qualified names."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class SymbolLines(NamedTuple):
    """Definition of a function or class, its decorators included.

    Attributes:
        name: Qualified name, such as `Trainer.step`.
        first: First line, from 1.
        last: Last line.
    """

    name: str
    first: int
    last: int


def symbol_lines(text: str) -> tuple[SymbolLines, ...]:
    """Return the functions and classes of a Python source in order; empty if it cannot be parsed."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(_definitions(tree, ""))


def _definitions(node: ast.AST, prefix: str) -> Iterator[SymbolLines]:
    for child_node in ast.iter_child_nodes(node):
        if isinstance(child_node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([child_node.lineno, *(decorator.lineno for decorator in child_node.decorator_list)])
            yield SymbolLines(f"{prefix}{child_node.name}", first, child_node.end_lineno or child_node.lineno)
            yield from _definitions(child_node, f"{prefix}{child_node.name}.")
        elif isinstance(child_node, ast.If | ast.Try | ast.With | ast.For | ast.While):
            yield from _definitions(child_node, prefix)
