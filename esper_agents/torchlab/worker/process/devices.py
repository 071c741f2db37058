"""Devices that a target may run on: availability, memory limits, completion of queued work."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from ..target.input_spec import TargetError

_C: Any = torch._C  # noqa: SLF001 - what it has depends on how torch was built
# Held here, so that what user code puts in their place later is not asked.
_is_initialized: Any = torch.cuda.is_initialized
_count: Any = getattr(_C, "_cuda_getDeviceCount", None)
_has_context: Any = getattr(_C, "_cuda_hasPrimaryContext", None)
_switch: Any = getattr(_C, "_cuda_maybeExchangeDevice", None)
_synchronize: Any = getattr(_C, "_cuda_synchronize", None)


def usable(device: str) -> str:
    """Return the name under which targets run on a device: `cpu`, or a CUDA device as it was named.

    Raises:
        TargetError: There is no such device here, or nothing can be measured on it.
    """
    try:
        kind = torch.device(device)
    except RuntimeError as error:
        raise TargetError(f"there is no device {device!r}", "name one like cpu, cuda or cuda:1") from error
    if kind.type == "cpu":
        return "cpu"
    if kind.type != "cuda":
        raise TargetError(f"nothing can be measured on the device {device!r}", "name one like cpu, cuda or cuda:1")
    if not torch.cuda.is_available():
        which = "was built without CUDA" if torch.version.cuda is None else "finds no CUDA device here"
        raise TargetError(
            f"{device!r} was asked for, and torch {torch.__version__} {which}",
            "leave --device out, or name an interpreter with --python whose torch has CUDA",
        )
    if (kind.index or 0) >= torch.cuda.device_count():
        raise TargetError(
            f"there is no device {device!r}", f"there are {torch.cuda.device_count()}: cuda:0 is the first"
        )
    return device


def bound(device: str, memory_bytes: int) -> None:
    """Let torch take no more than so much of a CUDA device's memory; that of the host is bounded by `confine`.

    It holds torch's own allocator in this process. What the driver takes for itself and what code allocates past torch
    is not counted, and code can take the bound back.

    Raises:
        TargetError: There is no such device here.
    """
    if usable(device) != "cpu":
        index = torch.device(device).index or 0
        total_bytes = torch.cuda.get_device_properties(index).total_memory
        torch.cuda.set_per_process_memory_fraction(min(memory_bytes / total_bytes, 1.0), index)


def wait(device: str) -> None:
    """Wait until every CUDA device that this process uses has done what it was given, on whichever stream.

    Args:
        device: Where the target runs. One on the `cpu` is waited for, too, where its code uses CUDA by itself.
    """
    if device == "cpu" and not _is_initialized():
        return
    for each in range(_count()):
        # To wait for a device that is not used would first make a context on it.
        if _has_context(each):
            before = _switch(each)
            _synchronize()
            _switch(before)


def driver_version() -> str | None:
    """Return the newest CUDA that the driver here can run, such as `12.8`; None where there is no driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    number = ctypes.c_int()
    if driver.cuDriverGetVersion(ctypes.byref(number)) != 0:
        return None
    return f"{number.value // 1000}.{number.value % 1000 // 10}"
