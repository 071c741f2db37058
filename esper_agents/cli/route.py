"""`esper agents route`: command that shows which agent would get a request."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.agents import agents_app
from esper_agents.cli.shared_options import JsonOption, ProjectOption
from esper_agents.cli.terminal import echo, echo_json, one_line, table
from esper_agents.domain.route import RouteOutcome
from esper_agents.errors import ExitCode

if TYPE_CHECKING:
    from esper_agents.domain.route import Route, RouteCandidate


def register(app: typer.Typer) -> None:  # noqa: ARG001 - the command belongs to `esper agents`, which registers itself
    """Add `route` to `esper agents`."""
    agents_app.command("route", epilog='Example: esper agents route "my loss is NaN" train.py')(route)


def route(
    text: Annotated[str, typer.Argument(help="Request in plain language")],
    paths: Annotated[list[Path] | None, typer.Argument(metavar="PATHS", help="Files of the request")] = None,
    *,
    file: Annotated[
        list[Path] | None, typer.Option("--file", metavar="PATH", hidden=True, help="Same as PATHS")
    ] = None,
    project: ProjectOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Show which agent would get a request.

    Shows the score of each candidate with its reasons. Exits with 2 if no agent would accept the request.
    """
    from esper_agents.api import load_agents

    found = load_agents(project).route(text, (*(paths or ()), *(file or ())))
    if as_json:
        echo_json(asdict(found))
    else:
        _show(found)
    if found.outcome is RouteOutcome.REFUSED:
        raise typer.Exit(ExitCode.USAGE)


def _show(found: Route) -> None:
    match found.outcome:
        case RouteOutcome.ASSIGNED:
            echo(one_line(found.agent))
        case RouteOutcome.TRIAGE:
            echo(f"{one_line(found.agent)} (triage)")
        case RouteOutcome.REFUSED:
            echo("refused")
    echo(f"  {one_line(found.explanation)}")
    if found.candidates:
        echo()
        table(("agent", "score", "for it", "against it"), [_row(candidate) for candidate in found.candidates])


def _row(candidate: RouteCandidate) -> tuple[str, str, str, str]:
    score = f"{candidate.score_milli / 1000:.2f}"
    return candidate.agent, score, ", ".join(candidate.because), "; ".join(candidate.against)
