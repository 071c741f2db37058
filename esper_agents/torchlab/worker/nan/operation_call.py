"""One operation call with its inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .tensor_statistics import element, first_bad, is_finite

if TYPE_CHECKING:
    from collections.abc import Iterator

# Operations whose outputs each come from the inputs' elements in the same place.
ELEMENTWISE = frozenset((
    "div", "true_divide", "floor_divide", "fmod", "remainder", "addcdiv", "reciprocal", "rsqrt", "mul",
    "square", "addcmul", "add", "sub", "rsub", "lerp", "pow", "log", "log2",
    "log10", "log1p", "xlogy", "special_xlog1py", "logit", "sqrt", "exp", "exp2", "expm1",
    "sinh", "cosh", "acos", "asin", "acosh", "atanh", "erfinv", "lgamma", "digamma",
    "sin", "cos", "tan", "gelu", "silu", "mish", "hardswish",
))  # fmt: skip


@dataclass
class At:
    """The first bad element of an output, with the elements that it was computed from.

    Attributes:
        index: In the output.
        operands: Numbers by argument.
    """

    index: list[int]
    operands: dict[str, Any]


@dataclass
class OperationCall:
    """One operation with what it was given and what it put out.

    Attributes:
        func: The operation.
        name: Such as `aten.div_.Tensor`.
        base: Such as `div_`.
        arguments: By name; what the operation overwrote as it was before, where that was kept.
        originals: Likewise, the tensors themselves.
        outputs: The floating-point tensors it put out or wrote to.
        is_intact: Nothing of what it was given was lost to what it wrote.
    """

    func: Any
    name: str
    base: str
    arguments: dict[str, Any]
    originals: dict[str, Any]
    outputs: list[torch.Tensor]
    is_intact: bool

    @property
    def plain(self) -> str:
        """The operation's name without the marks of its variants: `div` for `_foreach_div_`."""
        return self.base.removeprefix("_foreach_").strip("_")

    @property
    def member(self) -> int:
        """Which of the outputs is the first that is not finite."""
        return next((number for number, each in enumerate(self.outputs) if not is_finite(each)), 0)

    def tensors(self) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
        """Yield each tensor it was given: the argument's name, the tensor as it was, the tensor itself."""
        for name, given in self.arguments.items():
            original = self.originals.get(name)
            if isinstance(given, torch.Tensor) and isinstance(original, torch.Tensor):
                yield name, given, original
            elif isinstance(given, (list, tuple)) and isinstance(original, (list, tuple)):
                for one, other in zip(given, original):  # noqa: B905 - one is the other's copy
                    if isinstance(one, torch.Tensor):
                        yield name, one, other

    def argument(self, name: str) -> Any:
        """Return an argument; of a list that has a member for each output, the one that belongs to the bad output."""
        given = self.arguments.get(name)
        if self.base.startswith("_foreach_") and isinstance(given, (list, tuple)) and self.member < len(given):
            return given[self.member]
        return given

    def at(self, what: str) -> At | None:
        """Return the first bad element and, where the operation works element by element, what it was computed from."""
        bad = self.outputs[self.member]
        index = first_bad(bad, what)
        if index is None or bad.layout is not torch.strided:
            return None
        operands = {}
        if self.plain in ELEMENTWISE:
            for name in self.arguments:
                given = self.argument(name)
                number = element(given, index, bad.shape) if isinstance(given, torch.Tensor) else given
                if isinstance(number, (int, float, complex)) and not isinstance(number, bool):
                    operands[name] = number
        return At(index, operands)
