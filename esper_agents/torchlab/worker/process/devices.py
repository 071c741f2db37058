"""Devices that a target may run on: availability, memory limits, completion of queued work."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from ..target.input_spec import TargetError

_C: Any = torch._C  # noqa: SLF001 - its contents depend on torch's build
# Saved here, so that later patches by user code are not called.
_is_initialized: Any = torch.cuda.is_initialized
_count: Any = getattr(_C, "_cuda_getDeviceCount", None)
_has_context: Any = getattr(_C, "_cuda_hasPrimaryContext", None)
_switch: Any = getattr(_C, "_cuda_maybeExchangeDevice", None)
_synchronize: Any = getattr(_C, "_cuda_synchronize", None)


def usable(device: str) -> str:
    """Return the name of a usable device: `cpu`, or a CUDA device as named.

    Raises:
        TargetError: There is no such device here, or it does not support measurements.
    """
    try:
        kind = torch.device(device)
    except RuntimeError as error:
        raise TargetError(f"there is no device {device!r}", "name one like cpu, cuda or cuda:1") from error
    if kind.type == "cpu":
        return "cpu"
    if kind.type != "cuda":
        raise TargetError(f"device {device!r} does not support measurements", "name one like cpu, cuda or cuda:1")
    if not torch.cuda.is_available():
        which = "was built without CUDA" if torch.version.cuda is None else "finds no CUDA device here"
        raise TargetError(
            f"device {device!r} is not available: torch {torch.__version__} {which}",
            "leave --device out, or name an interpreter with --python whose torch has CUDA",
        )
    if (kind.index or 0) >= torch.cuda.device_count():
        raise TargetError(
            f"there is no device {device!r}", f"there are {torch.cuda.device_count()}: cuda:0 is the first"
        )
    return device


def bound(device: str, memory_bytes: int) -> None:
    """Limit torch's allocations on a CUDA device; host memory is limited by `confine`.

    The limit applies to torch's own allocator in this process. Memory of the driver, and memory that code allocates
    without torch, is not counted, and code can lift the limit.

    Raises:
        TargetError: There is no such device here.
    """
    if usable(device) != "cpu":
        index = torch.device(device).index or 0
        total_bytes = torch.cuda.get_device_properties(index).total_memory
        torch.cuda.set_per_process_memory_fraction(min(memory_bytes / total_bytes, 1.0), index)


def wait(device: str) -> None:
    """Wait until every CUDA device used by this process has finished its queued work, on all streams.

    Args:
        device: Device of the target. With `cpu`, CUDA devices that its code uses itself are awaited as well.
    """
    if device == "cpu" and not _is_initialized():
        return
    for each in range(_count()):
        # Waiting for an unused device would first create a context on it.
        if _has_context(each):
            before = _switch(each)
            _synchronize()
            _switch(before)


def driver_version() -> str | None:
    """Return the newest CUDA version that the driver supports, such as `12.8`; None without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    number = ctypes.c_int()
    if driver.cuDriverGetVersion(ctypes.byref(number)) != 0:
        return None
    return f"{number.value // 1000}.{number.value % 1000 // 10}"
