"""Values that are exactly zero for ordinary inputs, so that no logarithm should be taken of them as they are."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.activations import Activated, Activation
from esper_agents.review.endings import activation_of_part
from esper_agents.review.index import Origin
from esper_agents.review.magnitudes import bare, called_name, cut_at_zero, is_number, operand, squared
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.spectra import GATHERING, is_spectral, is_spectrum

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Function

_PROBABILITIES = frozenset({Activation.SOFTMAX, Activation.SIGMOID})
_POWERS = frozenset({"MelSpectrogram", "Spectrogram", "MelScale", "InverseMelScale"})
_COUNTS = frozenset({"histc", "bincount", "one_hot", "histogram"})
_SIZES = frozenset({"norm", "vector_norm", "var", "std", "abs", "square"})
_ADD = "add a small number or clamp: `torch.log(x.clamp_min(1e-8))`"
_STEPS = 4


@dataclass(frozen=True, slots=True)
class Zero:
    """Why a value can be exactly zero.

    Attributes:
        what: What it is, in words.
        remedy: What to do instead.
        function: The function in which that is to be seen.
        is_likely: Whether ordinary inputs get there; otherwise only peculiar ones.
    """

    what: str
    remedy: str
    function: Function
    is_likely: bool = True


def zero_of(origin: Origin, index: ProjectIndex, steps: int = _STEPS) -> Zero | None:
    """Return why a value can be exactly zero; None where nothing shows that it can."""
    function = origin.function
    value = bare(origin.value, function) if steps else None
    found = None
    match value:
        case ast.Name() | ast.Attribute() if value is not origin.value:
            found = _first(value, origin, index, steps)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            found = _quotient(left, right, origin, index, steps)
        case ast.BinOp(left=left, op=ast.Sub(), right=right) if is_number(left, 1):
            found = _complement_of_exp(right, origin, index)
        case ast.BinOp(left=left, op=ast.Pow() | ast.Mult(), right=right):
            found = _of_square(value, origin, index)
            if found is None and isinstance(value.op, ast.Mult):
                found = _of_product(left, right, origin, index, steps)
        case ast.BinOp(op=ast.MatMult() | ast.Add()) if is_spectral(value, function, origin.line, index):
            found = Zero("what filters make of a spectrum", f"{_ADD}: silence gives exact zeros", function)
        case ast.Call():
            found = _called(value, origin, index, steps)
        case _:
            pass
    return found


def _first(value: ast.expr, origin: Origin, index: ProjectIndex, steps: int) -> Zero | None:
    origins = index.origins(value, origin.function, origin.line)
    return next((found for each in origins if (found := zero_of(each, index, steps - 1)) is not None), None)


def _of_product(left: ast.expr, right: ast.expr, origin: Origin, index: ProjectIndex, steps: int) -> Zero | None:
    """Return why a product can be zero: one of its factors can."""
    zeros = [_first(each, origin, index, steps) for each in (left, right)]
    return next((each for each in zeros if each is not None), None)


def _quotient(left: ast.expr, right: ast.expr, origin: Origin, index: ProjectIndex, steps: int) -> Zero | None:
    """Return why a quotient can be zero: a count over all counts, or a probability over another."""
    found = activation_of_part(left, origin.function, origin.line, index)
    other = activation_of_part(right, origin.function, origin.line, index)
    if found is not None and other is not None and found.activation in _PROBABILITIES:
        return Zero(f"a {found.activation} over another", "take the difference of two `F.log_softmax`", found.function)
    zero = _first(left, origin, index, steps)
    return zero if zero is not None and zero.is_likely else None


def _complement_of_exp(right: ast.expr, origin: Origin, index: ProjectIndex) -> Zero | None:
    for each in index.origins(right, origin.function, origin.line):
        if isinstance(each.value, ast.Call) and tail_of(dotted(each.value.func)) == "exp":
            return Zero("1 minus an `exp`", "use `torch.log(-torch.expm1(x))`", each.function, is_likely=False)
    return None


def _of_square(value: ast.expr, origin: Origin, index: ProjectIndex) -> Zero | None:
    base = squared(value, origin.function)
    for each in index.origins(base, origin.function, origin.line) if base is not None else ():
        if is_spectrum(each, index):
            return Zero("the power of a spectrum", _ADD, each.function)
    return None


def _called(value: ast.Call, origin: Origin, index: ProjectIndex, steps: int) -> Zero | None:
    tail, inner = tail_of(dotted(value.func)), operand(value, origin.function)
    if tail in GATHERING and is_spectral(value, origin.function, origin.line, index):
        return Zero("a sum over a spectrum", f"{_ADD}: silence gives exact zeros", origin.function)
    cut = cut_at_zero(value, origin, index)
    if cut:
        return Zero(cut, f"{_ADD}, or write `torch.log1p(x)` where log(1 + x) is meant", origin.function)
    made_by = tail_of(called_name(value, origin, index))
    if tail in _COUNTS or made_by in _POWERS:
        what = f"a count by `{tail}`" if tail in _COUNTS else f"a `{made_by}`"
        return Zero(what, f"{_ADD}: absent classes and silence give exact zeros", origin.function)
    if tail == "where" and len(value.args) > 1:
        return _alternatives(value, origin, index, steps)
    return (
        _size(value, inner, origin, index) if inner is not None and tail in _SIZES else _of_square(value, origin, index)
    )


def _size(value: ast.Call, inner: ast.expr, origin: Origin, index: ProjectIndex) -> Zero | None:
    """Return why a magnitude, a norm or a spread can be zero."""
    tail = tail_of(dotted(value.func))
    if any(is_spectrum(each, index) for each in index.origins(inner, origin.function, origin.line)):
        return Zero("the magnitude of a spectrum", f"{_ADD}: silence gives exact zeros", origin.function)
    is_size = tail in {"norm", "vector_norm", "var", "std"}
    return Zero(f"a `{tail}`", _ADD, origin.function, is_likely=False) if is_size else None


def _alternatives(value: ast.Call, origin: Origin, index: ProjectIndex, steps: int) -> Zero | None:
    """Return why one of the two that a `where` picks from can be zero, where both are probabilities or alike."""
    kinds = [activation_of_part(arg, origin.function, origin.line, index) for arg in value.args[1:]]
    found = next((kind for kind in kinds if kind is not None and kind.activation in _PROBABILITIES), None)
    if found is not None:
        return Zero(f"a {found.activation}", "take the loss of the scores: `F.logsigmoid`", found.function)
    zeros = [_first(arg, origin, index, steps) for arg in value.args[1:]]
    return next((each for each in zeros if each is not None and each.is_likely), None)


def softmax_by_hand(value: ast.expr, function: Function, line: int, index: ProjectIndex) -> Activated | None:
    """Return the softmax that is an `exp` divided by the sum of the same, or by a sum made of it."""
    for origin in _whole(value, function, line, index):
        quotient = bare(origin.value, origin.function)
        if not (isinstance(quotient, ast.BinOp) and isinstance(quotient.op, ast.Div)):
            continue
        tops = index.origins(quotient.left, origin.function, origin.line)
        sums = index.origins(quotient.right, origin.function, origin.line)
        is_exp = any(isinstance(top.value, ast.Call) and tail_of(dotted(top.value.func)) == "exp" for top in tops)
        summed = ast.unparse(quotient.left)
        if is_exp and any(_is_sum_of(summed, bare(each.value, each.function), each.function) for each in sums):
            return Activated(Activation.SOFTMAX, origin.function, quotient.lineno)
    return None


def _whole(value: ast.expr, function: Function, line: int, index: ProjectIndex) -> Iterator[Origin]:
    for origin in index.origins(value, function, line):
        whole = bare(origin.value, origin.function)
        if whole is not origin.value and isinstance(whole, ast.Name):
            yield from index.origins(whole, origin.function, origin.line)
        else:
            yield Origin(whole, origin.function, origin.line)


def _is_sum_of(summed: str, value: ast.expr, function: Function) -> bool:
    if not isinstance(value, ast.Call) or tail_of(dotted(value.func)) != "sum":
        return False
    inner = operand(value, function)
    return inner is not None and ast.unparse(inner) == summed
