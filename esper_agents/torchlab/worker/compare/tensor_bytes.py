"""Memory of tensors: its address, its description, and conversion to bytes and back.

Uses the C functions directly, saved before any user code ran: replacing methods of torch.Tensor does not affect them.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import torch

from ..target.pytrees import type_name

_Base: Any = torch._C.TensorBase  # noqa: SLF001 - see above
_Storage: Any = torch._C.StorageBase  # noqa: SLF001 - see above
plainly: Any = torch._C.DisableTorchFunction  # noqa: SLF001 - bypasses modes and subclasses
_string_at, _memmove, _memset, _type_of = ctypes.string_at, ctypes.memmove, ctypes.memset, type
_EXACT = {torch.Tensor: "torch.Tensor", torch.nn.Parameter: "torch.nn.Parameter"}
_NAMES = (
    "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64 complex32 complex64"
    " complex128 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
)
DTYPES: dict[str, torch.dtype] = {each: getattr(torch, each) for each in _NAMES.split() if hasattr(torch, each)}
_NAME_OF = {dtype: name for name, dtype in DTYPES.items()}
# Blocks are aligned for every dtype: the largest numbers have 16 bytes.
GRAIN = 16


class BundleError(Exception):
    """Error for bytes that are not a valid bundle."""


def address(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Return the first and one past the last byte of memory that a tensor's elements span; None without memory."""
    with plainly():
        _, span = record_of(tensor)
    if span is None or span.first == span.last:
        return None
    return span.at + span.first, span.at + span.last


@dataclass
class MemorySpan:
    """Memory span of a tensor's elements.

    Attributes:
        at: Address of its storage.
        nbytes: Size of the storage.
        first: First byte of the storage that they span.
        last: One past the last.
        device: Device, such as `cpu`.
        tensor: A tensor on that storage.
    """

    at: int
    nbytes: int
    first: int
    last: int
    device: str
    tensor: torch.Tensor


def record_of(tensor: torch.Tensor) -> tuple[dict[str, Any], MemorySpan | None]:
    """Return the record of a tensor, and its memory span."""
    record: dict[str, Any] = {"type": _EXACT.get(_type_of(tensor)) or f"{type_name(tensor)}, a subclass"}
    try:
        dtype, layout = _Base.dtype.__get__(tensor), _Base.layout.__get__(tensor)
        record |= {
            "dtype": _NAME_OF.get(dtype, str(dtype).removeprefix("torch.")),
            "layout": str(layout).removeprefix("torch."),
            "device": str(_Base.device.__get__(tensor)),
            "requires_grad": _Base.requires_grad.__get__(tensor),
            "is_inference": _Base.is_inference(tensor),
            "shape": list(_Base.size(tensor)),
        }
        problem = _problem(tensor, dtype, layout)
        if problem is None:
            return record | {
                "stride": list(_Base.stride(tensor)),
                "offset": _Base.storage_offset(tensor),
                "is_conj": _Base.is_conj(tensor),
                "is_neg": _Base.is_neg(tensor),
            }, _span(tensor)
    except (RuntimeError, NotImplementedError, TypeError) as error:
        problem = f"it does not say what it is: {(str(error).splitlines() or [''])[0][:120]}"
    return {**record, "problem": problem}, None


def _problem(tensor: torch.Tensor, dtype: torch.dtype, layout: torch.layout) -> str | None:
    """Return the reason the numbers of a tensor are not accessible from its memory."""
    if _type_of(tensor) not in _EXACT:
        return f"a {type_name(tensor)} need not hold what it says when it is asked"
    device = _Base.device.__get__(tensor).type
    problems = {
        "a nested tensor": _Base.is_nested.__get__(tensor),
        f"its layout is {layout}": layout is not torch.strided,
        f"its dtype is {dtype}": dtype not in _NAME_OF,
        f"it is on the device {device}": device not in {"cpu", "cuda"},
    }
    known = next((problem for problem, holds in problems.items() if holds), None)
    return known or ("it has no memory" if _Base._is_zerotensor(tensor) else None)  # noqa: SLF001 - no public name


