"""Rounding noise on inputs and operations, to reproduce the spread of careful implementations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_map

from ..target.pytrees import map_tensors
from .float64_reference import REAL, UncompiledDispatchMode, is_in_place, writes_or_aliases
from .numeric_error import ulp

if TYPE_CHECKING:
    from collections.abc import Callable


def jitter(thing: Any, seed: int) -> Any:
    """Return a pytree with every floating-point number moved at random to its upper or lower neighbour.

    Zeros are kept: they are rarely rounded results.
    """
    chance = torch.Generator().manual_seed(seed)

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype not in REAL or not tensor.numel():
            return tensor
        return _neighbours(tensor.detach(), chance).requires_grad_(tensor.requires_grad)

    return map_tensors(thing, change)


def _neighbours(tensor: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """Return a tensor with each number moved to a neighbour, in the same memory layout."""
    towards = _signs(tensor, chance).to(tensor.dtype)
    is_left = (tensor == 0) | ~torch.isfinite(tensor)
    return torch.where(is_left, tensor, torch.nextafter(tensor, towards * float("inf")))


def _signs(tensor: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    return (torch.randint(0, 2, tensor.shape, generator=chance) * 2 - 1).to(tensor.device)


class RoundingNoiseMode(UncompiledDispatchMode):
    """Mode that perturbs the result of every operation as rounding could.

    The results are those of an equally careful implementation that takes other steps, or the same in
    another order: each number moves to a random neighbour, the result of an elementary function by up to
    4 ulp, and a sum by the effect of its order.

    Source:
        Parker, Monte Carlo Arithmetic (1997), for rounding as noise; the spread of a sum is the standard deviation of
        the rounding errors of its partial sums, when they are taken one by one, or the sum of these errors as they
        are: those of alike terms have one sign. SLEEF, of which torch uses functions with 1.0 and 3.5 ulp.
    """

    def __init__(self, seed: int) -> None:
        """Create the mode.

        Args:
            seed: Seed of the noise.
        """
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._chance = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operation and perturb its results."""
        del types
        given = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if torch.Tag.nondeterministic_seeded in func.tags or name in _EXACT:
            return given
        moved = self._elsewhere if name.rstrip("_").removesuffix("_backward") in _ELEMENTARY else self._moved
        if is_in_place(func):
            if isinstance(given, torch.Tensor):
                given.copy_(moved(given))
            return given
        if writes_or_aliases(func):
            return given
        if name in _SUMS and isinstance(given, torch.Tensor) and given.dtype in REAL:
            given = self._reordered(func, name, args, kwargs or {}, given)
        return tree_map(moved, given)

    def _moved(self, thing: Any) -> Any:
        is_real = isinstance(thing, torch.Tensor) and thing.dtype in REAL
        return _neighbours(thing, self._chance) if is_real else thing

    def _elsewhere(self, thing: Any) -> Any:
        """Return a result of an elementary function, as another library may compute it."""
        if not isinstance(thing, torch.Tensor) or thing.dtype not in _WIDE:
            # All implementations compute short formats in float32.
            return self._moved(thing)
        steps = torch.randint(1, _ELEMENTARY_ULPS + 1, thing.shape, generator=self._chance).to(thing.device)
        spacing = ulp(thing.to(torch.float64).abs(), thing.dtype)
        moved = thing + (_signs(thing, self._chance) * steps * spacing).to(thing.dtype)
        return torch.where((thing == 0) | ~torch.isfinite(moved), thing, moved)

    def _reordered(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], given: torch.Tensor
    ) -> torch.Tensor:
        """Return a sum perturbed as by another order of its terms."""
        terms = _SUMS[name](args, given)
        plain = {key: each for key, each in kwargs.items() if key != "dtype"}
        size = func(*tree_map(_squared, args), **tree_map(_squared, plain)).sqrt()
        if name == "mean":
            size /= max(terms, 1.0) ** 0.5
        # All implementations sum short formats in float32.
        eps = min(torch.finfo(given.dtype).eps, torch.finfo(torch.float32).eps)
        spread = _UNIFORM * eps * terms**0.5 * torch.maximum(size, given.to(torch.float64).abs())
        if name in {"sum", "mean"} and terms > 1:
            spread = torch.maximum(spread, _one_by_one(args, given, is_mean=name == "mean"))
        moved = (given.to(torch.float64) + _signs(given, self._chance) * spread).to(given.dtype)
        return torch.where(torch.isfinite(moved) & torch.isfinite(given), moved, given)


