"""Result of a profile: its measurements and its conclusions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from esper_agents.domain.quantities import percent, time_text
from esper_agents.torchlab.external_profilers import ExternalSample
from esper_agents.torchlab.worker.profile.result import ProfiledTarget


class Bottleneck(StrEnum):
    """Limiting resource of a target."""

    COMPUTE = "cpu-compute"
    BANDWIDTH = "memory-bandwidth"
    OVERHEAD = "dispatch-and-python"
    INPUT = "data-loading"
    GPU = "gpu"
    SYNCHRONISATION = "synchronisation"
    ALLOCATION = "memory-allocation"


class Bound(StrEnum):
    """Limiting resource of one operation."""

    COMPUTE = "compute"
    BANDWIDTH = "bandwidth"
    DISPATCH = "dispatch"
    ALLOCATION = "allocation"


@dataclass(frozen=True, slots=True)
class ExternalSamples:
    """Samples of an external profiler, or the reason for none."""

    tool: str
    version: str
    of: str
    samples: int
    missing: str | None = None
    remedy: str | None = None
    top: tuple[ExternalSample, ...] | None = None


@dataclass(frozen=True, slots=True)
class CallCost:
    """Cost of a call: processor time, waiting, wall time and its spread, and what the profiler adds."""

    ns: int
    computing_ns: int
    waiting_ns: int
    wall_ns: int
    median_wall_ns: int
    spread: float
    rounds: int
    calls: int
    first_ns: int
    profiled_ns: int
    profiler_overhead: float
    inputs_ns: int


@dataclass(frozen=True, slots=True)
class CallSplit:
    """Shares of a call by its passes."""

    input: float
    forward: float
    backward: float
    optimizer: float


@dataclass(frozen=True, slots=True)
class CallOverhead:
    """Operations, views and Python calls of a call, and the time that they cost besides their work."""

    operations: int
    views: int
    python_calls: int
    dispatch_ns: int
    interpreter_ns: int


@dataclass(frozen=True, slots=True)
class StreamCeiling:
    """Bandwidth for a number of touched bytes."""

    touched_bytes: int
    bytes_per_s: int


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Best rates of the machine, and its cost of a dispatch and of a fresh page."""

    flops_per_s: dict[str, int]
    bytes_per_s: tuple[StreamCeiling, ...]
    dispatch_ns: int
    fault_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledOperation:
    """Operation by line, with its time, its limiting resource and its rates."""

    name: str
    phase: str
    file: str | None
    line: int | None
    function: str | None
    module: str
    modules: tuple[str, ...]
    shapes: str
    dtype: str
    count: int | float
    self_ns: int
    work_ns: int
    allocation_ns: int
    share: float
    bound: Bound
    events: int | None = None
    faults: int | None = None
    flops: int | None = None
    moved_bytes: int | None = None
    device_ns: int | None = None
    flops_per_s: int | None = None
    bytes_per_s: int | None = None
    product_ceiling_share: float | None = None
    stream_ceiling_share: float | None = None

    @property
    def row(self) -> tuple[str, ...]:
        """Cells of the printed table."""
        where = f"{self.file}:{self.line}" if self.file else self.module
        backward = " backward" if self.phase == "backward" and not self.name.endswith("_backward") else ""
        name = f"{self.name.removeprefix('aten::')}{backward}"
        times = time_text(self.self_ns), percent(self.share)
        return name, where, str(self.count), *times, self.bound.value, self._ceiling

    @property
    def label(self) -> str:
        """The operation in words: its name, the calling line or else the module, and the pass."""
        where = f"{self.file}:{self.line}" if self.file else self.module
        backward = " backward" if self.phase == "backward" and not self.name.endswith("_backward") else ""
        return f"{self.name.removeprefix('aten::')}{backward} {where}".rstrip()

    @property
    def _ceiling(self) -> str:
        if self.bound is Bound.COMPUTE and self.product_ceiling_share is not None:
            return f"{percent(self.product_ceiling_share)}, {(self.flops_per_s or 0) / 1e9:.3g} GFLOP/s"
        if self.bound in {Bound.BANDWIDTH, Bound.COMPUTE} and self.stream_ceiling_share is not None:
            return f"{percent(self.stream_ceiling_share)}, {(self.bytes_per_s or 0) / 1e9:.3g} GB/s"
        return ""


