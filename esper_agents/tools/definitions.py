"""Definitions in source as written: their arguments, return annotations and names."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def aliases(tree: ast.Module) -> dict[str, str]:
    """Return the full names behind the names imported at the top level."""
    found: dict[str, str] = {}
    for node in tree.body:
        match node:
            case ast.Import(names=names):
                found |= {
                    name.asname or name.name.split(".")[0]: name.name if name.asname else name.name.split(".")[0]
                    for name in names
                }
            case ast.ImportFrom(module=str(module), names=names, level=0):
                found |= {name.asname or name.name: f"{module}.{name.name}" for name in names}
            case _:
                continue
    return found


def root_name(node: ast.expr) -> str:
    """Return the first name of a dotted path or of a call of one; empty if it begins with something else."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""


def names_in(node: ast.AST) -> frozenset[str]:
    """Return all plain names in a definition."""
    return frozenset(each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def own_nodes(node: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those of functions inside it."""
    waiting: list[ast.AST] = list(node.body)
    while waiting:
        each = waiting.pop(0)
        yield each
        if not isinstance(each, FunctionNode | ast.Lambda | ast.ClassDef):
            waiting = [*ast.iter_child_nodes(each), *waiting]


def required(node: ast.FunctionDef, *, skip: int) -> list[str]:
    """Return the parameters without a default, except the given number of leading ones."""
    places = [*node.args.posonlyargs, *node.args.args]
    needed = places[: len(places) - len(node.args.defaults)][skip:]
    named = [each for each, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if default is None]
    return [each.arg for each in (*needed, *named)]


def most_arguments(node: ast.FunctionDef) -> int | None:
    """Return the maximum number of arguments of a function; None for any number."""
    if node.args.vararg is not None or node.args.kwarg is not None:
        return None
    return len(node.args.posonlyargs) + len(node.args.args) + len(node.args.kwonlyargs)


def returned_count(node: ast.FunctionDef) -> int | None:
    """Return the number of inputs that a function returns, if all its return statements agree."""
    counts = {_count(each.value) for each in own_nodes(node) if isinstance(each, ast.Return)}
    return counts.pop() if len(counts) == 1 else None


def _count(value: ast.expr | None) -> int | None:
    match value:
        case ast.Tuple(elts=[ast.Tuple() | ast.List(), ast.Dict()]):
            return None
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return None if any(isinstance(part, ast.Starred) for part in parts) else len(parts)
        case ast.Dict(keys=keys):
            return None if None in keys else len(keys)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"))):
            return 1
        case _:
            return None
