"""Tensors whose size is a product of several sizes: what makes the peak of memory high."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.fact_query import Assessment, FactQuery, InspectionSubject
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.tables import Purpose

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from esper_agents.review.fact_query import Fact
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function

_EXPANDING = ("expand", "broadcast_to")
_MAKING = ("zeros", "ones", "empty", "full", "rand", "randn")
# Of fewer sizes a tensor is rarely what fills a device.
_LEAST_SIZES = 3
_ITEM_BYTES = 4
_LARGE_BYTES, _WEIGHTY_SHARE = 500e6, 0.1
_BATCH = frozenset({"b", "bs", "bsz", "bsize", "batch", "batchsize", "nbatch"})
# Parts of names that say that something is a number, and not of what.
_FORMAL = frozenset({"n", "num", "size", "max", "self", "args", "cfg", "config", "total", "number", "of"})
_SHORTEST = 3
_UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@dataclass(frozen=True, slots=True, eq=False)
class _Product:
    """A call that makes a tensor of several sizes; `known` has None for a size that nothing says."""

    call: Call
    dims: Sequence[ast.expr]
    known: Sequence[int | None]

    @property
    def count(self) -> int | None:
        """Number of elements; None if a size is unknown."""
        sizes = [size for size in self.known if size is not None]
        return math.prod(sizes) if len(sizes) == len(self.known) else None


class LargeTensors(FactQuery):
    """Tensors that are built with three or more sizes multiplied, with the bytes for the sizes that are known."""

    name = "large-tensors"
    topics = ("memory",)
    claim = "one tensor with several sizes multiplied takes most of the memory"
    refutes = False
    category = Category.MEMORY
    unseen = "sizes that neither the request nor the code says"
    bad = (
        "def score(queries, weight, n_items, dim):\n    batch = queries.shape[0]\n"
        "    items = weight.view(1, n_items, dim).expand(batch, n_items, dim)\n"
        "    return (queries.unsqueeze(1) - items).norm(dim=-1)\n"
    )
    good = "def score(queries, weight):\n    return queries @ weight.T\n"
    asked = InspectionSubject(("memory",), sizes=("items=200000", "batch=64", "dim=128"))

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the tensors, each with its sizes and what they come to."""
        sizes = dict(_stated(subject.sizes))
        code = [file for file in files if file.purpose is not Purpose.TEST]
        products = [each for file in code for each in _products(file, sizes, index)]
        counted = [each for each in products if each.count is not None]
        # Beside a tensor that fills a device, small ones and those of unknown size explain nothing.
        largest = max((each.count for each in counted if each.count is not None), default=0)
        is_large = largest * _ITEM_BYTES >= _LARGE_BYTES
        for product in products:
            if is_large and (product.count is None or product.count < largest * _WEIGHTY_SHARE):
                continue
            yield self._sized(product)
        for file in code if not is_large else ():
            for function in file.functions:
                yield from self._pairs(file, function)

    def _sized(self, product: _Product) -> Fact:
        call, dims = product.call, product.dims
        shown = " x ".join(_shown(each) for each in dims)
        what = f"`{call.path}(...)`" if call.tail in _MAKING else f"`{_short(call.receiver)}`"
        text = f"{what} has {shown} elements{_bytes(dims, product.known)}"
        if call.tail in _EXPANDING:
            text = f"{text}; the view takes none of it, and elementwise arithmetic with it takes all"
        remedy = f"go over `{_shown(dims[0])}` or `{_shown(dims[1])}` in parts, or use a matrix product instead"
        assessment = Assessment.OPEN if product.count is None else Assessment.SHOULD_CHECK
        return self.fact(call.function.file, call.node, assessment, text, remedy)

    def _pairs(self, file: FileTables, function: Function) -> Iterator[Fact]:
        """Yield arithmetic of every row of one tensor with every row of another."""
        for node in ast.walk(function.node):
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub | ast.Add | ast.Mult | ast.Div):
                continue
            one, other = _inserted(node.left, function), _inserted(node.right, function)
            if one and other and one != other:
                text = (
                    f"`{_short(ast.unparse(node))}` computes every pair: the sizes of both sides are multiplied, and "
                    "backward keeps the result"
                )
                remedy = "`torch.cdist` or a matrix product needs no tensor of all pairs and features"
                yield self.fact(file, node, Assessment.OPEN, text, remedy)


