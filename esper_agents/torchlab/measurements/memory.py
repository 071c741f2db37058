"""Measure the memory of a target: composition, leaks, fit on a device, and remedies."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.domain.pluralize import number_of
from esper_agents.domain.quantities import bytes_text, percent, size_in_bytes
from esper_agents.errors import UsageError
from esper_agents.torchlab.measurement import (
    MeasuredClaim,
    MeasurementDescriptor,
    MeasurementOutline,
    ReportSection,
    missing_section,
    option,
    train_option,
)
from esper_agents.torchlab.measurement_codes import MEMORY_GROWS, MEMORY_PEAK, OUT_OF_MEMORY
from esper_agents.torchlab.memory.issues import issue, limit, when
from esper_agents.torchlab.memory.remedies import prevention, remedies
from esper_agents.torchlab.memory.result import MemoryLimit, MemoryResult
from esper_agents.torchlab.plot import memory_plot
from esper_agents.torchlab.report import OutputFile, now, rounded
from esper_agents.torchlab.worker.memory.result import CATEGORIES, MemoryEstimate
from esper_agents.torchlab.worker.results import MissingPart
from esper_agents.torchlab.worker_failure import WorkerError, WorkerFailureKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.measurement import ReportSubject
    from esper_agents.torchlab.report import MeasurementReport
    from esper_agents.torchlab.target import TargetSpec, Tell
    from esper_agents.torchlab.worker.memory.result import LeakSearch, MemoryHolder, MemoryPeak

OPTIMIZERS = ("sgd", "adam", "adamw", "none")
_FEWEST_STEPS = 6
_PLOT = "memory.svg"
_MOST, _BAR = 6, 24
_EVENTS, _ESTIMATE = "torch.profiler's memory events", "an estimate without running"
_STORAGES, _NODES, _COLLECTOR = "a tracker of every storage", "the nodes of autograd graphs", "the garbage collector"
_SEE_SPLIT = "see the composition of the peak; its largest part is the possible saving"
# Maximum ratio by which an estimate may differ from the measured peak that it confirms.
_NEAR = 0.05


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """Options of `esper torch memory`."""

    steps: int = option(
        8,
        "Steps of the leak search; 0 disables it",
        metavar="N",
        least=0,
        tool_help="Number of steps in which to look for growth, at least 6; 0 for none",
    )
    optimizer: str = option(
        "adamw",
        "Optimizer for --train: sgd, adam, adamw or none",
        metavar="NAME",
        tool_help="`sgd`, `adam`, `adamw` or `none`, for a module that is trained",
    )
    limit_bytes: int | None = option(
        None,
        "Memory of the device to check against, e.g. 24G",
        metavar="SIZE",
        flags=("--device-memory",),
        parse=size_in_bytes,
        type_=str,
        in_tool=False,
    )
    estimate_only: bool = option(
        default=False,
        text="Estimate from shapes without running the target",
        flags=("--estimate",),
        in_tool=False,
    )
    train: bool = train_option()


def run(lab: Lab, target: TargetSpec, options: MemoryOptions, tell: Tell | None) -> MeasurementReport:
    """Measure the memory of a target and its growth over steps.

    First estimates the memory without running. If that exceeds the limit or the lab's own limit, the target is not run.
    With `train`, also runs backward and an optimizer; a training step runs its own.

    Args:
        lab: Lab that runs the target in a measurement process; never in this one.
        target: A function, an nn.Module or a training step.
        options: The options.
        tell: Progress callback.

    Returns:
        A report whose `result` is a `MemoryResult` as JSON.

    Raises:
        UsageError: The target cannot be used, or there is no such optimizer.
        WorkerError: The target itself raised, hung or crashed.
    """
    optimizer, steps, limit_bytes = options.optimizer, options.steps, options.limit_bytes
    if optimizer not in OPTIMIZERS:
        raise UsageError(f"no optimizer named {optimizer!r}", remedy=f"name one of {', '.join(OPTIMIZERS)}")
    if steps < 0 or 0 < steps < _FEWEST_STEPS:
        raise UsageError(
            f"{steps} steps are too few to detect growth", remedy=f"use at least {_FEWEST_STEPS}, or 0 to skip it"
        )
    started = now(), time.monotonic_ns()
    request = {"train": options.train, "optimizer": optimizer, "steps": steps, "seed": target.seed}
    missing: list[MissingPart] = []
    estimate = _estimate(lab, target, request, missing, tell)
    why_not = "only an estimate was asked for" if options.estimate_only else _too_large(lab, estimate, limit_bytes)
    report: MeasurementReport | None = None
    if not why_not:
        report, why_not = _run(lab, target, request, tell)
    if report is None:
        missing.append(MissingPart("a run", why_not))
        report = lab.report("memory", target.described(), request, {}, started=started)
        measured = MemoryResult(device=target.device, categories=CATEGORIES)
    else:
        measured = MEASUREMENT.read(report)
    binding = limit_bytes if limit_bytes is not None or options.estimate_only else _exceeded(lab, estimate)
    measured = replace(
        measured,
        missing=(*missing, *(measured.missing or ())),
        estimate=estimate,
        limit=None if binding is None else MemoryLimit(limit_bytes=binding),
        verify=_verify(target, options),
    )
    report = replace(report, body={**report.body, "request": {**request, "limit_bytes": limit_bytes}})
    return _with_plot(lab, MEASUREMENT.concluded(report, measured), measured)


def explained(result: MemoryResult, _subject: ReportSubject) -> MemoryResult:
    """Return the measurements with conclusions and remedies."""
    if result.limit is not None:
        result = replace(result, limit=limit(result, result.limit.limit_bytes))
    result = replace(result, issue=issue(result), estimate_off=None)
    if result.peak is not None and result.estimate is not None and result.peak.allocated_bytes:
        off = rounded(result.estimate.allocated_bytes / result.peak.allocated_bytes - 1)
        result = replace(result, estimate_off=off)
    return replace(result, headline=headline(result), remedies=remedies(result), prevention=prevention(result))


def headline(result: MemoryResult) -> str:
    """Return the peak and its largest parts, in one sentence."""
    known = result.known
    if known is None:
        return "nothing could be measured or worked out"
    split = list(_split(known))[:2]
    mostly = ", ".join(f"{_words(name)} {percent(known.share(size))}" for name, size in split)
    phase = f" in the {known.phase} of step {known.step}" if known.phase else ""
    said = "estimated peak" if result.peak is None else "peak"
    return f"{said} {bytes_text(known.peak_bytes)}{phase}: {mostly or 'nothing'}; {result.problem.because}"


def _split(known: MemoryPeak) -> Iterator[tuple[str, int]]:
    """Yield the parts of a peak that have bytes, largest first."""
    yield from sorted((part for part in known.split_bytes.parts() if part[1]), key=lambda each: -each[1])


def _words(category: str) -> str:
    return category.replace("_", " ")


def _estimate(
    lab: Lab, target: TargetSpec, request: JsonObject, missing: list[MissingPart], tell: Tell | None
) -> MemoryEstimate | None:
    # In a separate process: an object built from fake tensors must not be run, and a crash must not end the run.
    asked = {**request, "root": str(lab.project), "target": target.request()}
    lab.warm("memory_estimate")
    try:
        with lab.worker(device=target.device) as worker:
            return worker.ask("memory_estimate", asked, tell=tell or lab.tell).read(MemoryEstimate)
    except (UsageError, WorkerError) as error:
        missing.append(MissingPart("an estimate without running", error.problem))
        return None


def _too_large(lab: Lab, estimate: MemoryEstimate | None, limit_bytes: int | None) -> str:
    """Return the reason not to run the target; empty if it may run."""
    if estimate is None:
        return ""
    peak = estimate.peak_bytes
    if limit_bytes is not None and peak > limit_bytes:
        return f"it would take {bytes_text(peak)}, more than the limit of {bytes_text(limit_bytes)}"
    allowed = _exceeded(lab, estimate)
    if allowed is not None:
        return f"it would take {bytes_text(peak)}, more than the {bytes_text(allowed)} that --max-memory allows"
    return ""


def _exceeded(lab: Lab, estimate: MemoryEstimate | None) -> int | None:
    """Return the lab's limit if it does not suffice; None if it does, or is unknown."""
    allowed = lab.settings.memory_bytes
    return allowed if estimate is not None and estimate.peak_bytes > allowed else None


