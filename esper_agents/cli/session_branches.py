"""`esper sessions continue|fork|replay`: commands that start from an existing session."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.live_output import say
from esper_agents.cli.resume import source_flags, telling_changes
from esper_agents.cli.sessions import sessions_app
from esper_agents.cli.shared_options import (
    HERE,
    DefinitionsOption,
    DefinitionSource,
    JsonOption,
    ProjectOption,
    SessionArgument,
)
from esper_agents.cli.terminal import echo_json
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import ExitCode

if TYPE_CHECKING:
    from esper_agents.api import ReplayResult


def register(app: typer.Typer) -> None:  # noqa: ARG001 - the commands belong to `esper sessions`
    """Add the commands."""
    sessions_app.command("continue", epilog='Example: esper sessions continue latest "review the loader as well"')(
        continue_
    )
    sessions_app.command(epilog="Example: esper sessions fork latest --from-step 1.2 --agent torch-specialist")(fork)
    sessions_app.command(epilog="Example: esper sessions replay latest")(replay)


def continue_(
    session: SessionArgument,
    message: Annotated[str, typer.Argument(help="Follow-up request")],
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Files [default: those of the request, else as before]")
    ] = None,
    agent: Annotated[str, typer.Option(metavar="AGENT", help="Agent [default: the agent that concluded]")] = "",
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Start a follow-up session.

    The new session starts from the result of the old one. Its certificate supersedes the old certificate if both are
    about the same component.
    """
    raise typer.Exit(asyncio.run(_continue(session, message, paths or [], agent, project, as_json=as_json)))


def fork(
    session: SessionArgument,
    at: Annotated[
        str,
        typer.Option(
            "--from-step", metavar="FRAME.STEP", help="Fork point (see `esper sessions show`); 0 is the start"
        ),
    ],
    agent: Annotated[str, typer.Option(metavar="AGENT", help="Agent [default: the agent at that step]")] = "",
    definitions: DefinitionsOption = None,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Fork a session at a given step.

    The new session starts with a copy of the events up to that step.
    """
    raise typer.Exit(asyncio.run(_fork(session, at, agent, project, definitions, as_json=as_json)))


def replay(
    session: SessionArgument = "latest",
    definitions: Annotated[
        DefinitionSource, typer.Option("--definitions", help="Definitions to use: of session start, or current ones")
    ] = DefinitionSource.CURRENT,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Replay a session and compare the result.

    Re-executes the session from its ledger without side effects. Exits with 1 if the result differs, and with 7 if the
    certificate was modified after issuing.
    """
    found = asyncio.run(_replay(session, project, pinned=definitions is DefinitionSource.RECORDED))
    if as_json:
        echo_json({**asdict(found), "is_identical": found.is_identical})
    else:
        _show(found)
    if not found.is_identical and not found.differences:
        raise typer.Exit(ExitCode.TAMPERED)
    raise typer.Exit(ExitCode.FAILED if found.differences or not found.is_identical else ExitCode.DONE)


async def _continue(session: str, message: str, paths: list[Path], agent: str, where: Path, *, as_json: bool) -> int:
    from esper_agents.api import open_project
    from esper_agents.cli.begun import begin
    from esper_agents.cli.run_session import run_interactively

    async with open_project(where) as project:
        task, before = await project.tasks.continuation(session, message, paths, agent=agent)
        return await run_interactively(
            project, await begin(project.tasks.submit(task, continues=before)), as_json=as_json
        )


async def _fork(
    session: str, at: str, agent: str, where: Path, source: DefinitionSource | None, *, as_json: bool
) -> int:
    from esper_agents.api import open_project
    from esper_agents.cli.begun import begin
    from esper_agents.cli.run_session import run_interactively

    async with open_project(where) as project:
        with telling_changes(is_told=not as_json):
            held = await begin(project.sessions.fork(session, at, agent=agent, **source_flags(source)))
        return await run_interactively(project, held, as_json=as_json)


async def _replay(session: str, where: Path, *, pinned: bool) -> ReplayResult:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.sessions.replay(session, pinned=pinned)


def _show(found: ReplayResult) -> None:
    say("session", found.session)
    say("replayed", f"{found.replayed} of {number_of(found.rows, 'row')}; {found.ending}")
    for difference in found.differences:
        say("differs", difference)
    if not found.certificate:
        say("certified", "nothing; the session has no certificate")
    elif found.is_identical:
        say("certified", f"{found.certificate} comes out as it was issued, byte by byte (sha256 {found.sha256})")
    else:
        say("certified", f"{found.certificate} comes out otherwise: sha256 {found.sha256 or 'none'}")
        say("", f"issued was {found.recorded_sha256}")
