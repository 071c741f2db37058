"""Tolerances for a candidate's numbers, derived from the effect of rounding on the baseline."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from .numeric_error import first_of, kind_of, masked, place_of, pooled, root_mean_square, rounded, ulp, widened

if TYPE_CHECKING:
    from collections.abc import Sequence

# An equally careful implementation has at most a few times the error of another one, plus some last places.
TIMES_BASELINE = 4
ULPS = 8
# Number of runs with rounding noise that show whether rounding decides one element; one run suffices for a tensor.
SHIFTS = 6
_GROSS = 1000
_MANY = 0.1
_FEWEST_AVERAGED = 16
_HALF = 0.5
# Difference of float64 numbers, as a share of their typical magnitude, that no order of summation can be held to: there
# is no wider format to judge it by.
_FLOAT64_SHARE = 1e-12


@dataclass
class ToleranceFit:
    """Judgement of a candidate's numbers.

    Attributes:
        is_passed: They are within the tolerance.
        detail: Description in one line.
        numbers: Measured numbers, for the report.
        is_settled: Further runs of the baseline cannot change `is_passed`.
        is_close: `torch.testing.assert_close` accepts them.
        is_less_exact: In a format of few digits, they are the same function, with up to half of the digits lost.
        not_numbers: Elements that are infinite in one arm and NaN in the other, in words, where that is no fault.
    """

    is_passed: bool
    detail: str
    numbers: dict[str, Any] = field(default_factory=dict)
    is_settled: bool = True
    is_close: bool = False
    is_less_exact: bool = False
    not_numbers: str = ""


@dataclass
class Runs:
    """One tensor as returned by the runs of a comparison; all have one shape.

    Attributes:
        baseline: Value of the baseline.
        candidate: Value of the candidate.
        reference: Value of the baseline in float64; None if not available.
        shifted: Values of the baseline with rounding noise, one for each such run.
        is_trusted: Whether the reference is known to compute the same function.
        apart: Difference of the arms on other inputs; it counts as an error of the baseline.
        rtol: Stated tolerance, as a share of the baseline's magnitude.
        atol: Stated tolerance.
        may_overflow: Whether inputs that are not the user's overflow: NaN for an infinity, or the reverse,
            is no fault then.
    """

    baseline: torch.Tensor
    candidate: torch.Tensor
    reference: torch.Tensor | None = None
    shifted: Sequence[torch.Tensor] = ()
    is_trusted: bool = True
    apart: float = 0.0
    rtol: float = 0.0
    atol: float = 0.0
    may_overflow: bool = False


def fit(runs: Runs) -> ToleranceFit:
    """Judge a candidate's numbers.

    Integers must be equal, unless rounding decides them: then the baseline's own results in float64, or
    with rounding noise, are equally valid. Other numbers may have, against a float64 run of the baseline, four times
    the error of the baseline, plus 8 ulp. The error of the baseline is the maximum of four: its error at the
    element; the typical error in the row and column; the shift of the element by rounding noise; and the typical
    shift of the row and column. An ulp is that of the element or of its row's typical magnitude, because a sum that
    nearly cancels is as exact as its terms. Averaged over a tensor, the addition is one ulp instead of 8.

    Args:
        runs: Values of the runs.

    Source:
        Higham, Accuracy and Stability of Numerical Algorithms, chapters 1 to 4, for the model of errors. The factor and
        the 8 ulp are the same for every target, dtype and size.
    """
    if _bits_equal(runs.baseline, runs.candidate):
        return ToleranceFit(True, "the same bits")
    if runs.baseline.is_complex():
        return _fit_complex(runs)
    if not runs.baseline.is_floating_point():
        return _fit_exact(runs)
    found = _fit_real(runs)
    found.is_close = not found.is_passed and _is_close(runs.baseline, runs.candidate)
    found.is_less_exact = not found.is_passed and _is_less_exact(runs.baseline, runs.candidate)
    if runs.may_overflow and found.is_passed:
        found.not_numbers = _not_numbers(runs.baseline, runs.candidate)
    return found


def _is_less_exact(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype not in {torch.float16, torch.bfloat16} or (kind_of(one) != kind_of(other)).any():
        return False
    left, right = (masked(torch.isfinite(each), widened(each)) for each in (one, other))
    limit = torch.finfo(one.dtype).eps ** _HALF
    return bool(((left - right).abs() <= limit * torch.maximum(left.abs(), pooled(left))).all())


def _not_numbers(one: torch.Tensor, other: torch.Tensor) -> str:
    differs = _is_nan_for_infinity(one, other)
    if not differs.any():
        return ""
    at = first_of(differs)
    return (
        f"{int(differs.sum())} of {differs.numel()} differ, the first at {list(at)}: {one[at]:g} became {other[at]:g}"
    )


def _is_nan_for_infinity(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (torch.isinf(one) & torch.isnan(other)) | (torch.isnan(one) & torch.isinf(other))


def _is_close(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether `torch.testing.assert_close` accepts two tensors with its default tolerances."""
    try:
        torch.testing.assert_close(other, one, equal_nan=True)
    except (AssertionError, RuntimeError, ValueError, TypeError):
        return False
    return True


