"""Equivalence check: outputs from fresh processes, judged in a process without user code."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from esper_agents.domain.codec import plain
from esper_agents.errors import UsageError
from esper_agents.torchlab.compare.measure import Referee, started
from esper_agents.torchlab.compare.result import RUNS, ComparisonNotes, StatedTolerances
from esper_agents.torchlab.lab import LabSettings
from esper_agents.torchlab.target import TargetSpec
from esper_agents.torchlab.worker.compare.result import (
    EquivalenceCheck,
    EquivalenceJudgement,
    MetricReadings,
    PlannedCalls,
    TimedCallChecks,
)
from esper_agents.torchlab.worker_failure import WorkerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.compare.measure import Arm
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.target import Tell
    from esper_agents.torchlab.worker_handle import WorkerReply

# Maximum runs of the baseline on inputs one ulp away; ends earlier once the referee needs no more.
_MOST_SHIFTED = 6
_MOST_BUDGET_S = 10.0
# A step of the candidate may take as long as this many of the longest step of the baseline, and at least this long:
# its first call may import and run a compiler.
_MOST_RUNS, _LEAST_SILENCE_S = 25.0, 15.0


@dataclass(frozen=True, slots=True)
class OutputMetric:
    """User's metric for an output.

    Attributes:
        name: `FILE:FUNCTION`; called as `metric(output, *args, **kwargs)` with the inputs of the call.
        tolerance: Allowed difference of the metric between the arms.
    """

    name: str
    tolerance: float


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """Time for an equivalence check.

    Attributes:
        budget_s: Time in seconds for trying inputs on the baseline.
        run_s: Time limit in seconds of one run of a side; that of the lab if None.
        is_thorough: Whether calls are tried in every further way, however long that takes.
    """

    budget_s: float = _MOST_BUDGET_S
    run_s: float | None = None
    is_thorough: bool = False


class Correctness:
    """Equivalence check of one comparison; a context manager that keeps the observations until it ends.

    Attributes:
        notes: Notes of the referee, besides its checks.
        is_stateless: Whether the output of a call is independent of the number of earlier calls.
    """

    def __init__(
        self,
        lab: Lab,
        arms: tuple[Arm, Arm],
        *,
        seed: int,
        train: bool,
        allow: Sequence[str],
        metric: OutputMetric | None = None,
        limits: CheckLimits | None = None,
        tolerances: StatedTolerances | None = None,
    ) -> None:
        """Prepare the check.

        Args:
            lab: The lab.
            arms: Baseline and candidate.
            seed: Seed of all inputs.
            train: Whether to compare gradients.
            allow: Checks whose failure is allowed.
            metric: User's metric for outputs, instead of the numeric tolerance.
            tolerances: Differences that are no faults, beyond what rounding explains.
            limits: Time for the checks.
        """
        self._limits = limits or CheckLimits()
        self._stated: JsonObject = {} if tolerances is None else plain(tolerances)
        self._lab, self._arms, self._metric = lab, arms, metric
        self._seed, self._train, self._allow = seed, train, sorted(allow)
        self._readings: JsonObject = {}
        self._scales: JsonObject = {}
        self._seen_files: dict[str, int] = {}
        self.notes = ComparisonNotes()
        self.is_stateless = True

    def __enter__(self) -> Self:
        """Start the referee."""
        self._open = ExitStack()
        self._referee = self._open.enter_context(self._lab.worker(label="referee"))
        return self

    def __exit__(self, *_: object) -> None:
        """End the referee and close the observations."""
        self._open.close()

    def checks(self, tell: Tell) -> tuple[EquivalenceCheck, ...]:
        """Return every check of the candidate against the baseline.

        Raises:
            UsageError: A target or its inputs cannot be used, or the baseline is not deterministic.
            WorkerError: The baseline hung, crashed or raised.
        """
        tell("planning the inputs of both sides", 0.0)
        request = {"seed": self._seed, "train": self._train, "budget_s": self._limits.budget_s}
        if self._limits.is_thorough:
            request["further_s"] = _MOST_BUDGET_S
        answer = self._seen(0, "plan", request)
        planned, summary = self._hold(answer), answer.read(PlannedCalls)
        self.is_stateless = summary.is_stateless
        if summary.needs_compiler:
            # Otherwise each of the processes below would import it separately.
            self._lab.warm("observe")
        seen, baseline_s = [("plan", planned)], 0.0
        for number, (role, arm, more) in enumerate(_RUNS):
            tell(_WORDS[role], 0.1 + 0.2 * number)
            try:
                limit_s = self._longest_step_s(baseline_s) if arm == 1 else None
                seen.append((role, self._hold(self._seen(arm, "observe", more, files=(planned,), silence_s=limit_s))))
                baseline_s = max(baseline_s, self._longest_s)
            except WorkerError as error:
                if arm == 1:
                    first = self._last_step or "its first call"
                    return (EquivalenceCheck(RUNS, first, is_passed=False, detail=error.problem),)
                if role == "reference":
                    # Some code has no float64 version; the referee then uses the effect of one ulp in the inputs.
                    continue
                raise
        if self._metric is not None:
            self._readings = self._read(self._metric, dict(seen))
        self._seen_files = dict(seen)
        return self._judged(seen, planned, tell)

    def _longest_step_s(self, baseline_s: float) -> float:
        """Return the time limit of one step of the candidate; a longer limit of the lab lengthens it in proportion."""
        share = max(1.0, self._lab.settings.timeout_s / LabSettings().timeout_s)
        return share * max(_LEAST_SILENCE_S, _MOST_RUNS * baseline_s)

    def _read(self, metric: OutputMetric, seen: dict[str, int]) -> JsonObject:
        files = (seen["plan"], seen["baseline"], seen["candidate"])
        with self._lab.worker(label="metric") as worker:
            # It is called with outputs, not with inputs.
            worker.load(TargetSpec(metric.name, ("None",)))
            found = worker.ask("metric", {}, files=files).read(MetricReadings)
        return {"readings": found.readings, "tolerance": metric.tolerance}

    def _judged(self, seen: list[tuple[str, int]], planned: int, tell: Tell) -> tuple[EquivalenceCheck, ...]:
        judgement = self._judge(seen)
        for number in range(_MOST_SHIFTED):
            if judgement.is_settled:
                break
            tell("running the baseline on inputs an ulp away", 0.9)
            shifted = self._seen(0, "observe", {"jitter": self._seed + number + 1, "distinct": True}, files=(planned,))
            seen.append(("shifted", self._hold(shifted)))
            judgement = self._judge(seen)
        if judgement.nondeterministic:
            raise UsageError(
                f"{self._arms[0].target.name!r} is not deterministic: {judgement.nondeterministic[0].detail:.200}",
                remedy="make it deterministic for a seed, or judge it by --metric FILE:FUNCTION --tolerance NUMBER",
            )
        self._scales = judgement.scales
        self.notes = ComparisonNotes(judgement.notes, judgement.refused, judgement.missing, judgement.parameters)
        return judgement.checks

    def referee(self) -> Referee:
        """Return the judges of timed processes; `checks` has been called."""
        return Referee(self._seen_files["plan"], self._calls, self._processes)

    def _calls(
        self, baseline: WorkerReply, candidate: WorkerReply, seed: int, calls: Sequence[int]
    ) -> tuple[EquivalenceCheck, ...]:
        known = self.notes.parameters
        hidden = [] if known is None else [*known.unmatched, *known.moved]
        request = {
            "phase": "timed",
            "scales": self._scales,
            "calls": list(calls),
            "hidden": hidden,
            "rtol": 0.0,
            "atol": 0.0,
            **self._stated,
        }
        return self._checked(request, (*baseline.files, *candidate.files), f"a timed call (seed {seed})")

    def _processes(self, baseline: WorkerReply, candidate: WorkerReply) -> tuple[EquivalenceCheck, ...]:
        observed = tuple(self._seen_files[role] for role in ("baseline", "candidate"))
        files = (*baseline.files, *candidate.files)
        return self._checked({"phase": "processes"}, files, "the timed processes", before=observed)

    def _checked(
        self, request: JsonObject, files: tuple[int, ...], variant: str, *, before: tuple[int, ...] = ()
    ) -> tuple[EquivalenceCheck, ...]:
        """Ask the referee about the files of two replies, and close them."""
        try:
            asked = {**request, "variant": variant, "allow": self._allow}
            return self._referee.ask("referee", asked, files=(*before, *files)).read(TimedCallChecks).checks
        finally:
            for file in files:
                os.close(file)

    def _judge(self, seen: list[tuple[str, int]]) -> EquivalenceJudgement:
        request = {
            "phase": "judge",
            "roles": [role for role, _ in seen],
            "allow": self._allow,
            **self._readings,
            **self._stated,
        }
        answer = self._referee.ask("referee", request, files=tuple(each for _, each in seen))
        return answer.read(EquivalenceJudgement)

    def _seen(
        self,
        arm: int,
        job: str,
        request: JsonObject,
        *,
        files: tuple[int, ...] = (),
        silence_s: float | None = None,
    ) -> WorkerReply:
        self._last_step, self._longest_s = "", 0.0
        side = self._arms[arm]
        label = ("baseline", "candidate")[arm]
        with started(self._lab, side, label) as worker:
            worker.load(side.target)
            self._step_begun = time.monotonic()
            reply = worker.ask(
                job, request, files=files, timeout_s=self._limits.run_s, silence_s=silence_s, tell=self._step
            )
            self._step(self._last_step, 1.0)
            return reply

    def _step(self, what: str, _fraction: float) -> None:
        now = time.monotonic()
        self._longest_s = max(self._longest_s, now - self._step_begun)
        self._last_step, self._step_begun = what, now

    def _hold(self, answer: WorkerReply) -> int:
        for file in answer.files:
            self._open.callback(os.close, file)
        return answer.files[0]


_RUNS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("baseline", 0, {}),
    ("again", 0, {}),
    ("reference", 0, {"precision": "float64", "distinct": True}),
    ("candidate", 1, {"needs_memory": True}),
)
_WORDS = {
    "baseline": "running the baseline",
    "again": "running the baseline again",
    "reference": "running the baseline in float64",
    "candidate": "running the candidate",
}
