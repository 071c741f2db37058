"""Run a computation in float64, whatever dtypes its code requests."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from ..target.pytrees import map_tensors

if TYPE_CHECKING:
    from collections.abc import Callable

_WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}
REAL = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def widen(thing: Any) -> Any:
    """Return a pytree with every floating-point tensor in float64 and every complex one in complex128."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        wide = _WIDE.get(tensor.dtype)
        if wide is None:
            return tensor
        return tensor.detach().to(wide).requires_grad_(tensor.requires_grad)

    return map_tensors(thing, change)


def eagerly() -> AbstractContextManager[Any]:
    """Return a block in which nothing is compiled, including the user's own compilation (torch 2.6 and newer)."""
    if "torch._dynamo" not in sys.modules or not hasattr(torch.compiler, "set_stance"):
        return nullcontext()
    stance: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance


class UncompiledDispatchMode(TorchDispatchMode):
    """Dispatch mode without torch.compile support: preparing it would import the compiler, which takes seconds."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class Float64Mode(UncompiledDispatchMode):
    """Mode in which floating-point operations run in float64, whatever dtype the code requests.

    Random numbers are drawn in their original dtype, so that both runs get the same ones.
    """

    def __init__(self, working: torch.dtype) -> None:
        """Create the mode.

        Args:
            working: Dtype for random numbers whose dtype the code does not specify.
        """
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
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
        args = tuple(_WIDE.get(arg, arg) if isinstance(arg, torch.dtype) else arg for arg in args)
        if writes_or_aliases(func):
            return func(*args, **kwargs)
        return func(*tree_map(_widened, args), **tree_map(_widened, kwargs))

    def _drawn(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        written = args[0] if args and is_in_place(func) else None
        if isinstance(written, torch.Tensor) and written.dtype is torch.float64:
            scratch = torch.empty_like(written, dtype=self._working)
            others = tree_map(self._narrowed, args[1:])
            func(scratch, *others, **tree_map(self._narrowed, kwargs))
            return written.copy_(scratch)
        if kwargs.get("dtype") is None and _leaves_dtype_open(func):
            # The default dtype is float64 in this mode; code that requests float64 does so explicitly.
            kwargs["dtype"] = self._working
        given = func(*tree_map(self._narrowed, args), **tree_map(self._narrowed, kwargs))
        return given if written is not None else tree_map(_widened, given)

    def _narrowed(self, thing: Any) -> Any:
        if isinstance(thing, torch.Tensor) and thing.dtype is torch.float64:
            return thing.to(self._working)
        return thing


class DtypeRecorder(UncompiledDispatchMode):
    """Mode that records the coarsest floating-point dtype that any operation returns.

    Attributes:
        coarsest: That dtype; float64 if there was none.
    """

    def __init__(self) -> None:
        """Create the mode."""
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.coarsest = torch.float64

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operation and check the dtypes of its results."""
        del types
        given = func(*args, **(kwargs or {}))
        tree_map(self._note, given)
        return given

    def _note(self, thing: Any) -> None:
        if isinstance(thing, torch.Tensor) and thing.dtype in REAL:
            self.coarsest = max(self.coarsest, thing.dtype, key=lambda dtype: torch.finfo(dtype).eps)


def coarsest_of(call: Callable[[], Any]) -> str:
    """Return the name of the coarsest floating-point dtype used in a call."""
    with eagerly(), DtypeRecorder() as noted:
        call()
    return str(noted.coarsest).removeprefix("torch.")


def _widened(thing: Any) -> Any:
    if isinstance(thing, torch.Tensor):
        wide = _WIDE.get(thing.dtype)
        return thing if wide is None else thing.to(wide)
    return thing


def _leaves_dtype_open(func: Any) -> bool:
    return any(argument.name == "dtype" and argument.default_value is None for argument in _arguments(func))


def writes_or_aliases(func: Any) -> bool:
    """Return whether an operation writes into an argument or returns a view of one."""
    return any(argument.alias_info is not None for argument in _arguments(func))


def _arguments(func: Any) -> Any:
    return func._schema.arguments  # noqa: SLF001 - no public name


def is_in_place(func: Any) -> bool:
    """Return whether an operation writes into its first argument."""
    arguments = _arguments(func)
    return bool(arguments) and arguments[0].alias_info is not None and arguments[0].alias_info.is_write
