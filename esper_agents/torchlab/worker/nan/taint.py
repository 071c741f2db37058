"""Record the origin of NaN or Inf for each memory block, without keeping the memory alive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .tensor_statistics import stored

if TYPE_CHECKING:
    from .origin import NonfiniteOrigin

_MOST_ORIGINS = 8
# NaN with these bits is our marker: arithmetic produces others. One-byte floats have no spare bits.
_POISON = {
    torch.float16: (torch.int16, 0x7E5A),
    torch.bfloat16: (torch.int16, 0x7FDA),
    torch.float32: (torch.int32, 0x7FC5A5A5),
    torch.float64: (torch.int64, 0x7FF85A5A5A5A5A5A),
}


@dataclass
class _Mark:
    """Mark of one storage.

    Attributes:
        storage: Keeps the storage's identity, not its memory.
        origins: Origins of its non-finite numbers.
        poison: Operation that returned the memory uninitialised.
    """

    storage: Any
    origins: tuple[NonfiniteOrigin, ...] = ()
    poison: NonfiniteOrigin | None = None


class StorageTaint:
    """Marks of storages."""

    def __init__(self) -> None:
        """Create an empty set of marks."""
        self._marks: dict[int, _Mark] = {}

    def __bool__(self) -> bool:
        """Return whether there are any marks."""
        return bool(self._marks)

    def prune(self) -> None:
        """Drop the marks of freed memory."""
        self._marks = {key: each for key, each in self._marks.items() if not each.storage.expired()}

    def origins(self, tensor: torch.Tensor) -> tuple[NonfiniteOrigin, ...]:
        """Return the origins of a tensor's non-finite numbers, as far as observed."""
        mark = self._find(tensor)
        if mark is None:
            return ()
        is_poisoned = mark.poison is not None and _holds_poison(tensor)
        return (*mark.origins, mark.poison) if is_poisoned and mark.poison is not None else mark.origins

    def put(self, tensor: torch.Tensor, origins: tuple[NonfiniteOrigin, ...], *, is_whole: bool) -> None:
        """Mark a tensor's memory.

        Args:
            tensor: Tensor with non-finite numbers.
            origins: Origins of these numbers.
            is_whole: Whether the whole tensor was written, so that earlier content is gone.
        """
        mark = self._find(tensor)
        if mark is None or (is_whole and _is_all(tensor)):
            mark = self._marks[identity(tensor)] = _Mark(StorageWeakRef(stored(tensor).untyped_storage()))
        known = {*mark.origins, *origins}
        mark.origins = tuple(sorted(known, key=lambda each: each.order))[:_MOST_ORIGINS]

    def poison(self, tensor: torch.Tensor, origin: NonfiniteOrigin) -> None:
        """Fill uninitialised memory with a recognizable NaN, and mark it."""
        bits = _POISON.get(tensor.dtype)
        if bits is None:
            tensor.fill_(torch.nan)
            self.put(tensor, (origin,), is_whole=True)
            return
        tensor.view(bits[0]).fill_(bits[1])
        self._marks[identity(tensor)] = _Mark(StorageWeakRef(tensor.untyped_storage()), (), origin)

    def clear(self, tensor: torch.Tensor) -> None:
        """Drop the mark of finite memory; if only a part was checked, the rest keeps its mark."""
        if _is_all(tensor):
            self._marks.pop(identity(tensor), None)

    def _find(self, tensor: torch.Tensor) -> _Mark | None:
        mark = self._marks.get(identity(tensor)) if self._marks else None
        return None if mark is None or mark.storage.expired() else mark


def _holds_poison(tensor: torch.Tensor) -> bool:
    bits = _POISON.get(tensor.dtype)
    return bits is not None and bool((tensor.detach().view(bits[0]) == bits[1]).any())


def _is_all(tensor: torch.Tensor) -> bool:
    held = stored(tensor)
    return held.nbytes == held.untyped_storage().nbytes()


def identity(tensor: torch.Tensor) -> int:
    """Return a key that is unique for a tensor's memory while it is alive."""
    return int(stored(tensor).untyped_storage()._cdata)  # noqa: SLF001 - no public name
