"""Commands of the measurements that have a descriptor."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from esper_agents.api import measurements
from esper_agents.api.target_project import place_of
from esper_agents.cli.terminal import one_line
from esper_agents.cli.torch.explain import rows
from esper_agents.cli.torch.options import MeasurementOptions, Target, measuring
from esper_agents.cli.torch.run import measure
from esper_agents.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from esper_agents.api import (
        MeasurementDescriptor,
        MeasurementLab,
        MeasurementOption,
        MeasurementReport,
        ReportSection,
        TargetSpec,
    )

_BAR = 16
# These options describe the arguments of a call, and such a target is not called.
_OF_CALLS = frozenset({"input", "inputs", "capture", "train"})


def add(app: typer.Typer) -> None:
    """Add the commands."""
    for each in measurements():
        app.command(each.kind)(measuring(_command_of(each), without=_OF_CALLS))


def _command_of(measurement: MeasurementDescriptor) -> Callable[..., None]:
    options = measurement.option_list()

    def run(*, target: str, asked: MeasurementOptions, fail: bool, **given: Any) -> None:
        place = place_of(target, Path.cwd())
        named = {each.name: place.inside(given[each.name]) for each in options if each.is_target and given[each.name]}
        chosen = measurement.options(**{**given, **named})

        def work(lab: MeasurementLab, spec: TargetSpec) -> MeasurementReport:
            return lab.described(measurement.kind, spec, chosen)

        def show(report: MeasurementReport, console: Console) -> None:
            for section in measurement.sections(report.result):
                print_section(section, console)

        found = measure(measurement.kind, target, asked, work, show).result
        if fail and found["status"] in measurement.failing:
            raise typer.Exit(ExitCode.AGAINST)

    failing = Annotated[bool, typer.Option("--fail", help=measurement.fail_help)]
    own = [
        ("target", Target, inspect.Parameter.empty),
        *((each.name, _annotation(each), each.default) for each in options),
    ]
    kinds: list[tuple[str, Any, Any]] = [*own, ("fail", failing, False)]
    run.__name__ = measurement.kind
    lines = "\n".join(f"  {each}" for each in measurement.examples)
    run.__doc__ = f"{measurement.summary}.\n\n{measurement.details}\n\nExamples:\n{lines}\n"
    run.__annotations__ = {name: annotation for name, annotation, _ in kinds}
    vars(run)["__signature__"] = inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, annotation, default in kinds
        ]
    )
    return run


def _annotation(option: MeasurementOption) -> Any:
    flag = f"--{option.name.replace('_', '-')}"
    if option.type is bool:
        return Annotated[bool, typer.Option(flag, help=option.help)]
    metavar = option.metavar or None
    return Annotated[
        option.type,
        typer.Option(flag, help=option.help, metavar=metavar, min=option.least, show_default=bool(option.default)),
    ]


def print_section(section: ReportSection, console: Console) -> None:
    """Print a part of a report, with an empty line before a table.

    Args:
        section: The part.
        console: Output console.
    """
    if section.pairs:
        rows(console, list(section.pairs), style=section.style)
    if not section.heads:
        return
    grid = Table(*section.heads, box=None, pad_edge=False, header_style="dim")
    if section.bars:
        grid.add_column("")
    for number, cells in enumerate(section.cells):
        bar = [Text("━" * round(_BAR * section.bars[number]), style="cyan")] if section.bars else []
        grid.add_row(*(Text(one_line(each)) for each in cells), *bar)
    console.print()
    console.print(grid)
