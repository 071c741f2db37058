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
# NaN with these bits is ours: arithmetic makes others. One-byte floats have no bits to spare.
_POISON = {
    torch.float16: (torch.int16, 0x7E5A),
    torch.bfloat16: (torch.int16, 0x7FDA),
    torch.float32: (torch.int32, 0x7FC5A5A5),
    torch.float64: (torch.int64, 0x7FF85A5A5A5A5A5A),
}


@dataclass
class _Mark:
    """What is known of one storage.

    Attributes:
        storage: Keeps the storage's identity, not its memory.
        origins: Where what is not finite in it came from.
        poison: The operation that handed the memory out uninitialised.
    """

    storage: Any
    origins: tuple[NonfiniteOrigin, ...] = ()
    poison: NonfiniteOrigin | None = None


class StorageTaint:
    """Marks on storages."""

    def __init__(self) -> None:
        """Start without any."""
        self._marks: dict[int, _Mark] = {}

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return bool(self._marks)

    def prune(self) -> None:
        """Forget memory that is gone."""
        self._marks = {key: each for key, each in self._marks.items() if not each.storage.expired()}

    def origins(self, tensor: torch.Tensor) -> tuple[NonfiniteOrigin, ...]:
        """Return where the numbers in a tensor came from that are not finite, as far as that was seen."""
        mark = self._find(tensor)
        if mark is None:
            return ()
        is_poisoned = mark.poison is not None and _holds_poison(tensor)
        return (*mark.origins, mark.poison) if is_poisoned and mark.poison is not None else mark.origins

    def put(self, tensor: torch.Tensor, origins: tuple[NonfiniteOrigin, ...], *, is_whole: bool) -> None:
        """Mark a tensor's memory.

        Args:
            tensor: It holds numbers that are not finite.
            origins: Where these came from.
            is_whole: All of the tensor was written; what it held before is gone.
        """
        mark = self._find(tensor)
        if mark is None or (is_whole and _is_all(tensor)):
            mark = self._marks[identity(tensor)] = _Mark(StorageWeakRef(stored(tensor).untyped_storage()))
        known = {*mark.origins, *origins}
        mark.origins = tuple(sorted(known, key=lambda each: each.order))[:_MOST_ORIGINS]

    def poison(self, tensor: torch.Tensor, origin: NonfiniteOrigin) -> None:
        """Fill memory that was handed out uninitialised with a NaN that can be told from others, and mark it."""
        bits = _POISON.get(tensor.dtype)
        if bits is None:
            tensor.fill_(torch.nan)
            self.put(tensor, (origin,), is_whole=True)
            return
        tensor.view(bits[0]).fill_(bits[1])
        self._marks[identity(tensor)] = _Mark(StorageWeakRef(tensor.untyped_storage()), (), origin)

    def clear(self, tensor: torch.Tensor) -> None:
        """Forget the mark of memory that is finite; where only a part of it was looked at, the rest keeps its mark."""
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
    """Return what tells a tensor's memory from other memory while it lives."""
    return int(stored(tensor).untyped_storage()._cdata)  # noqa: SLF001 - no public name
