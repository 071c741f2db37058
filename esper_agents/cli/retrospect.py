"""`esper retrospect`: command that reports recurring patterns over sessions."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.cost_summary import as_data
from esper_agents.cli.live_output import say
from esper_agents.cli.shared_options import HERE, JsonOption, ProjectOption
from esper_agents.cli.skills import accept
from esper_agents.cli.submit import ReasonerName
from esper_agents.cli.terminal import echo, echo_json, is_interactive, one_line
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.program_notice import ProgramNotice
from esper_agents.domain.reasoner_names import CLAUDE
from esper_agents.errors import InputFileError

if TYPE_CHECKING:
    from esper_agents.api import ModelCostPreview, OpenProject, Retrospect, Wording

retrospect_app = typer.Typer(invoke_without_command=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the command group."""
    app.add_typer(retrospect_app, name="retrospect")


@retrospect_app.callback()
def retrospect(
    context: typer.Context,
    limit: Annotated[
        int, typer.Option("-n", "--limit", metavar="N", min=1, max=10_000, help="Maximum number of sessions")
    ] = 200,
    least: Annotated[
        int,
        typer.Option("--min-sessions", metavar="N", min=2, help="Minimum number of sessions for a pattern"),
    ] = 2,
    reasoner: Annotated[
        ReasonerName, typer.Option(help="Reasoner; auto uses a model if you gave consent")
    ] = ReasonerName.AUTO,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", dir_okay=False, help="Write to this file")
    ] = None,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Report recurring patterns over sessions.

    Lists guidelines, proposed skills and insights with their sources, counted from the ledgers and certificates. A
    model may word them; the facts stay below the wording. Agents do not load a proposed skill before you accept it.

    Examples:
      esper retrospect
      esper retrospect --reasoner claude
      esper retrospect --output retrospect.md
      esper skills accept learnt-memory
    """
    if context.invoked_subcommand:
        return
    found, text = asyncio.run(_look_back(project, limit, least, reasoner, is_told=not as_json))
    if as_json:
        echo_json(_as_data(found))
    elif output is None:
        echo(text)
    else:
        _write(output, text)
        echo(f"wrote what {number_of(len(found.sessions), 'session')} show to {output}")


retrospect_app.command("accept", hidden=True)(accept)


async def _look_back(
    where: Path, limit: int, least: int, wanted: ReasonerName, *, is_told: bool
) -> tuple[Retrospect, str]:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        found = await project.retrospect.report(limit=limit, least=least)
        found = await _reworded(project, found, wanted, is_told=is_told)
        return found, project.retrospect.markdown(found)


async def _reworded(project: OpenProject, found: Retrospect, wanted: ReasonerName, *, is_told: bool) -> Retrospect:
    """Return the report worded by a model, if one is requested and consent was given."""
    from esper_agents.cli.consent_prompt import ask_consent

    if not (found.habits or found.insights):
        return found
    is_wanted = wanted is ReasonerName.CLAUDE or (wanted is ReasonerName.AUTO and project.models.has_key)
    if is_wanted and is_told and is_interactive():
        ask_consent(project, project.retrospect.preview(found), wanted, lambda known: _tell(known, found))
    if project.models.choose_reasoner(wanted, lambda: project.retrospect.preview(found)) == CLAUDE:
        return await project.retrospect.reword(found, _notice)
    left = "no model was used: no consent to send source code (esper models allow)"
    return replace(found, unworded=left) if is_wanted else found


def _notice(words: str) -> None:
    """Print messages of the program during a model call, but not the model output."""
    if isinstance(words, ProgramNotice):
        sys.stderr.write(f"{one_line(words)}\n")


def _tell(known: ModelCostPreview, found: Retrospect) -> None:
    from esper_agents.cli.consent_prompt import about

    say("model", f"{known.model} at {known.host}")
    facts = number_of(len(found.habits) + len(found.insights), "fact")
    say("sends", f"{facts} of this report: rules, places, and what sessions said of them; no file")
    say("cost", about(known))


def _as_data(found: Retrospect) -> dict[str, object]:
    suggestions = [
        {
            "name": suggestion.name,
            "category": suggestion.category,
            "rules": [one.code for one in suggestion.rules],
            "sources": [asdict(one) for one in suggestion.sources],
        }
        for suggestion in found.suggestions
    ]
    return {
        "project": found.project,
        "sessions": [asdict(session) for session in found.sessions],
        "habits": [asdict(habit) for habit in found.habits],
        "suggestions": suggestions,
        "insights": [asdict(insight) for insight in found.insights],
        "wording": _wording(found.wording),
        "unworded": found.unworded,
    }


def _wording(found: Wording | None) -> dict[str, object] | None:
    if found is None:
        return None
    return asdict(found) | {
        "expense": as_data(found.expense),
        "left_out": [{"why": why, "items": items} for why, items in found.left_out],
        "skills": [asdict(skill) | {"name": skill.file_name} for skill in found.skills],
    }


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        problem = (error.strerror or "cannot be written").lower()
        raise InputFileError(str(file), problem, remedy="name a file that you may write with --output") from error
