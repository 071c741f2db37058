"""Result of a memory measurement, with its conclusions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from esper_agents.torchlab.worker.memory.result import MemoryEstimate, MemoryPeak, MemoryRun

MemoryIssueType: TypeAlias = Literal["model too large", "leak", "backward accumulation", "fragmentation", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimit:
    """Comparison with a limit.

    Attributes:
        limit_bytes: The limit.
        by: `measurement` or `estimate`; None if there is neither.
        peak_bytes: The compared peak.
        is_exceeded: Whether it exceeds the limit.
        phase: First phase that exceeds it.
        step: Step of that phase.
        phase_peak_bytes: Peak of that phase.
        steps_until: Steps until a leak exceeds it.
    """

    limit_bytes: int
    by: str | None = None
    peak_bytes: int | None = None
    is_exceeded: bool | None = None
    phase: str = ""
    step: int | None = None
    phase_peak_bytes: int = 0
    steps_until: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryIssue:
    """Kind of memory problem, with its reason.

    Attributes:
        type: Kind of the problem.
        because: Reason.
        phase: Phase of the problem, if it has one.
        step: Step of the problem, if it has one.
        repeats: Results of one operation that are alive at once within one step; 0 if they are few.
    """

    type: MemoryIssueType
    because: str
    phase: str | None = None
    step: int | None = None
    repeats: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryResult(MemoryRun):
    """Result of a memory measurement.

    Attributes:
        estimate: Estimated peak; None if there is none.
        limit: Comparison with a limit.
        verify: Command that shows whether a change helped.
        issue: Kind of problem; made by the conclusions, as are the following.
        estimate_off: Relative difference of the estimate from the run.
        headline: Peak and problem in one sentence.
        remedies: Remedies, largest saving first.
        prevention: Advice to keep the problem from recurring.
    """

    estimate: MemoryEstimate | None = None
    limit: MemoryLimit | None = None
    verify: str = ""
    issue: MemoryIssue | None = None
    estimate_off: float | str | None = None
    headline: str = ""
    remedies: tuple[str, ...] | None = None
    prevention: str = ""

    @property
    def known(self) -> MemoryPeak | None:
        """The measured peak, else the estimated one; None if there is neither."""
        return self.peak or self.estimate

    @property
    def problem(self) -> MemoryIssue:
        """The kind of problem; `none` before the conclusions."""
        return self.issue or MemoryIssue("none", "")
