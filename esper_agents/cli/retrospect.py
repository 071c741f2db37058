"""`esper retrospect`: what the sessions of a project show together, and the skills that they suggest."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.terminal import echo, echo_json, is_interactive
from esper_agents.errors import ExitCode, InputFileError, UsageError

if TYPE_CHECKING:
    from esper_agents.learning.retrospect import Retrospect

retrospect_app = typer.Typer(
    invoke_without_command=True, help="What the sessions of a project show together.", rich_markup_mode=None
)

_Project = Annotated[Path, typer.Option("--project", help="The project; the working folder's where left out.")]
_HERE = Path()


def register(app: typer.Typer) -> None:
    """Add the command group."""
    app.add_typer(retrospect_app, name="retrospect")


@retrospect_app.callback()
def retrospect(
    context: typer.Context,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, help="At most so many sessions, the newest.")
    ] = 200,
    least: Annotated[int, typer.Option("--least", min=2, help="What is seen in so many sessions is repeated.")] = 2,
    output: Annotated[Path | None, typer.Option("--output", dir_okay=False, help="Write to this file.")] = None,
    project: _Project = _HERE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Report what repeats over a project's sessions: guidelines, suggested skills, insights, each with its sources.

    Made from the ledger and the certificates alone; no model is asked. The skills are proposals that nobody loads.

    Examples:
      esper retrospect
      esper retrospect --output retrospect.md
      esper retrospect accept learnt-memory
    """
    if context.invoked_subcommand:
        return
    from esper_agents.learning.rendering import render_report

    found = asyncio.run(_look_back(project, limit, least))
    if as_json:
        echo_json(_as_data(found))
    elif output is None:
        echo(render_report(found))
    else:
        _write(output, render_report(found))
        echo(f"wrote what {len(found.sessions)} sessions show to {output}")


@retrospect_app.command()
def accept(
    name: Annotated[str, typer.Argument(help="The proposed skill.")],
    yes: Annotated[bool, typer.Option("--yes", help="Agree to it without being asked.")] = False,
    project: _Project = _HERE,
) -> None:
    """Show a proposed skill, and move it into the project's `.esper/skills` if you agree.

    Examples:
      esper retrospect accept learnt-memory
    """
    raise typer.Exit(asyncio.run(_accept(name, yes, project)))


async def _look_back(where: Path, limit: int, least: int) -> Retrospect:
    from esper_agents.api import open_project
    from esper_agents.api.retrospect import look_back

    async with open_project(where) as project:
        return await look_back(project, limit=limit, least=least)


async def _accept(name: str, is_agreed: bool, where: Path) -> int:
    from esper_agents.api import open_project
    from esper_agents.api.retrospect import proposal, take

    async with open_project(where) as project:
        found = proposal(project, name)
        echo(found.text)
        if not is_agreed:
            if not is_interactive():
                raise UsageError("nobody is here to agree to it", remedy=f"esper retrospect accept --yes {name}")
            if not typer.confirm(f"take {name} into the project, where agents load it?"):
                return ExitCode.CANCELLED
        echo(f"taken: {take(project, found)}")
    return ExitCode.DONE


def _as_data(found: Retrospect) -> dict[str, object]:
    suggestions = [
        {
            "name": each.name,
            "category": each.category,
            "rules": [one.code for one in each.rules],
            "sources": [asdict(one) for one in each.sources],
        }
        for each in found.suggestions
    ]
    return {
        "project": found.project,
        "sessions": [asdict(each) for each in found.sessions],
        "habits": [asdict(each) for each in found.habits],
        "suggestions": suggestions,
        "insights": [asdict(each) for each in found.insights],
    }


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        problem = (error.strerror or "cannot be written").lower()
        raise InputFileError(str(file), problem, remedy="name a file that you may write with --output") from error
