"""Arithmetic and bytes of one operation, from its arguments and results."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import torch

from .call_runner import tensors_in
from .flops import flops_of

if TYPE_CHECKING:
    from collections.abc import Iterable

# They read only the requested rows, not the whole table.
_GATHERS = frozenset(
    ("aten::embedding", "aten::index", "aten::index_select", "aten::gather", "aten::take", "aten::take_along_dim")
)
_UNTOUCHED = ("aten::empty", "aten::new_empty")


def described_by(
    func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], given: Any
) -> dict[str, Any]:
    """Return the cost of an operation's call from its inputs and outputs.

    Returns:
        `name`, `shapes`, `dtype`, `flops`, `moved`, `is_view`, as in `Operation`.
    """
    name = func._schema.name  # noqa: SLF001 - the name without the overload
    operands = [*tensors_in(args), *tensors_in(kwargs)]
    results = tensors_in(given)
    is_view = not func._schema.is_mutable and _shares_memory(operands, results)  # noqa: SLF001 - it has no other name
    return {
        "name": name,
        "shapes": " ".join(str(list(operand.shape)) for operand in operands[:3]),
        "dtype": str(results[0].dtype).removeprefix("torch.") if results else "",
        "flops": flops_of(func, args, kwargs, given),
        "moved": 0 if is_view else _moved(name, operands, results),
        "is_view": is_view,
    }


def _shares_memory(operands: list[torch.Tensor], results: list[torch.Tensor]) -> bool:
    try:
        taken = {operand.untyped_storage()._cdata for operand in operands}  # noqa: SLF001 - the identity of a storage
        kept = [result.untyped_storage()._cdata in taken for result in results]  # noqa: SLF001 - same reason
        return bool(kept) and all(kept)
    except (RuntimeError, NotImplementedError):  # a layout without storage
        return False


def _moved(name: str, operands: list[torch.Tensor], results: list[torch.Tensor]) -> int | None:
    if any(each.layout is not torch.strided for each in (*operands, *results)):
        return None
    if name.startswith(_UNTOUCHED):
        return 0
    written = sum(map(_touched, results))
    if name in _GATHERS:
        return 2 * written + sum(_touched(operand) for operand in operands[1:] if not operand.is_floating_point())
    return written + sum(_touched(each) for each in _distinct(operands))


def _distinct(tensors: Iterable[torch.Tensor]) -> Iterable[torch.Tensor]:
    return {
        (tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.shape): tensor  # noqa: SLF001 - same reason
        for tensor in tensors
    }.values()


def _touched(tensor: torch.Tensor) -> int:
    """Return the number of bytes in which a tensor's elements lie: an expanded dimension repeats the same ones."""
    sizes = zip(tensor.shape, tensor.stride())  # noqa: B905 - equally many by definition, Python 3.10
    return prod(size for size, stride in sizes if stride or not size) * tensor.element_size()
