"""Names, functions and classes around a line of a syntax tree."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def statement_at(tree: ast.Module | None, line: int) -> ast.AST:
    """Return the innermost statement that contains a line; an empty module if there is none."""
    around = [
        node
        for node in ast.walk(tree or ast.Module([], []))
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: (node.lineno, -(node.end_lineno or 0))) if around else ast.Module([], [])


def enclosing_function(tree: ast.Module | None, line: int) -> FunctionNode | None:
    """Return the innermost function that contains a line; None for module code."""
    around = [
        node
        for node in ast.walk(tree or ast.Module([], []))
        if isinstance(node, FunctionNode) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: node.lineno) if around else None


def enclosing_class(tree: ast.Module | None, line: int) -> ast.ClassDef | None:
    """Return the innermost class that contains a line; None outside of classes."""
    around = [
        node
        for node in ast.walk(tree or ast.Module([], []))
        if isinstance(node, ast.ClassDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: node.lineno) if around else None


def is_self(node: ast.AST) -> bool:
    """Return whether a node is the name `self`."""
    return isinstance(node, ast.Name) and node.id == "self"


def parameters_of(function: ast.AST) -> list[str]:
    """Return the names of a function's parameters in order, `self` included; empty for other nodes."""
    if not isinstance(function, FunctionNode):
        return []
    arguments = function.args
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def parameter_default(function: FunctionNode, name: str) -> ast.expr | None:
    """Return the default of a parameter; None if it has none."""
    arguments = function.args
    by_position = [*arguments.posonlyargs, *arguments.args]
    with_default = by_position[len(by_position) - len(arguments.defaults) :]
    pairs = [
        *zip(with_default, arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return next((default for each, default in pairs if each.arg == name), None)


def assigned_values(scope: ast.AST, name: str) -> Iterator[ast.expr]:
    """Yield the values that plain assignments in a scope give to a name, or to an attribute such as `self.fc`."""
    for node in ast.walk(scope):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            yield from (node.value for target in targets if ast.unparse(target) == name)


def bound_names(tree: ast.Module | None, line: int) -> tuple[str, ...]:
    """Return the parameters of the function around a line and the names that it assigns before the line, in order."""
    function = enclosing_function(tree, line)
    names = [name for name in parameters_of(function) if name not in {"self", "cls"}] if function is not None else []
    names += [
        node.id
        for node in ast.walk(function or tree or ast.Module([], []))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.lineno < line
    ]
    return tuple(dict.fromkeys(names))


def marked_node(tree: ast.Module | None, line: int, marked: str) -> ast.expr | None:
    """Return the expression of a line that the trace marks with `^`; None if it marks none or more than one fits."""
    if not marked or tree is None:
        return None
    try:
        wanted = ast.dump(ast.parse(marked.strip().removesuffix(":"), mode="eval").body)
    except (SyntaxError, ValueError):
        return None
    found = [
        node
        for node in ast.walk(statement_at(tree, line))
        if isinstance(node, ast.expr) and node.lineno == line and ast.dump(node) == wanted
    ]
    return found[0] if found else None
