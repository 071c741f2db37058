"""Measure the machine's ceilings, in small samples during the same minutes as the target.

Every ceiling is the best of all its samples: a busy neighbour can only make a machine look slower than it is.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING

import torch

from ..process.devices import wait
from ..results import MissingPart
from .result import BandwidthSamples, CeilingSamples, ProductSamples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SAMPLE_NS = 4_000_000
_MATRIX_SIZES = (64, 128, 256, 512, 1024)
_TOUCHED_BYTES = (1 << 18, 1 << 22)
_STREAMED_BYTES = 1 << 23
_MOST_TOUCHED_BYTES = 1 << 27
_CACHE = "/sys/devices/system/cpu/cpu0/cache/index{}/size"
_EMPTY_CALLS = 1_000
_FAULT_BYTES = 1 << 22
_MATRIX_DTYPES = ("float32", "float64", "bfloat16", "float16", "complex64", "complex128")


@dataclass
class MeasuredCeilings:
    """Samples measured so far.

    Attributes:
        stream: Bytes read and written per second by copies and in-place updates, by the bytes that they touch.
        matrix: Floating-point operations per second of matrix products, by dtype.
        dispatch: Nanoseconds of an addition of tensors without elements.
        fresh_page: Nanoseconds to write to a memory page for the first time.
        known_page: Nanoseconds to write to it again.
        missing: Samples that could not be measured, with the reasons.
    """

    stream: dict[int, list[int]] = field(default_factory=dict)
    matrix: dict[str, list[int]] = field(default_factory=dict)
    dispatch: list[int] = field(default_factory=list)
    fresh_page: list[int] = field(default_factory=list)
    known_page: list[int] = field(default_factory=list)
    missing: list[MissingPart] = field(default_factory=list)

    def samples(self) -> CeilingSamples:
        """Return all samples, as stored in results."""
        return CeilingSamples(
            tuple(BandwidthSamples(size, tuple(self.stream[size])) for size in sorted(self.stream)),
            tuple(ProductSamples(name, tuple(self.matrix[name])) for name in sorted(self.matrix)),
            tuple(self.dispatch),
            tuple(self.fresh_page),
            tuple(self.known_page),
        )


class Sampler:
    """Sampler of every ceiling, one sample per call."""

    def __init__(self, dtypes: Iterable[str], device: str) -> None:
        """Prepare the samples.

        Args:
            dtypes: The dtypes of the target's products; `float32` is measured as well.
            device: Device of the target.
        """
        self.ceilings = MeasuredCeilings()
        self._device = device
        # Processor time excludes neighbours' work, but only a single thread's is a duration.
        self._clock = thread_time_ns if device == "cpu" and torch.get_num_threads() == 1 else perf_counter_ns
        # No gradients are needed here, whatever mode the target leaves on.
        with torch.no_grad():
            self._matrices = [each for name in sorted({"float32", *dtypes}) if (each := self._matrix(name)) is not None]
            sizes = (*_TOUCHED_BYTES, _beyond_cache())
            self._streams = [each for size in sizes for each in self._streams_of(size)]

    def sample(self) -> None:
        """Take one sample of every ceiling."""
        with torch.no_grad():
            for name, work, flops in self._matrices:
                self.ceilings.matrix.setdefault(name, []).append(_per_second(flops, self._timed(work)))
            for size, work, moved in self._streams:
                self.ceilings.stream.setdefault(size, []).append(_per_second(moved, self._timed(work)))
            self.ceilings.dispatch.append(self._dispatch())
        fresh, known = _pages()
        self.ceilings.fresh_page.append(fresh)
        self.ceilings.known_page.append(known)

    def _matrix(self, name: str) -> tuple[str, Callable[[], object], int] | None:
        """Return the matrix product, of a few sizes, that comes closest to the ceiling."""
        if name not in _MATRIX_DTYPES:
            return None
        tried: list[tuple[int, Callable[[], object], int]] = []
        try:
            for size in _MATRIX_SIZES:
                one = torch.ones(size, size, dtype=getattr(torch, name), device=self._device)
                work: Callable[[], object] = partial(torch.mm, one, one, out=torch.empty_like(one))
                # A complex multiplication is four real ones and two additions, its addition two more.
                flops = (8 if one.is_complex() else 2) * size**3
                took = min(self._timed(work) for _ in range(3))
                tried.append((_per_second(flops, took), work, flops))
                if took >= _SAMPLE_NS:
                    break
        except RuntimeError as error:
            self._miss(f"ceiling of {name} products", error)
            return None
        rate, best, flops = max(tried, key=lambda each: each[0])
        self.ceilings.matrix[name] = [rate]
        return name, best, flops

    def _streams_of(self, touched: int) -> list[tuple[int, Callable[[], None], int]]:
        """Return two ways to stream through a number of bytes, each with the bytes that it reads and writes."""
        count = touched // (2 * torch.float32.itemsize)
        try:
            one, other = self._ones(count), self._ones(count)
        except (RuntimeError, OSError) as error:
            self._miss(f"bandwidth of {touched} bytes", error)
            return []
        repeats = max(1, _STREAMED_BYTES // touched)

        def copy() -> None:
            for _ in range(repeats):
                other.copy_(one)

        def update() -> None:
            # Writes the lines that it has read: no line is fetched only to be overwritten, as in a copy.
            for _ in range(repeats):
                torch.add(one, other, out=other)

        return [(touched, copy, touched * repeats), (touched, update, touched * repeats * 3 // 2)]

    def _ones(self, count: int) -> torch.Tensor:
        """Return ones in a separate mapping: large blocks on the heap would change the target's memory."""
        if self._device != "cpu":
            return torch.ones(count, device=self._device)
        held = mmap.mmap(-1, count * torch.float32.itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        return torch.frombuffer(held, dtype=torch.float32).fill_(1.0)

    def _miss(self, what: str, error: Exception) -> None:
        self.ceilings.missing.append(MissingPart(what, (str(error).splitlines() or ["refused"])[0]))

    def _timed(self, work: Callable[[], object]) -> int:
        wait(self._device)
        begun = self._clock()
        work()
        wait(self._device)
        return self._clock() - begun

    def _dispatch(self) -> int:
        nothing = torch.empty(0, device=self._device)
        begun = thread_time_ns()
        for _ in range(_EMPTY_CALLS):
            torch.add(nothing, nothing)
        return (thread_time_ns() - begun) // _EMPTY_CALLS


def _beyond_cache() -> int:
    """Return a number of bytes that no cache holds, if the machine reports its cache sizes."""
    largest = 0
    for index in range(5):
        try:
            with open(_CACHE.format(index), encoding="ascii") as opened:  # noqa: PTH123 - a file of the kernel
                text = opened.read().strip()
        except OSError:
            continue
        if text.endswith("K"):
            largest = max(largest, int(text[:-1]) << 10)
    return min(max(4 * largest, 1 << 26), _MOST_TOUCHED_BYTES)


def _per_second(amount: int, took_ns: int) -> int:
    return amount * 1_000_000_000 // max(took_ns, 1)


def _pages() -> tuple[int, int]:
    """Return the nanoseconds for writing to a page of fresh memory, and for writing to the same page again."""
    pages = _FAULT_BYTES // mmap.PAGESIZE
    with mmap.mmap(-1, _FAULT_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as fresh:
        begun = thread_time_ns()
        for place in range(0, _FAULT_BYTES, mmap.PAGESIZE):
            fresh[place] = 1
        touched = thread_time_ns()
        for place in range(0, _FAULT_BYTES, mmap.PAGESIZE):
            fresh[place] = 2
        again = thread_time_ns()
    return (touched - begun) // pages, (again - touched) // pages
