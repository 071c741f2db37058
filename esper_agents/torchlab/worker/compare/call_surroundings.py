"""Settings of a process for calls of a target, the same for observed and for timed calls."""

from __future__ import annotations

import ctypes
import gc
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Names of glibc's parameters: memory that is given back to the kernel costs page faults in the next batch.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _KEPT_BYTES, _LARGEST = -1, -3, 1 << 30, 32 << 20


def keep_memory() -> None:
    """Have freed memory kept by this process instead of given back to the kernel, if its C library can."""
    with suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        library.mallopt(_MMAP_THRESHOLD, _LARGEST)


@contextmanager
def without_collector() -> Iterator[None]:
    """Run a block without the garbage collector, and start it again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
