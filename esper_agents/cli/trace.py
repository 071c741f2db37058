"""`esper trace`: command that exports a session as OpenTelemetry spans."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.live_output import say
from esper_agents.cli.shared_options import HERE, JsonOption, ProjectOption, SessionArgument
from esper_agents.cli.terminal import echo_json
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import InputFileError, UsageError

if TYPE_CHECKING:
    from esper_agents.api import SessionTrace


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(trace)


def trace(
    session: SessionArgument = "latest",
    otlp: Annotated[
        str, typer.Option("--otlp", metavar="URL", help="Send the spans to this collector, OTLP over HTTP")
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the spans to this file, OTLP JSON lines"),
    ] = None,
    content: Annotated[
        bool, typer.Option("--content", help="Include requests, messages, tool arguments and results")
    ] = False,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Export a session as OpenTelemetry spans.

    One span per agent, turn and tool call, computed from the ledger. Without --otlp and --output the spans are printed
    as OTLP JSON lines. A running session is exported up to its latest event. The same ledger gives the same span IDs.

    Examples:
      esper trace latest --output trace.jsonl
      esper trace latest --otlp http://localhost:4318
    """
    if otlp and output:
        raise UsageError("spans go to one place at a time", remedy="give --otlp or --output")
    found = asyncio.run(_trace(session, project, otlp, with_content=content))
    if otlp:
        _report(found, "sent", found.send(otlp), as_json=as_json)
    elif output:
        _write(output.expanduser(), "".join(f"{line}\n" for line in found.json_lines()))
        _report(found, "wrote", str(output), as_json=as_json)
    else:
        sys.stdout.writelines(f"{line}\n" for line in found.json_lines())


async def _trace(session: str, where: Path, url: str, *, with_content: bool) -> SessionTrace:
    from esper_agents.api import collector_url, open_project

    if url:
        # An unusable URL is an error before the session is read.
        collector_url(url)
    async with open_project(where) as project:
        return await project.sessions.trace(session, with_content=with_content)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="ascii")
    except OSError as error:
        problem = (error.strerror or "cannot be written").lower()
        raise InputFileError(str(file), problem, remedy="name a file that you may write with --output") from error


def _report(found: SessionTrace, done: str, where: str, *, as_json: bool) -> None:
    if as_json:
        echo_json({"session": found.session, "trace": found.trace_id, "spans": len(found.spans), done: where})
        return
    say("session", found.session)
    say("trace", found.trace_id)
    say(done, f"{number_of(len(found.spans), 'span')} to {where}")
