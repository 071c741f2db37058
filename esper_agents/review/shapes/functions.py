"""What the functions of torch and numpy give, as far as shapes go."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.review.shapes import algebra
from esper_agents.review.shapes.facts import (
    GIVEN,
    UNKNOWN,
    Extent,
    Handed,
    Items,
    Kind,
    Many,
    Number,
    Tensor,
    Text,
    Type,
    Value,
    fresh,
    scalar,
)
from esper_agents.review.shapes.given import Given
from esper_agents.review.shapes.methods import BINARY, COMPARING, ELEMENTWISE, method

if TYPE_CHECKING:
    from collections.abc import Callable

    from esper_agents.review.shapes.sizes import Dim

_CREATING = frozenset({"zeros", "ones", "rand", "randn", "empty"})


def function(name: str, given: Given) -> Value:
    """Return what a function of torch, `torch.nn.functional` or numpy gives; None where it is none that is known."""
    if name in _CREATING:
        sizes = given.sizes()
        return (
            fresh(sizes, Kind.FLOAT)
            if sizes is not None and "dtype" not in given.named
            else (fresh(sizes) if sizes is not None else UNKNOWN)
        )
    operation = _FUNCTIONS.get(name)
    if operation is not None:
        return operation(given)
    first = given.at(0, "input") if given.has(0, "input") else given.at(0, "x")
    if isinstance(first, Number) and name in ELEMENTWISE:
        return Number()
    if name in BINARY | COMPARING and isinstance(first, Number) and isinstance(given.at(1), Tensor):
        return given.at(1)
    tensor = first if isinstance(first, Tensor) else GIVEN if isinstance(first, Handed) else UNKNOWN
    return method(name, tensor, given.rest() if given.values else given)


def _listed(given: Given) -> list[Tensor]:
    """Return the tensors of a list that is handed over; one unknown tensor where they are not known."""
    value = given.at(0, "tensors")
    parts = value.values if isinstance(value, Items) else ()
    return [part if isinstance(part, Tensor) else UNKNOWN for part in parts] or [UNKNOWN]


def _concatenated(given: Given) -> Value:
    axis = given.number(1, "dim", given.number(1, "axis", 0))
    value = given.at(0, "tensors")
    if isinstance(value, Many):
        part = value.value if isinstance(value.value, Tensor) else UNKNOWN
        place = part.axis(axis) if axis is not None else None
        return UNKNOWN if place is None else replace(algebra.sliced(part, place, None, is_whole=True), places=None)
    return algebra.concatenated(_listed(given), axis) if axis is not None else UNKNOWN


def _stacked(given: Given) -> Value:
    axis, value = given.number(1, "dim", given.number(1, "axis", 0)), given.at(0, "tensors")
    if isinstance(value, Many):
        part, count = (value.value if isinstance(value.value, Tensor) else UNKNOWN), None
    else:
        parts = _listed(given)
        part, count = parts[0], len(parts) if isinstance(value, Items) else None
        if any(each.dims != part.dims or each.is_open != part.is_open for each in parts):
            return UNKNOWN
    if axis is None or part.is_open:
        return UNKNOWN
    place = axis if axis >= 0 else len(part.dims) + axis + 1
    return fresh((*part.dims[:place], count, *part.dims[place:]), part.kind)


def _made_of(given: Given) -> Value:
    """Return what `torch.tensor`, `as_tensor`, `from_numpy` and their like make of what they are given."""
    dtype = given.named.get("dtype")
    kind = dtype.kind if isinstance(dtype, Type) else None
    return copied(given.at(0, "data"), kind)


def copied(value: Value, kind: Kind | None = None) -> Tensor:
    """Return the tensor that a number, a list or an array is turned into."""
    match value:
        case Tensor():
            return replace(value, kind=kind or value.kind, is_array=False)
        case Number():
            return scalar(kind)
        case Items(values):
            parts = [copied(each) for each in values]
            if not parts:
                return fresh((0,), kind)
            same = all(each.dims == parts[0].dims and not each.is_open for each in parts)
            return fresh((len(parts), *parts[0].dims), kind) if same else UNKNOWN
        case Many(part):
            inner = copied(part)
            return UNKNOWN if inner.is_open else fresh((None, *inner.dims), kind)
        case _:
            return Tensor(kind=kind, is_given=True)


def _counted(given: Given) -> Value:
    first, rest = given.at(0, "end"), given.values[1:]
    if given.is_hidden or rest or "end" in given.named:
        return fresh((None,))
    return fresh((first.dim if isinstance(first, Number) else None,), Kind.INTEGER)


def _line(given: Given, position: int, name: str) -> Value:
    """Return a tensor of one dimension, as long as an argument says."""
    count = given.at(position, name) if given.has(position, name) else given.at(position, "num")
    return fresh((count.dim if isinstance(count, Number) else None,))


def _full(given: Given) -> Value:
    sizes = replace(given, values=given.values[:1]).sizes()
    return fresh(sizes) if sizes is not None else UNKNOWN


def _drawn(given: Given) -> Value:
    """Return what `torch.randint(low, high, size)` gives."""
    size = next((each for each in (*given.values, *given.named.values()) if isinstance(each, Items | Extent)), None)
    sizes = Given((size,), {}).sizes() if size is not None else None
    return fresh(sizes, Kind.INTEGER) if sizes is not None else UNKNOWN


def _square(given: Given) -> Value:
    rows = given.at(0, "n")
    size = rows.dim if isinstance(rows, Number) else None
    return fresh((size, size) if len(given.values) == 1 else (None, None))


def _chosen(given: Given) -> Value:
    if len(given.values) < 3:  # noqa: PLR2004 - a condition and two values
        return None
    parts = [value for value in given.values if isinstance(value, Tensor)]
    if not parts or any(not isinstance(value, Tensor | Number) for value in given.values):
        return UNKNOWN
    whole = parts[0]
    for part in parts[1:]:
        whole = algebra.broadcast(whole, part)
    return replace(whole, places=None, kind=None)


def _one_hot(given: Given) -> Value:
    index = given.at(0, "tensor")
    index = index if isinstance(index, Tensor) else UNKNOWN
    count = given.at(1, "num_classes")
    size = count.dim if isinstance(count, Number) and count.dim != -1 else None
    return fresh((*index.dims, size), Kind.INTEGER, is_open=index.is_open)


def _lost(given: Given) -> Value:
    """Return what a loss of each element gives; a number, unless it is not to be reduced."""
    if "reduction" not in given.named:
        return scalar(Kind.FLOAT)
    one, two = given.at(0, "input"), given.at(1, "target")
    known = isinstance(one, Tensor) and isinstance(two, Tensor)
    return algebra.broadcast(one, two) if known and isinstance(one, Tensor) and isinstance(two, Tensor) else UNKNOWN


def _summed(given: Given) -> Value:
    """Return what `torch.einsum` of two tensors gives, by its letters."""
    equation = given.at(0)
    if not isinstance(equation, Text) or "->" not in equation.text or "." in equation.text:
        return UNKNOWN
    sources, _, out = equation.text.replace(" ", "").partition("->")
    sizes: dict[str, Dim] = {}
    for letters, value in zip(sources.split(","), given.values[1:], strict=False):
        if isinstance(value, Tensor) and value.rank == len(letters):
            sizes |= {letter: dim for letter, dim in zip(letters, value.dims, strict=True) if dim is not None}
    parts = sources.split(",")
    first = given.at(1)
    if len(parts) == 1 and sorted(parts[0]) == sorted(out) and isinstance(first, Tensor):
        return algebra.permuted(first, [parts[0].index(letter) for letter in out])
    dims = [sizes.get(letter) for letter in out]
    if len(parts) != 2:  # noqa: PLR2004 - a product of two
        return Tensor(tuple(dims), False)
    # The product has what both have in front, then what only the one has, then the other; another order turns it.
    shared = [letter for letter in out if letter in parts[0] and letter in parts[1]]
    natural = (
        shared
        + [letter for letter in out if letter not in parts[1]]
        + [letter for letter in out if letter not in parts[0]]
    )
    return fresh(dims) if natural == list(out) else Tensor(tuple(dims), False)


_FUNCTIONS: dict[str, Callable[[Given], Value]] = {
    **dict.fromkeys(("cat", "concat", "concatenate"), _concatenated),
    "stack": _stacked,
    **dict.fromkeys(("tensor", "as_tensor", "from_numpy", "asarray", "FloatTensor", "LongTensor"), _made_of),
    **dict.fromkeys(("arange", "range"), _counted),
    **dict.fromkeys(("linspace", "logspace"), lambda given: _line(given, 2, "steps")),
    "randperm": lambda given: _line(given, 0, "n"),
    "full": _full,
    "randint": _drawn,
    "eye": _square,
    "where": _chosen,
    "einsum": _summed,
    "Tensor": lambda given: copied(given.at(0)) if isinstance(given.at(0), Tensor | Items | Many) else UNKNOWN,
    **dict.fromkeys(
        (
            "mse_loss",
            "l1_loss",
            "smooth_l1_loss",
            "huber_loss",
            "binary_cross_entropy_with_logits",
            "binary_cross_entropy",
        ),
        _lost,
    ),
    "one_hot": _one_hot,
}
