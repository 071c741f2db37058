"""Magnitudes and errors of numbers in float64: ulps, typical sizes, non-finite elements."""

from __future__ import annotations

import struct

import torch

_FEWEST_POOLED = 8
_ULPS = 8


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in float64."""
    return tensor.detach().to(torch.float64)


def masked(mask: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with zeros where the mask is not set."""
    return torch.where(mask, tensor, 0.0)


def ulp(size: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the distance between neighbouring numbers of a dtype at these magnitudes (float64, not negative)."""
    limits = torch.finfo(dtype)
    _, exponent = torch.frexp(size)
    spacing = torch.ldexp(torch.full_like(size, limits.eps), exponent - 1)
    return torch.where(size > 0, spacing, 0).clamp_min(limits.smallest_normal * limits.eps)


def pooled(size: torch.Tensor) -> torch.Tensor:
    """Return the typical magnitude around each element.

    It is the minimum of the root mean squares along the dimensions with at least 8 elements, so that neither large
    rows nor large columns hide errors in small ones; over all elements if there is no such dimension.
    """
    dims = [number for number, extent in enumerate(size.shape) if extent >= _FEWEST_POOLED]
    if not dims:
        return size.square().mean().sqrt().expand_as(size) if size.numel() else size
    means = [size.square().mean(number, keepdim=True).sqrt() for number in dims]
    least = means[0].expand_as(size)
    for mean in means[1:]:
        least = torch.minimum(least, mean)
    return least


def root_mean_square(tensor: torch.Tensor, count: int) -> float:
    """Return the root mean square of a number of elements; the others must be zero."""
    return float((tensor.square().sum() / max(count, 1)).sqrt())


def kind_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return 0 for finite elements, 1 and 2 for the infinities, 3 for NaN."""
    kinds = torch.zeros(tensor.shape, dtype=torch.int8)
    for kind, mask in enumerate((tensor == float("inf"), tensor == -float("inf"), torch.isnan(tensor)), start=1):
        kinds[mask] = kind
    return kinds


def first_of(mask: torch.Tensor) -> tuple[int, ...]:
    """Return the position of the first set element."""
    return tuple(int(each) for each in mask.nonzero()[0])


def place_of(number: int, shape: torch.Size) -> tuple[int, ...]:
    """Return the indices of an element by its number (torch.unravel_index imports sympy: half a second)."""
    place = []
    for extent in reversed(shape):
        number, at = divmod(number, extent)
        place.append(at)
    return tuple(reversed(place))


def typical_gap(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the root mean square difference of two tensors of one shape over their finite elements."""
    left, right = widened(one), widened(other)
    finite = torch.isfinite(left) & torch.isfinite(right)
    return root_mean_square(masked(finite, left - right), int(finite.sum()))


def relative_error(baseline: torch.Tensor, reference: torch.Tensor) -> float:
    """Return the typical error of a baseline against its float64 run, as a fraction of the typical magnitude."""
    if not baseline.is_floating_point() or baseline.shape != reference.shape:
        return 0.0
    finite = torch.isfinite(widened(baseline)) & torch.isfinite(widened(reference))
    size = root_mean_square(masked(finite, widened(reference)), int(finite.sum()))
    error = typical_gap(baseline, reference)
    if error <= _ULPS * float(ulp(torch.tensor(size, dtype=torch.float64), baseline.dtype)):
        return 0.0
    return error / size if size else float("inf")


def largest_gap(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the largest finite difference of two tensors of one shape; 0 without one."""
    if one.is_complex():
        gaps = (one.to(torch.complex128) - other.to(torch.complex128)).abs()
    else:
        gaps = (widened(one) - widened(other)).abs()
    finite = gaps[torch.isfinite(gaps)]
    return float(finite.max()) if finite.numel() else 0.0


def of_float(number: float, like: float) -> torch.Tensor:
    """Return a Python number as a tensor of its likely source dtype: float32 if `like` fits into it."""
    try:
        is_short = struct.unpack("f", struct.pack("f", like))[0] == like or is_nan(like)
    except OverflowError:
        is_short = False
    return torch.tensor(number, dtype=torch.float32 if is_short else torch.float64)


def is_nan(number: float) -> bool:
    """Return whether a number is NaN."""
    return number != number  # noqa: PLR0124 - the definition of NaN


def rounded(number: float) -> float | str:
    """Return a number rounded to 6 significant digits; as text if it is not finite, which JSON cannot represent."""
    return str(number) if is_nan(number) or abs(number) == float("inf") else float(f"{number:.6g}")
