"""Which values are spectra of sound or images, or made of them: all of those are exactly zero in silence."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.magnitudes import bare, operand
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.unpacked import values_returned

if TYPE_CHECKING:
    from esper_agents.review.index import Origin, ProjectIndex
    from esper_agents.review.tables import Function

_SPECTRA = frozenset({"stft", "fft", "rfft", "fft2", "rfft2", "fftn", "rfftn"})
# What makes one number of many, so that it is 0 where all of them are.
GATHERING = frozenset({"sum", "mean", "matmul", "mm", "bmm", "einsum", "linear", "tensordot"})
_OF_EACH = frozenset({"abs", "square", "pow", "view_as_real"})
_STEPS = 8


def is_spectrum(origin: Origin, index: ProjectIndex) -> bool:
    """Return whether a value is a Fourier transform, its magnitude or a part of it."""
    value = bare(origin.value, origin.function)
    if not isinstance(value, ast.Call):
        return False
    tail = tail_of(dotted(value.func))
    if tail in _SPECTRA:
        return True
    inner = operand(value, origin.function)
    if tail != "abs" or inner is None:
        return False
    return any(is_spectrum(each, index) for each in index.origins(inner, origin.function, origin.line))


def is_spectral(node: ast.expr, function: Function, line: int, index: ProjectIndex, steps: int = _STEPS) -> bool:
    """Return whether a value is a spectrum, or what powers, sums and filters make of one."""
    origins = index.origins(node, function, line) if steps > 0 else ()
    return any(_is_made_of_spectrum(origin, index, steps) for origin in origins)


def _is_made_of_spectrum(origin: Origin, index: ProjectIndex, steps: int) -> bool:
    value, function = bare(origin.value, origin.function), origin.function
    tail = tail_of(dotted(value.func)) if isinstance(value, ast.Call) else ""
    if tail in _SPECTRA:
        return True
    if isinstance(value, ast.Call) and tail not in GATHERING | _OF_EACH:
        given = tuple(values_returned(value, function, index))
        return bool(given) and all(
            is_spectral(each.value, each.function, each.line, index, steps - 2) for each in given
        )
    found = [is_spectral(part, function, origin.line, index, steps - 1) for part in _parts(value, origin)]
    return all(found or [False]) if _is_sum(value) else any(found)


def _is_sum(value: ast.expr) -> bool:
    return isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add)


def _parts(value: ast.expr, origin: Origin) -> list[ast.expr]:
    """Return what a value is made of, where zeros in make zeros out."""
    parts: list[ast.expr] = []
    match value:
        case ast.Call():
            inner = operand(value, origin.function)
            parts = [*([inner] if inner is not None else []), *value.args]
        case ast.BinOp(left=left, op=ast.Pow()):
            parts = [left]
        case ast.BinOp(left=left, op=ast.MatMult() | ast.Mult() | ast.Add(), right=right):
            parts = [left, right]
        case ast.Attribute(value=inner, attr="real" | "imag"):
            parts = [inner]
        case ast.Name() | ast.Attribute() if value is not origin.value:
            parts = [value]
        case _:
            pass
    return parts
