"""Executable lines of a Python file, beyond those that every import executes."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NO_CODE = (ast.Pass, ast.Global, ast.Nonlocal)
_WORK = (ast.Call, ast.Await, ast.For, ast.AsyncFor, ast.While, ast.Assert, ast.Raise)


@dataclass(frozen=True, slots=True)
class ExecutableLines:
    """Executable lines of a file.

    Attributes:
        statements: For each line, the first line of its statement.
        is_script: The file has no functions, so importing it runs all of it.
    """

    statements: dict[int, int]
    is_script: bool

    @property
    def count(self) -> int:
        """Number of statements."""
        return len(set(self.statements.values()))


def executable_lines(text: str) -> ExecutableLines:
    """Return the executable lines of a file: the statements in its functions.

    An import executes every `def`, which proves nothing about its body. In a file without functions, the lines are the
    statements outside of classes that do something: call, loop, assert or raise. Docstrings never count.

    Raises:
        SyntaxError: The text is not Python.
        ValueError: The text contains a null byte.
    """
    tree = ast.parse(text)
    functions = [each for each in ast.walk(tree) if isinstance(each, _FUNCTIONS)]
    inside = dict(line for function in functions for line in _lines(function.body))
    if inside:
        return ExecutableLines(inside, is_script=False)
    return ExecutableLines(dict(_script_lines(tree.body)), is_script=True)


def _lines(body: Sequence[ast.stmt]) -> Iterator[tuple[int, int]]:
    for each in body:
        if isinstance(each, _NO_CODE) or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)):
            continue
        inner = list(_inner(each))
        last = min((stmt.lineno for stmt in inner), default=(each.end_lineno or each.lineno) + 1) - 1
        yield from ((line, each.lineno) for line in range(each.lineno, max(last, each.lineno) + 1))
        # Statements of a nested function or class are found through that function or class.
        if not isinstance(each, (*_FUNCTIONS, ast.ClassDef)):
            yield from _lines(inner)


def _script_lines(body: Sequence[ast.stmt]) -> Iterator[tuple[int, int]]:
    for each in body:
        if isinstance(each, (*_FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom)):
            continue
        if _is_main_guard(each):
            yield from _lines(list(_inner(each)))
        elif any(isinstance(node, _WORK) for node in ast.walk(each)):
            yield from _lines([each])


def _is_main_guard(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and any(
        isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test)
    )


def _inner(statement: ast.stmt) -> Iterator[ast.stmt]:
    """Yield the direct child statements of a compound statement."""
    for name in ("body", "orelse", "finalbody"):
        yield from getattr(statement, name, ())
    for clause in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield from clause.body
