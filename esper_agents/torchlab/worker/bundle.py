"""Tensors as bytes and back: what a worker hands over is memory and a JSON header, and nothing in it can be run.

A file is `ESPB`, the header's length as eight bytes, the header, and then the memory of the storages, each at a multiple of 64
bytes. A header holds pieces by name; a piece describes one nest of containers, such as what a call returned.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import mmap
import os
import struct
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from .structure import Node, describe, is_tensor, rebuild, type_name

# The C functions themselves, taken before any user code ran: replacing methods of torch.Tensor does not reach them.
_Base = torch._C.TensorBase
_Storage = torch._C.StorageBase
_plainly = torch._C.DisableTorchFunction
_string_at = ctypes.string_at
_memmove = ctypes.memmove
_digest_of = hashlib.blake2b
_type_of = type
_EXACT = {torch.Tensor: "torch.Tensor", torch.nn.Parameter: "torch.nn.Parameter"}

_MAGIC = b"ESPB"
_LENGTH = struct.Struct("<Q")
_ALIGNMENT = 64
_NAMES = (
    "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64 complex32 complex64 complex128"
    " float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
)
DTYPES: dict[str, torch.dtype] = {each: getattr(torch, each) for each in _NAMES.split() if hasattr(torch, each)}
_NAME_OF = {dtype: name for name, dtype in DTYPES.items()}


class BundleError(Exception):
    """The bytes are no bundle."""


@dataclass
class Piece:
    """One nest of containers, taken apart.

    Attributes:
        tree: What it is made of; see `structure.describe`.
        tensors: For each tensor: `type`, `dtype`, `shape`, `stride`, `offset` (elements into its storage), `device`, `layout`,
            `requires_grad`, `is_conj`, `is_neg`, `storage` (tensors with the same one share memory), or `problem` where its
            numbers cannot be had.
        storages: For each storage: `nbytes`, and `start`, the first byte of it that is kept.
        blocks: The kept memory of each.
    """

    tree: Node
    tensors: list[dict[str, Any]] = field(default_factory=list)
    storages: list[dict[str, int]] = field(default_factory=list)
    blocks: list[Any] = field(default_factory=list)

    def digest(self) -> str:
        """Return a digest of everything in it: equal pieces have equal ones."""
        hashed = _digest_of(json.dumps([self.tree, self.tensors, self.storages]).encode(), digest_size=16)
        for each in self.blocks:
            hashed.update(each)
        return hashed.hexdigest()

    def nbytes(self) -> int:
        """Return how much memory it keeps."""
        return sum(len(each) for each in self.blocks)

    def views(self) -> list[torch.Tensor | None]:
        """Return its tensors on the memory of the piece itself, on the CPU; None where a tensor's numbers cannot be had.

        Raises:
            BundleError: A tensor lies outside of its storage.
        """
        return [_view(each, self.storages, self.blocks) for each in self.tensors]

    def restore(self, template: Any = None) -> Any:
        """Return the nest with memory of its own: same strides, same sharing, same flags.

        Args:
            template: A living nest of the same shape, for containers that cannot be made from their names.

        Raises:
            BundleError: A tensor cannot be restored.
            ValueError: The template does not fit, or one is needed.
        """
        homes: list[torch.Tensor | None] = [None] * len(self.storages)
        return rebuild(self.tree, [self._restored(each, homes) for each in self.tensors], template)

    def _restored(self, record: dict[str, Any], homes: list[torch.Tensor | None]) -> torch.Tensor:
        if "problem" in record:
            raise BundleError(record["problem"])
        number = record["storage"]
        home = homes[number]
        if home is None:
            home = homes[number] = _home(self.storages[number], self.blocks[number], record["device"])
        try:
            made = torch.empty(0, dtype=DTYPES[record["dtype"]], device=home.device)
            made.set_(home.untyped_storage(), record["offset"], tuple(record["shape"]), tuple(record["stride"]))
        except RuntimeError as error:
            raise BundleError(str(error).splitlines()[0]) from error
        if record["is_conj"]:
            made = made.conj()
        if record["is_neg"]:
            made = torch._neg_view(made)
        if record["type"] == "torch.nn.Parameter":
            return torch.nn.Parameter(made, requires_grad=record["requires_grad"])
        return made.requires_grad_(record["requires_grad"])


def capture(thing: Any, *, is_whole: bool = False) -> Piece:
    """Take a nest apart and copy its memory as it is at this moment.

    Args:
        thing: Containers, tensors and plain values.
        is_whole: Keep all of every storage, not only what the tensors span of it.
    """
    with _plainly():
        tensors: list[torch.Tensor] = []
        piece = Piece(describe(thing, tensors))
        spans: list[_Span] = []
        known: dict[tuple[str, int], int] = {}
        for each in tensors:
            record, found = _record(each)
            piece.tensors.append(record)
            if found is not None:
                record["storage"] = _enter(found, spans, known)
        for span in spans:
            first, last = (0, span.nbytes) if is_whole else (span.first - span.first % 16, span.last)
            last = max(first, min(span.nbytes, last + -last % 16))
            piece.storages.append({"nbytes": span.nbytes, "start": first})
            piece.blocks.append(_memory(span, first, last - first))
        return piece


def address(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Return the first and one past the last byte of memory that a tensor's elements span; None where it has none."""
    with _plainly():
        _, span = _record(tensor)
    if span is None or span.first == span.last:
        return None
    return span.at + span.first, span.at + span.last


