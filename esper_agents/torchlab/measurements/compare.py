"""Compare a candidate with a baseline: correctness first, then speed."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from esper_agents.domain.codec import plain
from esper_agents.errors import IntegrityError, UsageError
from esper_agents.torchlab.compare.acceptance_rules import acceptance
from esper_agents.torchlab.compare.change_control import BaseRevision, ChangeControl, base_revision
from esper_agents.torchlab.compare.compare import (
    ComparisonMode,
    ComparisonRequest,
    compare,
    concluded,
    required_speedup,
)
from esper_agents.torchlab.compare.correctness import OutputMetric
from esper_agents.torchlab.compare.input_kinds import ALL_CALLS, compared_inputs, kind_of_input
from esper_agents.torchlab.compare.measure import Arm
from esper_agents.torchlab.compare.result import (
    ComparisonDurations,
    ComparisonMeasurements,
    ComparisonOutcome,
    ComparisonResult,
    ComparisonVerdict,
    StatedTolerances,
)
from esper_agents.torchlab.effort import Effort
from esper_agents.torchlab.measurement import (
    MeasuredClaim,
    MeasurementDescriptor,
    MeasurementOutline,
    PreparedOptions,
    ReportSection,
    effort_option,
    option,
    train_option,
)
from esper_agents.torchlab.measurement_codes import CANDIDATE_WRONG, NOT_AS_FAST

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.measurement import ReportSubject
    from esper_agents.torchlab.report import MeasurementReport
    from esper_agents.torchlab.target import TargetSpec, Tell

_ALLOWED = ("strides", "waiting")
_MOST_CLAIMED = 1e6
_MOST_REASONS, _MOST_KINDS, _MOST_UNTESTED, _MOST_NOTES = 12, 6, 4, 3
_CLOCKS = ("the process's own clock", "the parent's clock", "the kernel's processor time")
_STYLES = {
    ComparisonOutcome.FASTER: "bold green",
    ComparisonOutcome.NOT_FASTER: "bold red",
    ComparisonOutcome.WRONG: "bold red",
    ComparisonOutcome.DIFFERENT: "bold yellow",
    ComparisonOutcome.NOT_SHOWN: "bold yellow",
    ComparisonOutcome.ERROR: "bold red",
}


def _claimed(given: float | str) -> float | None:
    """Return a claimed speedup; None for an empty text."""
    if given == "":
        return None
    try:
        number = float(given)
    except ValueError:
        number = 0.0
    if not 1 <= number <= _MOST_CLAIMED:
        raise UsageError(
            f"invalid speed-up {str(given)!r}", remedy="give a number such as 1.3: baseline over candidate"
        )
    return number


def _mode(text: str) -> ComparisonMode:
    if text not in {*ComparisonMode}:
        raise UsageError(f"invalid mode {text!r}", remedy="use one of " + ", ".join(ComparisonMode))
    return ComparisonMode(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """Options of `esper torch compare`.

    Attributes:
        found: Revision of the baseline; made from `base` before the lab opens.
    """

    baseline: str = option(
        "",
        "Target A; B itself at --base if empty",
        is_target=True,
        in_command=False,
        tool_help="`FILE.py:NAME` of the existing code; if omitted, the candidate at `base`",
    )
    base: str = option(
        "",
        "Take A from this revision and B from the working tree",
        metavar="REV",
        tool_help="Git revision of the baseline; the work tree if omitted",
    )
    mode: ComparisonMode = option(  # noqa: RUF009 - a field
        ComparisonMode.LATENCY,
        "Measured quantity",
        parse=_mode,
        in_command=False,
        tool_type=str,
        tool_default=ComparisonMode.LATENCY.value,
        tool_help="`latency`, `throughput` or `training-step`",
        flag_of={ComparisonMode.THROUGHPUT: "throughput", ComparisonMode.TRAINING_STEP: "train"},
    )
    claim: float | None = option(
        None,
        "Claimed speedup [default: 1.25; training step 1.3]",
        metavar="RATIO",
        least=1.0,
        parse=_claimed,
        tool_type=str,
        tool_default="",
        tool_help="The claimed speed-up, such as `1.3`; if omitted, the threshold of the acceptance rules",
    )
    throughput: bool = option(default=False, text="Compare calls per second; default claim 1.3", in_tool=False)
    allow: tuple[str, ...] = option(
        (),
        "Difference to ignore: strides, waiting (repeatable)",
        metavar="DIFFERENCE",
        flags=("--ignore",),
        type_=list[str],
        in_tool=False,
    )
    metric: str = option(
        "", "Metric to compare instead of the raw outputs", metavar="FILE:FUNCTION", is_target=True, in_tool=False
    )
    tolerance: float | None = option(
        None, "Maximum difference of A and B in --metric", metavar="NUMBER", least=0.0, in_tool=False
    )
    rtol: float = option(
        0.0, "Relative difference of numbers that is no fault", metavar="NUMBER", least=0.0, in_tool=False
    )
    atol: float = option(
        0.0, "Absolute difference of numbers that is no fault", metavar="NUMBER", least=0.0, in_tool=False
    )
    flag: str = option(
        "",
        "Feature flag that disables B (recorded)",
        metavar="NAME",
        tool_help="Feature flag that disables the candidate",
    )
    time_anyway: bool = option(
        default=False,
        text="Measure the time even if the outputs differ",
        tool_help="Measure the time even if the outputs differ, as of two alternatives without a reference",
    )
    effort: Effort = effort_option(in_tool=False)  # noqa: RUF009 - a field
    train: bool = train_option(in_tool=False)
    found: BaseRevision | None = None

    def __post_init__(self) -> None:
        """Refuse options that do not go together.

        Raises:
            UsageError: They do not.
        """
        if not self.baseline and not self.base:
            raise UsageError("missing candidate", remedy="name two targets, or one and --base REVISION")
        if unknown := sorted({*self.allow} - {*_ALLOWED}):
            raise UsageError(f"invalid value of --ignore: {unknown[0]!r}", remedy="use one of " + ", ".join(_ALLOWED))
        if self.throughput and self.train:
            raise UsageError("--throughput and --train are mutually exclusive", remedy="keep one of them")
        if bool(self.metric) != (self.tolerance is not None):
            raise UsageError("--metric and --tolerance belong together", remedy="give both")

    def request(self, seed: int) -> ComparisonRequest:
        """Return the request of a comparison.

        Args:
            seed: Seed of every random choice.
        """
        mode = self.mode
        if self.train or self.throughput:
            mode = ComparisonMode.TRAINING_STEP if self.train else ComparisonMode.THROUGHPUT
        return ComparisonRequest(
            mode=mode,
            claim=self.claim,
            effort=self.effort,
            allow=self.allow,
            metric=None if self.tolerance is None else OutputMetric(self.metric, self.tolerance),
            seed=seed,
            has_extras=self.effort is not Effort.QUICK,
            is_timed_anyway=self.time_anyway,
            tolerances=StatedTolerances(self.rtol, self.atol) if self.rtol or self.atol else None,
        )


@contextmanager
def prepared(root: Path, target: str, options: CompareOptions) -> Iterator[PreparedOptions]:
    """Yield the options with the project at the revision of the baseline, if one is named."""
    with base_revision(root, options.base, target, options.baseline or target) as found:
        if found is None:
            yield PreparedOptions(options)
        else:
            yield PreparedOptions(replace(options, found=found), (found.root,), frozenset({"baseline"}))


def run(lab: Lab, target: TargetSpec, options: CompareOptions, tell: Tell | None) -> MeasurementReport:
    """Compare a target with the baseline of the options.

    Args:
        lab: Lab that runs both in measurement processes; never in this one.
        target: The candidate.
        options: The baseline, the claim and its settings.
        tell: Progress callback.

    Returns:
        A report whose `result` is a `ComparisonResult` as JSON.

    Raises:
        UsageError: A target or its inputs cannot be used.
        WorkerError: The baseline itself hung, crashed or raised.
    """
    baseline = replace(target, name=options.baseline or target.name)
    arms = Arm(baseline, options.found.root if options.found else lab.project), Arm(target, lab.project)
    governance = ChangeControl(options.found, options.flag)
    return compare(lab, *arms, options.request(target.seed), governance=governance, tell=tell)


def explained(measured: ComparisonMeasurements, _subject: ReportSubject) -> ComparisonResult:
    """Return measurements with their verdict."""
    return concluded(measured)


def remark(result: ComparisonResult, body: JsonObject) -> str:
    """Return what a stored verdict rests on besides its measurements.

    Raises:
        IntegrityError: The threshold, the allowed differences or the tolerances are not those of the request.
    """
    request = body["request"]
    asked = (
        required_speedup(result.rules, request["claim"], request["mode"]),
        tuple(request["allow"]),
        request.get("tolerances"),
    )
    judged_by = result.threshold, result.allow, plain(result.tolerances)
    if asked != judged_by:
        raise IntegrityError(
            f"the request is {asked!r:.200}, but the verdict used {judged_by!r:.200}", remedy="measure again"
        )
    return "" if result.rules == acceptance() else " (by acceptance rules that are not those of here)"


def sections(result: ComparisonResult, subject: ReportSubject) -> Iterator[ReportSection]:
    """Yield what the terminal shows."""
    verdict = result.verdict
    yield ReportSection(note=verdict.outcome.value, style=_STYLES[verdict.outcome])
    because = [("" if number else "because", each) for number, each in enumerate(verdict.because[:_MOST_REASONS])]
    more = len(verdict.because) - _MOST_REASONS
    yield ReportSection((*because, *([("", f"and {more} more in the report")] if more > 0 else [])))
    yield ReportSection(tuple(_rows(result, subject)), is_apart=True)


def _rows(result: ComparisonResult, subject: ReportSubject) -> Iterator[tuple[str, str]]:
    verdict = result.verdict
    yield "A", f"{subject.baseline}{f' at {subject.revision[:12]}' if subject.revision else ''}"
    yield "B", subject.name
    if verdict.speedup is not None:
        speedup, drop = verdict.speedup, verdict.latency_drop or 0.0
        sure = f"{speedup.confidence:.1%} sure, {verdict.replicates} pairs of processes"
        bounds = f"between {speedup.lower:.4g}x and {speedup.upper:.4g}x"
        yield "speedup", f"{speedup.estimate:.4g}x, {bounds} ({sure})"
        yield "latency", f"{drop:.1%} less" if drop >= 0 else f"{-drop:.1%} more"
        yield "a call", " against ".join(_time(each) for each in result.call_ns)
    failed = sum(not check.is_passed for check in result.checks)
    yield "checks", f"{len(result.checks)}, {f'{failed} failed' if failed else 'all passed'}"
    if tested := _tested(result):
        yield (
            "compared on",
            f"{len(tested['inputs'])} kinds of input, such as {', '.join(tested['inputs'][-_MOST_KINDS:])}",
        )
        if result.notes is not None and result.notes.notes:
            yield "differs in", "; ".join(f"{each.variant}: {each.text}" for each in result.notes.notes[:_MOST_NOTES])
        yield "not tested", "; ".join(tested["not_tested"][:_MOST_UNTESTED]) or "what no input shows, such as a date"
    if result.tolerances is not None:
        yield "tolerance", str(result.tolerances)
    yield from result.governance.said if result.governance else ()
    yield from _secondary(result)
    if result.took is not None:
        yield "took", _took(result.took)
    yield "sandbox", subject.sandbox
    yield "torch", f"{subject.torch}, {'1 thread' if result.threads == 1 else f'{result.threads} threads'}"


def _took(took: ComparisonDurations) -> str:
    parts = [("start", took.start_ns), ("correctness", took.correctness_ns), ("timing", took.timing_ns)]
    return ", ".join(f"{name} {each / 1e9:.1f} s" for name, each in parts if each is not None)


def _tested(result: ComparisonResult) -> JsonObject:
    """Return the kinds of input on which both were compared, and those on which they were not; nothing without any."""
    if result.notes is None:
        return {}
    kinds = dict.fromkeys(kind_of_input(check.variant) for check in result.checks if check.variant != ALL_CALLS)
    refused = [f"{each.what} (A refuses it: {each.message:.80})" for each in result.notes.refused]
    missing = [f"{each.what} ({each.why:.80})" for each in result.notes.missing]
    return {"inputs": list(kinds), "not_tested": [*missing, *refused]}


def _secondary(result: ComparisonResult) -> Iterator[tuple[str, str]]:
    if result.beside is None:
        return
    one, other = result.beside.baseline, result.beside.candidate
    both: tuple[tuple[str, Any, Any], ...] = (
        ("peak memory", one.peak_bytes, other.peak_bytes),
        ("graph breaks", one.graph_breaks, other.graph_breaks),
        ("operations", one.operations, other.operations),
        ("torch.compile", one.torch_compile, other.torch_compile),
    )
    for label, *pair in both:
        if pair != [None, None]:
            yield label, " against ".join("not measured" if each is None else str(each) for each in pair)


def _time(nanoseconds: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def claims(result: ComparisonResult, subject: ReportSubject) -> Iterator[MeasuredClaim]:
    """Yield a diagnostic of a candidate that is wrong, or not as fast as claimed."""
    verdict = result.verdict
    if result.is_timed_anyway:
        # Of two alternatives, neither was claimed to be the better one.
        return
    if verdict.outcome is ComparisonOutcome.WRONG:
        rule, message = CANDIDATE_WRONG, f"{subject.title} is not equivalent: {verdict.reason}"
        remedy = "do not use it; fix the failed check, and compare again"
        witnesses: tuple[str, ...] = ("the check that failed",)
    elif verdict.outcome is ComparisonOutcome.NOT_FASTER:
        rule, message = NOT_AS_FAST, f"{subject.title} is not as fast as claimed: {verdict.reason}"
        remedy, witnesses = "keep the baseline", _CLOCKS
    else:
        return
    yield MeasuredClaim(rule, subject.file, subject.line, message, remedy, witnesses, is_about_target=True)


def outline(target: str, result: ComparisonResult) -> MeasurementOutline:
    """Return the most important part of a result."""
    verdict = result.verdict
    facts: dict[str, Any] = {
        "outcome": verdict.outcome.value,
        "verdict": plain(verdict),
        "governance": plain(result.governance),
        "threshold": result.threshold,
        "tested": _tested(result),
        "tolerances": plain(result.tolerances),
    }
    witnesses = _CLOCKS[:1] if verdict.speedup is None else _CLOCKS
    said = f"{target}: {verdict}"
    if result.is_timed_anyway:
        facts["alternatives"] = _alternatives(result)
        said = f"{target}: {_told(verdict, facts['alternatives'])}"
    parts = ("plan", "checks", "error", "timed_ns", "beside", "missing")
    return MeasurementOutline(said, facts, witnesses, parts)


def _told(verdict: ComparisonVerdict, alternatives: JsonObject) -> str:
    """Return the result for two alternatives in one line."""
    if verdict.speedup is None:
        return str(verdict)
    same = f"the same on {alternatives['inputs']} kinds of input"
    if alternatives["close"]:
        same += f", {alternatives['close']} of them up to rounding"
    if alternatives["differences"]:
        same = f"different on {alternatives['different']} of {alternatives['inputs']} kinds of input"
    return f"{verdict.speedup} over {verdict.replicates} replicates; {same}"


def _alternatives(result: ComparisonResult) -> JsonObject:
    """Return on how many kinds of input two alternatives were compared, and the differences by kind of input."""
    every = (*result.checks, *(check for sample in result.samples for check in sample.rechecked))
    found = compared_inputs(every)
    return {
        "inputs": len(found.kinds),
        "close": len(found.close),
        "different": len(found.different),
        "differences": [f"{kind}: {text}" for kind, text in found.differences.items()],
        "call_ns": list(result.call_ns) if result.samples else [],
    }


def is_against(result: ComparisonResult) -> bool | None:
    """Return whether the outcome counts against the candidate; None if it is open."""
    match result.verdict.outcome:
        case ComparisonOutcome.FASTER:
            return False
        case ComparisonOutcome.NOT_FASTER | ComparisonOutcome.WRONG:
            return True
        case ComparisonOutcome.NOT_SHOWN | ComparisonOutcome.ERROR | ComparisonOutcome.DIFFERENT:
            return None


MEASUREMENT = MeasurementDescriptor(
    kind="compare",
    summary="Compare correctness and speed of A and B",
    details=(
        "First compares the outputs of both on regular and edge-case inputs. Then measures their time in pairs of new "
        "processes, until the result is significant or the time limit is reached."
    ),
    target="`FILE.py:NAME` of the code that claims to be equivalent and faster",
    examples=(
        'esper torch compare ops.py:softmax ops.py:fast_softmax --input "randn(64,128)"',
        'esper torch compare model.py:make_model --base HEAD~1 --input "randn(32,128)" --claim 1.3',
        "esper torch compare train.py:old_step train.py:new_step --train --effort thorough --flag use_fused_step",
    ),
    options=CompareOptions,
    run=run,
    is_timed=True,
    measured=ComparisonMeasurements,
    result=ComparisonResult,
    explained=explained,
    sections=sections,
    claims=claims,
    outline=outline,
    is_against=is_against,
    prepared=prepared,
    remark=remark,
    is_pair=True,
    is_judged=True,
    draws_seed=True,
)
