"""Commands of the measurements, one for each descriptor."""

from __future__ import annotations

import inspect
import secrets
from dataclasses import MISSING, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from esper_agents.api import find_target_project, measurements
from esper_agents.cli.terminal import one_line
from esper_agents.cli.torch.options import MeasurementOptions, Target, measuring
from esper_agents.cli.torch.run import measure
from esper_agents.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from esper_agents.api import (
        MeasurementDescriptor,
        MeasurementLab,
        MeasurementOption,
        MeasurementReport,
        PreparedOptions,
        ReportSection,
        TargetSpec,
    )

_LABEL = 9
_NEVER = "never"
_PAIR: tuple[tuple[str, Any, Any], ...] = (
    (
        "baseline",
        Annotated[str, typer.Argument(metavar="A", help="Baseline target", show_default=False)],
        inspect.Parameter.empty,
    ),
    ("candidate", Annotated[str, typer.Argument(metavar="B", help="Candidate target [default: A, with --base]")], ""),
)
# These options describe the arguments of a call.
_TRAIN = "train"
_NO_WAIT = "no_wait"
_OF_CALLS = frozenset({"input", "inputs", "capture", _TRAIN})


def add(app: typer.Typer, command: str = "") -> None:
    """Add the commands.

    Args:
        app: Application to add them to.
        command: Name of the only one that is needed; all if empty or of no measurement.
    """
    for measurement in measurements(command):
        without: frozenset[str] = frozenset() if measurement.has_inputs else _OF_CALLS
        if not any(option.is_shared for option in measurement.option_list()):
            without |= {_TRAIN}
        if not measurement.is_timed:
            without |= {_NO_WAIT}
        app.command(measurement.command)(measuring(_command_of(measurement), without=without))


def _command_of(measurement: MeasurementDescriptor) -> Callable[..., None]:
    options = measurement.option_list()

    def run(*, asked: MeasurementOptions, target: str = "", fail_on: str = _NEVER, **given: Any) -> None:
        if measurement.is_pair:
            candidate = given.pop("candidate")
            target = candidate or given["baseline"]
            given["baseline"] = given["baseline"] if candidate else ""
        if measurement.draws_seed and asked.seed is None:
            asked = replace(asked, seed=secrets.randbits(31))
        place = find_target_project(target, Path.cwd())
        given |= {option.name: asked.train for option in options if option.is_shared}
        values = {
            option.name: option.value(given[option.name], place.inside) for option in options if option.name in given
        }
        with measurement.prepared(place.root, place.target, measurement.options(**values)) as made:
            measured(target, asked, made, fail_on)

    def measured(target: str, asked: MeasurementOptions, made: PreparedOptions, fail_on: str) -> None:

        def work(lab: MeasurementLab, spec: TargetSpec) -> MeasurementReport:
            return lab.run(measurement.kind, spec, made.options)

        def show(report: MeasurementReport, console: Console) -> None:
            for section in measurement.sections(measurement.parsed(report), report.subject):
                print_section(section, console)

        report = measure(measurement.kind, target, asked, work, show, roots=made.roots)
        if measurement.is_judged or fail_on != _NEVER:
            is_against = measurement.is_against(measurement.parsed(report))
            if is_against is not False:
                raise typer.Exit(ExitCode.AGAINST if is_against else ExitCode.UNDECIDED)

    kinds = _parameters(measurement, options)
    run.__name__ = measurement.kind
    run.__doc__ = _help(measurement)
    run.__annotations__ = {name: annotation for name, annotation, _ in kinds}
    vars(run)["__signature__"] = inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, annotation, default in kinds
        ]
    )
    return run


def _parameters(measurement: MeasurementDescriptor, options: Sequence[MeasurementOption]) -> list[tuple[str, Any, Any]]:
    """Return the names, annotations and defaults of a command's own parameters."""
    kinds: list[tuple[str, Any, Any]] = [
        *(_PAIR if measurement.is_pair else (("target", Target, inspect.Parameter.empty),)),
        *(
            (option.name, _annotation(option), _default(option))
            for option in options
            if option.in_command and not option.is_shared
        ),
    ]
    if measurement.fail_on:
        levels: Any = StrEnum("FailLevel", {each.upper(): each for each in (measurement.fail_on, _NEVER)})  # type: ignore[misc]
        failing = Annotated[levels, typer.Option("--fail-on", help=measurement.fail_help)]
        kinds.append(("fail_on", failing, levels(_NEVER)))
    return kinds


def _help(measurement: MeasurementDescriptor) -> str:
    lines = "\n".join(f"  {example}" for example in measurement.examples)
    passing = f" Exits with 0 unless --fail-on {measurement.fail_on} is given." if measurement.fail_on else ""
    if measurement.is_judged:
        passing = " Exits with 0 if the result is as claimed, 3 if it is not, 4 if it is inconclusive."
    return f"{measurement.summary}.\n\n{measurement.details}{passing}\n\nExamples:\n{lines}\n"


def _default(option: MeasurementOption) -> Any:
    return inspect.Parameter.empty if option.default is MISSING else option.default


def _annotation(option: MeasurementOption) -> Any:
    if option.type is bool:
        return Annotated[bool, typer.Option(*option.flags, help=option.help)]
    return Annotated[
        option.type,
        typer.Option(
            *option.flags,
            help=option.help,
            metavar=option.metavar or None,
            min=option.least,
            show_default=option.default is not MISSING and option.default not in {"", None},
        ),
    ]


def print_section(section: ReportSection, console: Console) -> None:
    """Print a part of a report.

    Args:
        section: The part.
        console: Output console.
    """
    if section.is_apart or section.title:
        console.print()
    if section.title:
        facts = "".join(f"   {one_line(fact)}" for fact in section.facts)
        console.print(Text.assemble((one_line(section.title), "bold"), facts))
    if section.note:
        console.print(Text(one_line(section.note), style=section.style))
    if section.source is not None:
        line, text = section.source
        console.print(Text(f"{line:>8} | {one_line(text)}", overflow="fold"))
    if section.pairs:
        _print_pairs(section, console)
    if section.cells:
        _print_table(section, console)


def _print_pairs(section: ReportSection, console: Console) -> None:
    """Print labelled texts, wrapped to the right of their labels."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(min_width=_LABEL, no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in section.pairs:
        grid.add_row(Text(one_line(label), style=section.style), Text(one_line(text)))
    console.print(grid)


def _print_table(section: ReportSection, console: Console) -> None:
    if section.heads:
        grid = Table(*section.heads, box=None, pad_edge=False, header_style="dim")
    else:
        grid = Table.grid(padding=(0, 1 if section.is_indented else 2, 0, 0))
        if section.is_indented:
            grid.add_column(min_width=_LABEL)
        for number in range(len(section.cells[0])):
            grid.add_column(justify="right" if number in section.right else "left", overflow="fold")
        grid.columns[int(section.is_indented)].no_wrap = True
    if section.bars:
        grid.add_column("")
    for number, cells in enumerate(section.cells):
        bar = (
            [Text("━" * max(1, round(section.bar_width * section.bars[number])), style="cyan")] if section.bars else []
        )
        label = [""] if section.is_indented else []
        grid.add_row(*label, *(Text(one_line(cell), overflow="fold") for cell in cells), *bar)
    console.print(grid)
