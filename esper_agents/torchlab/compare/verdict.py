"""Verdict of a comparison, as a pure function of its measurements, so that anyone can recompute it."""

from __future__ import annotations

import re
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

from esper_agents.torchlab.compare.result import ComparisonOutcome, ComparisonVerdict
from esper_agents.torchlab.compare.statistics import Interval, speedup_interval, upper_bound
from esper_agents.torchlab.report import rounded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from esper_agents.torchlab.compare.result import ArmTimes, ComparisonMeasurements, TimedReplicate
    from esper_agents.torchlab.worker.compare.result import EquivalenceCheck


# Parts of a sentence about a difference that say how much it is, not what.
_NUMBERS = re.compile(r"\[[\d, ]*\]|-?(?:\d[\d.]*(?:e[+-]?\d+)?|\binf\b|\bnan\b)")


def judge(measured: ComparisonMeasurements) -> ComparisonVerdict:
    """Return the verdict on the measurements of a comparison."""
    failed = measured.failed_checks
    if failed and not measured.is_timed_anyway:
        return _verdict(ComparisonOutcome.WRONG, _faults(failed))
    if failed and not measured.is_timeable:
        return _verdict(ComparisonOutcome.ERROR, _faults(failed))
    if measured.error is not None:
        return _verdict(ComparisonOutcome.ERROR, [measured.error.problem])
    timed = _of_time(measured)
    if all(each.is_close for each in failed):
        return timed
    doubts = timed.because if timed.outcome is ComparisonOutcome.NOT_SHOWN else ()
    return replace(timed, outcome=ComparisonOutcome.DIFFERENT, because=(*_faults(failed), *doubts))


def _faults(failed: Sequence[EquivalenceCheck]) -> Iterator[str]:
    """Yield each fault once: those of a check that differ in numbers alone are one, with the number of its inputs."""
    alike: dict[tuple[str, str], list[EquivalenceCheck]] = {}
    for each in failed:
        alike.setdefault((each.check, _NUMBERS.sub("0", each.detail)), []).append(each)
    for first, *others in alike.values():
        elsewhere = len({each.variant for each in others} - {first.variant})
        inputs = "1 other input" if elsewhere == 1 else f"{elsewhere} other inputs"
        yield f"{first} (and on {inputs})" if elsewhere else str(first)


def _of_time(measured: ComparisonMeasurements) -> ComparisonVerdict:
    """Return the verdict on the time alone."""
    look, interval = _last_look(measured)
    if interval is None:
        return _verdict(ComparisonOutcome.NOT_SHOWN, [_too_few(measured)], is_final=False)
    return _timed(measured, look, interval)


def _timed(measured: ComparisonMeasurements, look: int, interval: Interval) -> ComparisonVerdict:
    threshold, replicates = measured.threshold, measured.rules.looks.replicates
    timed = {
        "speedup": interval,
        "latency_drop": rounded(1 - 1 / interval.estimate),
        "replicates": replicates[look],
    }
    if interval.lower >= threshold:
        if doubts := list(_doubts(measured)):
            return _verdict(ComparisonOutcome.NOT_SHOWN, doubts, **timed)
        because = f"at least {interval.lower:.4g}x faster, and {threshold:.4g}x was asked"
        return _verdict(ComparisonOutcome.FASTER, [because], **timed)
    if interval.upper < threshold:
        because = f"at most {interval.upper:.4g}x faster, and {threshold:.4g}x was asked"
        return _verdict(ComparisonOutcome.NOT_FASTER, [because], **timed)
    because = f"{threshold:.4g}x lies between {interval.lower:.4g}x and {interval.upper:.4g}x"
    return _verdict(ComparisonOutcome.NOT_SHOWN, [because], is_final=look == len(replicates) - 1, **timed)


def _verdict(
    outcome: ComparisonOutcome, because: Iterable[str], *, is_final: bool = True, **timed: Any
) -> ComparisonVerdict:
    return ComparisonVerdict(outcome=outcome, because=tuple(because), is_final=is_final, **timed)


def _too_few(measured: ComparisonMeasurements) -> str:
    needed = measured.rules.looks.replicates[0]
    return f"{len(measured.samples)} replicates were timed, and the first look needs {needed}"


def _last_look(measured: ComparisonMeasurements) -> tuple[int, Interval | None]:
    """Return the first interim analysis that decides, or the last one reached."""
    looks = measured.rules.looks
    ratios = [sample.log_ratio for sample in measured.samples]
    reached, interval = 0, None
    for number, (needed, rank) in enumerate(zip(looks.replicates, looks.ranks, strict=True)):
        if len(ratios) < needed:
            break
        reached, interval = number, speedup_interval(ratios[:needed], rank=rank, resolution=looks.resolution)
        if interval.lower >= measured.threshold or interval.upper < measured.threshold:
            break
    return reached, interval


