"""Facts about the line that decides the dtype of an operand."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.traces.facts import TraceFact, fact
from esper_agents.traces.program_index import called_name, place_of
from esper_agents.traces.value_facts import failing_node, shown, target_and_outputs, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.traces.facts import FactContext
    from esper_agents.traces.origins import OriginTracer
    from esper_agents.traces.program_index import CodeScope, OriginValue

_CASTS = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "bool": "bool",
}
# Functions of torch that make tensors of the default dtype unless one is given.
_FLOAT_MAKERS = frozenset(("zeros", "ones", "empty", "rand", "randn", "linspace", "eye", "normal", "FloatTensor"))
_INTEGER_MAKERS = frozenset(("randint", "randperm", "LongTensor", "bincount"))
_ARRAY_MAKERS = frozenset(("zeros", "ones", "empty", "linspace", "eye", "loadtxt", "genfromtxt"))
_INDEX_SECOND = frozenset(("gather", "scatter", "scatter_", "index_add", "index_add_", "index_select", "scatter_add_"))
_MASKED = frozenset(("masked_fill", "masked_fill_", "masked_select"))
_TABLES = frozenset(("Embedding", "EmbeddingBag", "one_hot", "embedding"))
_DEEPEST = 4
_NAMED = re.compile(r"\b(?:torch|np|numpy)\.(float16|float32|float64|float|double|half|bfloat16|int\d*|long|bool)\b")
_SAME = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32"}


def dtype_of(value: OriginValue) -> str:
    """Return the dtype that one expression decides for its result; empty if it does not decide it.

    Source:
        Default dtypes of the creation functions: https://docs.pytorch.org/docs/stable/torch.html#creation-ops.
    """
    node = value.node
    if isinstance(node, ast.Compare):
        return "bool"
    if not isinstance(node, ast.Call):
        return ""
    name, owner = called_name(node), ast.unparse(node.func).partition(".")[0]
    given = [each.value for each in node.keywords if each.arg == "dtype"]
    given += node.args[:1] if name in {"to", "type", "astype"} else []
    for each in given:
        if named := _NAMED.search(ast.unparse(each)):
            return _array_type(named[0], _SAME.get(named[1], named[1]))
    if given and name not in {"to", "type"}:
        return ""
    return _by_name(node, name, owner)


def _by_name(node: ast.Call, name: str, owner: str) -> str:
    """Return the dtype that a call without a given dtype decides by its name."""
    if owner == "torch":
        return _made_by_torch(node, name)
    if owner in {"np", "numpy"}:
        return "float64" if name in _ARRAY_MAKERS else ""
    return _CASTS.get(name, "") if isinstance(node.func, ast.Attribute) else ""


def _array_type(text: str, dtype: str) -> str:
    """Return the dtype that a name of NumPy or torch stands for."""
    return "float64" if text in {"np.float", "numpy.float"} else dtype


def _made_by_torch(node: ast.Call, name: str) -> str:
    if name in _FLOAT_MAKERS:
        return "float32"
    if name in _INTEGER_MAKERS:
        return "int64"
    if name in {"tensor", "as_tensor", "full", "arange"} and node.args:
        numbers = node.args[1:2] if name == "full" else node.args
        return _written_numbers(numbers)
    return ""


def _written_numbers(values: list[ast.expr]) -> str:
    """Return the dtype of the numbers that the code writes out or converts; empty if it does not decide it."""
    leaves = list(values)
    for leaf in leaves:
        if isinstance(leaf, ast.List | ast.Tuple):
            leaves += leaf.elts
        elif isinstance(leaf, ast.ListComp | ast.GeneratorExp):
            leaves.append(leaf.elt)
    for leaf in leaves:
        if isinstance(leaf, ast.Call) and ast.unparse(leaf.func) == "float":
            return "float32"
        if isinstance(leaf, ast.Constant) and isinstance(leaf.value, float):
            return "float32"
    kinds = [each for each in leaves if not isinstance(each, ast.List | ast.Tuple | ast.ListComp | ast.GeneratorExp)]
    is_whole = [
        (isinstance(each, ast.Constant) and type(each.value) is int)
        or (isinstance(each, ast.Call) and ast.unparse(each.func) in {"int", "len", "ord"})
        for each in kinds
    ]
    return "int64" if kinds and all(is_whole) else ""


def deciding_step(
    tracer: OriginTracer, node: ast.expr, scope: CodeScope, depth: int = 0
) -> tuple[OriginValue, str] | None:
    """Return the nearest expression on the way of a value that decides its dtype, with the dtype.

    Args:
        tracer: The program.
        node: The value.
        scope: Where it is used.
        depth: Number of operations that the value is an operand of.
    """
    for step in tracer.chain(node, scope):
        if dtype := dtype_of(step):
            return step, dtype
        if isinstance(step.node, ast.BinOp):
            sides = (deciding_step(tracer, side, step.scope, depth + 1) for side in (step.node.left, step.node.right))
            # float64 wins over each other dtype of real numbers; of the others the result depends on both sides.
            wide = (side for side in sides if side is not None and side[1] == "float64")
            return next(wide, None) if depth < _DEEPEST else None
    return None


@fact
def float_index(context: FactContext) -> TraceFact | None:
    """Return the index of the failing part that a line makes a floating-point tensor."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    for index in _indices(tracer, node, scope):
        if (decided := deciding_step(tracer, index, scope)) is not None and decided[1].startswith(("float", "bfloat")):
            return TraceFact(_values(index, *decided))
    return None


