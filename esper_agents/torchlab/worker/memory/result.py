"""Results of the jobs `memory` and `memory_estimate`."""

from __future__ import annotations

from dataclasses import dataclass

from ..results import MissingPart, WrittenFile

CATEGORIES = ("parameters", "buffers", "gradients", "optimizer_state", "activations", "inputs", "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBlock:
    """Memory of an operation: its size, its category and the line or module that made it."""

    operation: str | None = None
    category: str | None = None
    bytes: int | None = None
    count: int = 0
    file: str = ""
    line: int = 0
    module: str = ""
    shape: tuple[int, ...] | None = None
    dtype: str | None = None

    @property
    def place(self) -> str:
        """The line and the module, as far as known."""
        return _place(self.file, self.line, self.module)


@dataclass(frozen=True, slots=True)
class MemoryPhase:
    """Phase of a step with its peak and the memory at its end."""

    step: int
    name: str
    peak_bytes: int
    end_bytes: int


@dataclass(frozen=True, slots=True)
class MemorySplit:
    """Bytes at a moment, by category."""

    parameters: int
    buffers: int
    gradients: int
    optimizer_state: int
    activations: int
    inputs: int
    other: int

    def parts(self) -> list[tuple[str, int]]:
        """Return the categories with their bytes, in the order of the timeline."""
        return [(category, getattr(self, category)) for category in CATEGORIES]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPeak:
    """Peak of a run.

    Attributes:
        peak_bytes: All memory at the peak.
        allocated_bytes: Part of it that the run allocated.
        before_bytes: Part of it that was there before.
        phase: Phase of the peak; empty if none.
        step: Step of the peak.
        reached_by: Allocation that reached it.
        split_bytes: Its parts by category.
        largest: Its largest blocks.
        phases: The phases in order.
    """

    peak_bytes: int
    allocated_bytes: int
    before_bytes: int
    phase: str
    step: int
    reached_by: MemoryBlock
    split_bytes: MemorySplit
    largest: tuple[MemoryBlock, ...]
    phases: tuple[MemoryPhase, ...]

    def share(self, size: int) -> float:
        """Return the share of the peak that some bytes are."""
        return size / max(self.peak_bytes, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPeak(MemoryPeak):
    """Peak of a run that was measured; each point of the timeline is a time and the bytes of each category."""

    timeline: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate(MemoryPeak):
    """Peak that was estimated without running.

    Attributes:
        built_with_memory_because: Why the target was built with real memory; None if it was not.
        assumed: Assumptions with their places.
        left_out: Operations whose workspace is unknown.
        trains: Whether there is a backward pass.
        without_gradients_bytes: Peak of a call without gradients; None if it is not lower.
    """

    built_with_memory_because: str | None
    assumed: tuple[AssumedFact, ...]
    left_out: dict[str, str]
    trains: bool
    without_gradients_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class AssumedFact:
    """Assumption of an estimate, with the place that needs it."""

    place: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryHolder:
    """Object that keeps memory alive.

    Attributes:
        kind: Kind of its name, such as `attribute` or `closure`.
        name: Its name.
        bytes: Memory that it keeps.
        tensors: Number of its tensors.
        shape: Shape of one of them.
        dtype: Its dtype.
        graph_nodes: Nodes of autograd graphs that it keeps.
        graph_of: Autograd node whose graph it keeps.
        container: Class of the container.
        entries: Number of its entries.
        entries_per_step: Growth of that number.
        bound: Maximum number of entries.
        file: File of the definition.
        line: Line of the definition.
        kept_line: Line that keeps the memory.
        source: Text of that line.
    """

    kind: str
    name: str
    bytes: int
    tensors: int
    shape: tuple[int, ...]
    dtype: str
    graph_nodes: int
    graph_of: str | None = None
    container: str | None = None
    entries: int | None = None
    entries_per_step: int | None = None
    bound: int | None = None
    file: str = ""
    line: int | None = None
    kept_line: int | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMaker:
    """Operation that made memory which stayed, with its line or module."""

    operation: str
    bytes: int
    count: int
    shape: tuple[int, ...]
    dtype: str | None
    file: str = ""
    line: int | None = None
    module: str = ""

    @property
    def place(self) -> str:
        """The line and the module, as far as known."""
        return _place(self.file, self.line, self.module)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakSearch:
    """Memory left after each step.

    Attributes:
        steps: Number of steps.
        live_bytes: Bytes of storages after each step.
        profiler_bytes: The same by the profiler; empty if it was not used.
        collected_bytes: Bytes that the garbage collector freed after each step.
        graph_nodes: Nodes of autograd graphs after each step.
        is_growing: Whether memory grows.
        bytes_per_step: Growth per step.
        graph_nodes_per_step: Growth of the number of nodes.
        judged_from_step: First step considered.
        holders: Objects that keep the memory.
        made_by: Operations that made it.
        is_leak: Whether it grows without a bound.
        kept_within: Operation whose results in one step all stay until the step ends, as in a loop that keeps them.
    """

    steps: int
    live_bytes: tuple[int, ...]
    profiler_bytes: tuple[int, ...]
    collected_bytes: tuple[int, ...]
    graph_nodes: tuple[int, ...]
    is_growing: bool
    bytes_per_step: int
    graph_nodes_per_step: int
    judged_from_step: int
    holders: tuple[MemoryHolder, ...]
    made_by: tuple[MemoryMaker, ...]
    is_leak: bool
    kept_within: MemoryMaker | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfMemory:
    """Failure for lack of memory: phase, step, message, requested bytes and line."""

    phase: str
    step: int
    message: str
    wanted_bytes: int | None = None
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRun:
    """Measured part of a result.

    Attributes:
        device: Device of the target.
        categories: Categories, in the order of the timeline.
        missing: Parts that were not measured.
        peak: Measured peak; None if the target was not run.
        trains: Whether the run has a backward pass.
        optimizer: Class of the optimizer; None without one, empty if the target was not run.
        leak: Memory after each step; None if it was not searched.
        out_of_memory: Failure for lack of memory.
        allocator: Statistics of the device's allocator.
        artifacts: Files that the job left.
    """

    device: str = ""
    categories: tuple[str, ...] = ()
    missing: tuple[MissingPart, ...] | None = None
    peak: MeasuredPeak | None = None
    trains: bool | None = None
    optimizer: str | None = ""
    leak: LeakSearch | None = None
    out_of_memory: OutOfMemory | None = None
    allocator: dict[str, int] | None = None
    artifacts: tuple[WrittenFile, ...] = ()


def _place(file: str, line: int | None, module: str) -> str:
    return " ".join(filter(None, (f"{file}:{line}" if file else "", module)))