def _run(lab: Lab, target: TargetSpec, request: JsonObject, tell: Tell | None) -> tuple[MeasurementReport | None, str]:
    try:
        return lab.job("memory", target, request, tell=tell), ""
    except WorkerError as error:
        if error.outcome is not WorkerFailureKind.OUT_OF_MEMORY:
            raise
        return None, error.problem


def _verify(target: TargetSpec, options: MemoryOptions) -> str:
    """Return the command that shows whether a change helped."""
    words = ["esper", "torch", "memory", target.name]
    for each in target.inputs:
        words += ["--input", each]
    if target.inputs_from:
        words += ["--inputs", target.inputs_from]
    if target.captured_from:
        words += ["--capture", target.captured_from]
    if options.train:
        words += ["--train", "--optimizer", options.optimizer]
    if target.device != "cpu":
        words += ["--device", target.device]
    words += ["--steps", str(options.steps)]
    if options.limit_bytes is not None:
        words += ["--device-memory", str(options.limit_bytes)]
    return shlex.join(words)


def _with_plot(lab: Lab, report: MeasurementReport, result: MemoryResult) -> MeasurementReport:
    """Return the report with a plot of the peak's parts, its course, and the memory left after each step."""
    if result.peak is None:
        return report
    course = [(float(t_ns), float(sum(sizes))) for t_ns, *sizes in result.peak.timeline]
    timelines = [("Allocated while it runs", course)]
    if result.leak is not None:
        left = [(float(step), float(size)) for step, size in enumerate(result.leak.live_bytes, start=1)]
        timelines.append(("Left after each step", left))
    bars = [(_words(name), size) for name, size in result.peak.split_bytes.parts() if size]
    path = lab.keep / _PLOT
    path.write_text(memory_plot(f"Memory of {report.subject.name}", timelines, bars), encoding="utf-8")
    return report.with_output(OutputFile(path, "image/svg+xml"))


