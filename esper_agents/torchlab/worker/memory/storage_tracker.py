"""Track storages below autograd: creator, phase, step and time of release."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from ..target.pytrees import tensors_in
from .allocations import Allocation, Phase, Trace
from .current_location import CurrentLocation
from .tensor_roles import by_identity, storages

# Granularity of CUDA's caching allocator (kMinBlockSize in c10/cuda/CUDACachingAllocator.cpp).
_CUDA_GRAIN = 512


@functools.lru_cache(maxsize=4096)
def _name(func: Any) -> str:
    return str(func)


class StorageTracker(TorchDispatchMode):
    """Mode that records every storage returned by an operation, and its release.

    Attributes:
        trace: The record; events are numbered and have no times.
        alive: Live blocks, by the storage's identity.
        step: Number of the current step, from 1; 0 before the first.
        device: Device type whose storages count.
    """

    def __init__(self, whereabouts: CurrentLocation, device: str) -> None:
        """Create the tracker.

        Args:
            whereabouts: Tracks the locations of operations.
            device: Device type whose storages count.
        """
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.trace = Trace({})
        self.alive: dict[int, Allocation] = {}
        self.step = 0
        self.device = device
        self._whereabouts = whereabouts
        self._before: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self._watchers: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self._events = 0
        self._is_updating = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record the operations inside the block."""

        def update(optimizer: torch.optim.Optimizer, *, is_updating: bool) -> None:
            self._is_updating = is_updating
            self.moment(optimizer)

        # Before an update, gradients are complete; after it, the state exists.
        hooks = (
            register_optimizer_step_pre_hook(lambda optimizer, *_: update(optimizer, is_updating=True)),
            register_optimizer_step_post_hook(lambda optimizer, *_: update(optimizer, is_updating=False)),
        )
        try:
            with self._whereabouts.following(), self:
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def leave_out(self, storage: torch.UntypedStorage) -> None:
        """Exclude a storage from the run, such as one that existed before."""
        key = by_identity(storage)
        if key not in self._before:
            self._before[key] = weakref.ref(storage, lambda _: self._before.pop(key, None))
            self.alive.pop(key, None)
            self._watchers.pop(key, None)

    def moment(self, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Record that gradients or state are complete: those of an optimizer, or all at the end of a step."""

    def live_bytes(self) -> int:
        """Return the recorded bytes that are still allocated."""
        return sum(each.nbytes for each in self.alive.values())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call an operation and record its storages."""
        del types
        kwargs = kwargs or {}
        if func.namespace == "prim":
            return func(*args, **kwargs)  # such as a query of a tensor's device
        for each in tensors_in((args, kwargs)):
            for storage in storages(each):
                if by_identity(storage) not in self.alive:
                    self.leave_out(storage)
        at = self._where()
        output = self.call(func, args, kwargs, at)
        name = _name(func)
        for each in tensors_in(output):
            for storage in storages(each):
                self.note(storage, each, name, at)
        self.called(func, args, output)
        return output

    def called(self, func: Any, args: Any, output: Any) -> None:
        """Handle the end of an operation, after its results were recorded."""

    def call(self, func: Any, args: Any, kwargs: Any, at: tuple[str, str]) -> Any:
        """Call the operation; subclasses may do more."""
        del at
        return func(*args, **kwargs)

    def note(self, storage: torch.UntypedStorage, tensor: torch.Tensor, operation: str, at: tuple[str, str]) -> None:
        """Record a storage, or the new size of a recorded one."""
        key = by_identity(storage)
        if key in self._before or tensor.device.type != self.device:
            return
        nbytes = self.size(storage)
        block = self.alive.get(key)
        if block is not None and block.nbytes == nbytes:
            return
        if block is not None:
            self._free(key)
        block = Allocation(
            key, nbytes, self.tick(), None, operation, *at, shape=tuple(tensor.shape), dtype=str(tensor.dtype)
        )
        block.step = self.step
        self.alive[key] = block
        self.trace.blocks.append(block)
        self._watchers[key] = weakref.ref(storage, lambda _: self._free(key))

    def size(self, storage: torch.UntypedStorage) -> int:
        """Return the bytes that the allocator uses for a storage."""
        nbytes = storage.nbytes()
        return -(-nbytes // _CUDA_GRAIN) * _CUDA_GRAIN if self.device == "cuda" else nbytes

    def tick(self) -> int:
        """Return the number of a new event, in the current phase."""
        self._events += 1
        if torch._C._current_graph_task_id() != -1:  # noqa: SLF001 - reports whether backward runs
            name = "backward"
        else:
            name = "optimizer" if self._is_updating else "forward"
        phases = self.trace.phases
        if phases and (phases[-1].step, phases[-1].name) == (self.step, name):
            phases[-1].end = self._events + 1
        else:
            phases.append(Phase(self.step, name, self._events, self._events + 1))
        return self._events

    def _free(self, key: int) -> None:
        block = self.alive.pop(key, None)
        self._watchers.pop(key, None)
        if block is not None:
            self._events += 1
            block.died = self._events
            if self.trace.phases:
                self.trace.phases[-1].end = self._events + 1

    def _where(self) -> tuple[str, str]:
        node = torch._C._current_autograd_node()  # noqa: SLF001 - no public query
        if node is not None:
            return self._whereabouts.of_node(node._sequence_nr())  # noqa: SLF001 - same reason
        at = self._whereabouts.here()
        # Autograd creates the node before it calls the operation.
        self._whereabouts.remember(torch._C._autograd._get_sequence_nr() - 1, at)  # noqa: SLF001 - same reason
        return at
