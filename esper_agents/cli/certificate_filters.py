"""Filter options shared by the commands that read the certificate archive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.published_output import origin_of

if TYPE_CHECKING:
    from esper_agents.api import CertificateSummary, Filter, OpenProject

Statuses = Annotated[
    list[str] | None,
    typer.Option("--status", metavar="STATUS", help="Filter by status, e.g. APPROVED (repeatable)", show_default=False),
]
Agent = Annotated[str, typer.Option("--agent", metavar="AGENT", help="Filter by agent", show_default=False)]
File = Annotated[str, typer.Option("--file", metavar="PATH", help="Filter by reviewed file", show_default=False)]
Component = Annotated[str, typer.Option("--component", metavar="NAME", help="Filter by component", show_default=False)]
Rule = Annotated[
    str, typer.Option("--rule", metavar="CODE", help="Filter by rule of a finding, e.g. ESP301", show_default=False)
]
Commit = Annotated[
    str, typer.Option("--commit", metavar="SHA", help="Filter by commit hash or prefix", show_default=False)
]
Since = Annotated[
    str,
    typer.Option(
        "--since", metavar="DATE", help="Issued on or after this UTC date, e.g. 2026-01-31", show_default=False
    ),
]
Until = Annotated[
    str,
    typer.Option("--until", metavar="DATE", help="Issued on or before this UTC date, e.g. 2026-01", show_default=False),
]
Before = Annotated[
    str,
    typer.Option("--cursor", metavar="ID", help="Start after this certificate (pagination)", show_default=False),
]


def filter_of(
    *,
    statuses: Statuses = None,
    agent: Agent = "",
    file: File = "",
    component: Component = "",
    rule: Rule = "",
    commit: Commit = "",
    since: Since = "",
    until: Until = "",
) -> Filter:
    """Return the certificate filter for the options.

    Raises:
        NotFoundError: A status does not exist.
        UsageError: A date or commit is not valid.
    """
    from esper_agents.api import read_filter

    return read_filter(
        statuses=statuses or (),
        agent=agent,
        file=file,
        component=component,
        rule=rule,
        commit=commit,
        since=since,
        until=until,
    )


def within(project: OpenProject, wanted: Filter) -> Filter:
    """Return a filter whose file path is relative to the project root, as in certificates.

    An existing file is resolved from the current directory; a deleted or outside file is used as given.
    """
    whole = Path(wanted.path).expanduser().resolve()
    root = project.root.resolve()
    if not wanted.path or not whole.exists() or not whole.is_relative_to(root):
        return replace(wanted, path=wanted.path.removeprefix("./"))
    return replace(wanted, path=whole.relative_to(root).as_posix())


def headline(entry: CertificateSummary) -> str:
    """Return ID, time, status and origin of a certificate as one line."""
    origin = f", {origin_of(entry)}" if entry.key_id else ""
    return f"{entry.id} {entry.issued_at[:16].replace('T', ' ')}Z {entry.status}{origin}"
