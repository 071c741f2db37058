"""Result of a comparison: its measurements and its verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from esper_agents.torchlab.compare.acceptance_rules import AcceptanceRules
from esper_agents.torchlab.compare.change_control import ChangeRecord
from esper_agents.torchlab.compare.statistics import Interval
from esper_agents.torchlab.worker.compare.result import (
    BaselineRefusal,
    ComparisonNote,
    EquivalenceCheck,
    MatchedParameters,
)
from esper_agents.torchlab.worker.results import MissingPart

# Check that fails if the candidate does not take the inputs of the baseline.
RUNS = "runs"


class ComparisonOutcome(StrEnum):
    """Outcome of a comparison."""

    FASTER = "faster as claimed"
    NOT_FASTER = "not as fast as claimed"
    NOT_SHOWN = "not shown"
    WRONG = "wrong"
    DIFFERENT = "different results"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ComparisonNotes:
    """Notes of an equivalence check, besides its checks.

    Attributes:
        notes: Differences that are no faults.
        refused: Inputs that the baseline refuses.
        missing: Checks that could not be made.
        parameters: Matching of the parameters; None for a function.
    """

    notes: tuple[ComparisonNote, ...] = ()
    refused: tuple[BaselineRefusal, ...] = ()
    missing: tuple[MissingPart, ...] = ()
    parameters: MatchedParameters | None = None


@dataclass(frozen=True, slots=True)
class StatedTolerances:
    """Differences that the user calls no faults.

    Attributes:
        rtol: As a share of the baseline's number.
        atol: In its unit.
    """

    rtol: float = 0.0
    atol: float = 0.0

    def __str__(self) -> str:
        """Return both."""
        return f"rtol {self.rtol:g}, atol {self.atol:g}, as stated"


@dataclass(frozen=True, slots=True)
class TimingPlan:
    """Timing plan shared by all replicates, fixed by a pilot before the first.

    Attributes:
        calls: Timed calls in a batch of the baseline and of the candidate. Their batches take about as long, so that
            constant costs per batch, and interruptions, do not change the ratio.
        lead_in: Untimed calls at the start of a batch, in both arms.
        quads: Number of quads of batches.
        warm_calls: Calls before any timing.
        train: Whether a call is forward and backward.
        remembers: Whether every call gets the same inputs, because integers cannot be varied.
    """

    calls: tuple[int, int]
    lead_in: tuple[int, int]
    quads: int
    warm_calls: int
    train: bool
    remembers: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmTimes:
    """Times of one arm in a replicate.

    Attributes:
        batch_ns: Time of each batch by the clock of its process.
        outside_ns: The same by the clock of the lab.
        processor_ns: Processor time of the process during each batch, by the kernel.
        queued_ns: Time for which it was runnable but not running.
        idle_ns: Processor time between its batches.
        idle_wall_ns: Wall time between its batches.
        processes_started: Number of processes that it left running.
        run_ns: Time from the signal to start each batch until its reply, by the clock of the lab, without the time for
            which other programs held the processor: its untimed and timed calls. Empty in reports of acceptance
            rules 1, in which the process made its inputs in the same time.
        run_processor_ns: Processor time of the process in that time, by the kernel.
        other_threads_ns: The part of it that was not its first thread's.
        kept_processor_ns: Processor time to show what a call had done for the first time, beyond that to show it
            again.
        empty_run_ns: The same of batches without calls.
        single_run_ns: The same of batches of one call.
    """

    batch_ns: tuple[int, ...]
    outside_ns: tuple[int, ...]
    processor_ns: tuple[int, ...]
    queued_ns: tuple[int, ...]
    idle_ns: int
    idle_wall_ns: int
    processes_started: int
    run_ns: tuple[int, ...] = ()
    run_processor_ns: tuple[int, ...] = ()
    other_threads_ns: tuple[int, ...] = ()
    kept_processor_ns: tuple[int, ...] = ()
    empty_run_ns: tuple[int, ...] = ()
    single_run_ns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedReplicate:
    """Times of both arms in one fresh pair of processes.

    Attributes:
        seed: Seed of every random choice.
        calls: Timed calls in a batch of each arm.
        lead_in: Untimed calls before them.
        processor: Processor that both arms shared; None for several.
        order: Arms in the order of their batches.
        baseline: Times of the baseline.
        candidate: Times of the candidate.
        rechecked: Checks of outputs of timed calls.
    """

    seed: int
    calls: tuple[int, int]
    lead_in: tuple[int, int]
    processor: int | None
    order: str
    baseline: ArmTimes
    candidate: ArmTimes
    rechecked: tuple[EquivalenceCheck, ...]

    @property
    def call_ns(self) -> tuple[float, float]:
        """Time of a call of the baseline and of the candidate, each from its fastest batch by the clock of the lab."""
        arms = (self.baseline, self.candidate)
        if not all(each.run_ns for each in arms):
            return min(self.baseline.batch_ns) / self.calls[0], min(self.candidate.batch_ns) / self.calls[1]
        # What a request takes is the same for both; of two measurements the smaller one claims less.
        beside = min((each for arm in arms for each in arm.empty_run_ns), default=0)
        times = [
            max(min(arm.run_ns) - beside, 1) / (calls + more)
            for arm, calls, more in zip(arms, self.calls, self.lead_in, strict=True)
        ]
        return times[0], times[1]

    @property
    def log_ratio(self) -> float:
        """Logarithm of the baseline's time over the candidate's."""
        baseline, candidate = self.call_ns
        return math.log(baseline / candidate)


@dataclass(frozen=True, slots=True)
class ArmMetrics:
    """Secondary metrics of one arm; None for what could not be measured.

    Attributes:
        peak_bytes: Peak memory of a call.
        torch_compile: Status of `torch.compile`.
        graph_breaks: Number of graph breaks.
        operations: Number of operations in the graphs.
    """

    peak_bytes: int | None = None
    torch_compile: str | None = None
    graph_breaks: int | None = None
    operations: int | None = None


@dataclass(frozen=True, slots=True)
class SecondaryMetrics:
    """Secondary metrics of both arms."""

    baseline: ArmMetrics
    candidate: ArmMetrics


@dataclass(frozen=True, slots=True)
class CandidateFailure:
    """Failure of the candidate's process while it was timed.

    Attributes:
        outcome: Kind of failure.
        problem: The failure in one line.
        where: `file:line` in the user's code; empty if unknown.
        said: End of its printed output.
    """

    outcome: str
    problem: str
    where: str
    said: str


@dataclass(frozen=True, slots=True)
class ComparisonDurations:
    """Durations of the parts of a comparison.

    Attributes:
        start_ns: Start of the lab.
        correctness_ns: Equivalence check.
        timing_ns: Timing, without waiting for the turn; None if nothing was timed.
    """

    start_ns: int
    correctness_ns: int
    timing_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonMeasurements:
    """Measured part of a comparison.

    Attributes:
        rules: Acceptance rules.
        threshold: Required speedup.
        threads: Number of threads of torch.
        device: Device of the candidate.
        allow: Allowed differences.
        checks: Checks of the candidate against the baseline.
        samples: Timed replicates.
        notes: Notes of the equivalence check; None before it.
        plan: Timing plan; None if nothing was timed.
        timed_ns: Time of all replicates; None if nothing was timed, or the candidate failed.
        error: Failure of the candidate while it was timed.
        beside: Secondary metrics.
        governance: Change control; None outside a report.
        is_timed_anyway: Whether different results do not end the comparison.
        tolerances: Stated tolerances; None for those that follow from the rounding of the baseline.
        took: Durations of the parts; None in reports of earlier versions.
    """

    rules: AcceptanceRules
    threshold: float
    threads: int
    device: str
    allow: tuple[str, ...]
    checks: tuple[EquivalenceCheck, ...]
    samples: tuple[TimedReplicate, ...]
    notes: ComparisonNotes | None = None
    plan: TimingPlan | None = None
    timed_ns: int | None = None
    error: CandidateFailure | None = None
    beside: SecondaryMetrics | None = None
    governance: ChangeRecord | None = None
    is_timed_anyway: bool = False
    tolerances: StatedTolerances | None = None
    took: ComparisonDurations | None = None

    @property
    def failed_checks(self) -> tuple[EquivalenceCheck, ...]:
        """Failed checks, those of timed calls last."""
        every = (*self.checks, *(check for sample in self.samples for check in sample.rechecked))
        return tuple(each for each in every if not each.is_passed)

    @property
    def is_timeable(self) -> bool:
        """Whether the checks permit that the time is measured."""
        failed = [check.check for check in self.checks if not check.is_passed]
        return not failed or (self.is_timed_anyway and RUNS not in failed)

    @property
    def call_ns(self) -> tuple[float, float]:
        """Time of a call of the baseline and of the candidate, each from its fastest batch of all."""
        every = [sample.call_ns for sample in self.samples]
        return min(baseline for baseline, _ in every), min(candidate for _, candidate in every)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonVerdict:
    """Verdict of a comparison.

    Attributes:
        outcome: The outcome.
        because: A sentence for each reason.
        is_final: Whether a further replicate could not change the outcome.
        speedup: Speedup with its interval; None if it was not timed enough.
        latency_drop: Fraction by which a call is shorter.
        replicates: Number of replicates of the speedup.
    """

    outcome: ComparisonOutcome
    because: tuple[str, ...]
    is_final: bool
    speedup: Interval | None = None
    latency_drop: float | None = None
    replicates: int | None = None

    @property
    def reason(self) -> str:
        """The first reason and the number of others, or both reasons."""
        first, *more = self.because
        return f"{first}; and {len(more)} more" if len(more) > 1 else "; ".join((first, *more))

    def __str__(self) -> str:
        """Return the outcome, the speedup with its interval, and the reason."""
        if self.speedup is None:
            return f"{self.outcome}: {self.reason}"
        return f"{self.outcome} ({self.speedup} over {self.replicates} replicates): {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonResult(ComparisonMeasurements):
    """Comparison with its verdict."""

    verdict: ComparisonVerdict

    @property
    def headline(self) -> str:
        """The outcome with all reasons."""
        return f"{self.verdict.outcome}: {'; '.join(self.verdict.because)}"
