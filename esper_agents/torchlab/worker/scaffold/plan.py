"""Arguments of a call as source text: tensors with a shape and a kind, and expressions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

FLOAT, LONG, BOOL, COMPLEX = "float", "long", "bool", "complex"
# Names that an expression imports: module and name.
Imports = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class TensorPlan:
    """Tensor to create, or a list of such tensors.

    Attributes:
        shape: Its sizes.
        kind: `float`, `long`, `bool` or `complex`.
        high: Upper bound of integers, exclusive.
        low: Smallest integer.
        is_positive: Whether floats lie in [0, 1).
        copies: Number of tensors in a list; 0 for a single tensor.
    """

    shape: tuple[int, ...]
    kind: str = FLOAT
    high: int = 2
    low: int = 0
    is_positive: bool = False
    copies: int = 0

    imports: Imports = ()

    @property
    def text(self) -> str:
        """Expression that creates it."""
        one = self._one()
        return f"[{', '.join([one] * self.copies)}]" if self.copies else one

    def _one(self) -> str:
        sizes = ", ".join(map(str, self.shape))
        whole = f"({sizes},)" if len(self.shape) == 1 else f"({sizes})"
        if self.kind == LONG:
            return f"torch.randint({self.low}, {max(self.high, self.low + 1)}, {whole})"
        if self.kind == BOOL:
            return f"torch.ones({whole}, dtype=torch.bool)"
        if self.kind == COMPLEX:
            return f"torch.randn({whole}, dtype=torch.complex64)"
        return f"torch.rand({whole})" if self.is_positive else f"torch.randn({whole})"

    def sized(self, at: int, size: int) -> TensorPlan:
        """Return it with another size in one dimension."""
        shape = list(self.shape)
        shape[at] = size
        return replace(self, shape=tuple(shape))


@dataclass(frozen=True)
class Expression:
    """Value as source text.

    Attributes:
        text: Expression over `torch`, `nn`, `Settings`, `captured` and the imports.
        imports: Names that it uses.
    """

    text: str
    imports: Imports = ()


Argument: TypeAlias = "TensorPlan | Expression"
Arguments: TypeAlias = "tuple[tuple[str, Argument], ...]"


@dataclass(frozen=True)
class CallPlan:
    """Arguments of the constructor and of the call.

    Attributes:
        make: Arguments of the constructor, by name; empty for a function.
        call: Arguments of the call, by name.
    """

    make: Arguments = ()
    call: Arguments = ()

    def with_argument(self, where: str, name: str, argument: Argument | None) -> CallPlan:
        """Return it with an argument replaced, added, or removed if None.

        Args:
            where: `make` or `call`.
            name: Name of the parameter.
            argument: The argument.
        """
        known: dict[str, Argument] = dict(getattr(self, where))
        if argument is None:
            known.pop(name, None)
        else:
            known[name] = argument
        changed: dict[str, Any] = {where: tuple(known.items())}
        return replace(self, **changed)

    def tensors(self) -> list[tuple[str, str, TensorPlan]]:
        """Return every tensor with its place: those of the call first."""
        return [
            (where, name, each)
            for where in ("call", "make")
            for name, each in getattr(self, where)
            if isinstance(each, TensorPlan)
        ]


def source(arguments: Iterable[tuple[str, Argument]]) -> str:
    """Return arguments as the source of a call."""
    return ", ".join(f"{name}={each.text}" for name, each in arguments)