def sections(result: MemoryResult, _subject: ReportSubject) -> Iterator[ReportSection]:
    """Yield what the terminal shows."""
    found = result.problem
    yield ReportSection(((found.type, result.headline),), "green" if found.type == "none" else "red")
    if result.known is not None:
        yield from _peak_sections(result.known)
    yield ReportSection((*_estimated(result), *_limited(result.limit)))
    if result.leak is not None and result.leak.is_growing:
        yield ReportSection(tuple(_leak(result.leak)), "bold")
    changes = (("change", remedy) for remedy in result.remedies or ())
    yield ReportSection((*changes, ("prevent", result.prevention), ("verify", result.verify)))
    yield missing_section(result.missing or ())


def _peak_sections(known: MemoryPeak) -> Iterator[ReportSection]:
    """Yield the parts of the peak, largest first, with a bar for each, and its largest blocks."""
    cells = tuple(
        (
            _words(name),
            bytes_text(size),
            percent(known.share(size)),
            "#" * max(1, round(_BAR * known.share(size))),
        )
        for name, size in _split(known)
    )
    yield ReportSection(cells=cells, right=frozenset({1, 2}), is_apart=True)
    rows = tuple(
        (
            each.operation or "",
            bytes_text(each.bytes or 0),
            _words(each.category or "") + (f" x {each.count}" if each.count > 1 else ""),
            each.place,
        )
        for each in known.largest[:_MOST]
    )
    yield ReportSection(heads=("at the peak", "bytes", "what", "where"), cells=rows, is_apart=True)
    yield ReportSection(is_apart=True)


def _estimated(result: MemoryResult) -> Iterator[tuple[str, str]]:
    estimate = result.estimate
    if estimate is None:
        return
    off = result.estimate_off
    of_run = f", {100 * float(off):+.2f} % of what the run allocated" if off is not None else ""
    yield "unrun", f"worked out without running: {bytes_text(estimate.peak_bytes)}{of_run}"
    if estimate.without_gradients_bytes is not None:
        yield "", f"under torch.no_grad(): {bytes_text(estimate.without_gradients_bytes)}"
    for each in estimate.assumed[:_MOST]:
        yield "assumed", " ".join(filter(None, (each.place, each.what)))


def _limited(told: MemoryLimit | None) -> Iterator[tuple[str, str]]:
    if told is None or told.peak_bytes is None:
        return
    if told.is_exceeded:
        first = when(told.phase, told.step or 0)
        yield "limit", f"{bytes_text(told.limit_bytes)}: exceeded first in {first}"
        return
    left = bytes_text(told.limit_bytes - told.peak_bytes)
    until = "" if told.steps_until is None else f", used up after about {told.steps_until} more steps"
    yield "limit", f"{bytes_text(told.limit_bytes)}: kept, {left} are left{until}"


def _leak(leak: LeakSearch) -> Iterator[tuple[str, str]]:
    for holder in leak.holders:
        yield "held by", _holder(holder)
        if holder.source is not None:
            yield "", f"{holder.file}:{holder.kept_line} | {holder.source}"
    for made in leak.made_by[:_MOST]:
        said = f"{made.operation} {number_of(made.count, 'time')}, {bytes_text(made.bytes)} {made.place}"
        yield "made by", said.rstrip()


