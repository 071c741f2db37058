"""Sizes of tensors: numbers, or products of named numbers, and how to calculate with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Symbol:
    """A size that has a name instead of a number: `2 * hidden`.

    Attributes:
        factor: What the names are multiplied by.
        names: What is multiplied; one name stands for one value, and none is zero.
    """

    factor: int
    names: tuple[str, ...]


# A size: a number, a named one, or unknown.
Dim: TypeAlias = int | Symbol | None


def times(left: Dim, right: Dim) -> Dim:
    """Return the product of two sizes."""
    if left is None or right is None:
        return None
    one, two = _symbol(left), _symbol(right)
    return _plain(Symbol(one.factor * two.factor, tuple(sorted(one.names + two.names))))


def plus(left: Dim, right: Dim, sign: int = 1) -> Dim:
    """Return the sum of two sizes, or with a sign of -1 the difference; unknown where they have different names."""
    if left is None or right is None:
        return None
    one, two = _symbol(left), _symbol(right)
    if one.names != two.names:
        return left if right == 0 else None
    return _plain(Symbol(one.factor + sign * two.factor, one.names))


def divided(left: Dim, right: Dim) -> Dim:
    """Return the quotient of two sizes; unknown where it does not come out even."""
    if left is None or right is None or right == 0:
        return None
    if isinstance(left, int) and isinstance(right, int):
        return left // right
    one, two = _symbol(left), _symbol(right)
    rest = list(one.names)
    for name in two.names:
        if name not in rest:
            return None
        rest.remove(name)
    return None if one.factor % two.factor else _plain(Symbol(one.factor // two.factor, tuple(rest)))


def product(dims: Iterable[Dim]) -> Dim:
    """Return the product of sizes."""
    whole: Dim = 1
    for dim in dims:
        whole = times(whole, dim)
    return whole


def differ(left: Dim, right: Dim) -> bool:
    """Return whether two sizes are surely not the same: other numbers, or other multiples of the same names."""
    if left is None or right is None:
        return False
    one, two = _symbol(left), _symbol(right)
    return one.names == two.names and one.factor != two.factor


def is_unlike(left: Dim, right: Dim) -> bool:
    """Return whether two sizes are known and not written alike, so that they agree by chance only."""
    return left is not None and right is not None and left != right


def named(dim: Dim) -> str:
    """Return a size for people to read: `2 * hidden`."""
    if dim is None:
        return "?"
    if isinstance(dim, int):
        return str(dim)
    names = [name.partition("@")[0].rpartition(".")[2].replace("[", ".shape[") for name in dim.names]
    return " * ".join([str(dim.factor)] * (dim.factor != 1) + names)


def _symbol(dim: int | Symbol) -> Symbol:
    return Symbol(dim, ()) if isinstance(dim, int) else dim


def _plain(symbol: Symbol) -> Dim:
    return symbol.factor if not symbol.names or not symbol.factor else symbol
