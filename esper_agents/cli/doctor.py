"""`esper doctor`: command that reports the installation and its problems with their fixes."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from esper_agents.cli.indented_output import outline, outline_command
from esper_agents.cli.shared_options import HERE, JsonOption, ProjectOption
from esper_agents.cli.terminal import echo, echo_json
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import ExitCode
from esper_agents.extras import Extra

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.api import DatabaseContents, HealthReport


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Check the installation and the project.

    Shows versions, directories, database, agents and sessions, and each problem with its fix. Exits with 1 if there is
    a problem.

    Examples:
      esper doctor
      esper doctor --project ~/my-model --json
    """
    from esper_agents.api import check_health

    found = asyncio.run(check_health(project))
    if as_json:
        echo_json({"is_well": not found.problems} | asdict(found))
    else:
        _report(found)
    raise typer.Exit(ExitCode.FAILED if found.problems else ExitCode.DONE)


def _report(found: HealthReport) -> None:
    for label, text in _facts(found):
        outline(f"{label}: {text}")
    for extra in Extra:
        if extra not in found.versions.extras:
            outline(f"{extra}: not installed (needed only for {extra.purpose})")
            outline_command("get it", extra.install_command, 1)
    echo()
    for problem in found.problems:
        outline(f"wrong: {problem.problem}")
        outline_command("fix", problem.remedy, 1)
    if not found.problems:
        echo("nothing is wrong")


def _facts(found: HealthReport) -> Iterator[tuple[str, str]]:
    versions, folder = found.versions, found.folder
    yield "esper-agents", versions.esper_agents or "not installed as a package"
    yield "python", f"{versions.python}, {versions.interpreter}"
    if versions.torch:
        yield "torch", versions.torch
    yield "extras", ", ".join(versions.extras) or "none"
    yield "sandbox", versions.sandbox
    yield "git", versions.git or "not found"
    yield "project", found.project
    yield "agents", f"{found.agents} available"
    yield "views", f"{found.publishing.folder}, because {found.publishing.because}"
    for rule in found.rules:
        yield "rule", rule
    for rule in found.ignored:
        yield "ignored", f"{rule}; allow rules are accepted only in user settings"
    for parent in found.warm_parents:
        ends = f"ends {parent.idle_s:g} s after the last measurement, or with kill {parent.pid}"
        yield "warm parent", f"process {parent.pid}, torch {parent.torch} for {parent.project}; {ends}"
    yield "data folder", f"{folder.path}, {_size(folder.free_bytes)} free"
    yield "database", f"{found.database.where}, {_database(found.database)}"
    if found.database.sessions is not None:
        yield "sessions", f"{found.database.sessions} ({len(found.database.waiting)} waiting for your input)"
        yield "certificates", str(found.database.certificates)
    size = found.archive
    yield "published", f"{number_of(size.published, 'file')}, {_size(size.published_bytes)} in the project"
    yield "artifacts", f"{number_of(size.artifacts, 'file')}, {_size(size.artifacts_bytes)}"


def _database(database: DatabaseContents) -> str:
    if not database.exists:
        return "not created yet (created by the first session)"
    size = "on a server" if database.size_bytes is None else _size(database.size_bytes)
    return f"{size}, shape {database.shape}" if database.shape else f"{size}, cannot be used"


def _size(size_bytes: int) -> str:
    is_large = size_bytes >= 10**9
    return f"{size_bytes / 10**9:,.1f} GB" if is_large else f"{size_bytes / 10**6:,.1f} MB"