def _holder(each: MemoryHolder) -> str:
    facts = [each.kind, f"{bytes_text(each.bytes)} in {number_of(each.tensors, 'tensor')}"]
    if each.entries is not None:
        more = "" if each.entries_per_step is None else f", {each.entries_per_step:+d} a step"
        facts.append(f"{each.container} of {each.entries}{more}")
    if each.graph_of is not None:
        facts.append(f"with the graph of {each.graph_of}")
    if each.bound is not None:
        facts.append(f"at most {each.bound}")
    return f"{each.name} ({', '.join(facts)})"


def outline(target: str, result: MemoryResult) -> MeasurementOutline:
    """Return the most important part of a result."""
    found, leak = result.problem, result.leak
    facts = {
        "status": found.type,
        "because": found.because,
        "peak_bytes": result.known and result.known.peak_bytes,
        "bytes_per_step": leak and leak.bytes_per_step,
    }
    witnesses = dict.fromkeys((*_peak_witnesses(result), *(_growth_witnesses(leak) if leak else ())))
    return MeasurementOutline(f"{target}: {result.headline}", facts, tuple(witnesses))


def _peak_witnesses(result: MemoryResult) -> tuple[str, ...]:
    if result.peak is None:
        return () if result.estimate is None else (_ESTIMATE,)
    is_near = result.estimate_off is not None and abs(float(result.estimate_off)) <= _NEAR
    return (_EVENTS, _ESTIMATE) if is_near else (_EVENTS,)


def _growth_witnesses(leak: LeakSearch) -> tuple[str, ...]:
    """Return the independent observations of memory growth."""
    if not leak.is_growing:
        return ()
    first = max(leak.judged_from_step - 1, 0)
    seen = [
        name
        for name, course in ((_STORAGES, leak.live_bytes), (_EVENTS, leak.profiler_bytes))
        if course[first:] and course[-1] > course[first]
    ]
    seen += [_NODES] if leak.graph_nodes_per_step > 0 else []
    return (*seen, *([_COLLECTOR] if leak.holders else []))


def claims(result: MemoryResult, _subject: ReportSubject) -> Iterator[MeasuredClaim]:
    """Yield diagnostics for the line that keeps memory, the one that fails and the one that reaches the peak."""
    remedy = (result.remedies or (_SEE_SPLIT,))[0]
    because, leak, failed = result.problem.because, result.leak, result.out_of_memory
    if leak is not None and leak.is_leak:
        file, line = _keeping_line(leak)
        message = f"memory grows here: {because}"
        cure = remedy.removeprefix(f"{file}:{line}: ")
        yield MeasuredClaim(MEMORY_GROWS, file, line, message, cure, _growth_witnesses(leak))
    if failed is not None:
        message, seen = f"memory runs out here: {because}", ("a run that failed", *_peak_witnesses(result))
        yield MeasuredClaim(OUT_OF_MEMORY, failed.file, failed.line, message, remedy, seen, possible=2)
    if result.known is not None:
        at = result.known.reached_by
        message = f"the peak is reached here: {result.headline.partition(';')[0]}"
        seen = _peak_witnesses(result)
        yield MeasuredClaim(MEMORY_PEAK, at.file, at.line, message, _SEE_SPLIT, seen, possible=2)


def _keeping_line(leak: LeakSearch) -> tuple[str, int]:
    """Return the line that retains the growing memory, else the retainer's line, else the line that created it."""
    for holder in leak.holders[:1]:
        if holder.file:
            return holder.file, holder.kept_line or holder.line or 0
    for made in leak.made_by[:1]:
        if made.file:
            return made.file, made.line or 0
    return "", 0


MEASUREMENT = MeasurementDescriptor(
    kind="memory",
    summary="Measure memory use and detect leaks",
    details=(
        "Estimates and measures the peak: parameters, gradients, optimizer state and activations. Reports memory that "
        "grows from step to step and the object that holds it."
    ),
    examples=(
        "esper torch memory train.py:make_step --steps 20",
        'esper torch memory model.py:make_model --input "randn(32,128)" --train --optimizer adam --device-memory 24G',
        "esper torch memory model.py:make_model --capture train.py --train --estimate",
    ),
    options=MemoryOptions,
    run=run,
    measured=MemoryResult,
    result=MemoryResult,
    explained=explained,
    sections=sections,
    claims=claims,
    outline=outline,
    is_against=lambda result: result.problem.type != "none",
    fail_on="leak",
    fail_help="Exit 3 on a leak or above --device-memory",
)
