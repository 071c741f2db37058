"""How far a candidate's numbers may lie from the baseline's, by what rounding does to the baseline itself."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

_REAL = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
# From FACTS of rounding: an equally careful implementation errs at most a few times as much, and some last places more.
TIMES_BASELINE = 4
ULPS = 8
_FEWEST_POOLED = 8
_FEWEST_AVERAGED = 16
# So many runs on inputs an ulp away show whether rounding decides an element; one shows that it does not decide a tensor.
SHIFTS = 6
_GROSS = 1000
_MANY = 0.1


@dataclass
class Fit:
    """How a candidate's numbers fit.

    Attributes:
        is_passed: They are within what is allowed.
        detail: One line.
        numbers: What was measured, for the report.
        is_settled: Further runs of the baseline cannot change `is_passed`.
    """

    is_passed: bool
    detail: str
    numbers: dict[str, Any] = field(default_factory=dict)
    is_settled: bool = True


@dataclass
class Runs:
    """One tensor as the runs of a comparison returned it; all have one shape.

    Attributes:
        baseline: The baseline's.
        candidate: The candidate's.
        reference: The baseline's in float64; None where it could not be had.
        shifted: The baseline's for inputs an ulp away, one for each such run.
        is_trusted: The reference is known to compute the same thing.
    """

    baseline: torch.Tensor
    candidate: torch.Tensor
    reference: torch.Tensor | None = None
    shifted: Sequence[torch.Tensor] = ()
    is_trusted: bool = True


def fit(runs: Runs) -> Fit:
    """Judge a candidate's numbers.

    Whole numbers must be the same, unless rounding decides them: then what the baseline itself returns in float64, or for inputs
    an ulp away, is as good. Others may err, against a float64 run of the baseline, four times as much as the baseline does
    there, and 8 ulp more. What the baseline errs "there" is the most of: its error at the element; the typical error of the
    row and column; how far inputs an ulp away move the element. An ulp is that of the element or of its row's typical size,
    because a sum that nearly cancels is as exact as what went into it. On average over a tensor it is one ulp instead of 8.

    Args:
        runs: What was returned.

    Source:
        Higham, Accuracy and Stability of Numerical Algorithms, chapters 1 to 4, for the model of errors; the two numbers are those of
        common error-analysis practice and are not fitted to any case.
    """
    if _bits_equal(runs.baseline, runs.candidate):
        return Fit(True, "the same bits")
    if runs.baseline.is_complex():
        return _fit_complex(runs)
    if not runs.baseline.is_floating_point():
        return _fit_exact(runs)
    return _fit_real(runs)


def _bits_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.numel() == 0:
        return True
    if one.element_size() == 1 and one.is_floating_point():
        one, other = one.float(), other.float()
    return bool(torch.equal(one.resolve_conj(), other.resolve_conj()))


def _fit_complex(runs: Runs) -> Fit:
    def parts(tensor: torch.Tensor) -> torch.Tensor:
        wide = tensor.resolve_conj().resolve_neg()
        return torch.view_as_real(wide.to(torch.complex64) if wide.dtype is torch.complex32 else wide)

    reference = parts(runs.reference) if runs.reference is not None else None
    shifted = [parts(each) for each in runs.shifted]
    return fit(Runs(parts(runs.baseline), parts(runs.candidate), reference, shifted, runs.is_trusted))


def _fit_exact(runs: Runs) -> Fit:
    differs = runs.baseline != runs.candidate
    if runs.is_trusted and runs.reference is not None and runs.reference.dtype == runs.candidate.dtype:
        differs &= runs.reference != runs.candidate
    for each in runs.shifted:
        differs &= each != runs.candidate
    count = int(differs.sum())
    if not count:
        return Fit(True, "the same where rounding does not decide", {"differing": 0})
    at = _first(differs)
    detail = (
        f"{count} of {differs.numel()} differ, the first at {at}:"
        f" {runs.baseline[at].item()!r} became {runs.candidate[at].item()!r}"
    )
    return Fit(False, detail, {"differing": count, "at": list(at)}, is_settled=len(runs.shifted) >= SHIFTS)


def _fit_real(runs: Runs) -> Fit:
    dtype = runs.baseline.dtype
    baseline, candidate = _wide(runs.baseline), _wide(runs.candidate)
    reference = _wide(runs.reference) if runs.reference is not None and runs.is_trusted else None
    shifted = [_wide(each) for each in runs.shifted]
    truth = reference if reference is not None else baseline
    # Where float64 does not follow, the baseline is the truth.
    truth = torch.where(torch.isfinite(baseline) & ~torch.isfinite(truth), baseline, truth)
    wrong_kind = _wrong_kind(baseline, candidate, _in_range(truth, dtype), shifted)
    finite = torch.isfinite(baseline) & torch.isfinite(candidate) & torch.isfinite(truth)
    error = _where(finite, candidate - truth).abs()
    own = _where(finite, baseline - truth).abs()
    shift = _shift(shifted, baseline, finite)
    unit = ulp(torch.maximum(_where(finite, truth).abs(), _pooled(_where(finite, truth).abs())), dtype)
    rounding = torch.maximum(torch.maximum(own, _pooled(own)), torch.maximum(shift, _pooled(shift)))
    allowed = TIMES_BASELINE * rounding + ULPS * unit
    beyond = (error > allowed) | wrong_kind
    numbers = _numbers(error, own, unit, finite)
    is_settled = len(shifted) >= SHIFTS
    if beyond.any():
        is_gross = bool(shifted) and float((error > _GROSS * allowed).double().mean()) > _MANY
        detail = _where_beyond(runs, beyond, error, allowed, wrong_kind)
        return Fit(False, detail, numbers, is_settled=is_settled or is_gross)
    return _on_average(numbers, error, own, shift, truth, finite, dtype, is_settled=is_settled)


def _on_average(
    numbers: dict[str, Any],
    error: torch.Tensor,
    own: torch.Tensor,
    shift: torch.Tensor,
    truth: torch.Tensor,
    finite: torch.Tensor,
    dtype: torch.dtype,
    *,
    is_settled: bool,
) -> Fit:
    count = int(finite.sum())
    if count >= _FEWEST_AVERAGED:
        size = _rms(_where(finite, truth), count)
        # A last place of a short format is large: there what inputs an ulp away do would excuse the loss of half of it.
        moved = _rms(shift, count) if dtype in {torch.float32, torch.float64} else 0.0
        limit = TIMES_BASELINE * max(_rms(own, count), moved) + float(
            ulp(torch.tensor(size, dtype=torch.float64), dtype)
        )
        typical = _rms(error, count)
        if typical > limit:
            detail = f"the typical error is {typical:.3g}, the baseline's own {_rms(own, count):.3g}, and {limit:.3g} is allowed"
            return Fit(False, detail, numbers, is_settled=is_settled)
    return Fit(True, "within what rounding does to the baseline", numbers)


def ulp(size: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the distance between neighbouring numbers of a dtype at these sizes (float64, not negative)."""
    limits = torch.finfo(dtype)
    _, exponent = torch.frexp(size)
    spacing = torch.ldexp(torch.full_like(size, limits.eps), exponent - 1)
    return torch.where(size > 0, spacing, 0).clamp_min(limits.smallest_normal * limits.eps)


