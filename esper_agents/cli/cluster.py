"""`esper cluster`: commands about workers on several machines."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.live_output import say
from esper_agents.cli.shared_options import HERE, AllowOpenClusterOption, JsonOption, ProjectOption
from esper_agents.cli.terminal import echo_json, one_line, short

if TYPE_CHECKING:
    from esper_agents.api import ClusterStatus

cluster_app = typer.Typer(no_args_is_help=True, help="Show workers on several machines")


def register(app: typer.Typer) -> None:
    """Add the command group."""
    app.add_typer(cluster_app, name="cluster")


@cluster_app.command()
def status(
    project: ProjectOption = HERE,
    cluster: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT", envvar="RAY_ADDRESS", help="Head of a Ray cluster to show as well, or `auto`"
        ),
    ] = "",
    allow_open_cluster: AllowOpenClusterOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the queue, leases, devices and nodes.

    Sessions and devices with their owners come from the database, whether or not a Ray cluster is used. A lease that
    has expired is taken over by the next worker.

    Examples:
      esper cluster status
      esper cluster status --cluster auto --json
    """
    from esper_agents.api import cluster_status

    found = cluster_status(project, cluster=cluster, allow_open=allow_open_cluster)
    if as_json:
        echo_json(asdict(found))
        return
    say("database", found.database)
    _print_queue(found)
    for device in found.devices:
        state = "expired" if device.is_expired else f"since {device.claimed_at}"
        say("device", one_line(f"{device.device} on {device.machine}, {state}, project {device.project_key}"))
    if found.cluster:
        say("cluster", found.cluster)
    for node in found.nodes:
        offers = ", ".join(f"{name} {amount:g}" for name, amount in node.resources.items())
        say("node", one_line(f"{node.name} ({node.address}): workers {node.workers}, {offers}"))


def _print_queue(found: ClusterStatus) -> None:
    queue = found.queue
    oldest = f", the oldest for {queue.oldest_s:.0f} s" if queue.queued else ""
    say("queue", f"{queue.queued} queued{oldest}; {queue.running} running, {queue.abandoned} abandoned")
    say("waiting", f"{queue.waiting} for a user")
    for working in found.sessions:
        state = "abandoned" if working.is_abandoned else f"lease for {working.expires_s:.0f} s"
        owner = one_line(f"{working.machine}, process {working.process_id}")
        say("session", f"{short(working.session)} on {owner}: {state}")
