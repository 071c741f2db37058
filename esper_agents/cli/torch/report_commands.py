"""`esper torch environment|verify`: commands that measure no target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from esper_agents.api import current_project
from esper_agents.cli.indented_output import outline
from esper_agents.cli.live_output import say
from esper_agents.cli.shared_options import JsonOption
from esper_agents.cli.terminal import echo_json
from esper_agents.cli.torch.options import MeasurementOptions
from esper_agents.cli.torch.run import opened

if TYPE_CHECKING:
    from collections.abc import Mapping


def add(app: typer.Typer, _command: str = "") -> None:
    """Add the commands."""
    app.command()(environment)
    app.command()(verify)
    app.command("recheck", hidden=True)(verify)


def environment(
    python: Annotated[str, typer.Option(metavar="PATH", help="Python interpreter whose torch is measured")] = "",
    threads: Annotated[int, typer.Option(metavar="N", min=1, help="Number of intra-op threads")] = 1,
    no_sandbox: Annotated[
        bool, typer.Option("--no-sandbox", help="Disable the sandbox (code runs with your permissions)")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the measurement environment.

    Shows versions and hardware. Every report contains the same data, so that reports from different machines can be
    distinguished.

    Examples:
      esper torch environment
      esper torch environment --python .venv/bin/python --json
    """
    asked = MeasurementOptions(python=python, threads=threads, no_sandbox=no_sandbox)
    place = current_project(Path.cwd())
    with opened(place, asked, keep=None) as bench:
        found = bench.measuring.environment()
    if as_json:
        echo_json(found)
    else:
        _show(found, 0)


def _show(found: Mapping[str, Any], depth: int) -> None:
    for name, part in found.items():
        if isinstance(part, dict):
            outline(f"{name}:", depth)
            _show(part, depth + 1)
        else:
            outline(f"{name}: {_shown(part)}", depth)


def _shown(part: Any) -> str:
    match part:
        case []:
            return "none"
        case list():
            return ", ".join(map(_shown, part))
        case dict():
            return " ".join(_shown(each) for each in part.values())
        case _:
            return str(part)


def verify(
    report: Annotated[Path, typer.Argument(metavar="FILE", help="Path of a report.json", show_default=False)],
    as_json: JsonOption = False,
) -> None:
    """Recompute a report from its measurements.

    Exits with 7 if the report, its conclusion and its artifacts do not match. Measures nothing.

    Examples:
      esper torch verify out/report.json
    """
    from esper_agents.api import recheck_report

    checked = recheck_report(report)
    if as_json:
        echo_json(checked.described())
        return
    say("report", f"{checked.kind} of {checked.started_at}")
    say("says", checked.says)
    say("recomputed", "the same, bit for bit")
    for name in checked.artifacts:
        say("artifact", f"{name} is what it was")
    for name in checked.absent:
        say("absent", f"{name}: not found next to the report")
