"""Diagnose `torch.compile` on a target: graph breaks, recompilations and their remedies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.torchlab import graph_break_remedies, recompile_remedies
from esper_agents.torchlab.measurement import (
    MeasuredClaim,
    MeasurementDescriptor,
    MeasurementOutline,
    ReportSection,
    missing_section,
    train_option,
)
from esper_agents.torchlab.measurement_codes import COMPILE_FAILED, GAVE_UP, GRAPH_BROKEN, NEVER_COMPILED, RECOMPILED
from esper_agents.torchlab.worker.explain.result import ExplainRun
from esper_agents.torchlab.worker.results import shallow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.measurement import ReportSubject
    from esper_agents.torchlab.report import MeasurementReport
    from esper_agents.torchlab.target import TargetSpec, Tell
    from esper_agents.torchlab.worker.explain.result import CompileOutcome, GraphBreak, Recompilation

_STYLES = {"clean": "green", "breaks-by-default": "yellow"}
_EFFECTS = {
    "splits": "",
    "ends": "the rest of the function runs eagerly",
    "skips": "the whole function runs eagerly",
}
_LOG, _COUNTER, _FULLGRAPH = "dynamo's own log", "a backend that counts graphs", "a run with fullgraph=True"


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    """Options of `esper torch explain`."""

    train: bool = train_option()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainResult(ExplainRun):
    """Result of a compile diagnosis, with its status in one sentence."""

    headline: str = ""


def run(lab: Lab, target: TargetSpec, options: ExplainOptions, tell: Tell | None) -> MeasurementReport:
    """Diagnose `torch.compile` on a target, without inductor.

    Args:
        lab: Lab that runs the target in a measurement process; never in this one.
        target: A function, an nn.Module or a training step.
        options: The options; with `train`, backward runs too and is traced ahead of time.
        tell: Progress callback.

    Returns:
        A report whose `result` is an `ExplainResult` as JSON.

    Raises:
        UsageError: The target cannot be used.
        WorkerError: The target itself raised, hung or crashed.
    """
    return MEASUREMENT.concluded(lab.job("explain", target, {"train": options.train}, tell=tell))


def explained(run: ExplainRun, _subject: ReportSubject) -> ExplainResult:
    """Return the result with remedies in words."""
    settles = (run.settles or {}).get("sizes", True)
    made = replace(
        run,
        breaks=tuple(replace(each, change=graph_break_remedies.change_for(each)) for each in run.breaks or ()),
        recompiles=tuple(_recompilation(recompile, settles=settles) for recompile in run.recompiles or ()),
        fullgraph=_with_change(run.fullgraph),
        autograd=_with_change(run.autograd),
        failure=_with_change(run.failure),
    )
    return ExplainResult(**shallow(made), headline=headline(made))


def _with_change(outcome: CompileOutcome | None) -> CompileOutcome | None:
    if outcome is None or outcome.kind is None:
        return outcome
    return replace(outcome, change=graph_break_remedies.change_for(outcome))


def _recompilation(found: Recompilation, *, settles: bool) -> Recompilation:
    cause = recompile_remedies.cause_of(found.guard)
    # Dynamo needs one compilation for the first other size to learn that the size is dynamic.
    is_routine = cause == "size" and found.count == 1 and settles
    return replace(found, cause=cause, is_routine=is_routine, change=recompile_remedies.change_for(found.guard))


def headline(result: ExplainRun) -> str:
    """Return the status in one sentence."""
    graphs = max((call.graphs_run for call in result.calls or ()), default=0)
    breaks = "1 break" if len(result.breaks or ()) == 1 else f"{len(result.breaks or ())} breaks"
    match result.status:
        case None:
            said = "nothing was found out: torch.compile does not work here"
        case "clean":
            said = "one graph, and nothing breaks it" if graphs == 1 else f"{graphs} graphs, no break"
        case "breaks":
            said = f"{breaks} cut it into {graphs} graphs that run in a call"
        case "breaks-by-default":
            said = f"{breaks} by default, and yet one graph with fullgraph=True"
        case "fails-fullgraph":
            said = "explain counts no break, and yet it fails with fullgraph=True"
        case "skipped":
            said = "nothing is compiled: it runs eagerly, as if torch.compile were not there"
        case _:
            said = "compiling it raises"
    return said + (", and dynamo gave up compiling it anew" if result.limits else "")


def sections(result: ExplainResult, _subject: ReportSubject) -> Iterator[ReportSection]:
    """Yield what the terminal shows."""
    status = result.status or "not measured"
    yield ReportSection(((status, result.headline),), _STYLES.get(status, "red"))
    yield ReportSection(tuple(_outcomes(result)))
    for number, each in enumerate(result.breaks or (), 1):
        yield _break_section(number, each)
    yield from _recompile_sections(result.recompiles or ())
    if result.calls:
        cells = tuple(
            (str(number), each.what, *map(str, (each.graphs, each.graphs_run, each.breaks, each.recompiles)))
            for number, each in enumerate(result.calls, 1)
        )
        yield ReportSection(heads=("call", "with", "compiled", "run", "breaks", "again"), cells=cells, is_apart=True)
    yield missing_section(result.missing or (), "")


def _outcomes(result: ExplainResult) -> Iterator[tuple[str, str]]:
    failed = result.failure
    if failed is not None:
        yield "raised", f"in call {failed.call}, at {failed.where}: {failed.reason}"
    for stage, words, found in (
        ("fullgraph", "fullgraph=True", result.fullgraph),
        ("autograd", "autograd ahead of time", result.autograd),
    ):
        if found is not None and found.outcome == "fails":
            yield stage, f"{words} fails at {found.where}: {found.reason}"
    changes = [
        each.change
        for each in (failed, result.autograd, result.fullgraph)
        if each is not None and each.change and each.outcome in {None, "fails"}
    ]
    if changes and (result.status == "fails" or not result.breaks):
        yield "change", changes[0]
    counts = result.explain
    if counts is not None and counts.graph_break_count != len(result.breaks or ()):
        counted = counts.graph_break_count
        yield "explain", f"torch._dynamo.explain counts {counted} (graphs of the first call less one)"
    for limit in result.limits or ():
        yield (
            "limit",
            f"{limit.function} ({limit.where}) reached {limit.setting} {limit.limit}: other calls run eagerly",
        )


def _break_section(number: int, each: GraphBreak) -> ReportSection:
    facts = [each.page or "", f"{each.count} times" if each.count > 1 else ""]
    if each.first_call > 1:
        facts.append(f"from call {each.first_call} on")
    if each.under_autograd:
        facts.append("only when autograd is traced")
    facts.append(_EFFECTS[each.effect])
    pairs = [("why", f"{each.kind}. {each.explanation}".rstrip()), ("change", each.change or "")]
    if len(each.path) > 1:
        pairs.append(("through", " > ".join(f"{at.file}:{at.line}" for at in each.path)))
    if each.outside is not None and each.place is not None:
        pairs.append(("inside", each.outside))
    if each.link is not None:
        pairs.append(("page", each.link))
    return ReportSection(
        tuple(pairs),
        "dim",
        title=f"{number} {each.where}",
        facts=(", ".join(filter(None, facts)),),
        source=each.source,
    )


def _recompile_sections(found: tuple[Recompilation, ...]) -> Iterator[ReportSection]:
    for each in found:
        if each.is_routine:
            continue
        times = "once" if each.count == 1 else f"{each.count} times"
        stack = " (value from the code before the graph break)" if "___stack" in each.guard else ""
        yield ReportSection(
            (("guard", each.guard + stack), ("change", each.change or "")),
            "dim",
            title=f"compiled again {times}: {each.where}",
            facts=(f"function {each.function}, calls {', '.join(map(str, each.calls))}",),
            source=each.source,
        )
    if routine := sum(bool(each.is_routine) for each in found):
        said = f"compiled again for the first other size, as is to be expected ({routine})"
        yield ReportSection((("sizes", said),), is_apart=True)


def claims(result: ExplainResult, subject: ReportSubject) -> Iterator[MeasuredClaim]:
    """Yield a diagnostic for each break, recompilation, limit and failure."""
    for broken in result.breaks or ():
        yield _broken(result, broken)
    for recompile in result.recompiles or ():
        if not recompile.is_routine:
            times = "once" if recompile.count == 1 else f"{recompile.count} times"
            message = f"{recompile.function} was compiled again {times}, because this guard failed: {recompile.guard}"
            yield MeasuredClaim(
                RECOMPILED, *recompile.at, message, recompile.change or "", (_LOG, _COUNTER), possible=2
            )
    for limited in result.limits or ():
        message = f"dynamo stops compiling {limited.function} after {limited.limit} versions ({limited.setting})"
        remedy = "remove the cause of the recompilations; raising the limit only buys time"
        yield MeasuredClaim(GAVE_UP, *limited.at, message, remedy, (_LOG,))
    for failed in (result.failure, result.autograd):
        if failed is not None and failed.kind is not None:
            message = f"compiling raises {failed.type or 'an error'}: {failed.message or failed.kind}"
            remedy = failed.change or "move what cannot be traced out of the compiled function"
            yield MeasuredClaim(COMPILE_FAILED, *failed.at, message, remedy, ("a run that raised",))
    if result.status == "skipped" and not result.breaks:
        message = "nothing is compiled: the target runs eagerly, as without torch.compile"
        remedy = "find the reason with TORCH_LOGS=+dynamo; dynamo skips a frame without tensor operations"
        yield MeasuredClaim(NEVER_COMPILED, subject.file, subject.line, message, remedy, (_COUNTER,))


def _broken(result: ExplainResult, found: GraphBreak) -> MeasuredClaim:
    witnesses = [_LOG]
    calls, whole = result.calls or (), result.fullgraph
    if found.first_call <= len(calls) and calls[found.first_call - 1].graphs_run != 1:
        witnesses.append(_COUNTER)
    passes_whole = whole is not None and whole.outcome == "passes"
    if (whole.at if whole else ("", 0)) == found.at:
        witnesses.append(_FULLGRAPH)
    page = f" ({found.page})" if found.page else ""
    by_default = "by default, and not with fullgraph=True, " if passes_whole else ""
    return MeasuredClaim(
        GRAPH_BROKEN,
        *found.at,
        f"torch.compile breaks the graph here {by_default}in call {found.first_call}: {found.kind}{page}",
        found.change or "",
        tuple(witnesses),
        possible=2 if passes_whole else 3,
    )


def outline(target: str, result: ExplainResult) -> MeasurementOutline:
    """Return the most important part of a result."""
    facts = {"status": result.status or "unknown"}
    return MeasurementOutline(f"{target}: {result.headline}", facts, (_LOG, _COUNTER, _FULLGRAPH))


MEASUREMENT = MeasurementDescriptor(
    kind="explain",
    summary="Explain graph breaks and recompilations",
    details=(
        "Reports every graph break with its reason and line, recompilations over repeated calls, and whether "
        "torch.compile with fullgraph is possible. Generates no kernels."
    ),
    examples=(
        'esper torch explain model.py:make_model --input "randn(32,128)"',
        "esper torch explain model.py:make_model --capture train.py --train",
        "esper torch explain my_package.loss:focal --inputs tests/samples.py:focal --fail-on break",
    ),
    options=ExplainOptions,
    run=run,
    measured=ExplainRun,
    result=ExplainResult,
    explained=explained,
    sections=sections,
    claims=claims,
    outline=outline,
    is_against=lambda result: None if result.status is None else result.status != "clean",
    fail_on="break",
    fail_help="Exit 3 on graph breaks",
)
