"""The arguments of a call, asked for as numbers and sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.review.shapes.facts import Extent, Handed, Items, Number, Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from esper_agents.review.shapes.sizes import Dim


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of a call.

    Attributes:
        values: Those without a name.
        named: Those with one.
        is_hidden: Whether `*` or `**` hide some of them.
    """

    values: tuple[Value, ...]
    named: Mapping[str, Value]
    is_hidden: bool = False

    def has(self, position: int, name: str = "") -> bool:
        """Return whether an argument is given."""
        return 0 <= position < len(self.values) or name in self.named

    def at(self, position: int, name: str = "") -> Value:
        """Return an argument; None where it is not given or not known."""
        return self.values[position] if 0 <= position < len(self.values) else self.named.get(name)

    def number(self, position: int, name: str, absent: int | None = None) -> int | None:
        """Return an argument that is a plain number; None where it is not known."""
        if not self.has(position, name):
            return absent
        value = self.at(position, name)
        return value.dim if isinstance(value, Number) and isinstance(value.dim, int) else None

    def numbers(self, position: int, name: str) -> tuple[int, ...] | None:
        """Return an argument that is one plain number or several; None where they are not all known."""
        value = self.at(position, name)
        several = value.values if isinstance(value, Items) else (value,)
        found = tuple(each.dim for each in several if isinstance(each, Number) and isinstance(each.dim, int))
        return found if len(found) == len(several) else None

    def sizes(self, position: int = 0, name: str = "size") -> tuple[Dim, ...] | None:
        """Return the sizes given one by one or as a tuple from a position on; None where their number is not known."""
        first = self.at(position, name)
        if self.is_hidden:
            return None
        if isinstance(first, Items) and len(self.values) <= position + 1:
            listed: Sequence[Value] = first.values
        elif isinstance(first, Extent):
            return None if first.tensor.is_open else first.tensor.dims
        elif first is not None and not isinstance(first, Number | Handed):
            return None
        else:
            listed = self.values[position:] if len(self.values) > position else [first]
        # One unknown thing may be a tuple; among several each is a size.
        if len(listed) == 1 and not isinstance(listed[0], Number) and not isinstance(first, Items):
            return None
        return tuple(each.dim if isinstance(each, Number | Handed) else None for each in listed)

    def rest(self) -> Given:
        """Return the arguments after the first."""
        return replace(self, values=self.values[1:])
