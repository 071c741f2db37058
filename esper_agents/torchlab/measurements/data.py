"""Measure whether the input pipeline is the bottleneck of a training step."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal

from esper_agents.domain.pluralize import number_of
from esper_agents.domain.quantities import percent, time_text
from esper_agents.torchlab.effort import Effort
from esper_agents.torchlab.measurement import (
    MeasuredClaim,
    MeasurementDescriptor,
    MeasurementOutline,
    ReportSection,
    effort_option,
    missing_section,
    option,
)
from esper_agents.torchlab.measurement_codes import DATA_WAITS
from esper_agents.torchlab.report import now
from esper_agents.torchlab.worker.data.result import DatasetLines, DataTimes, LoaderVariant
from esper_agents.torchlab.worker.results import shallow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.measurement import ReportSubject
    from esper_agents.torchlab.report import MeasurementReport
    from esper_agents.torchlab.target import TargetSpec, Tell

_SECONDS = {Effort.QUICK: 6.0, Effort.NORMAL: 20.0, Effort.THOROUGH: 60.0}
# Shares of the time from which data are the bottleneck, or a cost worth naming.
_BOTTLENECK, _COST = 0.5, 0.1
# A setting is recommended if each of at least three rounds is faster than each of the loader's own, by this ratio.
_LEAST_ROUNDS, _LEAST_SPEEDUP = 3, 1.05
_LEAST_SHARE = 0.005
_CLOCK, _LINES = "clocks round the loader and the step", "a trace of the lines"


@dataclass(frozen=True, slots=True)
class DataOptions:
    """Options of `esper torch data`."""

    step: str = option("", "Callable that takes a batch, or a factory of it", metavar="FILE.py:NAME", is_target=True)
    batch_size: int = option(32, "Batch size if the target is a dataset", metavar="N", least=1)
    effort: Effort = effort_option()  # noqa: RUF009 - a field


@dataclass(frozen=True, slots=True)
class LoaderGain:
    """Measured effect of another setting.

    Attributes:
        setting: The setting as keyword arguments of DataLoader.
        before_ns: Median time of an iteration with the loader's own setting.
        after_ns: Median with this setting.
        speedup: before over after.
        lowest: Fastest round of the own setting over the slowest of this one.
        highest: Slowest round of the own setting over the fastest of this one.
        rounds: Rounds of this setting.
    """

    setting: str
    before_ns: int
    after_ns: int
    speedup: float
    lowest: float
    highest: float
    rounds: int


@dataclass(frozen=True, slots=True)
class HotLine:
    """Most expensive line of the dataset.

    Attributes:
        file: File, relative to the project.
        line: Line number.
        share: Its part of the traced time of a batch, without inner functions of the project.
        sample_ns: That share of the time of a sample without the trace; None if the batch size is unknown.
    """

    file: str
    line: int
    share: float
    sample_ns: int | None


@dataclass(frozen=True, slots=True)
class DataResult(DataTimes):
    """Result with its conclusions.

    Attributes:
        status: `data` if the input pipeline is the bottleneck, `partly` if it costs a tenth or more, `step` if
            not, `no-step` if no step was given.
        is_clear: Whether every round gives that status.
        share: Part of an iteration in which the step waits, median over the rounds.
        headline: The status in one sentence.
        gain: The recommended setting; None if no setting is faster in every round.
        hot: The most expensive line; None if not measured.
        change: The suggested changes, in words.
    """

    status: Literal["data", "partly", "step", "no-step"]
    is_clear: bool
    share: float
    headline: str
    gain: LoaderGain | None
    hot: HotLine | None
    change: tuple[str, ...]


def run(lab: Lab, target: TargetSpec, options: DataOptions, tell: Tell | None) -> MeasurementReport:
    """Measure an input pipeline against a step.

    Args:
        lab: Lab that runs the code in a measurement process; never in this one.
        target: `FILE.py:NAME` of a DataLoader, a dataset, or a function without arguments that returns one.
        options: The options.
        tell: Progress callback.

    Returns:
        A report whose `result` is a `DataResult` as JSON.

    Raises:
        UsageError: The target or the step cannot be used.
        WorkerError: The dataset or the step raised, hung or crashed.
        EvidenceError: The measurement process returned an invalid result.
    """
    seconds = _SECONDS[options.effort]
    asked = {"step": options.step, "batch_size": options.batch_size, "seconds": seconds, "seed": target.seed}
    own = {
        "root": str(lab.project),
        "name": target.name,
        "device": target.device,
        "memory_bytes": lab.settings.memory_bytes,
    }
    started = now(), time.monotonic_ns()
    lab.warm("data")
    with lab.timing_turn(tell, target.device), lab.worker(device=target.device) as worker:
        patience_s = lab.settings.timeout_s + 2 * seconds
        answer = worker.ask("data", {**asked, **own}, timeout_s=patience_s, tell=tell or lab.tell, name=target.name)
    loader = answer.read(DataTimes).loader
    place = {"file": loader.file or None, "line": loader.line if loader.file else None}
    about = {**target.described(), "kind": "loader", **place}
    return MEASUREMENT.concluded(lab.report("data", about, asked, answer.result, started=started))


def explained(times: DataTimes, _subject: ReportSubject) -> DataResult:
    """Return the measured times with their conclusions; a pure function of the times.

    Raises:
        ValueError: The loader's own setting was not measured.
    """
    own = times.variants[0]
    if not own.rounds:
        raise ValueError("the loader's own setting was not measured")
    shares = [each.wait_ns / each.batch_ns for each in own.rounds]
    share = median(shares)
    status = _status(share, times)
    gain, hot = _gain(times), _hot(times)
    return DataResult(
        **shallow(times),
        status=status,
        is_clear=all(_status(each, times) == status for each in shares),
        share=round(share, 3),
        headline=_headline(status, share, own),
        gain=gain,
        hot=hot,
        change=tuple(_changes(times, status, gain, hot)),
    )


def _status(share: float, times: DataTimes) -> Literal["data", "partly", "step", "no-step"]:
    if times.step is None:
        return "no-step"
    return "data" if share >= _BOTTLENECK else "partly" if share >= _COST else "step"


def _headline(status: str, share: float, own: LoaderVariant) -> str:
    whole_ns = own.typical_ns
    wait_ns = median(each.wait_ns for each in own.rounds)
    waits = f"the step waits {time_text(wait_ns)} of {time_text(whole_ns)} per batch ({percent(share)})"
    match status:
        case "data":
            return f"the input pipeline is the bottleneck: {waits}"
        case "partly":
            return f"the input pipeline is not the bottleneck, but it costs time: {waits}"
        case "step":
            return f"the input pipeline is not the bottleneck: {waits}"
        case _:
            return f"the loader delivers a batch every {time_text(whole_ns)}; a shorter step waits for it"


def _faster(times: DataTimes) -> Iterator[LoaderVariant]:
    """Yield the settings that are faster in every round."""
    own = times.variants[0]
    if len(own.rounds) < _LEAST_ROUNDS:
        return
    fastest_ns = min(each.batch_ns for each in own.rounds)
    for variant in times.variants[1:]:
        if variant.error or len(variant.rounds) < _LEAST_ROUNDS:
            continue
        if fastest_ns >= _LEAST_SPEEDUP * max(each.batch_ns for each in variant.rounds):
            yield variant


def _shares_data(variant: LoaderVariant, times: DataTimes) -> bool:
    """Return whether a setting loads each sample once, as far as the measurement can tell."""
    return times.loader.kind != "iterable" or variant.num_workers <= 1 or variant.repeats_data is False


def _gain(times: DataTimes) -> LoaderGain | None:
    usable = [each for each in _faster(times) if _shares_data(each, times)]
    if not usable:
        return None
    fastest_ns = min(each.typical_ns for each in usable)
    near = [each for each in usable if each.typical_ns <= _LEAST_SPEEDUP * fastest_ns]
    # Of settings that are equally fast, the one that needs the least memory.
    best = min(near, key=lambda each: (each.num_workers, each.prefetch_factor or 0, each.typical_ns))
    before, after = [each.batch_ns for each in times.variants[0].rounds], [each.batch_ns for each in best.rounds]
    return LoaderGain(
        setting=best.setting,
        before_ns=int(median(before)),
        after_ns=int(median(after)),
        speedup=round(median(before) / median(after), 2),
        lowest=round(min(before) / max(after), 2),
        highest=round(max(before) / min(after), 2),
        rounds=len(after),
    )


def _hot(times: DataTimes) -> HotLine | None:
    if times.lines is None or not times.lines.rows:
        return None
    lines, row = times.lines, times.lines.rows[0]
    sample_ns = int(lines.plain_share_ns(row) * lines.batches / lines.samples) if lines.samples else None
    return HotLine(row.file, row.line, round(row.own_ns / max(lines.traced_ns, 1), 3), sample_ns)


def _changes(times: DataTimes, status: str, gain: LoaderGain | None, hot: HotLine | None) -> Iterator[str]:
    if gain is not None:
        yield (
            f"set {gain.setting}: {time_text(gain.after_ns)} per batch instead of {time_text(gain.before_ns)}, "
            f"{gain.speedup:g}x faster ({gain.lowest:g}x to {gain.highest:g}x over {number_of(gain.rounds, 'round')})"
        )
    for variant in _faster(times):
        if not _shares_data(variant, times):
            why = (
                "each worker loads all of the data"
                if variant.repeats_data
                else "it is unknown whether workers divide the data"
            )
            yield (
                f"num_workers={variant.num_workers} is faster, but {why}: divide it in __iter__ with "
                "torch.utils.data.get_worker_info()"
            )
            break
    if any("pickle" in each.error.lower() for each in times.variants):
        yield "workers cannot receive the dataset: define its functions at module level instead of as a lambda"
    if hot is not None and status != "step":
        cost = "" if hot.sample_ns is None else f", {time_text(hot.sample_ns)} per sample"
        yield f"make {hot.file}:{hot.line} cheaper: it takes {percent(hot.share)} of loading a batch{cost}"
    if status == "data" and gain is None:
        yield "no measured setting of the loader is faster in every round: make the dataset itself faster"


def sections(found: DataResult, _subject: ReportSubject) -> Iterator[ReportSection]:
    """Yield what the terminal shows."""
    style = {"data": "red", "partly": "yellow", "step": "green"}.get(found.status, "")
    unclear = "" if found.is_clear else "; not clear: the rounds disagree"
    yield ReportSection(((found.status, found.headline + unclear),), style)
    yield ReportSection(tuple(("change", each) for each in found.change))
    loader = found.loader
    size = "" if loader.batch_size is None else f", {number_of(loader.batch_size, 'sample')} per batch"
    created = ", DataLoader created for the measurement" if loader.is_wrapped else ""
    yield ReportSection((("loader", f"{loader.type} over {loader.dataset} ({loader.kind}){size}{created}"),))
    yield _table(found)
    failed = [variant for variant in found.variants if variant.error]
    yield ReportSection(tuple(("failed", f"{each.setting}: {each.error}") for each in failed), "yellow")
    if found.lines is not None:
        yield _lines_table(found.lines)
        ratio = found.lines.traced_ns / max(found.lines.plain_ns, 1)
        counted = number_of(found.lines.batches, "batch", "batches")
        yield ReportSection(
            (
                (
                    "traced",
                    f"{counted} without workers; tracing made them {ratio:.2f}x slower; the times are scaled back",
                ),
            )
        )
    yield missing_section(found.missing)


def _table(found: DataResult) -> ReportSection:
    measured = [each for each in found.variants if each.rounds]
    longest_ns = max(each.typical_ns for each in measured)
    cells, bars = [], []
    for variant in measured:
        prefetch = "" if variant.prefetch_factor is None else str(variant.prefetch_factor)
        times = (
            variant.typical_ns,
            min(each.batch_ns for each in variant.rounds),
            median(each.wait_ns for each in variant.rounds),
            median(each.start_ns for each in variant.rounds),
        )
        own = ("own",) if variant.is_own else ("",)
        number = (str(variant.num_workers), prefetch, "yes" if variant.pin_memory else "no")
        cells.append((*number, *map(time_text, times), *own))
        bars.append(variant.typical_ns / longest_ns)
    heads = ("workers", "prefetch", "pinned", "per batch", "fastest", "waiting", "first batch", "")
    return ReportSection(heads=heads, cells=tuple(cells), bars=tuple(bars), is_apart=True)


def _lines_table(lines: DatasetLines) -> ReportSection:
    rows = [row for row in lines.rows if row.own_ns >= _LEAST_SHARE * lines.traced_ns] or list(lines.rows[:1])
    per = lines.samples or lines.batches
    return ReportSection(
        heads=("line", "per sample" if lines.samples else "per batch", "share", "source"),
        cells=tuple(
            (
                f"{row.file}:{row.line}",
                time_text(lines.plain_share_ns(row) * lines.batches / per),
                percent(row.own_ns / max(lines.traced_ns, 1)),
                row.source,
            )
            for row in rows
        ),
        is_apart=True,
    )


def claims(found: DataResult, _subject: ReportSubject) -> Iterator[MeasuredClaim]:
    """Yield a diagnostic for the most expensive line if the step waits for data."""
    if found.status not in {"data", "partly"}:
        return
    at = found.hot or found.loader
    witnesses = (_CLOCK, _LINES) if found.hot else (_CLOCK,)
    yield MeasuredClaim(DATA_WAITS, at.file, at.line, found.headline, "; ".join(found.change), witnesses)


def outline(target: str, found: DataResult) -> MeasurementOutline:
    """Return the most important part of a result."""
    return MeasurementOutline(f"{target}: {found.headline}", {"status": found.status}, (_CLOCK,))


MEASUREMENT = MeasurementDescriptor(
    kind="data",
    summary="Measure whether data loading is a bottleneck",
    details=(
        "Times how long a step waits for each batch, with the loader's own settings and with other numbers of workers, "
        "prefetching and pinning, and the cost of each line of the dataset. Recommends a setting only if it was faster "
        "in every round."
    ),
    target="`FILE.py:NAME` of a DataLoader, a dataset, or a function without arguments that returns one",
    examples=(
        "esper torch data train.py:make_loader --step train.py:make_step",
        "esper torch data dataset.py:Images --batch-size 64",
    ),
    options=DataOptions,
    run=run,
    is_timed=True,
    measured=DataTimes,
    result=DataResult,
    explained=explained,
    sections=sections,
    claims=claims,
    outline=outline,
    compared=("status",),
    is_against=lambda result: result.status == "data",
    fail_on="warning",
    fail_help="Exit 3 if data loading is the bottleneck",
    has_inputs=False,
)
