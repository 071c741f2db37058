"""Profile a target: time by line, bottleneck, and agreement of independent profilers."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.domain.pluralize import number_of
from esper_agents.domain.quantities import bytes_text, percent, time_text
from esper_agents.errors import UsageError
from esper_agents.torchlab import external_profilers
from esper_agents.torchlab.effort import Effort
from esper_agents.torchlab.measurement import (
    MeasuredClaim,
    MeasurementDescriptor,
    MeasurementOutline,
    ReportSection,
    effort_option,
    missing_section,
    option,
    train_option,
)
from esper_agents.torchlab.measurement_codes import BOTTLENECK, HOST_WAITS
from esper_agents.torchlab.plot import profile_plot
from esper_agents.torchlab.profiling.advice import advice_on, most_speedup
from esper_agents.torchlab.profiling.bottleneck import analyse
from esper_agents.torchlab.profiling.result import (
    Bottleneck,
    BottleneckAnalysis,
    CallCost,
    FunctionWitness,
    HotFunction,
    ProfileAnalysis,
    ProfileMeasurements,
    ProfileResult,
)
from esper_agents.torchlab.report import OutputFile, rounded
from esper_agents.torchlab.worker.results import shallow
from esper_agents.torchlab.worker_failure import WorkerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.measurement import ReportSubject
    from esper_agents.torchlab.profiling.result import FunctionTime
    from esper_agents.torchlab.report import MeasurementReport
    from esper_agents.torchlab.target import TargetSpec, Tell

_SECONDS = {Effort.QUICK: 0.6, Effort.NORMAL: 2.0, Effort.THOROUGH: 8.0}
_LOOK_S = 1.0
_LONGEST_LOOK_S = 60.0
_ENOUGH = "enough"
# Maximum difference between two profilers' shares of a function that counts as agreement.
_AGREEING = 0.15
_MATHEMATICS = ("libtorch_cpu", "libmkl", "libdnnl", "libgomp", "libiomp", "libopenblas", "libtorch_cuda", "libcublas")
_LEAST_SHARE = {Bottleneck.COMPUTE: 0.5, Bottleneck.BANDWIDTH: 0.5, Bottleneck.ALLOCATION: 0.25}
_CLOCKS, _PROFILER = "clocks without a profiler", "torch.profiler"
_KEPT = ("analysis", "kind", "train", "device", "threads", "memory", "waits", "witnesses", "missing")
# A remedy for a smaller share gains too little.
_WORTH_A_CLAIM = 0.1
_MOST_OPERATIONS, _MOST_WAITS, _BAR = 10, 5, 24
_LEAST_SHOWN = 0.005
# A larger bound on the speedup is not reported.
_MOST_SPEEDUP = 20


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """Options of `esper torch profile`."""

    effort: Effort = effort_option()  # noqa: RUF009 - a field
    no_external_profilers: bool = option(
        default=False,
        text="Disable external profilers (py-spy, perf)",
        in_tool=False,
    )
    train: bool = train_option()


def run(lab: Lab, target: TargetSpec, options: ProfileOptions, tell: Tell | None) -> MeasurementReport:
    """Profile a target and compare it with the machine's ceilings.

    Args:
        lab: Lab that runs the target in measurement processes; never in this one.
        target: A function, an nn.Module or a training step.
        options: The options.
        tell: Progress callback.

    Returns:
        A report whose `result` is a `ProfileResult` as JSON. Comes with a trace, the memory timeline and a plot.

    Raises:
        UsageError: The target cannot be used.
        WorkerError: The target itself raised, hung or crashed.
    """
    seconds = _SECONDS[options.effort]
    look = not options.no_external_profilers
    return profile(lab, target, train=options.train, seconds=seconds, look=look, tell=tell)


def profile(
    lab: Lab, target: TargetSpec, *, train: bool, seconds: float, look: bool, tell: Tell | None = None
) -> MeasurementReport:
    """Profile a target for a number of seconds, if one call is short; see `run`.

    Args:
        lab: Lab that runs the target.
        target: The target.
        train: Whether to include the backward pass.
        seconds: Approximate measurement time.
        look: Whether to run the installed external profilers on a second process.
        tell: Progress callback.
    """
    with lab.timing_turn(tell, target.device):
        report = lab.job("profile", target, {"train": train, "seconds": seconds, "seed": target.seed}, tell=tell)
    witnesses = _witnesses(lab, target, train=train, tell=tell) if look else []
    measured = {**report.result, "witnesses": [witness.described() for witness in witnesses]}
    return _with_plot(lab, MEASUREMENT.concluded(replace(report, body={**report.body, "result": measured})))


def explained(measured: ProfileMeasurements, subject: ReportSubject) -> ProfileResult:
    """Return measurements with their conclusions."""
    analysis = analyse(measured)
    concluded = ProfileAnalysis(
        **shallow(analysis),
        most_speedup=most_speedup(analysis.share),
        hot=_hot(measured, analysis),
        advice=advice_on(measured, analysis),
        verify=verification(subject),
    )
    return ProfileResult(**shallow(measured), analysis=concluded, headline=headline(concluded))


def headline(analysis: ProfileAnalysis) -> str:
    """Return the result of a profile in one sentence."""
    sure = "" if analysis.is_clear else f", with {analysis.runner_up} close behind"
    return f"bound by {analysis.bottleneck}, {percent(analysis.share)} of {time_text(analysis.call.ns)} a call{sure}"


def verification(subject: ReportSubject) -> tuple[str, str]:
    """Return the commands that repeat the measurement, and that test a claim about a change."""
    options = [part for text in subject.inputs for part in ("--input", text)]
    if subject.inputs_from:
        options += ["--inputs", subject.inputs_from]
    if subject.captured_from:
        options += ["--capture", subject.captured_from]
    if subject.train:
        options.append("--train")
    if subject.device != "cpu":
        options += ["--device", subject.device]
    again = ["esper", "torch", "profile", subject.name, *options]
    return shlex.join(again), shlex.join(["esper", "torch", "compare", subject.name, "NEW", *options])


def _witnesses(
    lab: Lab, target: TargetSpec, *, train: bool, tell: Tell | None
) -> Sequence[external_profilers.ExternalProfile]:
    """Run the target in a separate process while external profilers sample it."""
    if not external_profilers.installed():
        return external_profilers.absent()
    seen: list[external_profilers.ExternalProfile] = []
    with lab.worker(device=target.device) as worker:
        worker.load(target)

        def looping(_what: str, _fraction: float) -> None:
            if tell is not None:
                tell("others look", 1.0)
            seen.extend(external_profilers.run_external_profilers(worker.pid, _LOOK_S, lab.project))
            (worker.scratch / _ENOUGH).touch()

        request = {"train": train, "seed": target.seed, "seconds": _LONGEST_LOOK_S, "until": _ENOUGH}
        try:
            worker.ask("loop", request, tell=looping)
        except (WorkerError, UsageError) as error:
            if not seen:
                return external_profilers.absent(f"the target did not run on: {error.problem}")
    return seen


def _hot(measured: ProfileMeasurements, analysis: BottleneckAnalysis) -> HotFunction | None:
    """Return the user's function with the largest share, and each profiler's result for it; None without one."""
    if not analysis.functions:
        return None
    first = analysis.functions[0]
    share, by_cprofile = first.total_share, first.cprofile_share
    said = [FunctionWitness("cProfile", by_cprofile, _agree(share, by_cprofile))]
    if first.by != "cProfile":
        said.insert(0, FunctionWitness(first.by, share, agrees=True))
    for witness in measured.witnesses:
        if witness.top is not None and witness.of == "function":
            seen = next((row.total_share for row in witness.top if _is_same(row.where, first)), 0.0)
            said.append(FunctionWitness(witness.tool, seen, _agree(share, seen)))
        elif witness.top is not None:
            said += _of_libraries(witness.tool, witness.top, analysis.bottleneck)
    return HotFunction(first.file, first.line, first.name, first.own_share, first.total_share, tuple(said))


def _agree(one: float, other: float) -> bool:
    return abs(one - other) <= _AGREEING


def _is_same(where: str, function: FunctionTime) -> bool:
    file, _, name = where.rpartition(":")
    return file == function.file and name.rpartition(".")[2] == function.name.rpartition(".")[2]


def _of_libraries(
    tool: str, top: Sequence[external_profilers.ExternalSample], bottleneck: Bottleneck
) -> list[FunctionWitness]:
    """Return what the library samples imply about the kind of bottleneck, if anything."""
    if bottleneck not in _LEAST_SHARE:
        return []
    is_kernel = bottleneck is Bottleneck.ALLOCATION
    names = ("[kernel",) if is_kernel else _MATHEMATICS
    share = sum(row.own_share for row in top if row.where.startswith(names))
    about = "the kernel" if is_kernel else "libraries that compute"
    return [FunctionWitness(tool, rounded(share), share >= _LEAST_SHARE[bottleneck], about)]


def _with_plot(lab: Lab, report: MeasurementReport) -> MeasurementReport:
    points: list[tuple[float, float]] = []
    for made in report.made:
        if made.path.name == "memory.json":
            points = json.loads(made.path.read_text(encoding="utf-8"))["points"]
    path = lab.keep / "profile.svg"
    path.write_text(profile_plot(report.subject.name, MEASUREMENT.parsed(report).analysis, points), encoding="utf-8")
    return report.with_output(OutputFile(path, "image/svg+xml"))


def sections(result: ProfileResult, _subject: ReportSubject) -> Iterator[ReportSection]:
    """Yield what the terminal shows."""
    analysis = result.analysis
    yield ReportSection((("profile", result.headline),), "green" if analysis.is_clear else "yellow")
    yield ReportSection((("call", _call(analysis.call)), ("passes", _passes(analysis))))
    ranked = sorted(analysis.shares.items(), key=lambda each: -each[1])
    shares = [(kind, share) for kind, share in ranked if share >= _LEAST_SHOWN]
    cells = tuple((kind, percent(share)) for kind, share in shares)
    bars = tuple(share for _, share in shares)
    yield ReportSection(cells=cells, bars=bars, bar_width=_BAR, right=frozenset({1}), is_indented=True, is_apart=True)
    if analysis.operations:
        heads = ("operation", "line", "times", "takes", "share", "bound by", "of ceiling")
        rows = tuple(operation.row for operation in analysis.operations[:_MOST_OPERATIONS])
        yield ReportSection(heads=heads, cells=rows, is_apart=True)
    yield ReportSection(tuple(_witness_pairs(result)), is_apart=True)
    for each in analysis.advice:
        where = f"{each.file}:{each.line} " if each.file else ""
        yield ReportSection(((each.about, f"{where}{each.problem}"), ("remedy", each.remedy)), is_apart=True)
    if analysis.most_speedup <= _MOST_SPEEDUP:
        yield ReportSection((("at most", f"{analysis.most_speedup:.3g} times faster if all of it went away"),))
    yield ReportSection(tuple(_facts(result)))
    yield missing_section(result.missing, "")
    yield ReportSection(tuple(("verify", command) for command in analysis.verify), "dim", is_apart=True)


def _call(call: CallCost) -> str:
    slower = f"the middle one {call.spread:.0%} slower" if call.spread >= _LEAST_SHOWN else "all alike"
    made = f"{number_of(call.rounds, 'round')} ({number_of(call.calls, 'call')})"
    waited = f", {time_text(call.waiting_ns)} of it waiting" if call.waiting_ns else ""
    said = f"{time_text(call.ns)}, the best of {made}, {slower}{waited}"
    return f"{said}; the first took {time_text(call.first_ns)}; profiled {call.profiler_overhead:.2f} times"


def _passes(analysis: ProfileAnalysis) -> str:
    split, overhead = analysis.split, analysis.overhead
    passes = (
        ("input", split.input),
        ("forward", split.forward),
        ("backward", split.backward),
        ("optimizer", split.optimizer),
    )
    counted = (
        number_of(overhead.operations, "operation"),
        number_of(overhead.views, "view"),
        number_of(overhead.python_calls, "Python call"),
    )
    return f"{', '.join(f'{name} {percent(share)}' for name, share in passes if share)}; {', '.join(counted)}"


def _witness_pairs(result: ProfileResult) -> Iterator[tuple[str, str]]:
    hot = result.analysis.hot
    if hot is not None:
        said = ", ".join(
            f"{witness.tool} {percent(witness.share)}{f' in {witness.of}' if witness.of else ''}"
            f"{'' if witness.agrees else ' (disagrees)'}"
            for witness in hot.witnesses
        )
        yield "hottest", f"{hot.file}:{hot.line} {hot.name}: {said}"
    for witness in result.witnesses:
        if witness.missing is not None:
            yield "witness", f"{witness.tool}: {witness.missing}; {witness.remedy}"


def _facts(result: ProfileResult) -> Iterator[tuple[str, str]]:
    ceilings, memory = result.analysis.ceilings, result.memory
    products = [f"{dtype} {rate / 1e9:.3g} GFLOP/s" for dtype, rate in sorted(ceilings.flops_per_s.items())]
    streams = [
        f"{each.bytes_per_s / 1e9:.3g} GB/s in {bytes_text(each.touched_bytes)}" for each in ceilings.bytes_per_s
    ]
    costs = [f"dispatch {time_text(ceilings.dispatch_ns)}", f"fresh page {time_text(ceilings.fault_ns)}"]
    yield "ceilings", ", ".join((*products, *streams, *costs))
    if memory is not None:
        peak = f"{bytes_text(memory.peak_bytes)} at most at once, in {memory.peak_operation or 'no operation'}"
        allocations = number_of(memory.allocations, "allocation")
        yield "memory", f"{peak}; {allocations} of {bytes_text(memory.allocated_bytes)}"
    for wait in result.waits[:_MOST_WAITS]:
        times = "" if wait.count == 1 else f", {wait.count} times"
        yield "waits", f"{wait.file}:{wait.line} {wait.what}{times}"


def claims(result: ProfileResult, _subject: ReportSubject) -> Iterator[MeasuredClaim]:
    """Yield diagnostics for the bottleneck, the hottest function and the lines at which the host waits."""
    analysis = result.analysis
    first, hot = analysis.advice[0], analysis.hot
    is_hot = hot is not None and (hot.file, hot.line) == (first.file, first.line)
    agreeing = hot.agreeing if hot else ()
    if analysis.share >= _WORTH_A_CLAIM and first.file:
        message = f"the bottleneck is {analysis.bottleneck}: {first.problem}"
        seen = (_CLOCKS, _PROFILER, *(agreeing if is_hot else ()))
        yield MeasuredClaim(BOTTLENECK, first.file, first.line, message, first.remedy, seen)
    if hot is not None and not is_hot:
        message = f"{hot.total_share:.0%} of a call is spent in {hot.name}, {hot.own_share:.0%} in itself"
        yield MeasuredClaim(BOTTLENECK, hot.file, hot.line, message, first.remedy, agreeing)
    for each in analysis.advice:
        if each.about == "waits" and each.file:
            yield MeasuredClaim(
                HOST_WAITS, each.file, each.line, each.problem, each.remedy, ("a run that was watched",)
            )


def outline(target: str, result: ProfileResult) -> MeasurementOutline:
    """Return the most important part of a result."""
    analysis = result.analysis
    clear = "" if analysis.is_clear else f" (not clearly: {analysis.runner_up} is near)"
    said = f"{target}: {analysis.share:.0%} of {analysis.call.ns / 1e3:.4g} us a call is {analysis.bottleneck}{clear}"
    facts = {
        "status": analysis.bottleneck.value,
        "share": analysis.share,
        "is_clear": analysis.is_clear,
        "most_speedup": analysis.most_speedup,
        "is_compiled": result.profiled.is_compiled,
    }
    agreeing = analysis.hot.agreeing if analysis.hot else ()
    return MeasurementOutline(said, facts, tuple(dict.fromkeys((_CLOCKS, _PROFILER, *agreeing))), _KEPT)


MEASUREMENT = MeasurementDescriptor(
    kind="profile",
    summary="Profile a target and find its bottleneck",
    details=(
        "Compares the target with the peak performance of this machine, measured in the same run. Writes a Chrome "
        "trace, a memory timeline and a plot next to the report. Also samples with py-spy and perf if they are "
        "installed."
    ),
    examples=(
        'esper torch profile model.py:make_model --input "randn(32,128)"',
        "esper torch profile train.py:make_step --effort quick",
        "esper torch profile model.py:make_model --capture train.py --train --output profile/",
    ),
    options=ProfileOptions,
    run=run,
    is_timed=True,
    measured=ProfileMeasurements,
    result=ProfileResult,
    explained=explained,
    sections=sections,
    claims=claims,
    outline=outline,
)
