"""`esper worker`: command that runs queued and abandoned sessions concurrently."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.live_output import say
from esper_agents.cli.submit import Publish
from esper_agents.cli.terminal import one_line, short
from esper_agents.errors import ExitCode

if TYPE_CHECKING:
    from esper_agents.api import QueueWorker, WorkerEvent


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(worker)


def worker(
    concurrency: Annotated[
        int,
        typer.Option("-j", "--jobs", metavar="N", min=1, max=256, help="Maximum number of concurrent sessions"),
    ] = 4,
    once: Annotated[bool, typer.Option("--once", help="Exit when no session is left to run")] = False,
    poll: Annotated[
        float | None,
        typer.Option(min=0.05, metavar="SECONDS", help="Seconds between polls [default: 2; 15 on PostgreSQL]"),
    ] = None,
    project: Annotated[
        Path | None, typer.Option("--project", metavar="PATH", help="Run only the sessions of this project directory")
    ] = None,
    publish: Annotated[
        Publish, typer.Option(help="Publish views to the project or the data directory")
    ] = Publish.PROJECT,
    metrics: Annotated[
        int | None,
        typer.Option(min=0, max=65535, metavar="PORT", help="Serve metrics at 127.0.0.1:PORT/metrics [default: off]"),
    ] = None,
) -> None:
    """Run queued and abandoned sessions.

    Queued sessions come from `esper submit --queue`; abandoned ones lost their process. With a shared PostgreSQL
    database, the worker runs the sessions of every project whose directory exists on this machine; otherwise those of
    the current project. A session with a question waits for your answer. SIGTERM or Ctrl-C stops each session at its
    next step and releases it; a second signal stops at once. With --once, exits with 1 if a session failed.

    Examples:
      esper worker --once
      esper worker --jobs 16
    """
    raise typer.Exit(asyncio.run(_work(project, concurrency, poll, publish, once=once, metrics=metrics)))


async def _work(
    project: Path | None, concurrency: int, poll_s: float | None, publish: Publish, *, once: bool, metrics: int | None
) -> int:
    from esper_agents.api import open_worker

    into_project = publish is Publish.PROJECT
    async with open_worker(
        project, concurrency=concurrency, tell=_tell, publish=into_project, metrics_port=metrics
    ) as opened:
        if opened.metrics_port is not None:
            say("metrics", f"http://127.0.0.1:{opened.metrics_port}/metrics")
            sys.stdout.flush()
        _stop_on_signals(opened)
        await opened.run(once=once, poll_s=poll_s)
        return ExitCode.FAILED if once and opened.failed else ExitCode.DONE


def _stop_on_signals(opened: QueueWorker) -> None:
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)

    def stop() -> None:
        opened.stop()
        sys.stderr.write("stopping after the steps that run; once more stops at once\n")
        for each in signals:
            loop.add_signal_handler(each, opened.stop_at_once)

    for each in signals:
        loop.add_signal_handler(each, stop)


def _tell(told: WorkerEvent) -> None:
    name = f"{short(told.name) if told.name.startswith('ses_') else ''} "
    say(str(told.what), f"{name}{one_line(told.text)}".strip())
    if told.remedy:
        say("next", told.remedy)
    # Flush for pipes as well, so that a log file shows the progress.
    sys.stdout.flush()