@dataclass(frozen=True, slots=True)
class FunctionWitness:
    """Share of a function by one profiler, and whether it agrees; `of` names what it sampled instead."""

    tool: str
    share: float
    agrees: bool
    of: str | None = None


@dataclass(frozen=True, slots=True)
class HotFunction:
    """Function of the user with the largest share, by every profiler."""

    file: str
    line: int
    name: str
    own_share: float
    total_share: float
    witnesses: tuple[FunctionWitness, ...]

    @property
    def agreeing(self) -> tuple[str, ...]:
        """Profilers that agree."""
        return tuple(witness.tool for witness in self.witnesses if witness.agrees)


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice: its subject, the problem, the remedy, and its line if it has one."""

    about: str
    problem: str
    remedy: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class AchievedRates:
    """Rates of a whole call.

    Attributes:
        flops: Floating-point operations.
        moved_bytes: Bytes read and written.
        flops_per_s: Their rate.
        bytes_per_s: Rate of the bytes.
        product_ceiling_share: Share of the time that the products would take at the ceiling.
    """

    flops: int
    moved_bytes: int
    flops_per_s: int
    bytes_per_s: int
    product_ceiling_share: float


@dataclass(frozen=True, slots=True)
class LineTime:
    """Time of the operations of a line, and its share of a call."""

    file: str
    line: int | None
    function: str | None
    self_ns: int
    count: int | float
    share: float


@dataclass(frozen=True, slots=True)
class ModuleTime:
    """Time of the operations of a module, and its share of a call."""

    module: str
    self_ns: int
    count: int | float
    share: float


@dataclass(frozen=True, slots=True)
class FunctionTime:
    """Function of the user with its shares of a call.

    Attributes:
        file: Its file.
        line: Its first line.
        name: Its qualified name.
        by: Profiler of the shares.
        own_share: Share in itself.
        total_share: Share with everything that it calls.
        cprofile_share: The same by cProfile.
    """

    file: str
    line: int
    name: str
    by: str
    own_share: float
    total_share: float
    cprofile_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BottleneckAnalysis:
    """Bottleneck of a target with the numbers that it follows from.

    Attributes:
        bottleneck: Limiting resource with the largest share.
        share: That share.
        runner_up: Resource with the next share.
        margin: Lead of the bottleneck.
        is_clear: Whether the lead suffices.
        shares: All shares.
        call: Cost of a call.
        split: Its passes.
        overhead: Its overhead.
        ceilings: Best rates of the machine.
        achieved: Rates of the whole call.
        operations: Operations by line, costliest first.
        lines: Time by line.
        modules: Time by module.
        functions: The user's functions.
    """

    bottleneck: Bottleneck
    share: float
    runner_up: Bottleneck
    margin: float
    is_clear: bool
    shares: dict[str, float]
    call: CallCost
    split: CallSplit
    overhead: CallOverhead
    ceilings: Ceilings
    achieved: AchievedRates
    operations: tuple[ProfiledOperation, ...]
    lines: tuple[LineTime, ...]
    modules: tuple[ModuleTime, ...]
    functions: tuple[FunctionTime, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileAnalysis(BottleneckAnalysis):
    """Conclusions of a profile.

    Attributes:
        most_speedup: Speedup if the whole bottleneck were removed.
        hot: Function with the largest share; None without one.
        advice: Advice, on the bottleneck first.
        verify: Commands that repeat the measurement and that test a change.
    """

    most_speedup: float
    hot: HotFunction | None
    advice: tuple[Advice, ...]
    verify: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileMeasurements(ProfiledTarget):
    """Measured part of a profile, with the external profilers."""

    witnesses: tuple[ExternalSamples, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileResult(ProfileMeasurements):
    """Profile with its conclusions and the bottleneck in one sentence."""

    analysis: ProfileAnalysis
    headline: str