def _span(tensor: torch.Tensor) -> MemorySpan:
    storage = _Base.untyped_storage(tensor)
    size = _Base.element_size(tensor)
    offset = _Base.storage_offset(tensor)
    shape, stride = _Base.size(tensor), _Base.stride(tensor)
    reach = 0 if 0 in shape else 1 + sum((extent - 1) * step for extent, step in zip(shape, stride, strict=True))
    at, nbytes = _Storage.data_ptr(storage), _Storage.nbytes(storage)
    if reach and not at:
        raise RuntimeError("it has elements and no memory")
    first = offset * size if reach else 0
    return MemorySpan(at, nbytes, first, first + reach * size, str(_Base.device.__get__(tensor)), tensor)


def enter(found: MemorySpan, spans: list[MemorySpan], known: dict[tuple[str, int], int]) -> int:
    """Add a span to those of other tensors, merged with one on the same storage; return its number."""
    key = found.device, found.at
    if found.at == 0 or key not in known:
        known[key] = len(spans)
        spans.append(found)
        return len(spans) - 1
    before = spans[known[key]]
    before.nbytes = max(before.nbytes, found.nbytes)
    if found.first != found.last:
        is_empty = before.first == before.last
        before.first = found.first if is_empty else min(before.first, found.first)
        before.last = max(before.last, found.last)
    return known[key]


def memory_of(span: MemorySpan, first: int, length: int) -> bytes:
    """Return a copy of a range of bytes of a storage."""
    if not length:
        return b""
    if span.device == "cpu":
        return _string_at(span.at + first, length)
    with torch.no_grad():
        raw = torch.empty(0, dtype=torch.uint8, device=span.device)
        raw.set_(_Base.untyped_storage(span.tensor), first, (length,), (1,))
        copied = raw.cpu()
    return _string_at(_Base.data_ptr(copied), length)


def home_of(storage: dict[str, int], block: Any, device: str) -> torch.Tensor:
    """Return our own memory with a storage's bytes; bytes that were not stored are 0xff, which is NaN in every float.

    Raises:
        BundleError: The sizes do not match.
    """
    home = torch.empty(storage["nbytes"], dtype=torch.uint8)
    at = home.data_ptr()
    if storage["start"] + len(block) > storage["nbytes"]:
        raise BundleError("a storage is smaller than its memory")
    if len(block) < storage["nbytes"]:
        _memset(at, 0xFF, storage["nbytes"])
    if len(block):
        _memmove(at + storage["start"], bytes(block), len(block))
    return home if device == "cpu" else home.to(device)


def view_of(record: dict[str, Any], storages: list[dict[str, int]], blocks: list[Any]) -> torch.Tensor | None:
    """Return a tensor on the memory of blocks; None if its numbers are not accessible.

    Raises:
        BundleError: It lies outside of its storage.
    """
    if "problem" in record:
        return None
    dtype, shape = DTYPES[record["dtype"]], tuple(record["shape"])
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    start, block = storages[record["storage"]]["start"], blocks[record["storage"]]
    size = torch.empty(0, dtype=dtype).element_size()
    try:
        flat = torch.frombuffer(_writable(block), dtype=dtype, count=len(block) // size)
        view = flat.as_strided(shape, tuple(record["stride"]), record["offset"] - start // size)
    except (RuntimeError, ValueError) as error:
        raise BundleError(f"a tensor lies outside of its storage: {str(error).splitlines()[0][:120]}") from error
    return unresolved(view, record)


def unresolved(tensor: torch.Tensor, record: dict[str, Any]) -> torch.Tensor:
    """Return a tensor with its conjugate or negative bit, if its record has one."""
    conjugated = tensor.conj() if record["is_conj"] else tensor
    return torch._neg_view(conjugated) if record["is_neg"] else conjugated  # noqa: SLF001 - no public name


def _writable(block: Any) -> Any:
    return bytearray(block) if isinstance(block, bytes) else block
