"""Handling of the inputs, outputs and exceptions of a call."""

from __future__ import annotations

import contextlib
import ctypes
import linecache
import traceback
from typing import TYPE_CHECKING, Any

import torch

from ..compare.plan_step import RaisedError
from ..compare.tensor_bytes import address
from .pytrees import describe, rebuild, tensors_of

if TYPE_CHECKING:
    from .target import LoadedTarget

_memmove = ctypes.memmove


def described(target: LoadedTarget, error: BaseException) -> RaisedError:
    """Return an exception as stored in results."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [(file, frame) for frame in frames if (file := target.in_project(frame.filename)) is not None]
    last = frames[-1] if frames else None
    line = linecache.getline(last.filename, last.lineno or 0).strip() if last is not None else ""
    is_own = last is not None and target.in_project(last.filename) is not None
    return RaisedError(
        type=type(error).__name__,
        message=(str(error).splitlines() or [""])[0][:300],
        file=own[-1][0] if own else None,
        line=own[-1][1].lineno if own else None,
        is_deliberate=is_own and line.startswith("raise"),
    )


def overwrite(thing: Any) -> None:
    """Overwrite every tensor of a pytree with other numbers, as its owner may."""
    with torch.no_grad():
        for each in tensors_of(thing):
            if type(each) not in (torch.Tensor, torch.nn.Parameter):
                continue
            with contextlib.suppress(RuntimeError):
                each.detach().fill_(float("nan") if each.is_floating_point() else 1)


def reused(last: Any, fresh: Any, *, is_new_object: bool) -> Any:
    """Return the last inputs with the numbers of new ones.

    Args:
        last: Inputs of the last call.
        fresh: New inputs of the same shapes.
        is_new_object: Create new tensors on the old memory, written without torch's knowledge, like a loader's buffer.
    """
    tensors: list[torch.Tensor] = []
    node = describe(last, tensors)
    made = []
    for old, new in zip(tensors, tensors_of(fresh), strict=True):
        span = address(new)
        if is_new_object:
            made.append(old.detach().requires_grad_(new.requires_grad))
            if span is not None and new.is_contiguous() and old.is_contiguous() and old.device.type == "cpu":
                _memmove(old.data_ptr(), new.data_ptr(), span[1] - span[0])
                continue
        else:
            made.append(old)
        with torch.no_grad():
            old.detach().copy_(new)
    return rebuild(node, made, last)
