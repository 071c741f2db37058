"""What a loss is given as target, where no data set in sight shows its shape: by its key, or by a use elsewhere."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.shapes import shapes_of
from esper_agents.review.shapes.facts import Kind, Number, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Function

_TENSORS = frozenset({"tensor", "as_tensor", "FloatTensor", "LongTensor"})
# What leaves a target as it is.
_PASSING = frozenset({"to", "float", "cuda", "double", "half", "type", "type_as", "long", "detach", "clone", "cpu"})
_SHAPING = frozenset(
    {"unsqueeze", "view", "reshape", "view_as", "reshape_as", "expand_as", "expand", "squeeze", "flatten"}
)
_FLATTENING = frozenset({"squeeze", "flatten", "ravel"})
_STEPS = 4


def target_by_key(node: ast.expr, call: Call, index: ProjectIndex) -> Tensor | None:
    """Return the shape of what is read from a batch by a key under which the reviewed files put a column.

    That is where a list of plain numbers is made a tensor when samples are put together, and where one sample holds
    one number.
    """
    key = _key(node, call, index)
    stored = index.once("stored by key", lambda: _stored(index)).get(key, []) if key else []
    columns = [_column(value, function, index) for value, function in stored]
    return columns[0] if columns and all(column is not None for column in columns) else None


def _key(node: ast.expr, call: Call, index: ProjectIndex) -> str:
    """Return the key of `batch["rating"].float()` and `batch.pop("rating")`; empty for all else."""
    line = call.line
    for _ in range(_STEPS):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PASSING:
            node = node.func.value
        elif isinstance(node, ast.Name):
            found = index.binding(node.id, call.function, line)
            if found is None or found.is_unpacked or found.is_augmented or found.block.function is not call.function:
                return ""
            node, line = found.value, found.line
        else:
            break
    part: ast.expr | None = None
    if isinstance(node, ast.Subscript):
        part = node.slice
    elif isinstance(node, ast.Call) and tail_of(dotted(node.func)) in {"pop", "get"} and node.args:
        part = node.args[0]
    return part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else ""


def _stored(index: ProjectIndex) -> dict[str, list[tuple[ast.expr, Function]]]:
    """Return what is put into dictionaries by the functions that make samples and batches, by key."""
    found: dict[str, list[tuple[ast.expr, Function]]] = {}
    for file in index.files.values():
        for function in file.functions if file.imports_torch else ():
            for key, value in _puts(function):
                found.setdefault(key, []).append((value, function))
    return found


def _puts(function: Function) -> Iterator[tuple[str, ast.expr]]:
    for path, assignments in function.assignments.items():
        for each in assignments if path.endswith("[]") else ():
            part = each.node.slice if isinstance(each.node, ast.Subscript) else None
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and not each.is_augmented:
                yield part.value, each.value
    values = [assignment.value for assignments in function.assignments.values() for assignment in assignments]
    for value in (*values, *(each.value for each, _ in function.returns)):
        if isinstance(value, ast.Dict):
            for key, one in zip(value.keys, value.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, one


def _column(value: ast.expr, function: Function, index: ProjectIndex) -> Tensor | None:
    """Return the shape of a column of plain numbers; None for all else."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _PASSING:
        value = value.func.value
    if not (isinstance(value, ast.Call) and tail_of(dotted(value.func)) in _TENSORS and value.args):
        return None
    kind = Kind.FLOAT if "float" in ast.unparse(value).lower() else None
    first = value.args[0]
    if isinstance(first, ast.ListComp):
        is_plain = len(first.generators) == 1 and isinstance(first.elt, ast.Subscript | ast.Attribute)
        is_number = isinstance(first.elt, ast.Call) and dotted(first.elt.func) in {"float", "int"}
        return Tensor((None,), False, kind) if is_plain or is_number else None
    if function.name != "__getitem__":
        return None
    call = next((each for each in function.calls if each.node is value), None)
    known = shapes_of(index).ask(value, call) if call is not None else None
    is_single = isinstance(known, Number) or (isinstance(known, Tensor) and known.rank == 0)
    return Tensor((None,), False, kind) if is_single else None


