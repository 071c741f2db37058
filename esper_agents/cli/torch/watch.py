"""`esper torch watch`: command that counts how often lines of a target run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from esper_agents.api import LineRange
from esper_agents.api.target_project import place_of
from esper_agents.cli.terminal import one_line
from esper_agents.cli.torch.options import MeasurementOptions, Target, measuring
from esper_agents.cli.torch.run import measure
from esper_agents.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from esper_agents.api import MeasurementLab, MeasurementReport, TargetProject, TargetSpec

_LINES = re.compile(r"(?P<file>.+):(?P<line>[1-9]\d{0,8})(?:-(?P<last>[1-9]\d{0,8}))?")


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command("watch")(measuring(watch_lines))


def watch_lines(
    target: Target,
    *,
    asked: MeasurementOptions,
    line: Annotated[
        list[str],
        typer.Option(metavar="FILE:LINE", help="Line or range FILE:FIRST-LAST (repeatable)", show_default=False),
    ],
    calls: Annotated[int, typer.Option(metavar="N", min=1, help="Number of calls")] = 3,
    fail: Annotated[bool, typer.Option("--fail", help="Exit 3 if a call raises")] = False,
) -> None:
    """Count how often lines run.

    Calls the target with new inputs each time, counts the executions of each line and reports the line that raised.
    This confirms or refutes a finding of static analysis. Exits with 0 unless --fail is given.

    Examples:
      esper torch watch model.py:make_model --input "randn(32,128)" --line model.py:41
      esper torch watch train.py:make_step --line train.py:30-34 --calls 10
    """
    place = place_of(target, Path.cwd())
    spans = [_span(each, place) for each in line]

    def work(lab: MeasurementLab, spec: TargetSpec) -> MeasurementReport:
        return lab.watch(spec, spans, calls=calls, train=asked.train)

    found = measure("watch", target, asked, work, show).result
    if fail and found["raised"] is not None:
        raise typer.Exit(ExitCode.AGAINST)


def _span(text: str, place: TargetProject) -> LineRange:
    found = _LINES.fullmatch(text)
    if found is None or int(found["last"] or found["line"]) < int(found["line"]):
        raise UsageError(f"{text!r} names no line", remedy="write FILE:LINE or FILE:FIRST-LAST")
    return LineRange(place.inside(found["file"]), int(found["line"]), int(found["last"] or found["line"]))


def show(report: MeasurementReport, console: Console) -> None:
    """Print the result for each line.

    Args:
        report: Of kind `watch`.
        console: Output console.
    """
    result = report.result
    console.print(Text(one_line(result["headline"]), style="red" if result["raised"] else "green"))
    console.print()
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for each in result["lines"]:
        grid.add_row(Text(str(LineRange(each["file"], each["line"], each["end_line"]))), Text(one_line(each["said"])))
    console.print(grid)