def _one_by_one(args: tuple[Any, ...], given: torch.Tensor, *, is_mean: bool) -> torch.Tensor:
    """Return the error of a sum, or a mean, whose terms are added one by one, each rounded to the sum's last place."""
    terms = args[0].detach().to(torch.float64)
    dims = args[1] if len(args) > 1 and args[1] is not None else []
    dims = [each % max(terms.dim(), 1) for each in ([dims] if isinstance(dims, int) else dims)] or [*range(terms.dim())]
    others = [each for each in range(terms.dim()) if each not in dims]
    rows = terms.permute(*dims, *others).reshape(-1, max(given.numel(), 1))
    place = ulp(rows.cumsum(0).abs(), given.dtype if given.dtype is torch.float64 else torch.float32)
    error = ((rows / place).round() * place - rows).sum(0).abs().reshape(given.shape)
    return torch.nan_to_num(error / rows.shape[0] if is_mean else error, nan=0.0, posinf=0.0)


# Operations without rounding.
_EXACT = frozenset((
    "clone", "copy_", "fill_", "zero_", "cat", "stack", "index", "index_select", "gather", "scatter", "where",
    "masked_fill", "constant_pad_nd", "repeat", "flip", "roll", "empty", "zeros", "ones", "full", "empty_like",
    "zeros_like", "ones_like", "full_like", "new_empty", "new_zeros", "new_ones", "new_full", "arange", "eye",
    "scalar_tensor", "sort", "topk", "max", "min", "amax", "amin", "relu", "relu_", "clamp", "clamp_",
    "clamp_min", "clamp_max", "abs", "neg", "sign", "embedding", "lift_fresh", "detach", "tril", "triu", "isnan",
    "isfinite", "round", "floor", "ceil", "trunc", "maximum", "minimum", "set_", "resize_", "empty_strided",
    "_local_scalar_dense",
))  # fmt: skip
# Functions that no library rounds correctly, without and with `_backward` in their name.
_ELEMENTARY = frozenset((
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "atan2",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "lgamma", "digamma", "sigmoid",
    "softplus", "silu", "gelu", "mish", "elu", "celu", "selu", "logit", "logaddexp", "logsumexp", "_softmax",
    "_log_softmax", "log_sigmoid", "log_sigmoid_forward",
))  # fmt: skip
_ELEMENTARY_ULPS = 4
_WIDE = (torch.float32, torch.float64)
# The standard deviation of an error distributed uniformly over one unit.
_UNIFORM = 12**-0.5


def _last_of(number: int) -> Callable[[tuple[Any, ...], torch.Tensor], float]:
    return lambda args, _: float(args[number].shape[-1])


def _terms_of_all(args: tuple[Any, ...], given: torch.Tensor) -> float:
    return float(args[0].numel()) / max(given.numel(), 1)


# Number of terms per result element, for each operation that sums.
_SUMS: dict[str, Callable[[tuple[Any, ...], torch.Tensor], float]] = {
    "sum": _terms_of_all,
    "mean": _terms_of_all,
    "dot": _terms_of_all,
    "mm": _last_of(0),
    "bmm": _last_of(0),
    "mv": _last_of(0),
    "addmm": _last_of(1),
    "addmv": _last_of(1),
    "baddbmm": _last_of(1),
    "convolution": lambda args, _: float(args[1].numel()) / max(args[1].shape[0], 1),
}


def _squared(thing: Any) -> Any:
    is_real = isinstance(thing, torch.Tensor) and thing.dtype in REAL
    return thing.to(torch.float64).square() if is_real else thing
