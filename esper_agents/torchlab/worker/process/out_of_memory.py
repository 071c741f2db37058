"""Recognize an out-of-memory error and the size that was requested."""

from __future__ import annotations

import re

# Messages of torch's allocators, of the driver ("CUDA error: out of memory"), and of CUDA's libraries.
_WORDS = re.compile(r"can't allocate memory|not enough memory|out of memory|_STATUS_ALLOC_FAILED", re.IGNORECASE)
_WANTED = re.compile(r"[Tt]ried to allocate ([\d.]+) ?(bytes|[KMGT]iB)")
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def ran_out(error: BaseException | str) -> bool:
    """Return whether an error, or its message, is an out-of-memory error."""
    return isinstance(error, MemoryError) or _WORDS.search(str(error)) is not None


def wanted_bytes(message: str) -> int | None:
    """Return the requested bytes of an out-of-memory error; None if the message does not contain them."""
    found = _WANTED.search(message)
    return int(float(found[1]) * _UNITS[found[2]]) if found else None
