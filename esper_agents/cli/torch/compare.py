"""`esper torch compare`: command that compares correctness and speed of two targets."""

from __future__ import annotations

import secrets
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from esper_agents.api import (
    Arm,
    ChangeControl,
    ComparisonMode,
    ComparisonOutcome,
    ComparisonRequest,
    OutputMetric,
    TargetSpec,
)
from esper_agents.api.measurement_lab import base_revision, report_folder
from esper_agents.api.target_project import place_of
from esper_agents.cli.terminal import one_line, redact
from esper_agents.cli.torch.options import MeasurementOptions, Quick, Thorough, chosen_effort, measuring
from esper_agents.cli.torch.run import opened, present
from esper_agents.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from esper_agents.api import MeasurementReport
    from esper_agents.domain.codec import JsonObject

_ALLOWED = ("strides", "waiting")


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare")(measuring(compare_two))


def compare_two(
    baseline: Annotated[str, typer.Argument(metavar="A", help="Baseline target", show_default=False)],
    candidate: Annotated[str, typer.Argument(metavar="B", help="Candidate target [default: A, with --base]")] = "",
    *,
    asked: MeasurementOptions,
    base: Annotated[
        str, typer.Option(metavar="REV", help="Take A from this revision and B from the working tree")
    ] = "",
    claim: Annotated[
        float | None, typer.Option(min=1.0, metavar="RATIO", help="Claimed speedup [default: 1.25; training step 1.3]")
    ] = None,
    throughput: Annotated[
        bool, typer.Option("--throughput", help="Compare calls per second; default claim 1.3")
    ] = False,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore", "--allow", metavar="DIFFERENCE", help="Difference to ignore: strides, waiting (repeatable)"
        ),
    ] = None,
    metric: Annotated[
        str, typer.Option(metavar="FILE:FUNCTION", help="Metric to compare instead of the raw outputs")
    ] = "",
    tolerance: Annotated[
        float | None, typer.Option(min=0.0, metavar="NUMBER", help="Maximum difference of A and B in --metric")
    ] = None,
    flag: Annotated[str, typer.Option(metavar="NAME", help="Feature flag that disables B (recorded)")] = "",
    quick: Quick = False,
    thorough: Thorough = False,
) -> None:
    """Compare correctness and speed of A and B.

    First compares the outputs of both on regular and edge-case inputs. Then measures their time in pairs of new
    processes, until the result is significant or the time limit is reached. Exits with 0 if B is as much faster as
    claimed, 3 if it is not or its results differ, 4 if the result is inconclusive.

    Examples:
      esper torch compare ops.py:softmax ops.py:fast_softmax --input "randn(64,128)"
      esper torch compare model.py:make_model --base HEAD~1 --input "randn(32,128)" --claim 1.3
      esper torch compare train.py:old_step train.py:new_step --train --thorough --flag use_fused_step
    """
    effort = chosen_effort(quick=quick, thorough=thorough)
    asked.refuse_two_inputs()
    if bool(base) == bool(candidate) and not (base and candidate):
        raise UsageError("missing candidate", remedy="name two targets, or one and --base REVISION")
    unknown = sorted({*(allow or ())} - {*_ALLOWED})
    if unknown:
        raise UsageError(f"--allow knows no {unknown[0]!r}", remedy="use one of " + ", ".join(_ALLOWED))
    if throughput and asked.train:
        raise UsageError("--throughput and --train are mutually exclusive", remedy="keep one of them")
    if bool(metric) != (tolerance is not None):
        raise UsageError("--metric and --tolerance belong together", remedy="give both")
    seed = secrets.randbits(31) if asked.seed is None else asked.seed
    mode = (
        ComparisonMode.TRAINING_STEP
        if asked.train
        else ComparisonMode.THROUGHPUT
        if throughput
        else ComparisonMode.LATENCY
    )
    own = OutputMetric(place_of(metric, Path.cwd()).target, tolerance) if metric and tolerance is not None else None
    question = ComparisonRequest(
        metric=own,
        mode=mode,
        claim=claim,
        effort=effort,
        allow=tuple(allow or ()),
        seed=seed,
        has_extras=not quick,
    )
    report = _measured(baseline, candidate or baseline, asked, base, flag, question)
    raise typer.Exit(_EXIT[ComparisonOutcome(report.result["verdict"]["outcome"])])


_EXIT = {
    ComparisonOutcome.FASTER: ExitCode.DONE,
    ComparisonOutcome.NOT_FASTER: ExitCode.AGAINST,
    ComparisonOutcome.WRONG: ExitCode.AGAINST,
    ComparisonOutcome.NOT_SHOWN: ExitCode.UNDECIDED,
    ComparisonOutcome.ERROR: ExitCode.UNDECIDED,
}


