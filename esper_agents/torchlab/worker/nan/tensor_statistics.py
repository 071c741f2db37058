"""Statistics of tensors: finiteness and the first non-finite element. Keeps no tensor."""

from __future__ import annotations

import cmath
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from .result import TensorStatistics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .result import NonfiniteKind, ReportedNumber

# Elements per chunk: temporary memory stays below some 32 MB, whatever a tensor's size.
_PIECE = 1 << 21
_MOST_DIMENSIONS = 16


def is_numeric(tensor: torch.Tensor) -> bool:
    """Return whether a tensor can hold NaN or Inf: its dtype allows it, and it has memory."""
    # Reading a zero tensor that torch stores without memory crashes the process.
    has_memory = not (tensor.is_meta or tensor._is_zerotensor())  # noqa: SLF001 - no public name
    return (tensor.is_floating_point() or tensor.is_complex()) and has_memory


def stored(tensor: torch.Tensor) -> torch.Tensor:
    """Return the stored elements of a sparse or packed tensor, as an ordinary tensor."""
    if tensor.layout is torch.strided:
        return tensor
    if tensor.layout is torch.sparse_coo:
        return tensor._values()  # noqa: SLF001 - `values()` refuses uncoalesced tensors
    if tensor.layout in {torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}:
        return tensor.values()
    return tensor.to_dense()


def is_finite(tensor: torch.Tensor) -> bool:
    """Return whether no element is NaN or Inf. One pass over the memory, as cheap as torch allows.

    Raises:
        RuntimeError: Torch cannot inspect such a tensor (a layout or dtype without kernels).
        NotImplementedError: As for RuntimeError.
    """
    if not is_numeric(tensor) or tensor.numel() == 0:
        return True
    tensor = stored(tensor.detach())
    if tensor.dtype is torch.float16:
        lowest, highest = torch.aminmax(tensor)  # a sum would overflow too often
        return math.isfinite(lowest.item()) and math.isfinite(highest.item())
    if tensor.element_size() > 1 and cmath.isfinite(tensor.sum().item()):
        return True
    # The sum of finite numbers may overflow, and one-byte floats have no sum.
    return all(bool(torch.isfinite(_wide(piece)).all()) for _, piece in _pieces(tensor))


def holds(tensor: torch.Tensor) -> NonfiniteKind | None:
    """Return `nan` if there is a NaN, else `inf` if there is an Inf, else None."""
    if is_finite(tensor):
        return None
    return "nan" if any(bool(torch.isnan(_wide(piece)).any()) for _, piece in _pieces(stored(tensor))) else "inf"


def first_bad(tensor: torch.Tensor, what: str) -> list[int] | None:
    """Return the index of the first NaN (`what` is `nan`) or Inf (`inf`), in row-major order; None without one."""
    find = torch.isnan if what == "nan" else torch.isinf
    for start, piece in _pieces(stored(tensor.detach())):
        mask = find(_wide(piece))
        if bool(mask.any()):
            inner = mask.nonzero()[0].tolist()
            return [*start[:-1], start[-1] + inner[0], *inner[1:]] if tensor.ndim else []
    return None


def statistics(tensor: torch.Tensor, name: str | None = None) -> TensorStatistics:
    """Return statistics of a tensor: its shape alone if torch cannot inspect it.

    `min` and `max` ignore NaN, so an Inf shows; `mean` is that of the finite elements. Complex numbers count by
    magnitude.
    """
    dtype = str(tensor.dtype).removeprefix("torch.")
    shape = TensorStatistics(name=name, shape=tuple(tensor.shape), dtype=dtype, numel=tensor.numel())
    if tensor.is_quantized or tensor.numel() == 0 or tensor.is_meta or tensor._is_zerotensor():  # noqa: SLF001 - see above
        return shape
    nan = inf = zeros = negatives = 0
    lowest, highest, total, finite = math.inf, -math.inf, 0.0, 0
    for _, piece in _pieces(stored(tensor.detach())):
        elements = _real(piece)
        is_nan, is_inf = torch.isnan(elements), torch.isinf(elements)
        nan += int(is_nan.sum())
        inf += int(is_inf.sum())
        zeros += int((elements == 0).sum())
        negatives += int((elements < 0).sum())
        kept = elements[~is_nan]
        if kept.numel():
            lowest, highest = min(lowest, kept.min().item()), max(highest, kept.max().item())
        kept = elements[~(is_nan | is_inf)]
        finite += kept.numel()
        total += kept.sum(dtype=_widest(kept)).item()
    has_numbers = nan < tensor.numel()
    return replace(
        shape,
        min=number(lowest) if has_numbers else None,
        max=number(highest) if has_numbers else None,
        mean=number(total / finite) if finite else None,
        nan=nan,
        inf=inf,
        zeros=zeros,
        negatives=negatives,
    )


def largest(tensor: torch.Tensor) -> float:
    """Return the largest magnitude, NaN or Inf if it holds one; 0 if it is empty."""
    if tensor.numel() == 0:
        return 0.0
    sizes = [_real(piece).abs().max().item() for _, piece in _pieces(stored(tensor.detach()))]
    return math.nan if any(math.isnan(size) for size in sizes) else float(max(sizes))


def number(quantity: complex) -> ReportedNumber:
    """Return a number in JSON form: 6 significant digits, and `nan`, `inf`, `-inf` as text."""
    if isinstance(quantity, complex):
        return str(quantity)
    if isinstance(quantity, (bool, int)):
        return quantity
    return float(f"{quantity:.6g}") if math.isfinite(quantity) else str(quantity)


def element(tensor: torch.Tensor, index: list[int], shape: torch.Size) -> Any:
    """Return the element that broadcasts to `index` of a result of `shape`; None if the shapes do not match."""
    if tensor.ndim > len(shape) or tensor.layout is not torch.strided or tensor._is_zerotensor():  # noqa: SLF001 - see above
        return None
    at = []
    for size, full, position in zip(reversed(tensor.shape), reversed(shape), reversed(index)):  # noqa: B905 - the shorter one ends it
        if size not in {1, full}:
            return None
        at.append(0 if size == 1 else position)
    return tensor.detach()[tuple(reversed(at))].item()


def _pieces(tensor: torch.Tensor, start: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], torch.Tensor]]:
    """Yield chunks of a tensor in row-major order, each with the index of its first element."""
    if tensor.ndim == 0:
        yield start or (0,), tensor if start else tensor.reshape(1)
    elif tensor.numel() <= _PIECE:
        yield (*start, 0), tensor
    elif tensor.ndim == 1 or tensor.numel() // tensor.shape[0] <= _PIECE // _MOST_DIMENSIONS:
        rows = max(1, _PIECE // max(1, tensor.numel() // tensor.shape[0]))
        for first in range(0, tensor.shape[0], rows):
            yield (*start, first), tensor[first : first + rows]
    else:
        for position in range(tensor.shape[0]):
            yield from _pieces(tensor[position], (*start, position))


def _wide(piece: torch.Tensor) -> torch.Tensor:
    """Return one-byte floats in a wider dtype: they have no comparisons of their own."""
    return piece.float() if is_numeric(piece) and piece.element_size() == 1 else piece


def _real(piece: torch.Tensor) -> torch.Tensor:
    if piece.is_complex():
        return piece.abs()
    return piece.to(torch.uint8) if piece.dtype is torch.bool else _wide(piece)


def _widest(piece: torch.Tensor) -> torch.dtype:
    return torch.float32 if piece.device.type == "mps" else torch.float64
