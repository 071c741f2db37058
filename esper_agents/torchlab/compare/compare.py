"""Compare two functions: equivalence first, then speed, with one verdict for the report."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from esper_agents.domain.codec import plain
from esper_agents.torchlab.compare import measure
from esper_agents.torchlab.compare.acceptance_rules import AcceptanceRules, acceptance
from esper_agents.torchlab.compare.change_control import ChangeControl
from esper_agents.torchlab.compare.correctness import CheckLimits, Correctness, OutputMetric
from esper_agents.torchlab.compare.result import (
    CandidateFailure,
    ComparisonDurations,
    ComparisonMeasurements,
    ComparisonOutcome,
    ComparisonResult,
    StatedTolerances,
)
from esper_agents.torchlab.compare.secondary_metrics import secondary_metrics
from esper_agents.torchlab.compare.verdict import judge
from esper_agents.torchlab.effort import Effort
from esper_agents.torchlab.report import SCHEMA, MeasurementReport, now
from esper_agents.torchlab.worker.results import shallow
from esper_agents.torchlab.worker_failure import WorkerError

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.compare.measure import Arm, Referee
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.target import Tell


class ComparisonMode(StrEnum):
    """Measured quantity of a comparison; each has its own threshold."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"
    TRAINING_STEP = "training-step"


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    """Claim of a comparison and settings for testing it.

    Attributes:
        mode: Measured quantity.
        claim: Claimed speedup; None for the threshold of the acceptance rules.
        effort: Measurement time.
        allow: Allowed differences: `strides`, `waiting`.
        metric: User's metric for outputs, instead of the numeric tolerance.
        seed: Seed of every random choice.
        has_extras: Whether to measure the memory of both arms too, if B is faster as claimed, and their graphs if the
            effort is thorough; they decide nothing.
        is_timed_anyway: Whether different results do not end the comparison.
        tolerances: Stated tolerances; None for those that follow from the rounding of the baseline.
    """

    mode: ComparisonMode = ComparisonMode.LATENCY
    claim: float | None = None
    effort: Effort = Effort.NORMAL
    allow: tuple[str, ...] = ()
    metric: OutputMetric | None = None
    seed: int = 0
    has_extras: bool = True
    is_timed_anyway: bool = False
    tolerances: StatedTolerances | None = None

    @property
    def is_training(self) -> bool:
        """Whether to compare gradients."""
        return self.mode is ComparisonMode.TRAINING_STEP

    def described(self) -> JsonObject:
        """Return the request as stored in reports."""
        return {
            "mode": self.mode.value,
            "claim": self.claim,
            "effort": self.effort.value,
            "allow": sorted(self.allow),
            "metric": self.metric and {"name": self.metric.name, "tolerance": self.metric.tolerance},
            "seed": self.seed,
            **({"time_anyway": True} if self.is_timed_anyway else {}),
            **({"tolerances": plain(self.tolerances)} if self.tolerances is not None else {}),
        }


def compare(
    lab: Lab,
    baseline: Arm,
    candidate: Arm,
    question: ComparisonRequest | None = None,
    *,
    governance: ChangeControl | None = None,
    tell: Tell | None = None,
) -> MeasurementReport:
    """Compare a candidate with a baseline.

    Args:
        lab: Lab, opened with the roots of both arms.
        baseline: The existing code.
        candidate: The code that claims to be equivalent and faster.
        question: The claim and its settings.
        governance: Origin of the baseline, and the rollback.
        tell: Progress callback.

    Returns:
        A report whose verdict can be recomputed from it.

    Raises:
        UsageError: A target or its inputs cannot be used.
        WorkerError: The baseline itself hung, crashed or raised.
    """
    question = question or ComparisonRequest()
    started_at, started_ns = now(), time.monotonic_ns()
    environment = lab.environment()
    measured = _measured(lab, (baseline, candidate), question, tell or lab.tell)
    record = (governance or ChangeControl()).record(question.seed)
    body = {
        "schema": SCHEMA,
        "kind": "compare",
        "started_at": started_at,
        "duration_ns": time.monotonic_ns() - started_ns,
        "environment": {**environment, **lab.packages_not_run()},
        "sandbox": lab.choice.described(),
        "arms": {"baseline": baseline.target.described(), "candidate": candidate.target.described()},
        "request": question.described(),
        "result": plain(concluded(replace(measured, governance=record))),
        "artifacts": [],
    }
    return MeasurementReport("compare", body)


def concluded(measured: ComparisonMeasurements) -> ComparisonResult:
    """Return measurements with their verdict."""
    return ComparisonResult(**shallow(measured), verdict=judge(measured))


