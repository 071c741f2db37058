"""Compare two functions: equivalence first, then speed, with one verdict for the report."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from esper_agents.errors import IntegrityError
from esper_agents.torchlab.compare import measure
from esper_agents.torchlab.compare.acceptance_rules import acceptance
from esper_agents.torchlab.compare.change_control import ChangeControl
from esper_agents.torchlab.compare.correctness import Correctness, OutputMetric
from esper_agents.torchlab.compare.secondary_metrics import secondary_metrics
from esper_agents.torchlab.compare.verdict import ComparisonOutcome, judge
from esper_agents.torchlab.report import SCHEMA, MeasurementReport, now
from esper_agents.torchlab.worker_failure import WorkerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.compare.measure import Arm
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.target import Tell
    from esper_agents.torchlab.worker_handle import WorkerReply


Recheck: TypeAlias = "Callable[[WorkerReply, WorkerReply, int], list[JsonObject]]"


class ComparisonMode(StrEnum):
    """Measured quantity of a comparison; each has its own threshold."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"
    TRAINING_STEP = "training-step"


class Effort(StrEnum):
    """Measurement time of a comparison, after the equivalence check."""

    QUICK = "quick"
    NORMAL = "normal"
    THOROUGH = "thorough"


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
        has_extras: Whether to measure memory and graphs of both arms too; they decide nothing.
    """

    mode: ComparisonMode = ComparisonMode.LATENCY
    claim: float | None = None
    effort: Effort = Effort.NORMAL
    allow: tuple[str, ...] = ()
    metric: OutputMetric | None = None
    seed: int = 0
    has_extras: bool = True

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
    about = (governance or ChangeControl()).described(question.seed)
    body = {
        "schema": SCHEMA,
        "kind": "compare",
        "started_at": started_at,
        "duration_ns": time.monotonic_ns() - started_ns,
        "environment": environment,
        "sandbox": lab.choice.described(),
        "arms": {"baseline": baseline.target.described(), "candidate": candidate.target.described()},
        "request": question.described(),
        "result": {**measured, "governance": about, "verdict": judge(measured)},
        "artifacts": [],
    }
    return MeasurementReport("compare", body)


def recheck(report: MeasurementReport) -> JsonObject:
    """Recompute the verdict of a comparison from its report alone.

    Raises:
        IntegrityError: The verdict does not follow from the measurements, or its settings differ from the request.
    """
    stated = report.result.get("verdict")
    try:
        request, result = report.body["request"], report.result
        asked = _threshold(result["rules"], request["claim"], request["mode"]), request["allow"]
        judged_by = result["threshold"], result["allow"]
        verdict = judge({name: part for name, part in report.result.items() if name != "verdict"})
    except (KeyError, TypeError, ValueError, ZeroDivisionError, AttributeError) as error:
        raise IntegrityError("the report lacks measurements for its verdict", remedy="measure again") from error
    if asked != judged_by:
        raise IntegrityError(
            f"the request is {asked!r:.200}, but the verdict used {judged_by!r:.200}", remedy="measure again"
        )
    if verdict != stated:
        raise IntegrityError(
            f"the verdict is {stated!r:.200}, but its measurements give {verdict!r:.200}", remedy="measure again"
        )
    return verdict


def empty_measurement(lab: Lab, candidate: Arm, question: ComparisonRequest) -> dict[str, Any]:
    """Return an empty measurement of a comparison."""
    rules = acceptance()
    return {
        "rules": rules,
        "threshold": _threshold(rules, question.claim, question.mode.value),
        "threads": lab.settings.threads,
        "device": candidate.target.device.partition(":")[0],
        "allow": sorted(question.allow),
        "checks": [],
        "samples": [],
    }


def _threshold(rules: JsonObject, claim: float | None, mode: str) -> float:
    """Return the required speedup: the claim, or the rules' threshold without a claim."""
    asked: float = rules["threshold"][mode] if claim is None else claim
    return asked


def time_until_decided(
    lab: Lab,
    arms: tuple[Arm, Arm],
    question: ComparisonRequest,
    measured: dict[str, Any],
    *,
    recheck: Recheck,
    tell: Tell,
    is_stateless: bool = True,
) -> None:
    """Time pairs of fresh processes until an interim analysis decides, or time runs out.

    Args:
        lab: The lab.
        arms: Baseline and candidate.
        question: The claim and its settings.
        measured: As `empty_measurement` returns it; receives `plan`, `samples` and `timed_ns`.
        recheck: Compares both outputs of a timed call.
        tell: Progress callback.
        is_stateless: Whether the output of a call is independent of the number of earlier calls.

    Raises:
        WorkerError: An arm failed.
    """
    rules, samples = measured["rules"], measured["samples"]
    plan = measure.calibrate(
        lab, *arms, rules, train=question.is_training, seed=question.seed, is_stateless=is_stateless
    )
    measured["plan"] = plan.described()
    begun_ns, limit_s, looks = time.monotonic_ns(), _limit_s(rules, question), rules["looks"]["replicates"]
    for number, seed in enumerate(measure.seeds(question.seed)):
        spent_s = (time.monotonic_ns() - begun_ns) / 1e9
        tell(f"timing, pair {number + 1} of at most {looks[-1]}", min(spent_s / limit_s, 0.99))
        samples.append(measure.replicate(lab, arms, plan, seed=seed, recheck=recheck))
        spent_s = (time.monotonic_ns() - begun_ns) / 1e9
        # With slow calls, the first interim analysis still has to be reached, even if time runs out.
        is_out_of_time = len(samples) >= looks[0] and spent_s + spent_s / len(samples) > limit_s
        has_failed = any(not each["is_passed"] for each in samples[-1]["rechecked"])
        if has_failed or is_out_of_time or (len(samples) in looks and judge(measured)["is_final"]):
            break
    measured["timed_ns"] = time.monotonic_ns() - begun_ns


def _measured(lab: Lab, arms: tuple[Arm, Arm], question: ComparisonRequest, tell: Tell) -> JsonObject:
    measured = empty_measurement(lab, arms[1], question)
    training = question.is_training
    with Correctness(
        lab, arms, seed=question.seed, train=training, allow=question.allow, metric=question.metric
    ) as correctness:
        measured["checks"] = correctness.checks(tell)
        measured["notes"] = correctness.notes
        if judge(measured)["outcome"] == ComparisonOutcome.WRONG:
            return measured
        try:
            time_until_decided(
                lab,
                arms,
                question,
                measured,
                recheck=correctness.recheck,
                tell=tell,
                is_stateless=correctness.is_stateless,
            )
        except WorkerError as error:
            if error.label != "candidate":
                raise
            measured["error"] = error.described()
    if question.has_extras:
        measured["beside"] = secondary_metrics(lab, arms, train=training, tell=tell)
    return measured


def _limit_s(rules: JsonObject, question: ComparisonRequest) -> float:
    match question.effort:
        case Effort.QUICK:
            return float(rules["timing"]["quick_limit_s"])
        case Effort.NORMAL:
            return float(rules["timing"]["limit_s"])
        case Effort.THOROUGH:
            return float(rules["timing"]["thorough_limit_s"])
