"""Results of the jobs of a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..results import MissingPart


@dataclass(frozen=True, slots=True)
class EquivalenceCheck:
    """One check of a candidate against its baseline.

    Attributes:
        check: Name of the check, such as `values`.
        variant: Input on which it was made.
        is_passed: Whether it passed, or its failure is allowed.
        detail: The difference, or `the same`.
        numbers: Measured numbers; None without any.
        calls: Number of calls in a row that it stands for; None for one call.
        failed_calls: Number of them that failed.
    """

    check: str
    variant: str
    is_passed: bool
    detail: str
    numbers: dict[str, Any] | None = None
    calls: int | None = None
    failed_calls: int | None = None

    @property
    def is_close(self) -> bool:
        """Whether it failed, but `torch.testing.assert_close` accepts every difference."""
        return not self.is_passed and bool(self.numbers) and (self.numbers or {}).get("is_close") is True

    def __str__(self) -> str:
        """Return the check, its input and the difference."""
        return f"{self.check} on {self.variant}: {self.detail}"


@dataclass(frozen=True, slots=True)
class UnstableOutput:
    """Output in which two runs of the baseline on the same inputs and seeds differ."""

    variant: str
    check: str
    detail: str


@dataclass(frozen=True, slots=True)
class ComparisonNote:
    """Difference that is no fault, with the input on which it was seen."""

    variant: str
    text: str


@dataclass(frozen=True, slots=True)
class BaselineRefusal:
    """Input that the baseline refuses.

    Attributes:
        what: The input.
        type: Class of the error.
        message: First line of its text.
        is_deliberate: Whether the code raises it on purpose.
        file: File of the line that raised it; None outside the project.
        line: That line.
    """

    what: str
    type: str
    message: str
    is_deliberate: bool
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class MatchedParameters:
    """Parameters of a candidate for those of the baseline.

    Attributes:
        matched: Number of parameters with a counterpart.
        how: Way in which they were matched.
        unmatched: Names of the baseline without a counterpart.
        moved: Names of the baseline that the candidate's own loading renamed.
        extra: Names of the candidate without a counterpart.
    """

    matched: int
    how: str
    unmatched: tuple[str, ...]
    moved: tuple[str, ...]
    extra: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EquivalenceJudgement:
    """Judgement of the equivalence of a candidate.

    Attributes:
        checks: The checks.
        is_settled: Whether further runs of the baseline could not change a check.
        nondeterministic: Outputs of the baseline that are not repeatable.
        notes: Differences that are no faults.
        refused: Inputs that the baseline refuses.
        missing: Checks that could not be made.
        parameters: Matching of the parameters; None for a function.
        scales: Differences of the runs on plain inputs by leaf, for `judge_timed`.
    """

    checks: tuple[EquivalenceCheck, ...]
    is_settled: bool
    nondeterministic: tuple[UnstableOutput, ...]
    notes: tuple[ComparisonNote, ...]
    refused: tuple[BaselineRefusal, ...]
    missing: tuple[MissingPart, ...]
    parameters: MatchedParameters | None
    scales: dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class TimedCallChecks:
    """Checks of one timed call."""

    checks: tuple[EquivalenceCheck, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCalls:
    """Summary of a plan of calls.

    Attributes:
        steps: Names of the calls.
        refused: Inputs that the baseline refuses.
        missing: Calls skipped for lack of time or memory.
        working: Dtype in which random numbers are drawn.
        coarsest: Coarsest dtype in which the baseline computes.
        is_stateless: Whether the output of a call is independent of earlier calls.
        call_ns: Time of a call of the baseline.
        needs_compiler: Whether the target has imported torch's compiler.
    """

    steps: tuple[str, ...]
    refused: tuple[BaselineRefusal, ...]
    missing: tuple[MissingPart, ...]
    working: str
    coarsest: str
    is_stateless: bool
    call_ns: int
    needs_compiler: bool


@dataclass(frozen=True, slots=True)
class MetricReadings:
    """Values of a user's metric by input, for the baseline and the candidate."""

    readings: dict[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class WarmedArm:
    """Costs of an arm after its first calls.

    Attributes:
        call_ns: Time of the fastest call.
        input_ns: Time to make one input.
        input_bytes: Size of one input.
        remembers: Whether every call would get the same inputs, because integers cannot be varied.
    """

    call_ns: int
    input_ns: int
    input_bytes: int
    remembers: bool


@dataclass(frozen=True, slots=True)
class TimedBatch:
    """Time of a batch of calls by the clock of the process that ran it."""

    batch_ns: int
