"""`esper worker`: command that runs queued and abandoned sessions concurrently."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.live_output import say
from esper_agents.cli.shared_options import AllowOpenClusterOption, WorkPlace
from esper_agents.cli.submit import Publish
from esper_agents.cli.terminal import one_line, short
from esper_agents.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from esper_agents.api import QueueWorker, WorkerEvent, WorkerGroup


_MOST_OF_RESOURCE = 1024


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
    on: Annotated[WorkPlace, typer.Option("--on", help="Run sessions here, or on a Ray cluster")] = WorkPlace.HERE,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=1024, metavar="N", help="Workers on the cluster [default: one for each node]"),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Head of the cluster [default: RAY_ADDRESS, or this machine]"),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(min=1, max=64, metavar="N", help="GPUs that Ray reserves for each worker")
    ] = None,
    resource: Annotated[
        list[str] | None,
        typer.Option("--resource", metavar="NAME=N", help="Ray resource for each worker (repeatable)"),
    ] = None,
    measure_gpus: Annotated[
        int | None, typer.Option(min=1, max=64, metavar="N", help="GPUs that Ray reserves for each measurement")
    ] = None,
    measure_resource: Annotated[
        list[str] | None,
        typer.Option("--measure-resource", metavar="NAME=N", help="Ray resource for each measurement (repeatable)"),
    ] = None,
    allow_open_cluster: AllowOpenClusterOption = False,
) -> None:
    """Run queued and abandoned sessions.

    Queued sessions come from `esper submit --queue`; abandoned ones lost their process. With a shared PostgreSQL
    database, the worker runs the sessions of every project whose directory exists on this machine; otherwise those of
    the current project. A session with a question waits for your answer. SIGTERM or Ctrl-C stops each session at its
    next step and releases it; a second signal stops at once. With --once, exits with 1 if a session failed.

    With --on ray, workers run on the nodes of a running Ray cluster, each with --jobs sessions. A worker that dies is
    replaced. The nodes use their own ESPER_DATABASE_URL and ESPER_HOME, as set before `ray start`. With --measure-gpus,
    a measurement on a GPU has it only while it runs.

    Examples:
      esper worker --once
      esper worker --jobs 16
      esper worker --on ray --workers 4 --cluster 10.0.0.5:6379
    """
    given = (workers, cluster, gpus, resource, measure_gpus, measure_resource, allow_open_cluster or None)
    if on is WorkPlace.HERE and any(option is not None for option in given):
        names = "--workers, --cluster, --gpus, --resource, --measure-* and --allow-open-cluster"
        raise UsageError(f"{names} are about a cluster", remedy="add --on ray, or leave them out")
    if gpus and measure_gpus:
        raise UsageError("--gpus and --measure-gpus reserve the same GPUs twice", remedy="use one of them")
    from esper_agents.api import WorkerGroupSettings, open_worker, open_worker_group

    into_project = publish is Publish.PROJECT
    opening: AbstractAsyncContextManager[QueueWorker | WorkerGroup]
    if on is WorkPlace.RAY:
        settings = WorkerGroupSettings(
            workers,
            concurrency,
            gpus or 0,
            dict(map(_resource, resource or ())),
            publish=into_project,
            measure_gpus=measure_gpus or 0,
            measure_resources=dict(map(_resource, measure_resource or ())),
        )
        opening = open_worker_group(
            project,
            settings,
            cluster=cluster or "",
            allow_open=allow_open_cluster,
            tell=_tell,
            metrics_port=metrics,
        )
    else:
        opening = open_worker(project, concurrency=concurrency, tell=_tell, publish=into_project, metrics_port=metrics)
    raise typer.Exit(asyncio.run(_work(opening, poll, once=once)))


def _resource(text: str) -> tuple[str, float]:
    """Return the name and the amount of a Ray resource."""
    name, _, number = text.partition("=")
    if not name.isidentifier() or not number.isdecimal() or not 0 < int(number) <= _MOST_OF_RESOURCE:
        raise UsageError(f"resource {text!r} is not NAME=N", remedy="use a name and a whole number, such as a100=1")
    return name, float(number)


async def _work(
    opening: AbstractAsyncContextManager[QueueWorker | WorkerGroup], poll_s: float | None, *, once: bool
) -> int:
    async with opening as opened:
        if opened.metrics_port is not None:
            say("metrics", f"http://127.0.0.1:{opened.metrics_port}/metrics")
            sys.stdout.flush()
        _stop_on_signals(opened)
        await opened.run(once=once, poll_s=poll_s)
        return ExitCode.FAILED if once and opened.failed else ExitCode.DONE


def _stop_on_signals(opened: QueueWorker | WorkerGroup) -> None:
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
