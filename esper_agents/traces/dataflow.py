"""Names that a value depends on inside of one function, loop or script, by its assignments."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Uses of a name that only a tensor has, or that are made with tensors.
_TENSOR_USES = frozenset(
    (
        *("shape", "size", "device", "dtype", "to", "view", "reshape", "dim", "unsqueeze", "squeeze", "permute"),
        *("transpose", "mean", "sum", "detach", "requires_grad", "backward", "flatten", "contiguous", "expand"),
        *("new_zeros", "softmax"),
    )
)
_NO_TENSOR = re.compile(r"\b(?:int|float|str|bool|tuple|list|dict|Path)\b")
_CUTTING = frozenset(("detach", "item", "numpy", "tolist", "argmax", "round", "argsort", "long", "int"))
_NEW_TENSORS = frozenset(("torch.tensor", "torch.as_tensor", "torch.from_numpy", "torch.argmax", "torch.round"))
# Values without a graph, whatever they are computed from.
NO_GRAPH = re.compile(
    r"\.item\(\)|\.detach\(\)|\.data\b|\.numpy\(\)|\.tolist\(\)|\bfloat\(|\bint\(|\blen\(|\bnext\(|\.step\(|\benvs?\."
    r"|\btorch\.(?:tensor|as_tensor|from_numpy|zeros|ones|rand)\w*\("
)


def loaded_names(node: ast.AST) -> set[str]:
    """Return the names and attributes of self that a node reads."""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    return names | {
        f"self.{each.attr}"
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "self"
    }


def assignments(scope: ast.AST) -> Iterator[tuple[set[str], ast.expr, int]]:
    """Yield the assigned names of each assignment in a scope, with its value and its line."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign):
            yield {name for target in node.targets for name in stored_names(target)}, node.value, node.lineno
        elif isinstance(node, ast.AugAssign):
            left = ast.parse(ast.unparse(node.target), mode="eval").body
            yield stored_names(node.target), ast.BinOp(left, node.op, node.value), node.lineno
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield stored_names(node.target), node.value, node.lineno
        elif isinstance(node, ast.NamedExpr):
            yield {node.target.id}, node.value, node.lineno


def stored_names(target: ast.AST) -> set[str]:
    """Return the names and attributes of self that a target of an assignment stores into."""
    names = {each.id for each in ast.walk(target) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return names | {
        f"self.{each.attr}"
        for each in ast.walk(target)
        if isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Store)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
    }


def names_behind(scope: ast.AST, node: ast.AST, *, with_graph: bool = False) -> set[str]:
    """Return the names that a value depends on through the assignments of a scope, its own names included.

    Args:
        scope: Function, loop or module.
        node: The value.
        with_graph: Whether assignments of values without a graph, such as `.item()`, are skipped.
    """
    known = [
        assignment
        for assignment in assignments(scope)
        if not with_graph or not NO_GRAPH.search(ast.unparse(assignment[1]))
    ]
    names = loaded_names(node)
    while more := {
        used for stored, value, _ in known if stored & names for used in loaded_names(value) if used not in names
    }:
        names |= more
    return names


def cut_off(value: ast.expr) -> str:
    """Return the operation that cuts a whole value off from its graph, such as `.item()`; empty if none does."""
    if isinstance(value, ast.BinOp):
        sides = [each for each in (value.left, value.right) if not isinstance(each, ast.Constant)]
        cuts = [cut_off(side) for side in sides]
        return cuts[0] if cuts and all(cuts) else ""
    if isinstance(value, ast.Attribute):
        return ".data" if value.attr == "data" else ""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return ""
    name = ast.unparse(value.func)
    if name in _NEW_TENSORS:
        return name
    if value.func.attr in _CUTTING:
        return f".{value.func.attr}()"
    return cut_off(value.func.value) if not name.startswith(("torch.", "F.", "nn.")) else ""


def carried_name(loop: ast.For | ast.While, loss: ast.AST) -> tuple[str, int] | None:
    """Return the name whose value of one iteration reaches the loss of the next, and its line; None if there is none.

    Args:
        loop: The loop around the call of backward.
        loss: The expression that backward is called on.
    """
    behind = names_behind(loop, loss)
    fresh = stored_names(loop.target) if isinstance(loop, ast.For) else set()
    for stored, value, line in sorted(assignments(loop), key=lambda each: each[2]):
        names = loaded_names(value)
        is_cut = NO_GRAPH.search(ast.unparse(value)) is not None
        for name in sorted(stored & behind - fresh):
            is_own = name in names or (
                _is_read_before(loop, name, line) and name in names_behind(loop, value, with_graph=True)
            )
            if is_own and not is_cut and not _is_count(value, name):
                return name, line
        if is_cut or not stored & names:
            fresh |= stored
    return None


def tensor_names(function: ast.AST, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return those names that the function uses as tensors, in the given order."""
    used: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in _TENSOR_USES:
            used.add(node.value.id)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Name):
            if ast.unparse(node.func).startswith(("self.", "F.", "torch.")):
                used.add(node.args[0].id)
        elif isinstance(node, ast.arg) and node.annotation is not None:
            text = ast.unparse(node.annotation)
            if "Tensor" in text:
                used.add(node.arg)
    plain = {
        node.arg
        for node in ast.walk(function)
        if isinstance(node, ast.arg) and node.annotation is not None and _NO_TENSOR.search(ast.unparse(node.annotation))
    }
    return tuple(name for name in names if name in used - plain)


def _is_read_before(loop: ast.For | ast.While, name: str, line: int) -> bool:
    """Return whether a name is read in the loop before the line that first stores it."""
    first = min((at for stored, _, at in assignments(loop) if name in stored), default=line)
    reads = [
        node.lineno
        for statement in loop.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name | ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and (node.id if isinstance(node, ast.Name) else ast.unparse(node)) == name
    ]
    return line == first and any(at < first for at in reads)


def _is_count(value: ast.expr, name: str) -> bool:
    """Return whether a value is computed from a name and numbers only, as a counter is."""
    return not any(isinstance(each, ast.Call | ast.Attribute) for each in ast.walk(value)) and (
        loaded_names(value) <= {name}
    )
