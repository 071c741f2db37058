"""What can be known of a value without running the code: shapes, kinds of numbers, memory, layers, batches."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from esper_agents.review.shapes.sizes import named

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from esper_agents.review.shapes.frames import Frame
    from esper_agents.review.shapes.sizes import Dim
    from esper_agents.review.tables import Class


class Kind(StrEnum):
    """Which numbers a tensor holds."""

    FLOAT = "float"
    INTEGER = "integer"
    BOOLEAN = "boolean"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor or an array.

    Attributes:
        dims: Its last sizes, outermost first; all of them unless it is open.
        is_open: Whether more sizes, nobody knows how many, stand in front of them.
        kind: Which numbers it holds, where that is known.
        places: Where each of the sizes stands in memory, outermost first; two that follow each other there can be
            merged without a copy. None where nothing is known.
        is_fresh: Whether `places` starts from a tensor that was surely contiguous, and not from one handed in.
        breaks: Of an open tensor: between how many neighbours, at the least, memory does not go on.
        is_array: Whether it is numpy's.
        is_given: Whether it was handed in as it is, so that most likely it is contiguous.
        ones: Of an open tensor: which of its first dimensions were put in, with a size of 1.
    """

    dims: tuple[Dim, ...] = ()
    is_open: bool = True
    kind: Kind | None = None
    places: tuple[int, ...] | None = None
    is_fresh: bool = False
    breaks: int = 0
    is_array: bool = False
    is_given: bool = False
    ones: tuple[int, ...] = ()

    @property
    def rank(self) -> int | None:
        """How many dimensions it has, where that is known."""
        return None if self.is_open else len(self.dims)

    @property
    def last(self) -> Dim:
        """Its innermost size."""
        return self.dims[-1] if self.dims else None

    def axis(self, number: int) -> int | None:
        """Return where in `dims` a dimension stands; None where that cannot be said."""
        if number < 0:
            return len(self.dims) + number if -number <= len(self.dims) else None
        return number if not self.is_open and number < len(self.dims) else None


@dataclass(frozen=True, slots=True)
class Number:
    """A plain number, with its value where it is a known or a named integer."""

    dim: Dim = None


@dataclass(frozen=True, slots=True)
class Handed:
    """Something that came from outside; if it is a size, then this one."""

    dim: Dim


@dataclass(frozen=True, slots=True)
class Type:
    """A type of numbers: `torch.float32`."""

    kind: Kind | None


@dataclass(frozen=True, slots=True)
class Text:
    """A string that is written out."""

    text: str


@dataclass(frozen=True, slots=True)
class Items:
    """A tuple or list whose elements are known one by one."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Many:
    """Something that yields one kind of value again and again: a list, a zipped batch, the columns of a loop."""

    value: Value


@dataclass(frozen=True, slots=True)
class Fields:
    """A dictionary with known keys."""

    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Extent:
    """What `x.shape` is."""

    tensor: Tensor


@dataclass(frozen=True, slots=True)
class Samples:
    """A dataset, by what indexing it gives."""

    value: Value


@dataclass(frozen=True, slots=True)
class Batches:
    """A loader, by what one round of it gives."""

    value: Value


@dataclass(frozen=True, slots=True)
class Table:
    """A data frame of pandas.

    Attributes:
        is_by_row: Whether it is asked by row, as `frame.iloc` is.
    """

    is_by_row: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    """A module of `torch.nn`.

    Attributes:
        name: Its class: `Linear`, `Conv2d`, `Sequential`.
        sizes: What its constructor was given, by the name of the parameter.
        parts: Of a `Sequential`, its layers in order.
    """

    name: str
    sizes: Mapping[str, Value]
    parts: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Object:
    """An object of a class of the reviewed files.

    Attributes:
        owner: The class.
        made: What its constructor was given; None where several calls make one.
    """

    owner: Class
    made: Frame | None = None


Value: TypeAlias = (
    Tensor
    | Number
    | Handed
    | Type
    | Text
    | Items
    | Many
    | Fields
    | Extent
    | Samples
    | Batches
    | Table
    | Layer
    | Object
    | None
)


UNKNOWN = Tensor()


GIVEN = Tensor(is_given=True)


def scalar(kind: Kind | None = None) -> Tensor:
    """Return a tensor without dimensions."""
    return Tensor((), is_open=False, kind=kind, places=(), is_fresh=True)


def fresh(dims: Iterable[Dim], kind: Kind | None = None, *, is_open: bool = False, is_array: bool = False) -> Tensor:
    """Return a tensor that was just made, and is contiguous."""
    sizes = tuple(dims)
    places = None if is_open else tuple(range(len(sizes)))
    return Tensor(sizes, is_open, kind, places, is_fresh=True, is_array=is_array)


def join(values: Iterable[Value]) -> Value:
    """Return what holds of every one of these values."""
    found = list(values)
    whole = found[0] if found else None
    for each in found[1:]:
        whole = _joined(whole, each)
    return whole


def _joined(one: Value, two: Value) -> Value:
    joined: Value = one if one == two else None
    match one, two:
        case Tensor(), Tensor():
            joined = _joined_tensors(one, two)
        case Number(), Number():
            joined = Number(one.dim if one.dim == two.dim else None)
        case Items(), Items() if len(one.values) == len(two.values):
            joined = Items(tuple(_joined(*pair) for pair in zip(one.values, two.values, strict=True)))
        case Object(), Object() if one.owner is two.owner:
            joined = one if one == two else Object(one.owner)
        case Samples(first), Samples(second):
            joined = Samples(_joined(first, second))
        case Batches(first), Batches(second):
            joined = Batches(_joined(first, second))
        case Many(first), Many(second):
            joined = Many(_joined(first, second))
        case _:
            pass
    return joined


def _joined_tensors(one: Tensor, two: Tensor) -> Tensor:
    kind = one.kind if one.kind is two.kind else None
    is_array = one.is_array and two.is_array
    if one.is_open or two.is_open or len(one.dims) != len(two.dims):
        shared = [left if left == right else None for left, right in zip(one.dims[::-1], two.dims[::-1], strict=False)]
        return Tensor(tuple(shared[::-1]), kind=kind, is_array=is_array)
    dims = tuple(left if left == right else None for left, right in zip(one.dims, two.dims, strict=True))
    places = one.places if one.places == two.places else None
    return Tensor(dims, False, kind, places, one.is_fresh and two.is_fresh, is_array=is_array)


def shown(tensor: Tensor) -> str:
    """Return a shape for people to read: `(batch, 1)`."""
    sizes = [named(dim) for dim in tensor.dims]
    inner = ", ".join(["..."] * tensor.is_open + sizes)
    return f"({inner},)" if len(sizes) == 1 and not tensor.is_open else f"({inner})"
