"""Which calls make a tensor on the host, and what is known of its shape."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted
from esper_agents.review.objects import resolve
from esper_agents.review.patterns import pattern
from esper_agents.review.places import NUMBER, UNKNOWN, Place, Where

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.tables import Call, FileTables, Function

_FILLED = ("zeros", "ones", "empty", "full", "rand", "randn", "randint", "eye", "normal")
_COUNTED = ("randperm", "arange", "linspace", "logspace", "tril_indices", "triu_indices", "range")
_WINDOWS = ("hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window")
_OLD = ("FloatTensor", "LongTensor", "IntTensor", "DoubleTensor", "BoolTensor", "ByteTensor", "HalfTensor", "Tensor")
_TAKING = ("tensor", "as_tensor", "from_numpy", "asarray")
# What makes a tensor on the host unless it is told a device.
MAKING = frozenset(f"torch.{each}" for each in (*_FILLED, *_COUNTED, *_WINDOWS, *_OLD, *_TAKING))
# What is made in the size of something else, to be filled or added to it.
SIZED = frozenset(f"torch.{each}" for each in ("zeros", "ones", "empty", "full", "rand", "randn"))
_ARRAYS = pattern(
    r"numpy\.(?:array|asarray|zeros|ones|full|arange|linspace|eye|stack|concatenate|load|hanning|random\.\w+|meshgrid)"
)
_LISTED = pattern(
    r"(?:Optional\[)?(?:typing\.)?(?:List|list|Sequence|Tuple|tuple|Iterable)\[|(?:np|numpy)\.(?:nd)?array"
)


def making_calls(file: FileTables) -> dict[Function, list[Call]]:
    """Return the calls of a file that make a tensor and name no device, by the function they stand in."""
    return file.once("makes on the host", lambda: _by_function(_making(file)))


def _by_function(calls: Iterator[Call]) -> dict[Function, list[Call]]:
    found: dict[Function, list[Call]] = {}
    for call in calls:
        found.setdefault(call.function, []).append(call)
    return found


def _making(file: FileTables) -> Iterator[Call]:
    for call in (*file.calls_to(*sorted(MAKING)), *file.calls_ending("generate_square_subsequent_mask")):
        if not any(keyword.arg in {"device", "out", "generator", None} for keyword in call.node.keywords):
            yield call


def made_place(node: ast.Call, name: str, function: Function) -> Place:
    """Return where a call puts the tensor that it makes."""
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    if {None, "out", "generator"} & keywords.keys():
        return UNKNOWN
    first = node.args[0] if node.args else keywords.get("size", keywords.get("data"))
    if name == "torch.normal" and "size" not in keywords and len(node.args) < len(("mean", "std", "size")):
        return UNKNOWN
    if name in {"torch.tensor", "torch.as_tensor", "torch.asarray"}:
        return _of_given(first, node, function)
    if isinstance(first, ast.List | ast.Tuple) and not first.elts:
        return NUMBER
    if name.endswith("Tensor") and not isinstance(first, ast.List | ast.Constant):
        return UNKNOWN
    return Place(Where.HOST, node, function)


def _of_given(first: ast.expr | None, node: ast.Call, function: Function) -> Place:
    if isinstance(first, ast.List | ast.Tuple | ast.ListComp):
        return Place(Where.HOST, node, function)
    if isinstance(first, ast.Constant | ast.UnaryOp):
        return NUMBER
    if first is not None and (_is_array(first, function) or _is_said_to_be_list(first, function)):
        return Place(Where.HOST, node, function)
    return UNKNOWN


def _is_array(value: ast.expr, function: Function, steps: int = 2) -> bool:
    """Return whether an expression is a list, or an array that NumPy made."""
    if isinstance(value, ast.Call):
        return _ARRAYS.fullmatch(resolve(dotted(value.func), function)) is not None
    if isinstance(value, ast.Name) and steps:
        bound = function.assignments.get(value.id, ())
        return bool(bound) and all(
            not each.is_augmented
            and not each.is_unpacked
            and not isinstance(each.statement, ast.For | ast.AsyncFor)
            and (isinstance(each.value, ast.List | ast.ListComp) or _is_array(each.value, function, steps - 1))
            for each in bound
        )
    return False


def _is_said_to_be_list(value: ast.expr, function: Function) -> bool:
    if not isinstance(value, ast.Name) or isinstance(function.node, ast.Module):
        return False
    listed = function.node.args
    return any(
        each.arg == value.id and each.annotation is not None and _LISTED.match(ast.unparse(each.annotation))
        for each in (*listed.posonlyargs, *listed.args, *listed.kwonlyargs)
    )


def has_rows(node: ast.expr | None) -> bool:
    """Return whether a call makes a tensor of two or more dimensions, so that its rows are no numbers."""
    if not isinstance(node, ast.Call) or not node.args:
        return False
    first = node.args[0]
    sizes = first.elts if isinstance(first, ast.Tuple | ast.List) else node.args
    return not any(isinstance(size, ast.Starred) for size in sizes) and len(sizes) > 1