def _indices(tracer: OriginTracer, node: ast.AST, scope: CodeScope) -> Iterator[ast.expr]:
    """Yield the expressions of the failing part that are used as indices."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            made = tracer.last(each.func, scope).node if isinstance(each.func, ast.Name | ast.Attribute) else each.func
            name = called_name(made) if isinstance(made, ast.Call) else called_name(each)
            named = [keyword.value for keyword in each.keywords if keyword.arg in {"index", "input"}]
            if name in _TABLES:
                yield from (each.args[:1] or named)
            elif called_name(each) in _INDEX_SECOND:
                is_function = ast.unparse(each.func).startswith("torch.")
                yield from (each.args[2:3] if is_function else each.args[1:2]) or named
        elif isinstance(each, ast.Subscript) and not isinstance(each.slice, ast.Constant | ast.Slice | ast.Tuple):
            yield each.slice


@fact
def float_mask(context: FactContext) -> TraceFact | None:
    """Return the mask of the failing part that a line makes a tensor of numbers."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    masks = []
    for each in ast.walk(node):
        if isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.Invert):
            masks.append(each.operand)
        elif isinstance(each, ast.BinOp) and isinstance(each.op, ast.BitAnd | ast.BitOr | ast.BitXor):
            masks += [each.left, each.right]
        elif isinstance(each, ast.Call) and (called_name(each) in _MASKED or ast.unparse(each.func) == "torch.where"):
            masks += each.args[:1]
    for mask in masks:
        if (decided := deciding_step(tracer, mask, scope)) is not None and decided[1] != "bool":
            return TraceFact(_values(mask, *decided))
    return None


@fact
def double_operand(context: FactContext) -> TraceFact | None:
    """Return the only value of the failing part that a line makes float64."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    doubles: dict[str, dict[str, str]] = {}
    for _, value in values_of(node):
        if (decided := deciding_step(tracer, value, scope)) is not None and decided[1] == "float64":
            values = _values(value, *decided)
            doubles.setdefault(values["decided_at"], values)
    return TraceFact(next(iter(doubles.values()))) if len(doubles) == 1 else None


@fact
def float_target(context: FactContext) -> TraceFact | None:
    """Return the target of the failing loss if a line makes it a tensor of floats."""
    found, target = failing_node(context), target_and_outputs(context)
    if found is None or target is None:
        return None
    tracer, scope, node = found
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call) and len(each.args) > 1):
        if ast.unparse(call.args[1]) == target.values["target"]:
            decided = deciding_step(tracer, call.args[1], scope)
            if decided is not None and decided[1].startswith(("float", "bfloat")):
                return TraceFact({**target.values, **_values(call.args[1], *decided)})
    return None


def _values(operand: ast.expr, step: OriginValue, dtype: str) -> dict[str, str]:
    return {
        "operand": ast.unparse(operand),
        "dtype": dtype,
        "decided": shown(step.text),
        "decided_at": str(place_of(step)),
    }
