"""Serialize tensors to bytes and back: raw memory and a JSON header, with nothing executable in it.

A file is `ESPB`, the header's length as eight bytes, the header, and then the memory of the storages, each at a
multiple of 64 bytes. A header holds pieces by name; a piece describes one nest of containers, such as the return value
of a call.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import struct
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from ..target.pytrees import Node, describe, rebuild, walk
from .tensor_bytes import (
    DTYPES,
    GRAIN,
    BundleError,
    MemorySpan,
    enter,
    home_of,
    memory_of,
    plainly,
    record_of,
    unresolved,
    view_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Bundle", "BundleError", "Piece", "capture", "close_all", "read_and_close", "to_file", "write"]

_digest_of = hashlib.blake2b
_MAGIC = b"ESPB"
_LENGTH = struct.Struct("<Q")
_ALIGNMENT = 64


@dataclass
class Piece:
    """Pytree split into structure and memory.

    Attributes:
        tree: Structure; see `pytrees.describe`.
        tensors: For each tensor: `type`, `dtype`, `shape`, `stride`, `offset` (elements into its storage), `device`,
            `layout`, `requires_grad`, `is_inference`, `is_conj`, `is_neg`, `storage` (tensors with the same one share
            memory), or `problem` if its numbers are not accessible.
        storages: For each storage: `nbytes`, and `start`, the first stored byte.
        blocks: Stored memory of each storage.
    """

    tree: Node
    tensors: list[dict[str, Any]] = field(default_factory=list)
    storages: list[dict[str, int]] = field(default_factory=list)
    blocks: list[Any] = field(default_factory=list)
    _views: list[torch.Tensor | None] | None = field(default=None, compare=False, repr=False)
    _leaves: list[Node] | None = field(default=None, compare=False, repr=False)

    def digest(self) -> str:
        """Return a digest of the contents: equal pieces have equal digests."""
        hashed = _digest_of(json.dumps([self.tree, self.tensors, self.storages]).encode(), digest_size=16)
        for block in self.blocks:
            hashed.update(block)
        return hashed.hexdigest()

    def nbytes(self) -> int:
        """Return the number of stored bytes."""
        return sum(len(block) for block in self.blocks)

    def views(self) -> list[torch.Tensor | None]:
        """Return its tensors on the piece's own memory, on the CPU; None for a tensor without accessible numbers.

        Raises:
            BundleError: A tensor lies outside of its storage.
        """
        if self._views is None:
            self._views = [view_of(tensor, self.storages, self.blocks) for tensor in self.tensors]
        return self._views

    def leaves(self) -> list[Node]:
        """Return the leaf nodes of its tree, in order."""
        if self._leaves is None:
            self._leaves = [node for _, node in walk(self.tree, "")]
        return self._leaves

    def restore(self, template: Any = None) -> Any:
        """Return the pytree with memory of its own: same strides, same sharing, same flags.

        Args:
            template: A live pytree of the same structure, for containers that cannot be created by name.

        Raises:
            BundleError: A tensor cannot be restored.
            ValueError: The template does not match, or is required and missing.
        """
        homes: list[torch.Tensor | None] = [None] * len(self.storages)
        return rebuild(self.tree, [self._restored(tensor, homes) for tensor in self.tensors], template)

    def _restored(self, record: dict[str, Any], homes: list[torch.Tensor | None]) -> torch.Tensor:
        if "problem" in record:
            raise BundleError(record["problem"])
        number = record["storage"]
        home = homes[number]
        if home is None:
            home = homes[number] = home_of(self.storages[number], self.blocks[number], record["device"])
        try:
            made = torch.empty(0, dtype=DTYPES[record["dtype"]], device=home.device)
            made.set_(home.untyped_storage(), record["offset"], tuple(record["shape"]), tuple(record["stride"]))
        except RuntimeError as error:
            raise BundleError(str(error).splitlines()[0]) from error
        made = unresolved(made, record)
        if record["type"] == "torch.nn.Parameter":
            return torch.nn.Parameter(made, requires_grad=record["requires_grad"])
        return made.requires_grad_(record["requires_grad"])


def capture(thing: Any, *, is_whole: bool = False) -> Piece:
    """Split a pytree and copy its current memory.

    Args:
        thing: Containers, tensors and plain values.
        is_whole: Store all of every storage, not only the part that the tensors span.
    """
    with plainly():
        tensors: list[torch.Tensor] = []
        piece = Piece(describe(thing, tensors))
        spans: list[MemorySpan] = []
        known: dict[tuple[str, int], int] = {}
        for tensor in tensors:
            record, found = record_of(tensor)
            piece.tensors.append(record)
            if found is not None:
                record["storage"] = enter(found, spans, known)
        for span in spans:
            first, last = (0, span.nbytes) if is_whole else (span.first - span.first % GRAIN, span.last)
            last = max(first, min(span.nbytes, last + -last % GRAIN))
            piece.storages.append({"nbytes": span.nbytes, "start": first})
            piece.blocks.append(memory_of(span, first, last - first))
        return piece


def write(pieces: Mapping[str, Piece], about: dict[str, Any]) -> int:
    """Write pieces into an anonymous file and return its descriptor, positioned at the start.

    Args:
        pieces: Contents, by name.
        about: Additional information, as JSON.
    """
    at, described, blocks = 0, {}, []
    for name, piece in pieces.items():
        storages = []
        for storage, block in zip(piece.storages, piece.blocks, strict=True):
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
    """Return a summary of a pytree, and the descriptor of a bundle with it as the piece `output`."""
    piece = capture(thing)
    return {"tensors": len(piece.tensors), "nbytes": piece.nbytes()}, (write({"output": piece}, {}),)


class Bundle:
    """Bundle read from a file.

    Attributes:
        about: Additional information besides the pieces.
        pieces: The pieces by name; their memory is the file's own, and writing to it changes no file.
    """

    def __init__(self, descriptor: int, *, is_read: bool = False) -> None:
        """Map a bundle's file; the descriptor may be closed afterwards.

        Args:
            descriptor: Its file.
            is_read: Read the file instead: a map keeps a descriptor open.

        Raises:
            BundleError: The file is not a bundle.
        """
        size = os.fstat(descriptor).st_size
        if size < len(_MAGIC) + _LENGTH.size:
            raise BundleError("the file is too short")
        mapped = memoryview(_read_all(descriptor, size) if is_read else _mapped(descriptor, size))
        first = len(_MAGIC) + _LENGTH.size
        (length,) = _LENGTH.unpack_from(mapped, len(_MAGIC))
        if bytes(mapped[: len(_MAGIC)]) != _MAGIC or length > size - first:
            raise BundleError("it has no bundle signature")
        try:
            header = json.loads(bytes(mapped[first : first + length]))
            self.about: dict[str, Any] = dict(header["about"])
            self.pieces = {str(name): _read(each, mapped[first + length :]) for name, each in header["pieces"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise BundleError(f"its header is not valid: {error}") from error


def read_and_close(files: list[int]) -> Bundle:
    """Return the bundle of a request's first file; closes all of its files and empties the list.

    A target that is called later then sees no descriptor that tells what the process is for.
    """
    bundle = Bundle(files[0], is_read=True)
    close_all(files)
    return bundle


def close_all(files: list[int]) -> None:
    """Close the files of a request that nothing reads, and empty the list: see `read_and_close`."""
    for each in files:
        os.close(each)
    files.clear()


def _mapped(descriptor: int, size: int) -> mmap.mmap:
    return mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY)


def _read_all(descriptor: int, size: int) -> bytearray:
    memory, at = bytearray(size), 0
    while at < size and (count := os.preadv(descriptor, [memoryview(memory)[at:]], at)):
        at += count
    return memory


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
            _ = piece.storages[record["storage"]], DTYPES[record["dtype"]]
    return piece


def _anonymous_file() -> int:
    with contextlib.suppress(AttributeError, OSError):
        return os.memfd_create("esper-bundle")
    with tempfile.TemporaryFile() as opened:
        return os.dup(opened.fileno())