def squeezed_elsewhere(node: ast.expr, target: ast.expr, call: Call, index: ProjectIndex) -> Call | None:
    """Return the call whose result is squeezed before it is held against targets, of the model that makes a prediction.

    The prediction itself is not squeezed, and nobody changes the shape of its target.
    """
    models = {
        dotted(origin.value.func)
        for origin in index.origins(node, call.function, call.line)
        if isinstance(origin.value, ast.Call) and origin.function is call.function
    } - {""}
    if len(models) != 1 or _is_shaped(target, call, index):
        return None
    path = models.pop()
    others = [each for each in call.function.file.calls_ending(tail_of(path)) if each.path == path]
    uses = [(each, squeezed) for each in others if each.line != call.line and (squeezed := _squeezed(each)) is not None]
    # What the function itself does with the model says more than another that may have other data.
    near = [use for use in uses if use[0].function is call.function] or uses
    return near[0][0] if near and all(_is_set_against(squeezed, each) for each, squeezed in near) else None


def _is_shaped(target: ast.expr, call: Call, index: ProjectIndex) -> bool:
    """Return whether a target was given another shape, here or where it was made."""
    name = dotted(target)
    made = [each.value for each in call.function.assignments.get(name, ())] if name else []
    origins = (origin.value for origin in index.origins(target, call.function, call.line))
    return any(
        (isinstance(each, ast.Attribute) and each.attr in _SHAPING)
        or (isinstance(each, ast.Subscript) and "None" in ast.unparse(each.slice))
        for value in (target, *made, *origins)
        for each in walk(value)
    )


def _squeezed(call: Call) -> ast.AST | None:
    """Return what is left of a result once its last dimension is taken off: `net(x).squeeze(1)`, `net(x)[:, 0]`."""
    parents = {child: each for each in walk(call.statement) for child in ast.iter_child_nodes(each)}
    around = parents.get(call.node)
    if isinstance(around, ast.Subscript) and around.value is call.node:
        return (
            around
            if ast.unparse(around.slice) in {"(slice(None), 0)", ":, 0", "(:, 0)", "..., 0", "(..., 0)"}
            else None
        )
    if not (isinstance(around, ast.Attribute) and isinstance(parents.get(around), ast.Call)):
        return None
    outer = parents[around]
    is_flat = around.attr in {"view", "reshape"} and [ast.unparse(arg) for arg in outer.args] == ["-1"]
    return outer if around.attr in _FLATTENING or is_flat else None


def _is_set_against(node: ast.AST, call: Call) -> bool:
    """Return whether something is compared with, taken from or joined by a test with what nobody squeezed."""
    targets = getattr(call.statement, "targets", ())
    name = dotted(targets[0]) if targets and getattr(call.statement, "value", None) is node else ""
    for statement in (
        each for each in walk(call.function.node) if isinstance(each, ast.stmt) and not hasattr(each, "body")
    ):
        for each in walk(statement):
            sides = _sides(each)
            mine = [
                side for side in sides if any(part is node or (name and dotted(part) == name) for part in walk(side))
            ]
            rest = [side for side in sides if side not in mine]
            if mine and rest and not any(_has_shaping(side) or isinstance(side, ast.Constant) for side in rest):
                return True
    return False


def _sides(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.BitAnd):
        return [node.left, node.right]
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return [node.left, node.comparators[0]]
    is_loss = isinstance(node, ast.Call) and any(word in dotted(node.func) for word in ("loss", "crit"))
    if isinstance(node, ast.Call) and is_loss and len(node.args) > 1:
        return node.args[:2]
    return []


def _has_shaping(node: ast.expr) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr in _SHAPING for each in walk(node))
