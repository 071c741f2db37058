"""`esper sessions tail|attach`: commands that watch a session of another process."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.live_output import Narrator, narrator, say
from esper_agents.cli.sessions import sessions_app, state_of
from esper_agents.cli.shared_options import HERE, ProjectOption, SessionArgument
from esper_agents.cli.terminal import short
from esper_agents.domain.session import SessionState
from esper_agents.errors import ExitCode

if TYPE_CHECKING:
    from esper_agents.api import OpenProject
    from esper_agents.domain.session import Event, SessionSummary


def register(app: typer.Typer) -> None:  # noqa: ARG001 - the commands belong to `esper sessions`
    """Add the commands."""
    sessions_app.command(epilog="Example: esper sessions tail --follow")(tail)
    sessions_app.command(epilog="Example: esper sessions attach latest")(attach)


def tail(
    session: SessionArgument = "latest",
    lines: Annotated[int, typer.Option("-n", "--limit", metavar="N", min=0, help="Maximum number of lines")] = 10,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Follow the session until its process ends")] = False,
    project: ProjectOption = HERE,
) -> None:
    """Print the latest events of a session."""
    raise typer.Exit(asyncio.run(_watch(session, project, lines, follow=follow, is_whole=False)))


def attach(session: SessionArgument = "latest", project: ProjectOption = HERE) -> None:
    """Watch a running session live.

    Shows a session of another process. Ctrl-C stops watching; the session continues. Exits with the exit code of the
    session.
    """
    raise typer.Exit(asyncio.run(_watch(session, project, None, follow=True, is_whole=True)))


async def _watch(session: str, where: Path, lines: int | None, *, follow: bool, is_whole: bool) -> int:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        found = await project.sessions.get(session)
        say("session", found.id)
        with narrator() as teller:
            watching = asyncio.create_task(_tell(project, found.id, lines, teller, follow=follow))
            if await _is_detached(watching):
                say("detached", f"it goes on; watch it again: esper sessions attach {short(found.id)}")
                return ExitCode.DONE
        found = await project.sessions.get(found.id)
        _last_lines(found)
        return int((await project.sessions.result(found.id)).exit_code) if is_whole else ExitCode.DONE


def _told(events: tuple[Event, ...], lines: int | None, teller: Narrator) -> int:
    """Print all known events, or the last lines, and return the number of the last event."""
    if lines is None:
        for event in events:
            teller.tell(event)
    else:
        for label, text in deque((line for event in events for line in teller.lines_of(event)), lines):
            say(label, text)
        sys.stdout.flush()
    return events[-1].seq if events else 0


async def _tell(project: OpenProject, session_id: str, lines: int | None, teller: Narrator, *, follow: bool) -> None:
    after = _told(await project.sessions.timeline(session_id), lines, teller)
    if follow:
        async for event in project.sessions.watch(session_id, after=after):
            teller.tell(event)


async def _is_detached(watching: asyncio.Task[None]) -> bool:
    """Wait for the watched session to end, and return whether the user detached before."""
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, watching.cancel)
    try:
        await watching
    except asyncio.CancelledError:
        return True
    finally:
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)
    return False


def _last_lines(found: SessionSummary) -> None:
    say("state", state_of(found))
    if found.state is SessionState.OPEN and not found.is_owned:
        say("next", f"esper resume {short(found.id)}")
    elif found.state is SessionState.WAITING:
        say("next", f"esper sessions show {short(found.id)}")