def _bits_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.numel() == 0:
        return True
    if one.element_size() == 1 and one.is_floating_point():
        one, other = one.float(), other.float()
    return bool(torch.equal(one.resolve_conj(), other.resolve_conj()))


def _fit_complex(runs: Runs) -> ToleranceFit:
    def parts(tensor: torch.Tensor) -> torch.Tensor:
        plain = tensor.resolve_conj().resolve_neg()
        return torch.view_as_real(plain.to(torch.complex64) if plain.dtype is torch.complex32 else plain)

    reference = parts(runs.reference) if runs.reference is not None else None
    shifted = [parts(each) for each in runs.shifted]
    halves = replace(
        runs, baseline=parts(runs.baseline), candidate=parts(runs.candidate), reference=reference, shifted=shifted
    )
    return fit(halves)


def _fit_exact(runs: Runs) -> ToleranceFit:
    differs = runs.baseline != runs.candidate
    if runs.is_trusted and runs.reference is not None and runs.reference.dtype == runs.candidate.dtype:
        differs &= runs.reference != runs.candidate
    for each in runs.shifted:
        differs &= each != runs.candidate
    count = int(differs.sum())
    if not count:
        return ToleranceFit(True, "the same where rounding does not decide", {"differing": 0})
    at = first_of(differs)
    detail = (
        f"{count} of {differs.numel()} differ, the first at {list(at)}:"
        f" {runs.baseline[at].item()!r} became {runs.candidate[at].item()!r}"
    )
    return ToleranceFit(False, detail, {"differing": count, "at": list(at)}, is_settled=len(runs.shifted) >= SHIFTS)


@dataclass
class _Errors:
    """Errors in float64, one number for each element, zero for elements that are not finite.

    Attributes:
        candidate: Error of the candidate.
        baseline: Error of the baseline.
        shift: Shift of the baseline by rounding noise.
        truth: Reference value.
        unit: Size of an ulp there.
        is_finite: Mask of elements that are finite in all runs.
    """

    candidate: torch.Tensor
    baseline: torch.Tensor
    shift: torch.Tensor
    truth: torch.Tensor
    unit: torch.Tensor
    is_finite: torch.Tensor

    def allowed(self) -> torch.Tensor:
        own = torch.maximum(self.baseline, pooled(self.baseline))
        return TIMES_BASELINE * torch.maximum(own, torch.maximum(self.shift, pooled(self.shift))) + ULPS * self.unit

    def numbers(self) -> dict[str, Any]:
        if not self.candidate.numel():
            return {}
        count = int(self.is_finite.sum())
        return {
            "candidate_error_ulp": rounded(float((self.candidate / self.unit).max())),
            "baseline_error_ulp": rounded(float((self.baseline / self.unit).max())),
            "candidate_error_rms": rounded(root_mean_square(self.candidate, count)),
            "baseline_error_rms": rounded(root_mean_square(self.baseline, count)),
        }