def _doubts(measured: ComparisonMeasurements) -> Iterator[str]:
    """Yield evidence against a speedup from the clocks outside of the processes."""
    limits, samples = measured.rules.witnesses, measured.samples
    if measured.plan is not None and measured.plan.remembers:
        yield "every call gets the same inputs, so remembering an answer would look like speed: give inputs that change"
    waiting = median(_waiting(sample.baseline) for sample in samples)
    waits = waiting > limits.most_waiting and measured.device == "cpu"
    if waits and "waiting" not in measured.allow:
        yield f"the baseline waits: it takes {waiting:.3g} times its processor time, so it may have been slowed down"
    outside = _share_saved(samples, lambda arm: arm.outside_ns)
    if outside < limits.least_saved_outside:
        yield f"of the time that it claims to save, {outside:.0%} is gone on the clock outside of its process"
    if measured.threads == 1 and measured.device == "cpu" and not waits:
        processor = _share_saved(samples, lambda arm: arm.processor_ns)
        if processor < limits.least_saved_processor:
            yield f"of the time that it claims to save, {processor:.0%} is gone from its processor time"
    alone = _share_saved_alone(measured)
    if alone is not None and alone < limits.least_saved_alone:
        why = "it saves in a row of calls only"
        yield f"of the time that it claims to save, a single call saves {alone:.0%} at most: {why}"
    yield from _doubts_of_work_beside(measured)
    started = max(sample.candidate.processes_started for sample in samples)
    if started > max(sample.baseline.processes_started for sample in samples):
        yield f"it leaves {started} processes running beside it"


def _doubts_of_work_beside(measured: ComparisonMeasurements) -> Iterator[str]:
    """Yield evidence of work beside the calls: of the candidate, or of a module that slows the baseline in it."""
    limits, samples = measured.rules.witnesses, measured.samples
    late = _late_share(samples)
    if late > limits.most_late_share:
        yield f"{late:.0%} of the time that it claims to save is spent when its results are looked at"
    for name, one, other in (("it", "baseline", "candidate"), ("the baseline", "candidate", "baseline")):
        idle = median(_idle(getattr(sample, one), getattr(sample, other)) for sample in samples)
        if idle > limits.most_idle_share:
            yield f"{name} uses {idle:.0%} of a processor while it should be idle"
    others = median(_share_of_others(sample.baseline) for sample in samples)
    if measured.threads == 1 and measured.device == "cpu" and others > limits.most_other_threads:
        yield f"{others:.0%} of the baseline's processor time is that of other threads, which may slow it down"


def _waiting(arm: ArmTimes) -> float:
    """Return the ratio of an arm's best call time to its processor time, without the time that others took from it."""
    clocks = zip(arm.outside_ns, arm.queued_ns, arm.processor_ns, strict=True)
    return min((outside - queued) / max(processor, 1) for outside, queued, processor in clocks)


def _idle(baseline: ArmTimes, candidate: ArmTimes) -> float:
    """Return the candidate's share of a processor while idle, beyond the cost of replying in both arms."""
    return (candidate.idle_ns - baseline.idle_ns) / max(candidate.idle_wall_ns, 1)


def _share_saved(samples: Sequence[TimedReplicate], clock: Callable[[ArmTimes], tuple[int, ...]]) -> float:
    """Return the share of the claimed saving that another clock confirms; the median over replicates.

    That clock also counts work of both arms besides the calls, such as making the same inputs: the baseline measures
    that work.
    """
    shares = []
    for sample in samples:
        calls = [sum(both) for both in zip(sample.calls, sample.lead_in, strict=True)]
        baseline, candidate = sample.call_ns
        beside = max(min(clock(sample.baseline)), 1) - calls[0] * baseline
        confirmed = baseline - (max(min(clock(sample.candidate)), 1) - beside) / calls[1]
        shares.append(confirmed / (baseline - candidate) if baseline > candidate else 1.0)
    return median(shares)


def _share_saved_alone(measured: ComparisonMeasurements) -> float | None:
    """Return the largest share of the saving that calls on their own may have; None if none was timed.

    A candidate that treats a row of calls as one has no saving then. The first call after a pause is slower in both
    arms, often more so in the one with more operations.
    """
    samples = [each for each in measured.samples if each.baseline.single_run_ns and each.candidate.single_run_ns]
    looks = measured.rules.looks
    reached = [each for each in zip(looks.replicates, looks.ranks, strict=True) if each[0] <= len(samples)]
    if not reached:
        return None
    needed, rank = reached[-1]
    saved = [min(each.baseline.single_run_ns) - min(each.candidate.single_run_ns) for each in samples[:needed]]
    claimed = median(baseline - candidate for baseline, candidate in (each.call_ns for each in samples[:needed]))
    return upper_bound(saved, rank=rank) / claimed if claimed > 0 else None


def _late_share(samples: Sequence[TimedReplicate]) -> float:
    """Return the share of the claimed saving that the candidate spends when it shows what its calls had done.

    The smallest of all replicates: what showing takes scatters more than what most candidates save.
    """
    shares = []
    for sample in samples:
        baseline, candidate = sample.call_ns
        shown = [arm.kept_processor_ns for arm in (sample.baseline, sample.candidate)]
        is_known = all(shown) and baseline > candidate
        shares.append((min(shown[1]) - max(shown[0])) / (baseline - candidate) if is_known else 0.0)
    return min(shares)


def _share_of_others(arm: ArmTimes) -> float:
    """Return the share of the processor time of calls that is not that of the process's first thread."""
    return min(
        (one / max(all_, 1) for one, all_ in zip(arm.other_threads_ns, arm.run_processor_ns, strict=True)), default=0.0
    )
