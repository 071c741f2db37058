"""Result of the job `data`."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Literal

from ..results import MissingPart


@dataclass(frozen=True, slots=True)
class LoaderRound:
    """Times of one pass over the data.

    Attributes:
        batches: Number of timed batches.
        start_ns: Time until the first batch, including the start of workers.
        batch_ns: Time of one iteration: waiting and step.
        wait_ns: Part of it in which the step waits for data.
    """

    batches: int
    start_ns: int
    batch_ns: int
    wait_ns: int


@dataclass(slots=True)
class LoaderVariant:
    """Setting of the loader with its times.

    Attributes:
        num_workers: Number of worker processes.
        prefetch_factor: Batches that each worker prepares ahead; None without workers.
        pin_memory: Whether batches are copied into page-locked memory.
        is_own: Whether it is the setting in the user's code.
        repeats_data: For an iterable dataset with more than one worker: whether each worker loads all data; None if
            unknown or not applicable.
        error: Exception with this setting; empty if none.
        rounds: The passes.
    """

    num_workers: int
    prefetch_factor: int | None
    pin_memory: bool
    is_own: bool
    repeats_data: bool | None
    error: str
    rounds: tuple[LoaderRound, ...]

    @property
    def typical_ns(self) -> float:
        """The median time of an iteration over the rounds."""
        return median(each.batch_ns for each in self.rounds)

    @property
    def setting(self) -> str:
        """The setting as keyword arguments."""
        ahead = "" if self.prefetch_factor is None else f", prefetch_factor={self.prefetch_factor}"
        return f"num_workers={self.num_workers}{ahead}{', pin_memory=True' if self.pin_memory else ''}"


@dataclass(frozen=True, slots=True)
class LoaderFacts:
    """The user's loader.

    Attributes:
        type: Class of the loader.
        dataset: Class of the dataset.
        kind: `map` or `iterable` by the dataset, or `other` if it is not a DataLoader.
        is_wrapped: Whether the target was a dataset, for which a DataLoader was created.
        batch_size: Samples in a batch; None if unknown.
        batches: Batches in a pass; None if unknown.
        persistent_workers: Whether its workers survive a pass.
        file: File of the dataset's class; empty outside the project.
        line: Line of the class; 0 outside the project.
    """

    type: str
    dataset: str
    kind: Literal["map", "iterable", "other"]
    is_wrapped: bool
    batch_size: int | None
    batches: int | None
    persistent_workers: bool
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class StepPlace:
    """The measured step: its name, and the file and line of its definition."""

    name: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class DatasetLine:
    """Line that runs while a batch is loaded.

    Attributes:
        file: File, relative to the project.
        line: Line number.
        function: Function of the line.
        source: Its text.
        times: Number of runs while traced.
        own_ns: Time per batch without calls of other functions of the project.
        total_ns: Time per batch with them.
    """

    file: str
    line: int
    function: str
    source: str
    times: int
    own_ns: int
    total_ns: int


@dataclass(frozen=True, slots=True)
class DatasetLines:
    """Traced lines, loaded without workers.

    Attributes:
        batches: Number of traced batches.
        samples: Number of traced samples; None if unknown.
        plain_ns: Time of a batch without the trace.
        traced_ns: Time of a batch with it.
        rows: Lines, most expensive first.
    """

    batches: int
    samples: int | None
    plain_ns: int
    traced_ns: int
    rows: tuple[DatasetLine, ...]

    def plain_share_ns(self, row: DatasetLine) -> float:
        """Return a line's share of the time of a batch without the trace, which slows down all lines."""
        return row.own_ns * self.plain_ns / max(self.traced_ns, 1)


@dataclass(frozen=True, slots=True)
class DataTimes:
    """Measured part of a result.

    Attributes:
        device: Device of the step.
        cores: Processor cores that the measurement may use.
        loader: The loader.
        step: The step; None if only the loader was measured.
        variants: Settings; the first is the loader's own.
        lines: Cost by line; None if not measured.
        missing: Parts that were not measured.
    """

    device: str
    cores: int
    loader: LoaderFacts
    step: StepPlace | None
    variants: tuple[LoaderVariant, ...]
    lines: DatasetLines | None
    missing: tuple[MissingPart, ...]
