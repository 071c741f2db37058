"""`esper sessions`: what has been submitted, how far it is, and how to end it."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.live import lines_of, say
from esper_agents.cli.outline import outline
from esper_agents.cli.terminal import echo, echo_json, short
from esper_agents.domain.session import SessionState

if TYPE_CHECKING:
    from esper_agents.domain.session import Event, SessionSummary

_Project = Annotated[Path, typer.Option("--project", help="The project; the working folder's where left out.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Session = Annotated[str, typer.Argument(help="The session, an unmistakable part of its name, or `latest`.")]
_HERE = Path()

sessions_app = typer.Typer(no_args_is_help=True, help="What has been submitted, and how far it is.")


def register(app: typer.Typer) -> None:
    """Add the command group."""
    app.add_typer(sessions_app, name="sessions")


@sessions_app.command("list")
def list_sessions(
    project: _Project = _HERE,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 20,
    as_json: _Json = False,
) -> None:
    """List the project's sessions, newest first.

    Examples:
      esper sessions list --limit 5
    """
    found = asyncio.run(_list(project, limit))
    if as_json:
        echo_json([asdict(each) for each in found])
        return
    if not found:
        echo('no sessions yet; begin with: esper submit "review this training code" train.py')
    for each in found:
        outline(f"{short(each.id)} {each.changed_at[:16].replace('T', ' ')} {_state(each)}")
        outline(f"{each.agent or 'nobody'}: {each.request}", 1)


@sessions_app.command()
def show(session: _Session = "latest", project: _Project = _HERE, as_json: _Json = False) -> None:
    """Show what happened in a session, row by row.

    Examples:
      esper sessions show latest
    """
    found, events = asyncio.run(_show(session, project))
    if as_json:
        echo_json({"session": asdict(found), "events": [asdict(each) for each in events]})
        return
    say("session", found.id)
    say("request", found.request)
    say("state", _state(found))
    told = set[str]()
    for event in events:
        for label, text in lines_of(event, told):
            say(label, text)
    answered = {event.body["question"] for event in events if event.kind == "answered"}
    for event in events:
        if event.kind == "asked" and event.body["id"] not in answered:
            say("next", f"esper {'approve or deny' if event.body['tool'] else 'answer'} {short(event.body['id'])}")
    if found.state is SessionState.OPEN:
        say("next", f"esper resume {short(found.id)}")


@sessions_app.command()
def cancel(session: _Session, project: _Project = _HERE, as_json: _Json = False) -> None:
    """End a session without a verdict; a running one stops at its next step.

    Examples:
      esper sessions cancel latest
    """
    found = asyncio.run(_cancel(session, project))
    if as_json:
        echo_json(asdict(found))
    elif found.state is SessionState.CANCELLED:
        say("cancelled", found.id)
    else:
        say("asked", f"the process that runs {found.id} stops it at its next step")


def _state(each: SessionSummary) -> str:
    match each.state:
        case SessionState.OPEN:
            return "running" if each.is_owned else "interrupted"
        case SessionState.WAITING:
            return "waiting for you"
        case SessionState.DONE | SessionState.REFUSED | SessionState.CANCELLED:
            return str(each.state)


async def _list(where: Path, limit: int) -> tuple[SessionSummary, ...]:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.sessions(limit=limit)


async def _show(session: str, where: Path) -> tuple[SessionSummary, tuple[Event, ...]]:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        found = await project.session(session)
        return found, await project.timeline(found.id)


async def _cancel(session: str, where: Path) -> SessionSummary:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.cancel(session)