def _measured(
    one: str, other: str, asked: MeasurementOptions, base: str, flag: str, question: ComparisonRequest
) -> MeasurementReport:
    place = place_of(other, Path.cwd())
    first = TargetSpec(
        place_of(one, Path.cwd()).target,
        inputs=tuple(asked.input or ()),
        inputs_from=place.inside(asked.inputs) if asked.inputs else None,
        device=asked.device,
        seed=question.seed,
    )
    targets = [first, replace(first, name=place.target)]
    with base_revision(place.root, base, targets[1].name) as found:
        governance = ChangeControl(base=found, flag=flag)
        arms = [Arm(targets[0], found.root if found else place.root), Arm(targets[1], place.root)]
        roots = [found.root] if found else []
        with (
            report_folder(asked.out, place.home, "compare") as folder,
            opened(place, asked, keep=folder, roots=roots) as bench,
        ):
            captured: dict[str, Any] = {}
            if asked.capture:
                taken = bench.captured(targets[1], asked)
                given = taken.target
                inputs: dict[str, Any] = {"captured": given.captured, "captured_from": given.captured_from}
                arms = [Arm(replace(each.target, **inputs), each.root) for each in arms]
                captured = {"captured": taken.described()}
            report = bench.measuring.compare(arms[0], arms[1], question, governance=governance)
            command = shlex.join(["esper", *sys.argv[1:]])
            report = replace(report, body=redact({**report.body, **captured, "command": command}))
            (folder / "report.json").write_text(report.text(), encoding="utf-8")
        present(report, folder, show, as_json=asked.as_json)
    return report


_STYLES = {
    ComparisonOutcome.FASTER: "bold green",
    ComparisonOutcome.NOT_FASTER: "bold red",
    ComparisonOutcome.WRONG: "bold red",
    ComparisonOutcome.NOT_SHOWN: "bold yellow",
    ComparisonOutcome.ERROR: "bold red",
}
_MOST_REASONS = 12
_MOST_REFUSED = 3
_NAMES = {
    "peak_bytes": "peak memory",
    "graph_breaks": "graph breaks",
    "operations": "operations",
    "torch_compile": "torch.compile",
}


def show(report: MeasurementReport, console: Console) -> None:
    """Print a comparison: the verdict with its reasons, then the measurements.

    Args:
        report: Of kind `compare`.
        console: Output console.
    """
    result = report.result
    verdict = result["verdict"]
    console.print(Text(str(verdict["outcome"]), style=_STYLES[ComparisonOutcome(verdict["outcome"])]))
    for each in verdict["because"][:_MOST_REASONS]:
        console.print(Text(f"  {one_line(str(each))}", overflow="fold"))
    if len(verdict["because"]) > _MOST_REASONS:
        console.print(Text(f"  and {len(verdict['because']) - _MOST_REASONS} more in the report"))
    console.print()
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in _rows(report.body, result, verdict):
        grid.add_row(Text(label), Text(one_line(text)))
    console.print(grid)


def _rows(body: JsonObject, result: JsonObject, verdict: JsonObject) -> Iterator[tuple[str, str]]:
    arms = body["arms"]
    yield "A", f"{arms['baseline']['name']}{_at(result)}"
    yield "B", str(arms["candidate"]["name"])
    speedup = verdict.get("speedup")
    if speedup:
        sure = f"{speedup['confidence']:.1%} sure, {verdict['replicates']} pairs of processes"
        yield (
            "speedup",
            f"{speedup['estimate']:.4g}x, between {speedup['lower']:.4g}x and {speedup['upper']:.4g}x ({sure})",
        )
        yield "latency", f"{verdict['latency_drop']:.1%} less" if verdict["latency_drop"] >= 0 else _slower(verdict)
        yield "a call", " against ".join(_time(each) for each in call_ns(result))
    failed = sum(not each["is_passed"] for each in result["checks"])
    yield "checks", f"{len(result['checks'])}, {failed} failed" if failed else f"{len(result['checks'])}, all passed"
    for each in (result.get("notes") or {}).get("refused", ())[:_MOST_REFUSED]:
        yield "not judged", f"{each['what']}, which A refuses: {each['message']}"
    for label, text in result.get("governance", {}).get("said", ()):
        yield str(label), str(text)
    for name, one, other in _both(result):
        yield name, f"{one} against {other}"
    yield "sandbox", str(body["sandbox"]["sandbox"])
    threads = "1 thread" if result["threads"] == 1 else f"{result['threads']} threads"
    yield "torch", f"{body['environment']['torch']['version']}, {threads}"


def _at(result: JsonObject) -> str:
    base = result.get("governance", {}).get("base")
    return f" at {base['commit'][:12]}" if base else ""


def _slower(verdict: JsonObject) -> str:
    return f"{-verdict['latency_drop']:.1%} more"


def _both(result: JsonObject) -> Iterator[tuple[str, Any, Any]]:
    beside = result.get("beside", {})
    for name, label in _NAMES.items():
        both = [beside.get(arm, {}).get(name) for arm in ("baseline", "candidate")]
        if any(each is not None for each in both):
            one, other = ("not measured" if each is None else each for each in both)
            yield label, one, other


def call_ns(result: JsonObject) -> list[float]:
    """Return the time per call of baseline and candidate in nanoseconds, each from its fastest batch."""
    return [
        min(min(sample[arm]["batch_ns"]) / sample["calls"][number] for sample in result["samples"])
        for number, arm in enumerate(("baseline", "candidate"))
    ]


def _time(nanoseconds: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"
