"""One operation call with its inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .tensor_statistics import element, first_bad, is_finite

if TYPE_CHECKING:
    from collections.abc import Iterator

# Operations whose output elements each depend on the input elements at the same position.
ELEMENTWISE = frozenset((
    "div", "true_divide", "floor_divide", "fmod", "remainder", "addcdiv", "reciprocal", "rsqrt", "mul",
    "square", "addcmul", "add", "sub", "rsub", "lerp", "pow", "log", "log2",
    "log10", "log1p", "xlogy", "special_xlog1py", "logit", "sqrt", "exp", "exp2", "expm1",
    "sinh", "cosh", "acos", "asin", "acosh", "atanh", "erfinv", "lgamma", "digamma",
    "sin", "cos", "tan", "gelu", "silu", "mish", "hardswish",
))  # fmt: skip


@dataclass
class At:
    """First non-finite element of an output, with its operands.

    Attributes:
        index: Index in the output.
        operands: Operands by argument.
    """

    index: list[int]
    operands: dict[str, Any]


@dataclass
class OperationCall:
    """One operation with its inputs and outputs.

    Attributes:
        func: The operation.
        name: Full name, such as `aten.div_.Tensor`.
        base: Base name, such as `div_`.
        arguments: Arguments by name; overwritten ones with their previous content, if it was kept.
        originals: Arguments by name, the tensors themselves.
        outputs: Floating-point tensors that it returned or wrote to.
        is_intact: Whether no input was lost by overwriting.
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
        """The operation's name without variant marks: `div` for `_foreach_div_`."""
        return self.base.removeprefix("_foreach_").strip("_")

    @property
    def member(self) -> int:
        """Index of the first non-finite output."""
        return next((number for number, each in enumerate(self.outputs) if not is_finite(each)), 0)

    def tensors(self) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
        """Yield each input tensor: the argument's name, the tensor before the call, the tensor itself."""
        for name, given in self.arguments.items():
            original = self.originals.get(name)
            if isinstance(given, torch.Tensor) and isinstance(original, torch.Tensor):
                yield name, given, original
            elif isinstance(given, (list, tuple)) and isinstance(original, (list, tuple)):
                for one, other in zip(given, original):  # noqa: B905 - one is a copy of the other
                    if isinstance(one, torch.Tensor):
                        yield name, one, other

    def argument(self, name: str) -> Any:
        """Return an argument; of a list with a member for each output, the member of the non-finite output."""
        given = self.arguments.get(name)
        if self.base.startswith("_foreach_") and isinstance(given, (list, tuple)) and self.member < len(given):
            return given[self.member]
        return given

    def at(self, what: str) -> At | None:
        """Return the first non-finite element and, for elementwise operations, its operands."""
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