def write(pieces: Mapping[str, Piece], about: dict[str, Any]) -> int:
    """Write pieces into a file that lies nowhere and return its descriptor, positioned at the start.

    Args:
        pieces: What goes in, by name.
        about: Anything else there is to say, as JSON.
    """
    at, described, blocks = 0, {}, []
    for name, piece in pieces.items():
        storages = []
        for storage, block in zip(piece.storages, piece.blocks):  # noqa: B905 - as many
            storages.append({**storage, "at": at, "length": len(block)})
            blocks.append(block)
            at += len(block) + -len(block) % _ALIGNMENT
        described[name] = {"tree": piece.tree, "tensors": piece.tensors, "storages": storages}
    header = json.dumps({"about": about, "pieces": described}, allow_nan=False, separators=(",", ":")).encode()
    header += b" " * (-(len(header) + len(_MAGIC) + _LENGTH.size) % _ALIGNMENT)
    descriptor = _anonymous_file()
    with open(descriptor, "wb", closefd=False) as opened:
        opened.write(_MAGIC + _LENGTH.pack(len(header)) + header)
        for block in blocks:
            opened.write(block)
            opened.write(bytes(-len(block) % _ALIGNMENT))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def to_file(thing: Any) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Return what a nest holds in a few words, and the descriptor of a bundle with it as the piece `output`."""
    piece = capture(thing)
    return {"tensors": len(piece.tensors), "nbytes": piece.nbytes()}, (write({"output": piece}, {}),)


class Bundle:
    """A bundle that was read.

    Attributes:
        about: What was said beside the pieces.
        pieces: The pieces by name; their memory is the file's own, and writing to it changes no file.
    """

    def __init__(self, descriptor: int) -> None:
        """Map a bundle's file; the descriptor may be closed afterwards.

        Raises:
            BundleError: It is none.
        """
        size = os.fstat(descriptor).st_size
        if size < len(_MAGIC) + _LENGTH.size:
            raise BundleError("the file is too short")
        mapped = memoryview(mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY))
        first = len(_MAGIC) + _LENGTH.size
        (length,) = _LENGTH.unpack_from(mapped, len(_MAGIC))
        if bytes(mapped[: len(_MAGIC)]) != _MAGIC or length > size - first:
            raise BundleError("it does not begin as a bundle does")
        try:
            header = json.loads(bytes(mapped[first : first + length]))
            self.about: dict[str, Any] = dict(header["about"])
            self.pieces = {str(name): _read(each, mapped[first + length :]) for name, each in header["pieces"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise BundleError(f"its header is not one: {error}") from error


def _read(described: dict[str, Any], memory: memoryview) -> Piece:
    piece = Piece(described["tree"], list(described["tensors"]))
    for each in described["storages"]:
        at, length = int(each["at"]), int(each["length"])
        if at < 0 or length < 0 or at + length > len(memory):
            raise ValueError("a storage lies outside of the file")
        piece.storages.append({"nbytes": int(each["nbytes"]), "start": int(each["start"])})
        piece.blocks.append(memory[at : at + length])
    for record in piece.tensors:
        if "problem" not in record:
            piece.storages[record["storage"]], DTYPES[record["dtype"]]  # noqa: B018 - raises where there is none
    return piece


@dataclass
class _Span:
    at: int
    nbytes: int
    first: int
    last: int
    device: str
    tensor: torch.Tensor


def _record(tensor: torch.Tensor) -> tuple[dict[str, Any], _Span | None]:
    """Return what there is to say about a tensor, and where its memory lies."""
    record: dict[str, Any] = {"type": _EXACT.get(_type_of(tensor)) or f"{type_name(tensor)}, a subclass"}
    try:
        dtype, layout = _Base.dtype.__get__(tensor), _Base.layout.__get__(tensor)  # type: ignore[attr-defined]
        record |= {
            "dtype": _NAME_OF.get(dtype, str(dtype).removeprefix("torch.")),
            "layout": str(layout).removeprefix("torch."),
            "device": str(_Base.device.__get__(tensor)),  # type: ignore[attr-defined]
            "requires_grad": _Base.requires_grad.__get__(tensor),  # type: ignore[attr-defined]
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
    """Return why the numbers of a tensor cannot be had from its memory."""
    if _type_of(tensor) not in _EXACT:
        return f"a {type_name(tensor)} need not hold what it says when it is asked"
    if _Base.is_nested.__get__(tensor):  # type: ignore[attr-defined]
        return "a nested tensor"
    if layout is not torch.strided:
        return f"its layout is {layout}"
    if _Base.is_quantized.__get__(tensor):  # type: ignore[attr-defined]
        return "a quantized tensor"
    if dtype not in _NAME_OF:
        return f"its dtype is {dtype}"
    device = _Base.device.__get__(tensor).type  # type: ignore[attr-defined]
    if device not in {"cpu", "cuda"}:
        return f"it is on the device {device}"
    if _Base._is_zerotensor(tensor):
        return "it has no memory"
    return None


def _span(tensor: torch.Tensor) -> _Span:
    storage = _Base.untyped_storage(tensor)
    size = _Base.element_size(tensor)
    offset = _Base.storage_offset(tensor)
    shape, stride = _Base.size(tensor), _Base.stride(tensor)
    reach = 0 if 0 in shape else 1 + sum((extent - 1) * step for extent, step in zip(shape, stride))  # noqa: B905 - as many
    at, nbytes = _Storage.data_ptr(storage), _Storage.nbytes(storage)  # type: ignore[attr-defined]
    if reach and not at:
        raise RuntimeError("it has elements and no memory")
    first = offset * size if reach else 0
    return _Span(at, nbytes, first, first + reach * size, str(_Base.device.__get__(tensor)), tensor)  # type: ignore[attr-defined]


def _enter(found: _Span, spans: list[_Span], known: dict[tuple[str, int], int]) -> int:
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


def _memory(span: _Span, first: int, length: int) -> bytes:
    if not length:
        return b""
    if span.device == "cpu":
        return _string_at(span.at + first, length)
    with torch.no_grad():
        raw = torch.empty(0, dtype=torch.uint8, device=span.device)
        raw.set_(_Base.untyped_storage(span.tensor), first, (length,), (1,))
        copied = raw.cpu()
    return _string_at(_Base.data_ptr(copied), length)


def _home(storage: dict[str, int], block: Any, device: str) -> torch.Tensor:
    """Return memory of our own with a storage's bytes in it; bytes that were not kept are 0xff, which no float is."""
    home = torch.empty(storage["nbytes"], dtype=torch.uint8)
    at = home.data_ptr()
    if storage["start"] + len(block) > storage["nbytes"]:
        raise BundleError("a storage is smaller than its memory")
    if len(block) < storage["nbytes"]:
        ctypes.memset(at, 0xFF, storage["nbytes"])
    if len(block):
        _memmove(at + storage["start"], bytes(block), len(block))
    return home if device == "cpu" else home.to(device)


def _view(record: dict[str, Any], storages: list[dict[str, int]], blocks: list[Any]) -> torch.Tensor | None:
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
    if record["is_conj"]:
        view = view.conj()
    return torch._neg_view(view) if record["is_neg"] else view


def _writable(block: Any) -> Any:
    return bytearray(block) if isinstance(block, bytes) else block


def _anonymous_file() -> int:
    with contextlib.suppress(AttributeError, OSError):
        return os.memfd_create("esper-bundle")
    with tempfile.TemporaryFile() as opened:
        return os.dup(opened.fileno())


__all__ = ["DTYPES", "Bundle", "BundleError", "Piece", "address", "capture", "is_tensor", "to_file", "write"]
