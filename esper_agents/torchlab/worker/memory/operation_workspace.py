"""Workspace of operations: memory allocated and freed inside one, measured once, alone, on zeros.

Only the kernels know: the workspace does not follow from an operation's arguments. On a CPU, convolutions alone take
two to four times their output, by version, layout and processor, so a table would be wrong on the next machine.
"""

from __future__ import annotations

import collections
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from .profiled_run import mark
from .profiler_events import PROBE

_LONGEST_S = 20.0
# Elementwise operations have no workspace: running them only takes time.
_LARGE_POINTWISE = 32 << 20
# Share of the currently free memory.
_LARGEST_SHARE = 0.25


class _Like(NamedTuple):
    """Properties of a real tensor that replaces a fake one."""

    number: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    nbytes: int
    dtype: torch.dtype
    device: str


class ReturnedTensor(NamedTuple):
    """Tensor returned by a real operation, in its own storage.

    Attributes:
        shape: Shape.
        stride: Strides.
        offset: Offset into the storage, in elements.
        nbytes: Size of the storage, which may be larger than the tensor.
        dtype: Dtype.
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    nbytes: int
    dtype: torch.dtype


class Probed(NamedTuple):
    """Operation that was run.

    Attributes:
        number: Number of its mark in the profile.
        made: Tensor of each output leaf; None if it is not a tensor, or shares its storage.
    """

    number: int
    made: list[ReturnedTensor | None]


class Scratch:
    """Runner of single operations, each once.

    Attributes:
        left_out: Names of operations that were not run, with the reasons.
    """

    def __init__(self, device: str, limit_bytes: int | None) -> None:
        """Create a runner.

        Args:
            device: Device type for the operations.
            limit_bytes: Memory limit of an operation; None for a share of the free memory.
        """
        self.left_out: dict[str, str] = {}
        self._known: dict[str, Probed | None] = {}
        self._largest = int(_LARGEST_SHARE * free_bytes(device)) if limit_bytes is None else limit_bytes
        self._spent_s = 0.0
        self._count = 0

    def probe(self, func: Any, args: Any, kwargs: Any, output: Any) -> Probed | None:
        """Run an operation for real on zeros, in a mark of the profile, unless an identical one was run.

        Args:
            func: The operation.
            args: Its positional arguments, with fake tensors.
            kwargs: Its keyword arguments.
            output: Its output for fake tensors.

        Returns:
            The result; None if it was not run.
        """
        if func.is_view:
            return None
        leaves, spec = tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if not tensors or any(tensor.layout is not torch.strided for tensor in tensors):
            return None
        if torch.Tag.pointwise in func.tags and sum(tensor.nbytes for tensor in tensors) > _LARGE_POINTWISE:
            return None
        like = _likeness(leaves)
        # Some kernels keep a workspace for backward only if gradients are enabled.
        key = repr((func, like, torch.is_grad_enabled()))
        if key not in self._known:
            self._known[key] = self._run(func, tree_unflatten(like, spec), _bytes(like, output))
        return self._known[key]

    def _run(self, func: Any, like: Any, nbytes: int) -> Probed | None:
        if nbytes > self._largest:
            self.left_out[str(func)] = "it would take too much of the memory that is free"
            return None
        if self._spent_s > _LONGEST_S:
            self.left_out[str(func)] = f"the others took {_LONGEST_S:.0f} s"
            return None
        begun = time.perf_counter()
        try:
            with unset_fake_temporarily():
                made: dict[int, torch.Tensor] = {}
                real_args, real_kwargs = tree_map(lambda each: _real(each, made), like, is_leaf=_is_like)
                with mark(f"{PROBE}{self._count}"):
                    output = func(*real_args, **real_kwargs)
        except Exception as error:  # noqa: BLE001 - an operation may reject zeros with any error
            self.left_out[str(func)] = f"{type(error).__name__} on zeros"
            return None
        finally:
            self._spent_s += time.perf_counter() - begun
        self._count += 1
        return Probed(self._count - 1, _made(tree_leaves(output), made))


def _made(leaves: list[Any], inputs: dict[int, torch.Tensor]) -> list[ReturnedTensor | None]:
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided]
    used = collections.Counter(each.untyped_storage().data_ptr() for each in (*inputs.values(), *tensors))
    own = {id(tensor) for tensor in tensors if used[tensor.untyped_storage().data_ptr()] == 1}
    return [_of(leaf) if id(leaf) in own else None for leaf in leaves]


def _of(tensor: torch.Tensor) -> ReturnedTensor:
    nbytes = tensor.untyped_storage().nbytes()
    return ReturnedTensor(
        tuple(tensor.shape), tuple(tensor.stride()), int(tensor.storage_offset()), nbytes, tensor.dtype
    )


def free_bytes(device: str) -> int:
    """Return the free memory of a device type in bytes."""
    if device == "cuda" and torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _bytes(like: list[Any], output: Any) -> int:
    """Return the size of the inputs and outputs of an operation in bytes."""
    inputs = {each.number: each.nbytes for each in like if isinstance(each, _Like)}
    return sum(inputs.values()) + sum(
        tree_leaf.nbytes for tree_leaf in tree_leaves(output) if isinstance(tree_leaf, torch.Tensor)
    )


def _is_like(thing: Any) -> bool:
    return isinstance(thing, _Like)


def _likeness(leaves: list[Any]) -> list[Any]:
    numbers: dict[int, int] = {}
    result: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            number = numbers.setdefault(id(leaf), len(numbers))
            offset, nbytes = int(leaf.storage_offset()), leaf.untyped_storage().nbytes()
            like = _Like(number, tuple(leaf.shape), tuple(leaf.stride()), offset, nbytes, leaf.dtype, str(leaf.device))
            result.append(like)
        else:
            result.append(leaf)
    return result


def _real(like: Any, made: dict[int, torch.Tensor]) -> Any:
    if not isinstance(like, _Like):
        return like
    if like.number not in made:
        # A mask that keeps everything gives the maximum result.
        fill = torch.ones if like.dtype is torch.bool else torch.zeros
        storage = fill(like.nbytes, dtype=torch.uint8, device=like.device).untyped_storage()
        tensor = torch.empty(0, dtype=like.dtype, device=like.device)
        made[like.number] = tensor.set_(storage, like.offset, like.shape, like.stride)
    return made[like.number]
