"""Classify tensors: parameters, buffers, gradients, optimizer state, inputs."""

from __future__ import annotations

import functools
import gc
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

# Of two uses of one storage, the earlier in this order applies.
_ORDER = ("parameters", "optimizer_state", "gradients", "inputs", "buffers", "activations", "other")
_KINDS = (torch.Tensor, torch.nn.Module, torch.optim.Optimizer)
_MANY = 50_000
Key = Callable[[torch.UntypedStorage], int]


def stronger(one: str, other: str) -> str:
    """Return the use that applies, of two uses of one storage."""
    return min(one, other, key=_ORDER.index)


def by_address(storage: torch.UntypedStorage) -> int:
    """Return the address of a storage's bytes, as named in profiles."""
    return storage.data_ptr()


def by_identity(storage: torch.UntypedStorage) -> int:
    """Return a key that is unique among live storages, with or without bytes."""
    return int(storage._cdata)  # noqa: SLF001 - the only name a storage without bytes has


def storages(tensor: torch.Tensor) -> Iterator[torch.UntypedStorage]:
    """Yield the storages of a tensor: one if it is dense, those of its parts otherwise."""
    flatten = getattr(type(tensor), "__tensor_flatten__", None)
    if flatten is not None:
        for name in flatten(tensor)[0]:
            yield from storages(getattr(tensor, name))
    elif tensor.layout is torch.sparse_coo:
        yield from storages(tensor._indices())  # noqa: SLF001 - the public function refuses before coalescing
        yield from storages(tensor._values())  # noqa: SLF001 - same reason
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        for each in (tensor.crow_indices(), tensor.col_indices(), tensor.values()):
            yield from storages(each)
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        for each in (tensor.ccol_indices(), tensor.row_indices(), tensor.values()):
            yield from storages(each)
    elif tensor.layout is torch.strided:
        try:
            yield tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            return  # an opaque tensor has none


def every_tensor() -> list[torch.Tensor]:
    """Return each tensor reachable from Python code."""
    return [each for each, kind in _torch_objects() if kind is torch.Tensor]


@contextmanager
def set_aside() -> Iterator[list[weakref.ref[torch.Tensor]]]:
    """Freeze the existing objects if they are many, so that the garbage collector visits new objects only.

    Importing a part of torch creates a hundred thousand. Unfreezing returns all earlier objects too, which
    slows down searches for referrers; so it is not worthwhile for few.

    Yields:
        The tensors among them, which `every_tensor` does not return inside the block.
    """
    gc.collect()
    if len(gc.get_objects()) < _MANY:
        yield []
        return
    known = [weakref.ref(each) for each in every_tensor()]
    gc.freeze()
    try:
        yield known
    finally:
        gc.unfreeze()


def _torch_objects() -> Iterator[tuple[Any, type]]:
    """Yield each tensor, module and optimizer tracked by the garbage collector, with its kind."""
    # By type, not by isinstance, which would run properties of proxies. Most objects have one of few types.
    known: dict[type, type | None] = {}
    for each in gc.get_objects():
        kind = type(each)
        if kind not in known:
            known[kind] = next((one for one in _KINDS if issubclass(kind, one)), None)
        found = known[kind]
        if found is not None:
            yield each, found


def gradient(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the gradient of a tensor, without torch's warning for non-leaf tensors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tensor.grad


class Owners:
    """Uses of storages, recorded at moments of a run."""

    def __init__(self, key: Key, device: str) -> None:
        """Create an empty record.

        Args:
            key: Function that identifies storages.
            device: Device type whose storages count.
        """
        self._key = key
        self._device = device
        self.base: dict[int, str] = {}
        self._sizes: dict[int, int] = {}

    def begin(self, inputs: Iterable[Any]) -> dict[str, int]:
        """Record the storages that exist before a run; return their bytes by category."""
        found = self.now(inputs, with_others=True)
        self.base = found
        sums: dict[str, int] = {}
        for each, category in found.items():
            sums[category] = sums.get(category, 0) + self._sizes[each]
        return sums

    def of(self, optimizer: torch.optim.Optimizer) -> dict[int, str]:
        """Return the uses of an optimizer's storages by key: its parameters' gradients and its state."""
        found: dict[int, str] = {}
        with torch._C.DisableTorchFunction():  # noqa: SLF001 - or a mode would see every access to a tensor
            parameters = [each for group in optimizer.param_groups for each in group["params"]]
            self._note(found, parameters, "parameters")
            self._note(found, [gradient(parameter) for parameter in parameters if parameter.is_leaf], "gradients")
            self._note(found, tree_leaves(list(optimizer.state.values())), "optimizer_state")
        return found

    def now(self, inputs: Iterable[Any] = (), *, with_others: bool = False) -> dict[int, str]:
        """Return the current uses of storages, by key."""
        with torch._C.DisableTorchFunction():  # noqa: SLF001 - or a mode would see every access to a tensor
            return self._now(inputs, with_others=with_others)

    def _now(self, inputs: Iterable[Any], *, with_others: bool) -> dict[int, str]:
        found: dict[int, str] = {}

        note = functools.partial(self._note, found)
        # A fake tensor made from one number keeps that number in a real one.
        constants = {id(getattr(each, "constant", None)) for each in every_tensor()} if with_others else set()
        note(tree_leaves(tuple(inputs)), "inputs")
        for each, kind in _torch_objects():
            if kind is torch.nn.Module:
                note(each.buffers(recurse=False), "buffers")
            elif kind is torch.optim.Optimizer:
                note(tree_leaves(list(each.state.values())), "optimizer_state")
            else:
                if isinstance(each, torch.nn.Parameter):
                    note([each], "parameters")
                elif with_others and id(each) not in constants:
                    note([each], "other")
                if each.is_leaf and each.requires_grad:
                    note([gradient(each)], "gradients")
        return found

    def _note(self, found: dict[int, str], things: Iterable[Any], category: str) -> None:
        for thing in things:
            # The tensor's device: the storage of a fake tensor is on the meta device.
            if not isinstance(thing, torch.Tensor) or thing.device.type != self._device:
                continue
            for storage in storages(thing):
                try:
                    key = self._key(storage)
                except RuntimeError:
                    continue  # without bytes, such as a remainder of tracing
                found[key] = stronger(found.get(key, "other"), category)
                self._sizes[key] = storage.nbytes()