def _products(file: FileTables, sizes: Mapping[str, int], index: ProjectIndex) -> Iterator[_Product]:
    for call in file.calls_ending(*_EXPANDING, *_MAKING):
        is_made = call.tail in _MAKING
        if not (call.name.startswith("torch.") if is_made else call.receiver):
            continue
        dims = _dims(call, is_made=is_made)
        if sum(not isinstance(each, ast.Constant | ast.UnaryOp) for each in dims) >= _LEAST_SIZES:
            yield _Product(call, dims, [_known(each, call, sizes, index) for each in dims])


def _stated(sizes: Sequence[str]) -> Iterator[tuple[str, int]]:
    for each in sizes:
        words, _, value = each.rpartition("=")
        if words and value.isdigit():
            yield words, int(value)


def _dims(call: Call, *, is_made: bool) -> list[ast.expr]:
    """Return the sizes that a call gives, of a single tuple or list its elements."""
    given = list(call.node.args) or [each.value for each in call.node.keywords if is_made and each.arg == "size"]
    if given and isinstance(given[0], ast.Tuple | ast.List) and (is_made or len(given) == 1):
        given = list(given[0].elts)
    return [each for each in given if not isinstance(each, ast.Starred)]


def _shown(dim: ast.expr) -> str:
    text = ast.unparse(dim)
    path = dotted(dim)
    return tail_of(path) if path and path == text else _short(text)


def _short(text: str) -> str:
    text = text.replace("`", "'")
    return text if len(text) <= 50 else f"{text[:47]}..."  # noqa: PLR2004 - one clause of a line


def _known(dim: ast.expr, call: Call, sizes: Mapping[str, int], index: ProjectIndex) -> int | None:
    """Return a size: as the request says it, else as the code says it in one place; None if neither does."""
    if isinstance(dim, ast.Constant):
        return dim.value if isinstance(dim.value, int) and dim.value > 0 else 1
    stated = _named(_shown(dim), sizes)
    if stated is not None:
        return stated
    found = {
        origin.value.value
        for origin in index.origins(dim, call.function, call.line)
        if isinstance(origin.value, ast.Constant) and isinstance(origin.value.value, int)
    }
    return found.pop() if len(found) == 1 else None


def _named(name: str, sizes: Mapping[str, int]) -> int | None:
    """Return the size that a request states in the words of a name: `n_ent` for `entities`, `b_size` for `batch`."""
    words = [word.lower() for word in _WORD.findall(name)]
    is_batch = "".join(words) in _BATCH
    content = [word for word in words if word not in _FORMAL]
    for stated, value in sizes.items():
        spoken = stated.replace("_", " ").split()
        if is_batch and spoken[0] in {"batch", "bs", "batchsize"}:
            return value
        if content and all(any(_means(word, each) for each in spoken) for word in content):
            return value
    return None


def _means(word: str, spoken: str) -> bool:
    shorter, longer = sorted((word, spoken), key=len)
    return word == spoken or (len(shorter) >= _SHORTEST and longer.startswith(shorter))


def _bytes(dims: Sequence[ast.expr], known: Sequence[int | None]) -> str:
    """Return what the known sizes come to in float32, for each of the one size that is unknown."""
    unknown = [dim for dim, size in zip(dims, known, strict=True) if size is None]
    if len(unknown) > 1 or len(unknown) == len(dims):
        return ""
    number = math.prod(size for size in known if size is not None) * _ITEM_BYTES
    unit, factor = next((each for each in _UNITS if number >= each[1]), ("bytes", 1.0))
    numbers = " x ".join(f"{size:,}" for size in known if size is not None)
    each = f" for each `{_shown(unknown[0])}`" if unknown else ""
    return f": {numbers} in float32 is {number / factor:.3g} {unit}{each}"


def _inserted(value: ast.expr, function: Function) -> str:
    """Return where a value has an inserted dimension, such as `1`; empty if none is seen."""
    if isinstance(value, ast.Name):
        made = function.assignments.get(value.id, ())
        value = made[0].value if len(made) == 1 else value
    match value:
        case ast.Call(func=ast.Attribute(attr="unsqueeze"), args=[ast.Constant(value=int(position))]):
            return str(position)
        case ast.Call(func=ast.Attribute(attr="unsqueeze"), args=[ast.UnaryOp() as position]):
            return ast.unparse(position)
        case ast.Subscript(slice=ast.Tuple(elts=parts)):
            places = [n for n, part in enumerate(parts) if isinstance(part, ast.Constant) and part.value is None]
            return str(places[0]) if len(places) == 1 else ""
        case ast.Subscript(slice=ast.Constant(value=None)):
            return "0"
        case _:
            return ""
