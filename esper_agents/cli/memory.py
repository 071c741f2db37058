"""`esper memory`: what agents keep between sessions."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.outline import outline, outline_command
from esper_agents.cli.terminal import echo, echo_json
from esper_agents.domain.memory import NoteKind, NoteState

if TYPE_CHECKING:
    from esper_agents.domain.memory import Note

memory_app = typer.Typer(no_args_is_help=True, help="What agents keep between sessions.", rich_markup_mode=None)

_HERE = Path()
_KINDS = tuple(NoteKind)


def register(app: typer.Typer) -> None:
    """Add the command group."""
    app.add_typer(memory_app, name="memory")


@memory_app.command()
def show(
    agent: Annotated[str, typer.Option(help="Only what this agent keeps.")] = "",
    kind: Annotated[NoteKind | None, typer.Option(help="Only this document.")] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Also what is superseded, done or dropped.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest.")] = 200,
    project: Annotated[
        Path, typer.Option("--project", help="The project; the working folder's where left out.")
    ] = _HERE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what agents remember of the project, each thing with the certificate and the day it came from.

    Examples:
      esper memory show
      esper memory show --agent memory-diagnostician --kind next-actions
    """
    found = asyncio.run(_recalled(project, agent, kind, show_all, limit + 1))
    if as_json:
        echo_json([asdict(each) for each in found[:limit]])
        return
    if not found:
        echo("nothing is remembered yet: agents keep something when a session ends with a certificate")
    ordered = sorted(found[:limit], key=lambda each: (each.agent, _KINDS.index(each.kind)))
    for (name, document), notes in groupby(ordered, key=lambda each: (each.agent, each.kind)):
        outline(f"{name}, {document}")
        for each in notes:
            _show_note(each)
        echo()
    if len(found) > limit:
        echo(f"there is more: esper memory show --limit {2 * limit}")


def _show_note(note: Note) -> None:
    state = "" if note.state is NoteState.CURRENT else f"[{note.state}] "
    outline(f"{state}{note.text}", 1)
    if note.command:
        outline_command("do", note.command, 2)
    outline(f"from {note.certificate or note.session}, {note.written_at[:10]}", 2)


async def _recalled(where: Path, agent: str, kind: NoteKind | None, show_all: bool, limit: int) -> tuple[Note, ...]:
    from esper_agents.api import open_project

    states = tuple(NoteState) if show_all else (NoteState.CURRENT,)
    async with open_project(where) as project:
        found = await project.memory(agent=agent, kind=kind, states=states, limit=limit)
        if agent and not found:
            project.workshop.agents.get(agent)
        return found
