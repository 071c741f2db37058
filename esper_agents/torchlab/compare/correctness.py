"""Equivalence check: outputs from fresh processes, judged in a process without user code."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from esper_agents.domain.codec import plain
from esper_agents.errors import UsageError
from esper_agents.torchlab.compare.measure import Referee, contention, started, usable_processors
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
from esper_agents.torchlab.worker_failure import WorkerError, WorkerFailureKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.compare.measure import Arm
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.target import Tell
    from esper_agents.torchlab.worker_handle import WorkerHandle, WorkerReply

# Maximum runs of the baseline on inputs one ulp away; ends earlier once the referee needs no more.
_MOST_SHIFTED = 6
_MOST_BUDGET_S = 10.0
# A step of the candidate may take as long as this many of the longest step of the baseline, and at least this long;
# longer if its file names a compiler, which its first call may import and run.
_MOST_RUNS, _LEAST_STEP_S, _LEAST_COMPILING_S, _LEAST_LOAD_S = 25.0, 5.0, 60.0, 15.0
# Where other programs use the processors, the limits are longer by what the baseline waited for one, up to this factor.
_MOST_CONTENTION = 4.0
# A phase of a timing has a pilot of three calls.
_STEPS_OF_A_PHASE = 6
# Memory of the candidate, as a multiple of the baseline's peak, and at least this much.
_MOST_MEMORY, _LEAST_MEMORY_BYTES = 16, 4 << 30


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


@dataclass(frozen=True, slots=True)
class CandidateBounds:
    """Limits of the candidate's processes, derived from the baseline.

    Attributes:
        step_s: Time of one step; that of the lab if None.
        run_s: Time of all steps; that of the lab if None.
        load_s: Time to import the target; that of the lab if None.
        memory_bytes: Memory; that of the lab if None.
    """

    step_s: float | None = None
    run_s: float | None = None
    load_s: float | None = None
    memory_bytes: int | None = None


@dataclass
class _Observation:
    """Run of one side through the plan.

    Attributes:
        role: Its role for the referee.
        arm: 0 for the baseline, 1 for the candidate.
        worker: Its process.
        silence_s: Time limit of one step.
        file: File of the target, by the process; None if it is outside of the project.
        loaded_s: Time to import the target.
        error: Failure before the run began.
        last_step: Step that the process began last.
        longest_s: Time of the longest step.
    """

    role: str
    arm: int
    worker: WorkerHandle
    silence_s: float | None
    file: str | None = None
    loaded_s: float = 0.0
    error: WorkerError | None = None
    last_step: str = ""
    longest_s: float = 0.0
    _begun: float = 0.0
    _asked: float = 0.0

    @property
    def took_s(self) -> float:
        """Time since the run began."""
        return time.monotonic() - self._asked

    def answered(self, run_s: float | None) -> WorkerReply:
        """Return the reply, and note how long each step took."""
        self._begun = self._asked = time.monotonic()
        reply = self.worker.answer(timeout_s=run_s, silence_s=self.silence_s, tell=self._step)
        self._step(self.last_step, 1.0)
        return reply

    def _step(self, what: str, _fraction: float) -> None:
        now = time.monotonic()
        self.longest_s = max(self.longest_s, now - self._begun)
        self.last_step, self._begun = what, now


class _CandidateError(Exception):
    """The candidate hung, crashed or raised, which a check says."""

    def __init__(self, check: EquivalenceCheck) -> None:
        super().__init__(check.detail)
        self.check = check


class Correctness:
    """Equivalence check of one comparison; a context manager that keeps the observations until it ends.

    Attributes:
        notes: Notes of the referee, besides its checks.
        is_stateless: Whether the output of a call is independent of the number of earlier calls.
        arms: Baseline and candidate, with the limits of their processes.
        bounds: Limits of the candidate's processes.
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
        self.arms, self.bounds = arms, CandidateBounds()
        self._processors: list[int | None] = []
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
        answer = self._seen("plan", request)
        planned, summary = self._hold(answer), answer.read(PlannedCalls)
        self.is_stateless = summary.is_stateless
        if summary.needs_compiler:
            # Otherwise each of the processes below would import it separately.
            self._lab.warm("observe")
        seen = [("plan", planned)]
        for roles in _in_turns(self._at_once()):
            runs = [self._begun(role, planned) for role in roles]
            try:
                for number, run in enumerate(runs):
                    tell(_WORDS[run.role], 0.1 + 0.1 * (len(seen) + number))
                    seen += self._finished(run)
            except _CandidateError as failed:
                return (failed.check,)
            finally:
                for run in runs:
                    run.worker.kill()
        if self._metric is not None:
            self._readings = self._read(self._metric, dict(seen))
        self._seen_files = dict(seen)
        return self._judged(seen, planned, tell)

    def _at_once(self) -> int:
        """Return how many runs have processors and memory at the same time, beside the referee."""
        is_on_host = all(arm.target.device == "cpu" for arm in self._arms)
        return min(2, max(1, usable_processors() // self._lab.settings.threads)) if is_on_host else 1

    def _begun(self, role: str, planned: int) -> _Observation:
        """Return a run of a side through the plan, which has begun."""
        arm, more = _RUNS[role]
        silence_s = self.bounds.step_s if arm == 1 else None
        side = self.arms[arm]
        worker = started(self._lab, side, ("baseline", "candidate")[arm], beside=self._processors)
        self._processors.append(worker.cpu)
        run = _Observation(role, arm, worker, silence_s)
        try:
            begun = time.monotonic()
            run.file = worker.load(side.target, timeout_s=self.bounds.load_s if arm == 1 else None).file
            run.loaded_s = time.monotonic() - begun
            worker.begin("observe", more, files=(planned,))
        except WorkerError as error:
            # Of several runs, each fails where its turn comes.
            run.error = error
        except BaseException:
            worker.kill()
            raise
        return run

    def _finished(self, run: _Observation) -> list[tuple[str, int]]:
        """Return the role and the observations of a run; nothing if there are none without which a judgement can do.

        Raises:
            _CandidateError: The candidate hung, crashed or raised.
            WorkerError: The baseline did.
        """
        run_s = self._limits.run_s or (self.bounds.run_s if run.arm == 1 else None)
        try:
            if run.error is not None:
                raise run.error
            reply = run.answered(run_s)
        except WorkerError as error:
            if run.arm == 1:
                at, detail = run.last_step or "its first call", error.problem
                has_hung = error.outcome is WorkerFailureKind.HANG and error is not run.error
                if has_hung and run_s is not None and run.took_s >= run_s:
                    detail = f"its calls take more than {run_s:.3g} s together; --timeout allows more"
                if error.outcome is WorkerFailureKind.OUT_OF_MEMORY and self.bounds.memory_bytes is not None:
                    detail += f"; it may use {self.bounds.memory_bytes / (1 << 30):.1f} GiB, by what A uses"
                raise _CandidateError(EquivalenceCheck(RUNS, at, is_passed=False, detail=detail)) from error
            if run.role == "reference":
                # Some code has no float64 version; the referee then uses the effect of one ulp in the inputs.
                return []
            raise
        if run.role == "baseline":
            self._bound(run)
        return [(run.role, self._hold(reply))]

    def _bound(self, run: _Observation) -> None:
        """Bound the candidate's processes by what the baseline took."""
        settings = self._lab.settings
        crowding = min(contention(run.worker.pid), _MOST_CONTENTION)
        share_of_time = crowding * max(1.0, settings.timeout_s / LabSettings().timeout_s)
        share_of_memory = max(1.0, settings.memory_bytes / LabSettings().memory_bytes)
        is_compiling = _may_compile(self._arms[1], run.file)
        least_s = _LEAST_COMPILING_S if is_compiling else _LEAST_STEP_S
        step_s = min(share_of_time * max(least_s, _MOST_RUNS * run.longest_s), settings.timeout_s)
        self.bounds = CandidateBounds(
            step_s,
            # Each further dtype, layout and mode may be compiled again: that is progress, no hang.
            settings.timeout_s + (share_of_time * _LEAST_COMPILING_S if is_compiling else 0.0),
            min(share_of_time * max(_LEAST_LOAD_S, _MOST_RUNS * run.loaded_s), settings.timeout_s),
            int(share_of_memory * max(_LEAST_MEMORY_BYTES, _MOST_MEMORY * run.worker.peak_bytes())),
        )
        phase_s = min(_STEPS_OF_A_PHASE * step_s, settings.timeout_s)
        candidate = replace(self.arms[1], memory_bytes=self.bounds.memory_bytes, phase_s=phase_s)
        self.arms = self.arms[0], candidate

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
            shifted = self._seen("observe", {"jitter": self._seed + number + 1, "distinct": True}, files=(planned,))
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

    def _seen(self, job: str, request: JsonObject, *, files: tuple[int, ...] = ()) -> WorkerReply:
        """Return the reply of a new process of the baseline."""
        with started(self._lab, self._arms[0], "baseline") as worker:
            worker.load(self._arms[0].target)
            return worker.ask(job, request, files=files, timeout_s=self._limits.run_s)

    def _hold(self, answer: WorkerReply) -> int:
        for file in answer.files:
            self._open.callback(os.close, file)
        return answer.files[0]


def _in_turns(at_once: int) -> list[tuple[str, ...]]:
    """Return the roles of the runs that are made at the same time: those of the candidate follow the baseline's."""
    if at_once == 1:
        return [(role,) for role in _RUNS]
    return [("baseline", "again"), ("reference", "candidate")]


def _may_compile(arm: Arm, file: str | None) -> bool:
    """Return whether a file of an arm names a compiler, so that its first call may take long."""
    named, root = arm.target.name.partition(":")[0], arm.root.resolve()
    for each in {named, file or named}:
        # The process says which file it is: nothing outside of the project is read.
        path = (root / each).resolve()
        with suppress(OSError, ValueError):
            if path.is_relative_to(root) and "compile" in path.read_text(encoding="utf-8", errors="replace"):
                return True
    return False


# Of each role: which side, and the request.
_RUNS: dict[str, tuple[int, dict[str, Any]]] = {
    "baseline": (0, {}),
    "again": (0, {}),
    "reference": (0, {"precision": "float64", "distinct": True}),
    "candidate": (1, {"needs_memory": True}),
}
_WORDS = {
    "baseline": "running the baseline",
    "again": "running the baseline again",
    "reference": "running the baseline in float64",
    "candidate": "running the candidate",
}
