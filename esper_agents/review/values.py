"""How values carry a graph: which expressions keep it, and which let it go."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, tail_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from esper_agents.review.blocks import Block
    from esper_agents.review.tables import Function

_OFF = frozenset({"no_grad", "inference_mode", "set_grad_enabled"})
# Tensor methods that return a tensor on the same graph.
_KEEPING = frozenset(
    {"mean", "sum", "cpu", "cuda", "to", "clone", "float", "double", "half", "view", "reshape", "squeeze", "unsqueeze"}
    | {"flatten", "contiguous", "mul", "div", "add", "sub", "max", "min", "type"}
)
_JOINING = frozenset({"cat", "stack", "hstack", "vstack", "concat", "abs", "exp", "log", "sqrt"})


def keeps_graph(node: ast.expr, names: Collection[str]) -> bool:
    """Return whether an expression surely carries the graph of one of these names."""
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        return dotted(node) in names or item_path(node) in names
    if isinstance(node, ast.Call) and dotted(node) in names:
        return True
    return any(keeps_graph(part, names) for part in _carried(node))


def item_path(node: ast.expr) -> str:
    """Return a named item of a path, such as `out['loss']`; empty where there is none."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Constant):
        return ""
    held = dotted(node.value)
    return f"{held}[{node.slice.value!r}]" if held else ""


def graphs_in(node: ast.expr) -> set[str]:
    """Return the paths whose graphs an expression surely carries on."""
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        return {dotted(node)} - {""}
    return {path for part in _carried(node) for path in graphs_in(part)}


def _carried(node: ast.expr) -> list[ast.expr]:
    """Return the parts of an expression whose graphs it takes over."""
    parts: list[ast.expr] = []
    match node:
        case ast.BinOp(op=ast.Div()):
            parts = [node.left]
        case ast.BinOp():
            parts = [node.left, node.right]
        case ast.UnaryOp():
            parts = [node.operand]
        case ast.IfExp():
            parts = [node.body, node.orelse]
        case ast.Tuple() | ast.List():
            parts = node.elts
        case ast.Dict():
            parts = node.values
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=args) if (
            name in _KEEPING | _JOINING
        ):
            parts = args
        case ast.Call(func=ast.Name(id="dict"), keywords=keywords):
            parts = [keyword.value for keyword in keywords]
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _KEEPING:
            parts = [value]
        case _:
            pass
    return parts


def without_gradients(block: Block) -> bool:
    """Return whether a block stands in a `with torch.no_grad()` or one of its kind, or in a function decorated so."""
    function: Function | None = block.function
    current: Block | None = block
    while current is not None and function is not None:
        if any(turns_gradients_off(context) for each in current.chain() for context in each.contexts):
            return True
        if any(turns_gradients_off(decorator) for decorator in function.decorators):
            return True
        current = function.outer
        function = current.function if current else None
    return False


def turns_gradients_off(path: str) -> bool:
    """Return whether a resolved path of a context or decorator is `no_grad`, `inference_mode` or one named so."""
    return tail_of(path) in _OFF
