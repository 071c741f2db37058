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
    from collections.abc import Sequence

    from esper_agents.domain.session import Event, SessionSummary
    from esper_agents.observing.span import TraceSpan


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
    from esper_agents.observing.collector import address_of, host_of, send
    from esper_agents.observing.ledger_spans import spans_of
    from esper_agents.observing.otlp import json_lines

    if otlp and output:
        raise UsageError("spans go to one place at a time", remedy="give --otlp or --output")
    url = address_of(otlp) if otlp else ""
    found, events = asyncio.run(_rows(session, project))
    spans = spans_of(found, events, with_content=content)
    if url:
        send(spans, url)
        _report(found, spans, "sent", host_of(url), as_json=as_json)
    elif output:
        _write(output.expanduser(), "".join(f"{each}\n" for each in json_lines(spans)))
        _report(found, spans, "wrote", str(output), as_json=as_json)
    else:
        sys.stdout.writelines(f"{each}\n" for each in json_lines(spans))


async def _rows(session: str, where: Path) -> tuple[SessionSummary, tuple[Event, ...]]:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        found = await project.sessions.get(session)
        return found, await project.sessions.timeline(found.id)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="ascii")
    except OSError as error:
        problem = (error.strerror or "cannot be written").lower()
        raise InputFileError(str(file), problem, remedy="name a file that you may write with --output") from error


def _report(found: SessionSummary, spans: Sequence[TraceSpan], done: str, where: str, *, as_json: bool) -> None:
    trace_id = spans[0].trace
    if as_json:
        echo_json({"session": found.id, "trace": trace_id, "spans": len(spans), done: where})
        return
    say("session", found.id)
    say("trace", trace_id)
    say(done, f"{number_of(len(spans), 'span')} to {where}")