def _fit_real(runs: Runs) -> ToleranceFit:
    dtype = runs.baseline.dtype
    baseline, candidate = widened(runs.baseline), widened(runs.candidate)
    shifted = [widened(each) for each in runs.shifted]
    truth = widened(runs.reference) if runs.reference is not None and runs.is_trusted else baseline
    # If the float64 run is not usable, the baseline is the reference.
    truth = torch.where(torch.isfinite(baseline) & ~torch.isfinite(truth), baseline, truth)
    # Values too large for the dtype are infinite in it.
    wrong_kind = _wrong_kind(baseline, candidate, truth.to(dtype).to(torch.float64), shifted)
    if runs.may_overflow:
        wrong_kind &= ~_is_nan_for_infinity(baseline, candidate)
    errors = _errors(baseline, candidate, truth, shifted, dtype)
    errors.baseline = errors.baseline.clamp_min(runs.apart)
    allowed = errors.allowed()
    stated = runs.atol + runs.rtol * masked(errors.is_finite, baseline).abs()
    allowed = torch.where(masked(errors.is_finite, candidate - baseline).abs() <= stated, float("inf"), allowed)
    beyond = (errors.candidate > allowed) | wrong_kind
    is_settled = len(shifted) >= SHIFTS
    if not beyond.any():
        if runs.rtol or runs.atol:
            return ToleranceFit(True, "within the stated tolerance", errors.numbers())
        return _on_average(errors, dtype, is_settled=is_settled)
    is_gross = bool(shifted) and float((errors.candidate > _GROSS * allowed).double().mean()) > _MANY
    detail = _where_beyond(runs, beyond, errors.candidate, allowed, wrong_kind)
    return ToleranceFit(False, detail, errors.numbers(), is_settled=is_settled or is_gross)


def _errors(
    baseline: torch.Tensor,
    candidate: torch.Tensor,
    truth: torch.Tensor,
    shifted: Sequence[torch.Tensor],
    dtype: torch.dtype,
) -> _Errors:
    finite = torch.isfinite(baseline) & torch.isfinite(candidate) & torch.isfinite(truth)
    shift = torch.zeros_like(baseline)
    for each in shifted:
        shift = torch.maximum(shift, masked(finite & torch.isfinite(each), each - baseline).abs())
    size = masked(finite, truth).abs()
    return _Errors(
        candidate=masked(finite, candidate - truth).abs(),
        baseline=masked(finite, baseline - truth).abs(),
        shift=shift,
        truth=masked(finite, truth),
        unit=_unit(torch.maximum(size, pooled(size)), dtype),
        is_finite=finite,
    )


def _unit(size: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the smallest difference that counts at these magnitudes."""
    unit = ulp(size, dtype)
    return torch.maximum(unit, size * (_FLOAT64_SHARE / ULPS)) if dtype is torch.float64 else unit


def _on_average(errors: _Errors, dtype: torch.dtype, *, is_settled: bool) -> ToleranceFit:
    count = int(errors.is_finite.sum())
    if count >= _FEWEST_AVERAGED:
        unit = float(_unit(torch.tensor(root_mean_square(errors.truth, count), dtype=torch.float64), dtype))
        # An ulp of a short format is large: its noise would excuse the loss of half of the digits.
        moved = root_mean_square(errors.shift, count) if dtype in {torch.float32, torch.float64} else 0.0
        own = root_mean_square(errors.baseline, count)
        limit, typical = TIMES_BASELINE * max(own, moved) + unit, root_mean_square(errors.candidate, count)
        if typical > limit:
            detail = f"the typical error is {typical:.3g}, the baseline's own {own:.3g}, and {limit:.3g} is allowed"
            return ToleranceFit(False, detail, errors.numbers(), is_settled=is_settled)
    return ToleranceFit(True, "within what rounding does to the baseline", errors.numbers())


def _wrong_kind(
    baseline: torch.Tensor, candidate: torch.Tensor, truth: torch.Tensor, shifted: Sequence[torch.Tensor]
) -> torch.Tensor:
    """Return a mask of elements finite in one arm only, unless the baseline itself is wrong or rounding decides."""
    wanted, found = kind_of(baseline), kind_of(candidate)
    wrong = wanted != found
    # If the baseline overflows on the way to a representable number, its result does not bind the candidate.
    wrong &= ~((wanted != 0) & (wanted != kind_of(truth)))
    for each in shifted:
        wrong &= kind_of(each) != found
    return wrong


def _where_beyond(
    runs: Runs, beyond: torch.Tensor, error: torch.Tensor, allowed: torch.Tensor, wrong_kind: torch.Tensor
) -> str:
    ratio = torch.where(beyond, torch.where(wrong_kind, float("inf"), error / allowed), -1.0)
    at = place_of(int(ratio.argmax()), ratio.shape)
    values = f"{runs.baseline[at].item():.6g} became {runs.candidate[at].item():.6g}"
    count = int(beyond.sum())
    where = f"{count} of {beyond.numel()} are off, the worst at {list(at)}: {values}"
    return where if wrong_kind[at] else f"{where}, {float(error[at]):.3g} off where {float(allowed[at]):.3g} is allowed"