def relative_error(baseline: torch.Tensor, reference: torch.Tensor) -> float:
    """Return the typical error of a baseline against its float64 run, as a fraction of the typical size."""
    if not baseline.is_floating_point() or baseline.shape != reference.shape:
        return 0.0
    one, other = _wide(baseline), _wide(reference)
    finite = torch.isfinite(one) & torch.isfinite(other)
    count = int(finite.sum())
    size = _rms(_where(finite, other), count)
    error = _rms(_where(finite, one - other), count)
    floor = float(ulp(torch.tensor(size, dtype=torch.float64), baseline.dtype)) if baseline.dtype in _REAL else 0.0
    return 0.0 if error <= ULPS * floor else error / size if size else float("inf")


def typical_gap(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the root mean square difference of two tensors of one shape where both are finite."""
    left, right = _wide(one), _wide(other)
    finite = torch.isfinite(left) & torch.isfinite(right)
    return _rms(_where(finite, left - right), int(finite.sum()))


def of_float(number: float, like: float) -> torch.Tensor:
    """Return a Python number as a tensor of the dtype that it seems to come from: float32 if `like` fits into one."""
    try:
        is_short = struct.unpack("f", struct.pack("f", like))[0] == like or like != like  # noqa: PLR0124 - NaN is not itself
    except OverflowError:
        is_short = False
    return torch.tensor(number, dtype=torch.float32 if is_short else torch.float64)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to(torch.float64)


def _in_range(truth: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the truth as far as a dtype can hold it: what is too large for it is infinite."""
    return truth.to(dtype).to(torch.float64)


def _kind(tensor: torch.Tensor) -> torch.Tensor:
    """Return 0 for finite, 1 and 2 for the infinities, 3 for NaN."""
    kinds = torch.zeros(tensor.shape, dtype=torch.int8)
    kinds[tensor == float("inf")] = 1
    kinds[tensor == -float("inf")] = 2
    kinds[torch.isnan(tensor)] = 3
    return kinds


def _wrong_kind(
    baseline: torch.Tensor, candidate: torch.Tensor, truth: torch.Tensor, shifted: Sequence[torch.Tensor]
) -> torch.Tensor:
    """Return where one is finite and the other is not, unless the baseline itself is wrong there or rounding decides."""
    wanted, found = _kind(baseline), _kind(candidate)
    wrong = wanted != found
    # Where the baseline overflows on the way to a number that its dtype holds, nobody is held to what it returns.
    wrong &= ~((wanted != 0) & (wanted != _kind(truth)))
    for each in shifted:
        wrong &= _kind(each) != found
    return wrong


def _shift(shifted: Sequence[torch.Tensor], baseline: torch.Tensor, finite: torch.Tensor) -> torch.Tensor:
    most = torch.zeros_like(baseline)
    for each in shifted:
        most = torch.maximum(most, _where(finite & torch.isfinite(each), each - baseline).abs())
    return most


def _pooled(size: torch.Tensor) -> torch.Tensor:
    """Return the typical size around each element: the least of the root mean squares along its dimensions of at least 8."""
    dims = [number for number, extent in enumerate(size.shape) if extent >= _FEWEST_POOLED]
    if not dims:
        return size.square().mean().sqrt().expand_as(size) if size.numel() else size
    pooled = [size.square().mean(number, keepdim=True).sqrt() for number in dims]
    least = pooled[0].expand_as(size)
    for each in pooled[1:]:
        least = torch.minimum(least, each)
    return least


def _where(mask: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    return torch.where(mask, tensor, 0.0)


def _rms(tensor: torch.Tensor, count: int) -> float:
    return float((tensor.square().sum() / max(count, 1)).sqrt())


def _first(mask: torch.Tensor) -> tuple[int, ...]:
    return tuple(int(each) for each in mask.nonzero()[0])


def _numbers(error: torch.Tensor, own: torch.Tensor, unit: torch.Tensor, finite: torch.Tensor) -> dict[str, Any]:
    if not error.numel():
        return {}
    count = int(finite.sum())
    return {
        "candidate_error_ulp": _rounded(float((error / unit).max())),
        "baseline_error_ulp": _rounded(float((own / unit).max())),
        "candidate_error_rms": _rounded(_rms(error, count)),
        "baseline_error_rms": _rounded(_rms(own, count)),
    }


def _where_beyond(
    runs: Runs, beyond: torch.Tensor, error: torch.Tensor, allowed: torch.Tensor, wrong_kind: torch.Tensor
) -> str:
    ratio = torch.where(beyond, torch.where(wrong_kind, float("inf"), error / allowed), -1.0)
    at = tuple(int(each) for each in torch.unravel_index(ratio.argmax(), ratio.shape)) if ratio.dim() else ()
    values = f"{runs.baseline[at].item():.6g} became {runs.candidate[at].item():.6g}"
    count = int(beyond.sum())
    where = f"{count} of {beyond.numel()} are off, the worst at {list(at)}: {values}"
    return where if wrong_kind[at] else f"{where}, {float(error[at]):.3g} off where {float(allowed[at]):.3g} is allowed"


def _rounded(number: float) -> float | str:
    return float(f"{number:.6g}") if number == number and abs(number) != float("inf") else str(number)  # noqa: PLR0124 - NaN
