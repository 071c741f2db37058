"""The same computation in float64, and again with inputs an ulp away: what rounding does to a target is measured, not guessed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from .structure import map_tensors

_WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}
_REAL = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def widen(thing: Any) -> Any:
    """Return a nest with every floating-point tensor in float64 and every complex one in complex128."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        wide = _WIDE.get(tensor.dtype)
        if wide is None:
            return tensor
        return tensor.detach().to(wide).requires_grad_(tensor.requires_grad)

    return map_tensors(thing, change)


def jitter(thing: Any, seed: int) -> Any:
    """Return a nest with every floating-point number moved to its neighbour above or to the one below, at random.

    Zeros stay: they are seldom the rounding of something else.
    """
    chance = torch.Generator().manual_seed(seed)

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype not in _REAL or not tensor.numel():
            return tensor
        return _neighbours(tensor.detach(), chance).requires_grad_(tensor.requires_grad)

    return map_tensors(thing, change)


def _neighbours(tensor: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """Return a tensor with each number moved to a neighbour, in the same memory layout."""
    towards = (torch.randint(0, 2, tensor.shape, generator=chance) * 2 - 1).to(tensor.device, tensor.dtype)
    is_left = (tensor == 0) | ~torch.isfinite(tensor)
    return torch.where(is_left, tensor, torch.nextafter(tensor, towards * float("inf")))


def eagerly() -> AbstractContextManager[Any]:
    """Return a block in which nothing is compiled, not even what user code compiles itself (torch 2.6 and newer)."""
    if "torch._dynamo" not in sys.modules or not hasattr(torch.compiler, "set_stance"):
        return nullcontext()
    stance: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance


class _Mode(TorchDispatchMode):
    """A mode that is not prepared for torch.compile: preparing it would import that, which takes seconds."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class Widened(_Mode):
    """While it is on, floating-point operations run in float64, whatever dtype the code asks for.

    Random numbers are drawn in the dtype they would have been drawn in, so that both runs see the same ones.
    """

    def __init__(self, working: torch.dtype) -> None:
        """Make the mode.

        Args:
            working: The dtype in which random numbers are drawn that the code leaves to its inputs.
        """
        super().__init__()
        self._working = working

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operation in float64."""
        del types
        kwargs = dict(kwargs or {})
        if torch.Tag.nondeterministic_seeded in func.tags:
            return self._drawn(func, args, kwargs)
        kwargs = {name: _WIDE.get(each, each) if name == "dtype" else each for name, each in kwargs.items()}
        args = tuple(_WIDE.get(each, each) if isinstance(each, torch.dtype) else each for each in args)
        if _writes_or_aliases(func):
            return func(*args, **kwargs)
        return func(*tree_map(_widened, args), **tree_map(_widened, kwargs))

    def _drawn(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        written = args[0] if args and _is_in_place(func) else None
        if isinstance(written, torch.Tensor) and written.dtype is torch.float64:
            scratch = torch.empty_like(written, dtype=self._working)
            others = tree_map(self._narrowed, args[1:])
            func(scratch, *others, **tree_map(self._narrowed, kwargs))
            return written.copy_(scratch)
        if kwargs.get("dtype") is None and _leaves_dtype_open(func):
            # The default is float64 while this mode is on; what asks for float64 itself says so.
            kwargs["dtype"] = self._working
        given = func(*tree_map(self._narrowed, args), **tree_map(self._narrowed, kwargs))
        return given if written is not None else tree_map(_widened, given)

    def _narrowed(self, thing: Any) -> Any:
        if isinstance(thing, torch.Tensor) and thing.dtype is torch.float64:
            return thing.to(self._working)
        return thing


class Shaken(_Mode):
    """While it is on, the result of every operation is moved as rounding could have moved it.

    What comes out is what an implementation could return that is as careful and takes other steps, or the same in another order: each
    number goes to a neighbour at random, and a sum by as much as its order can make.

    Source:
        Parker, Monte Carlo Arithmetic (1997), for rounding as noise; the spread of a sum is the standard deviation of the rounding
        errors of its partial sums, when they are taken one by one.
    """

    def __init__(self, seed: int) -> None:
        """Make the mode.

        Args:
            seed: Of the noise.
        """
        super().__init__()
        self._chance = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operation and move what it returns."""
        del types
        given = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if torch.Tag.nondeterministic_seeded in func.tags or name in _EXACT:
            return given
        if _is_in_place(func):
            if isinstance(given, torch.Tensor) and given.dtype in _REAL:
                given.copy_(_neighbours(given, self._chance))
            return given
        if _writes_or_aliases(func):
            return given
        if name in _SUMS and isinstance(given, torch.Tensor) and given.dtype in _REAL:
            given = self._reordered(func, name, args, kwargs or {}, given)
        return tree_map(self._moved, given)

    def _moved(self, thing: Any) -> Any:
        is_real = isinstance(thing, torch.Tensor) and thing.dtype in _REAL
        return _neighbours(thing, self._chance) if is_real else thing

    def _reordered(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], given: torch.Tensor
    ) -> torch.Tensor:
        """Return a sum as another order of its terms could have given it."""
        terms = _SUMS[name](args, given)
        plain = {key: each for key, each in kwargs.items() if key != "dtype"}
        size = func(*tree_map(_squared, args), **tree_map(_squared, plain)).sqrt()
        if name == "mean":
            size /= max(terms, 1.0) ** 0.5
        # Short formats are summed in float32 by everybody.
        eps = min(torch.finfo(given.dtype).eps, torch.finfo(torch.float32).eps)
        spread = _UNIFORM * eps * terms**0.5 * torch.maximum(size, given.to(torch.float64).abs())
        sign = torch.randint(0, 2, given.shape, generator=self._chance).to(given.device) * 2 - 1
        moved = (given.to(torch.float64) + sign * spread).to(given.dtype)
        return torch.where(torch.isfinite(moved) & torch.isfinite(given), moved, given)


# Operations that round nothing.
_EXACT = frozenset(
    "clone copy_ fill_ zero_ cat stack index index_select gather scatter where masked_fill constant_pad_nd repeat flip roll"
    " empty zeros ones full empty_like zeros_like ones_like full_like new_empty new_zeros new_ones new_full arange eye scalar_tensor"
    " sort topk max min amax amin relu relu_ clamp clamp_ clamp_min clamp_max abs neg sign embedding lift_fresh detach tril triu"
    " isnan isfinite round floor ceil trunc maximum minimum set_ resize_ empty_strided _local_scalar_dense".split()
)
# The standard deviation of an error spread evenly over one unit.
_UNIFORM = 12**-0.5


def _last_of(number: int) -> Callable[[tuple[Any, ...], torch.Tensor], float]:
    return lambda args, _: float(args[number].shape[-1])


def _terms_of_all(args: tuple[Any, ...], given: torch.Tensor) -> float:
    return float(args[0].numel()) / max(given.numel(), 1)


# For each operation that is a sum: how many terms a number of its result has.
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
    is_real = isinstance(thing, torch.Tensor) and thing.dtype in _REAL
    return thing.to(torch.float64).square() if is_real else thing


class Noted(_Mode):
    """While it is on, the coarsest floating-point dtype that any operation returns is noted.

    Attributes:
        coarsest: That dtype; float64 where nothing came.
    """

    def __init__(self) -> None:
        """Make the mode."""
        super().__init__()
        self.coarsest = torch.float64

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operation and look at what it returns."""
        del types
        given = func(*args, **(kwargs or {}))
        tree_map(self._note, given)
        return given

    def _note(self, thing: Any) -> None:
        if isinstance(thing, torch.Tensor) and thing.dtype in _REAL:
            if torch.finfo(thing.dtype).eps > torch.finfo(self.coarsest).eps:
                self.coarsest = thing.dtype


def coarsest_of(call: Callable[[], Any]) -> str:
    """Return the name of the coarsest floating-point dtype that a call computes in."""
    with eagerly(), Noted() as noted:
        call()
    return str(noted.coarsest).removeprefix("torch.")


def _widened(thing: Any) -> Any:
    if isinstance(thing, torch.Tensor):
        wide = _WIDE.get(thing.dtype)
        return thing if wide is None else thing.to(wide)
    return thing


def _is_in_place(func: Any) -> bool:
    arguments = func._schema.arguments
    return bool(arguments) and arguments[0].alias_info is not None and arguments[0].alias_info.is_write


def _leaves_dtype_open(func: Any) -> bool:
    return any(each.name == "dtype" and each.default_value is None for each in func._schema.arguments)


def _writes_or_aliases(func: Any) -> bool:
    return any(each.alias_info is not None for each in func._schema.arguments)
