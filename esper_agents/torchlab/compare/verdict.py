"""Verdict of a comparison, as a pure function of its report, so that anyone can recompute it."""

from __future__ import annotations

from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING, Any

from esper_agents.torchlab.compare.measure import log_ratio
from esper_agents.torchlab.compare.statistics import Interval, speedup_interval
from esper_agents.torchlab.report import rounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.domain.codec import JsonObject


_ARMS = ("baseline", "candidate")


class ComparisonOutcome(StrEnum):
    """Outcome of a comparison."""

    FASTER = "faster as claimed"
    NOT_FASTER = "not as fast as claimed"
    NOT_SHOWN = "not shown"
    WRONG = "wrong"
    ERROR = "error"


def judge(measured: JsonObject) -> JsonObject:
    """Return the verdict on the measurements of a comparison.

    Args:
        measured: `checks`, `samples`, `threshold`, `rules` (a copy of the acceptance rules), `threads`, `device`,
            `allow`, and `error` if a measurement process failed.

    Returns:
        `outcome`, `because` (one sentence for each reason), and if both were timed `speedup`, `latency_drop`,
        `replicates` and `is_final`: whether a further replicate could still change the outcome.
    """
    failed = [each for each in measured["checks"] if not each["is_passed"]]
    failed += [each for sample in measured["samples"] for each in sample["rechecked"] if not each["is_passed"]]
    if failed:
        return _verdict(ComparisonOutcome.WRONG, [_check_text(each) for each in failed])
    if measured.get("error"):
        return _verdict(ComparisonOutcome.ERROR, [measured["error"]["problem"]])
    look, interval = _last_look(measured)
    if interval is None:
        return _verdict(ComparisonOutcome.NOT_SHOWN, [_too_few(measured)], is_final=False)
    return _timed(measured, look, interval)


def _timed(measured: JsonObject, look: int, interval: Interval) -> JsonObject:
    threshold = measured["threshold"]
    timed = {
        "speedup": {
            "estimate": interval.estimate,
            "lower": interval.lower,
            "upper": interval.upper,
            "confidence": interval.confidence,
        },
        "latency_drop": rounded(1 - 1 / interval.estimate),
        "replicates": measured["rules"]["looks"]["replicates"][look],
    }
    if interval.lower >= threshold:
        doubts = list(_doubts(measured))
        if doubts:
            return _verdict(ComparisonOutcome.NOT_SHOWN, doubts, **timed)
        return _verdict(
            ComparisonOutcome.FASTER,
            [f"at least {interval.lower:.4g}x faster, and {threshold:.4g}x was asked"],
            **timed,
        )
    if interval.upper < threshold:
        because = f"at most {interval.upper:.4g}x faster, and {threshold:.4g}x was asked"
        return _verdict(ComparisonOutcome.NOT_FASTER, [because], **timed)
    is_last = look == len(measured["rules"]["looks"]["replicates"]) - 1
    because = f"{threshold:.4g}x lies between {interval.lower:.4g}x and {interval.upper:.4g}x"
    return _verdict(ComparisonOutcome.NOT_SHOWN, [because], is_final=is_last, **timed)


def _verdict(outcome: ComparisonOutcome, because: list[str], *, is_final: bool = True, **timed: Any) -> JsonObject:
    return {"outcome": outcome.value, "because": because, "is_final": is_final, **timed}


def _check_text(check: JsonObject) -> str:
    return f"{check['check']} on {check['variant']}: {check['detail']}"


def _too_few(measured: JsonObject) -> str:
    needed = measured["rules"]["looks"]["replicates"][0]
    return f"{len(measured['samples'])} replicates were timed, and the first look needs {needed}"


def _last_look(measured: JsonObject) -> tuple[int, Interval | None]:
    """Return the first interim analysis that decides, or the last one reached."""
    looks = measured["rules"]["looks"]
    ratios = [log_ratio(each) for each in measured["samples"]]
    reached, interval = 0, None
    for number, (needed, rank) in enumerate(zip(looks["replicates"], looks["ranks"], strict=True)):
        if len(ratios) < needed:
            break
        reached, interval = number, speedup_interval(ratios[:needed], rank=rank, resolution=looks["resolution"])
        if interval.lower >= measured["threshold"] or interval.upper < measured["threshold"]:
            break
    return reached, interval


def _doubts(measured: JsonObject) -> Iterator[str]:
    """Yield evidence against a speedup from the clocks outside of the processes."""
    limits, samples = measured["rules"]["witnesses"], measured["samples"]
    if measured["plan"]["remembers"]:
        yield "every call gets the same inputs, so remembering an answer would look like speed: give inputs that change"
    waiting = median(_waiting(each["baseline"]) for each in samples)
    waits = waiting > limits["most_waiting"] and measured["device"] == "cpu"
    if waits and "waiting" not in measured["allow"]:
        yield f"the baseline waits: it takes {waiting:.3g} times its processor time, so it may have been slowed down"
    outside = _share_saved(samples, "outside_ns")
    if outside < limits["least_saved_outside"]:
        yield f"of the time that it claims to save, {outside:.0%} is gone on the clock outside of its process"
    if measured["threads"] == 1 and measured["device"] == "cpu" and not waits:
        processor = _share_saved(samples, "processor_ns")
        if processor < limits["least_saved_processor"]:
            yield f"of the time that it claims to save, {processor:.0%} is gone from its processor time"
    idle = median(_idle(each["baseline"], each["candidate"]) for each in samples)
    if idle > limits["most_idle_share"]:
        yield f"it uses {idle:.0%} of a processor while it should be idle"
    started = max(each["candidate"]["processes_started"] for each in samples)
    if started > max(each["baseline"]["processes_started"] for each in samples):
        yield f"it leaves {started} processes running beside it"


def _waiting(arm: JsonObject) -> float:
    """Return the ratio of an arm's best call time to its processor time, without the time that others took from it."""
    clocks = zip(arm["outside_ns"], arm["queued_ns"], arm["processor_ns"], strict=True)
    times: list[float] = [(outside - queued) / max(processor, 1) for outside, queued, processor in clocks]
    return min(times)


def _idle(baseline: JsonObject, candidate: JsonObject) -> float:
    """Return the candidate's share of a processor while idle, beyond the cost of replying in both arms."""
    beyond: int = candidate["idle_ns"] - baseline["idle_ns"]
    wall: int = candidate["idle_wall_ns"]
    return beyond / max(wall, 1)


def _least(arm: JsonObject, clock: str) -> int:
    least: int = min(arm[clock])
    return max(least, 1)


def _share_saved(samples: Sequence[JsonObject], clock: str) -> float:
    """Return the share of the claimed saving that another clock confirms; the median over replicates.

    That clock also counts work of both arms besides the calls, such as making the same inputs: the baseline measures
    that work.
    """
    shares = []
    for each in samples:
        calls = [sum(both) for both in zip(each["calls"], each["lead_in"], strict=True)]
        baseline, candidate = (_least(each[arm], "batch_ns") / n for arm, n in zip(_ARMS, each["calls"], strict=True))
        beside = _least(each["baseline"], clock) - calls[0] * baseline
        confirmed = baseline - (_least(each["candidate"], clock) - beside) / calls[1]
        shares.append(confirmed / (baseline - candidate) if baseline > candidate else 1.0)
    return median(shares)
