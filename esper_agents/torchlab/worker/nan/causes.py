"""Arithmetic causes of NaN or Inf in one operation, from its inputs; not yet the root cause."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import torch

from .reduction_causes import by_structure
from .tensor_statistics import is_finite, is_numeric, largest

if TYPE_CHECKING:
    from collections.abc import Callable

    from .operation_call import OperationCall

_HALVES = (torch.float16, torch.bfloat16)
# Maximum elements for repeating an operation in float32 to see whether the result fits.
_MOST_REPLAYED_BYTES = 256 << 20


class Mechanism(NamedTuple):
    """Mechanism by which an operation produced a non-finite number.

    Attributes:
        cls: Class, such as `division-by-zero`.
        because: Evidence, in words.
    """

    cls: str
    because: str


def mechanism(call: OperationCall, what: str, node: str | None) -> Mechanism:
    """Classify the mechanism by which an operation produced a NaN (`what` is `nan`) or an Inf (`inf`).

    Args:
        call: The operation.
        what: Kind of its result.
        node: Autograd node that was running, for a backward operation.
    """
    found = by_structure(call, what)
    cls, because = found or _by_arithmetic(call, what)
    if node is not None:
        cls = _in_backward(cls, node)
    return Mechanism(cls, because)


def _by_arithmetic(call: OperationCall, what: str) -> tuple[str, str]:
    at = call.at(what)
    explain = _BY_ELEMENT.get(call.plain)
    if explain is not None and at is not None:
        explained = explain(_Operands(at.operands, what))
        if explained is not None:
            cls, because = explained
            return _of_half(call, because) if cls in {"overflow", "exp-overflow"} and _fits(call) else (cls, because)
    has_bad_inputs = any(not is_finite(each) for _, each, _ in call.tensors())
    if what == "nan" and has_bad_inputs:
        return "inf-minus-inf", "the inputs hold Inf, and what they cancel or meet is NaN"
    if what == "nan":
        return "unclassified", f"{call.name} makes NaN from finite inputs"
    top = max((largest(each) for _, each, _ in call.tensors() if is_numeric(each)), default=0.0)
    because = f"the largest input is {top:.4g}, and the result is beyond the range of {_dtype(call)}"
    return _of_half(call, because) if _fits(call) else ("overflow", because)


def _of_half(call: OperationCall, because: str) -> tuple[str, str]:
    top = torch.finfo(call.outputs[call.member].dtype).max
    return "half-overflow", f"{because}; {_dtype(call)} ends at {top:.5g}, float32 holds the result"


def _dtype(call: OperationCall) -> str:
    return str(call.outputs[call.member].dtype).removeprefix("torch.")


def _fits(call: OperationCall) -> bool:
    """Return whether the same operation has a finite result in float32."""
    if call.outputs[call.member].dtype not in _HALVES:
        return False
    given = [each for _, each, _ in call.tensors()]
    if torch.Tag.nondeterministic_seeded in call.func.tags or sum(each.nbytes for each in given) > _MOST_REPLAYED_BYTES:
        return True
    arguments = {name: _widened(each) for name, each in call.arguments.items()}
    try:
        again = call.func(**arguments)
    except (RuntimeError, NotImplementedError, TypeError):
        return True
    made = [again] if isinstance(again, torch.Tensor) else list(again or arguments.get("self") or ())
    return all(is_finite(each) for each in made if isinstance(each, torch.Tensor))


def _widened(thing: Any) -> Any:
    if isinstance(thing, torch.Tensor):
        return thing.detach().float().clone() if is_numeric(thing) else thing
    if isinstance(thing, torch.dtype):
        return torch.float32 if thing in _HALVES else thing
    return [_widened(each) for each in thing] if isinstance(thing, (list, tuple)) else thing


class _Operands:
    """Operands of one element, by argument."""

    def __init__(self, numbers: dict[str, Any], what: str) -> None:
        self.what = what
        self._numbers = numbers

    def __getitem__(self, name: str) -> float:
        number = self._numbers.get(name, 1.0)
        return abs(number) if isinstance(number, complex) else float(number)

    def has(self, *names: str) -> bool:
        return all(name in self._numbers for name in names)

    def any_infinite(self) -> bool:
        return any(isinstance(number, float) and math.isinf(number) for number in self._numbers.values())


_Explained = Optional[tuple[str, str]]  # noqa: UP045 - evaluated, and Python 3.10 has to


def _divided(numerator: str, denominator: str) -> Callable[[_Operands], _Explained]:
    def explain(given: _Operands) -> _Explained:
        if given.has(denominator) and given[denominator] == 0:
            return "division-by-zero", f"{given[numerator]:.6g} / 0"
        if math.isinf(given[numerator]) and math.isinf(given[denominator]):
            return "inf-over-inf", f"{given[numerator]:.6g} / {given[denominator]:.6g}"
        return ("overflow", f"{given[numerator]:.6g} / {given[denominator]:.6g}") if given.what == "inf" else None

    return explain


def _reciprocal(given: _Operands) -> _Explained:
    return ("division-by-zero", "1 / 0") if given["self"] == 0 else ("overflow", f"1 / {given['self']:.6g}")


def _rsqrt(given: _Operands) -> _Explained:
    if given["self"] < 0:
        return "sqrt-of-negative", f"1 / sqrt({given['self']:.6g})"
    return ("division-by-zero", "1 / sqrt(0)") if given["self"] == 0 else None


def _times(*names: str) -> Callable[[_Operands], _Explained]:
    def explain(given: _Operands) -> _Explained:
        factors = [given[name] for name in names if given.has(name)]
        shown = " * ".join(f"{factor:.6g}" for factor in factors)
        if 0.0 in factors and any(map(math.isinf, factors)):
            return "zero-times-inf", shown
        if given.what == "inf":
            return "overflow", shown
        return ("inf-minus-inf", "what is added has the opposite sign of infinity") if given.any_infinite() else None

    return explain


def _plus(given: _Operands) -> _Explained:
    shown = f"{given['self']:.6g} and {given['other']:.6g}"
    if given.what == "nan":
        return ("inf-minus-inf", shown) if given.any_infinite() else None
    return "overflow", shown


def _power(given: _Operands) -> _Explained:
    base, exponent = given["self"], given["exponent"]
    shown = f"{base:.6g} ** {exponent:.6g}"
    if base < 0 and not exponent.is_integer():
        return "power-of-negative", shown
    if base == 0 and exponent < 0:
        return "power-of-zero", shown
    return ("overflow", shown) if given.what == "inf" else None


def _logarithm(name: str, argument: str = "self", shift: float = 0.0) -> Callable[[_Operands], _Explained]:
    def explain(given: _Operands) -> _Explained:
        number = given[argument] + shift
        shown = f"{name}({given[argument]:.6g})"
        if number == 0:
            return "log-of-zero", shown
        return ("log-of-negative", shown) if number < 0 else None

    return explain


def _logit(given: _Operands) -> _Explained:
    shown = f"logit({given['self']:.6g})"
    return ("log-of-zero", shown) if given["self"] in {0.0, 1.0} else ("log-of-negative", shown)


def _root(given: _Operands) -> _Explained:
    return ("sqrt-of-negative", f"sqrt({given['self']:.6g})") if given["self"] < 0 else None


def _exponential(name: str) -> Callable[[_Operands], _Explained]:
    return lambda given: ("exp-overflow", f"{name}({given['self']:.6g})") if given.what == "inf" else None


def _limited(name: str, edge: float | None = None) -> Callable[[_Operands], _Explained]:
    """Explain functions with a restricted domain, some with a pole at its edge."""

    def explain(given: _Operands) -> _Explained:
        shown = f"{name}({given['self']:.6g})"
        is_edge = edge is not None and abs(given["self"]) == edge
        return ("edge-of-domain" if is_edge else "out-of-domain"), shown

    return explain


def _gate(given: _Operands) -> _Explained:
    return ("zero-times-inf", f"the gate of {given['self']:.6g} is 0") if math.isinf(given["self"]) else None


_BY_ELEMENT: dict[str, Callable[[_Operands], _Explained]] = {
    "div": _divided("self", "other"),
    "true_divide": _divided("self", "other"),
    "floor_divide": _divided("self", "other"),
    "fmod": _divided("self", "other"),
    "remainder": _divided("self", "other"),
    "addcdiv": _divided("tensor1", "tensor2"),
    "reciprocal": _reciprocal,
    "rsqrt": _rsqrt,
    "mul": _times("self", "other"),
    "square": _times("self", "self"),
    "addcmul": _times("tensor1", "tensor2"),
    "add": _plus,
    "sub": _plus,
    "rsub": _plus,
    "lerp": lambda given: ("inf-minus-inf", "lerp of Inf") if given.any_infinite() else None,
    "pow": _power,
    "log": _logarithm("log"),
    "log2": _logarithm("log2"),
    "log10": _logarithm("log10"),
    "log1p": _logarithm("log1p", shift=1.0),
    "xlogy": _logarithm("log", "other"),
    "special_xlog1py": _logarithm("log1p", "other", 1.0),
    "logit": _logit,
    "sqrt": _root,
    "exp": _exponential("exp"),
    "exp2": _exponential("exp2"),
    "expm1": _exponential("expm1"),
    "sinh": _exponential("sinh"),
    "cosh": _exponential("cosh"),
    "acos": _limited("acos"),
    "asin": _limited("asin"),
    "acosh": _limited("acosh"),
    "atanh": _limited("atanh", 1.0),
    "erfinv": _limited("erfinv", 1.0),
    "lgamma": _limited("lgamma"),
    "digamma": _limited("digamma"),
    "sin": _limited("sin"),
    "cos": _limited("cos"),
    "tan": _limited("tan"),
    "gelu": _gate,
    "silu": _gate,
    "mish": _gate,
    "hardswish": _gate,
}

# In the backward of these, an apparent division by zero is their own derivative, which has a pole there.
_POLES = (
    ("Sqrt", "sqrt-at-zero"),
    ("Pow", "power-of-zero"),
    ("Norm", "norm-at-zero"),
    ("Cdist", "norm-at-zero"),
    ("Log", "log-of-zero"),
    ("Xlogy", "log-of-zero"),
    ("Acos", "edge-of-domain"),
    ("Asin", "edge-of-domain"),
    ("Atanh", "edge-of-domain"),
    ("Atan2", "norm-at-zero"),
    ("LinalgSvd", "degenerate-decomposition"),
    ("LinalgEig", "degenerate-decomposition"),
)


def _in_backward(cls: str, node: str) -> str:
    if cls in {"division-by-zero", "power-of-zero", "inf-over-inf"}:
        for name, pole in _POLES:
            if node.startswith(name) and not node.startswith(("LogSoftmax", "Logsumexp", "LogSigmoid")):
                return pole
    return cls
