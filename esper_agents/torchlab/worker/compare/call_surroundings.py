"""Settings of a process for calls of a target, the same for observed and for timed calls."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

# Names of glibc's parameters: memory that is given back to the kernel costs page faults in the next batch.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _KEPT_BYTES, _LARGEST = -1, -3, 1 << 30, 32 << 20
# The collector stays on, or a target that switches it off would change nothing.
_NEVER = 1 << 30


def settle() -> None:
    """Have freed memory kept by this process, if its C library can, and no garbage collected in a call."""
    gc.set_threshold(_NEVER)
    with suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        library.mallopt(_MMAP_THRESHOLD, _LARGEST)