def empty_measurement(lab: Lab, candidate: Arm, question: ComparisonRequest) -> ComparisonMeasurements:
    """Return an empty measurement of a comparison."""
    rules = acceptance()
    return ComparisonMeasurements(
        rules=rules,
        threshold=required_speedup(rules, question.claim, question.mode.value),
        threads=lab.settings.threads,
        device=candidate.target.device.partition(":")[0],
        allow=tuple(sorted(question.allow)),
        checks=(),
        samples=(),
        is_timed_anyway=question.is_timed_anyway,
        tolerances=question.tolerances,
    )


def required_speedup(rules: AcceptanceRules, claim: float | None, mode: str) -> float:
    """Return the required speedup: the claim, or the rules' threshold without a claim."""
    return rules.threshold[mode] if claim is None else claim


def time_until_decided(
    lab: Lab,
    arms: tuple[Arm, Arm],
    question: ComparisonRequest,
    measured: ComparisonMeasurements,
    *,
    referee: Referee,
    tell: Tell,
    is_stateless: bool = True,
) -> ComparisonMeasurements:
    """Time pairs of fresh processes until an interim analysis decides, or time runs out.

    Args:
        lab: The lab.
        arms: Baseline and candidate.
        question: The claim and its settings.
        measured: Measurements before the timing.
        referee: Judges what the timed processes did.
        tell: Progress callback.
        is_stateless: Whether the output of a call is independent of the number of earlier calls.

    Returns:
        The measurements with `plan`, `samples` and `timed_ns`, or with the `error` of the candidate.

    Raises:
        WorkerError: The baseline failed.
    """
    rules = measured.rules
    try:
        plan = measure.calibrate(
            lab,
            *arms,
            rules,
            train=question.is_training,
            seed=question.seed,
            is_stateless=is_stateless,
            plan_file=referee.plan,
        )
        measured = replace(measured, plan=plan)
        begun_ns, limit_s, looks = time.monotonic_ns(), _limit_s(rules, question), rules.looks.replicates
        for number, seed in enumerate(measure.seeds(question.seed)):
            spent_s = (time.monotonic_ns() - begun_ns) / 1e9
            tell(f"timing, pair {number + 1} of at most {looks[-1]}", min(spent_s / limit_s, 0.99))
            sample = measure.replicate(lab, arms, plan, seed=seed, referee=referee)
            measured = replace(measured, samples=(*measured.samples, sample))
            timed = len(measured.samples)
            spent_s = (time.monotonic_ns() - begun_ns) / 1e9
            # With slow calls, the first interim analysis still has to be reached, even if time runs out.
            is_out_of_time = timed >= looks[0] and spent_s + spent_s / timed > limit_s
            has_failed = not question.is_timed_anyway and not all(each.is_passed for each in sample.rechecked)
            if has_failed or is_out_of_time or (timed in looks and judge(measured).is_final):
                break
    except WorkerError as error:
        if error.label != "candidate":
            raise
        return replace(measured, error=CandidateFailure(error.outcome.value, error.problem, error.where, error.said))
    return replace(measured, timed_ns=time.monotonic_ns() - begun_ns)


def _measured(lab: Lab, arms: tuple[Arm, Arm], question: ComparisonRequest, tell: Tell) -> ComparisonMeasurements:
    training = question.is_training
    with Correctness(
        lab,
        arms,
        seed=question.seed,
        train=training,
        allow=question.allow,
        metric=question.metric,
        limits=CheckLimits(is_thorough=question.effort is Effort.THOROUGH),
        tolerances=question.tolerances,
    ) as correctness:
        begun_ns = time.monotonic_ns()
        checks = correctness.checks(tell)
        took = ComparisonDurations(lab.start_ns, time.monotonic_ns() - begun_ns)
        empty = empty_measurement(lab, arms[1], question)
        measured = replace(empty, checks=checks, notes=correctness.notes, took=took)
        if not measured.is_timeable:
            return measured
        with lab.timing_turn(tell, *(arm.target.device for arm in arms)):
            begun_ns = time.monotonic_ns()
            measured = time_until_decided(
                lab,
                correctness.arms,
                question,
                measured,
                referee=correctness.referee(),
                tell=tell,
                is_stateless=correctness.is_stateless,
            )
            measured = replace(measured, took=replace(took, timing_ns=time.monotonic_ns() - begun_ns))
    # They say what a speedup costs; without one, there is nothing to weigh.
    is_thorough = question.effort is Effort.THOROUGH
    if question.has_extras and (is_thorough or judge(measured).outcome is ComparisonOutcome.FASTER):
        beside = secondary_metrics(lab, arms, train=training, has_graphs=is_thorough, tell=tell)
        return replace(measured, beside=beside)
    return measured


def _limit_s(rules: AcceptanceRules, question: ComparisonRequest) -> float:
    match question.effort:
        case Effort.QUICK:
            return rules.timing.quick_limit_s
        case Effort.NORMAL:
            return rules.timing.limit_s
        case Effort.THOROUGH:
            return rules.timing.thorough_limit_s
