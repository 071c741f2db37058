"""`esper db`: commands for the status, migration, backup and cleanup of the database."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.live_output import say
from esper_agents.cli.shared_options import HERE, JsonOption, ProjectOption, YesOption
from esper_agents.cli.terminal import echo, echo_json, is_interactive
from esper_agents.domain.database_role import DatabaseRole
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from esper_agents.api import DatabaseStatus, Prunable

db_app = typer.Typer(no_args_is_help=True, help="Manage the database")


def register(app: typer.Typer) -> None:
    """Add the command group."""
    app.add_typer(db_app, name="db")


@db_app.command()
def status(project: ProjectOption = HERE, as_json: JsonOption = False) -> None:
    """Show the database and its schema version.

    Also shows the number of sessions, certificates, log entries and notes. Changes nothing and runs no migration.

    Examples:
      esper db status
      esper db status --json
    """
    from esper_agents.api import database_status

    found = database_status(project)
    if as_json:
        echo_json(asdict(found))
        return
    say("database", f"{found.system} {found.version}".rstrip())
    say("where", found.where)
    if found.other_application:
        say("also here", f"another Alembic application in schema public, version {found.other_application}; untouched")
    if not found.exists:
        say("shape", "empty; created by the first session")
        return
    say("shape", _shape(found))
    if found.schema:
        say("schema", found.schema)
    say("size", _size(found.size_bytes))
    say("journal", found.journal)
    for label, count in (
        ("sessions", found.sessions),
        ("", None if not found.queued else f"{found.queued} of them queued for a worker"),
        ("certified", found.certificates),
        ("log", found.log_entries),
        ("notes", found.notes),
    ):
        if count is not None:
            say(label, str(count) if isinstance(count, str) else f"{count:,}")
    if found.is_newer:
        say("next", "pip install --upgrade esper-agents")
    elif found.pending or found.schema == "public":
        say("next", "esper db upgrade")


@db_app.command()
def upgrade(project: ProjectOption = HERE, as_json: JsonOption = False) -> None:
    """Migrate the database to the current schema.

    An SQLite database of a project is migrated automatically by any command that opens it; a shared PostgreSQL database
    only by this command. Make a backup first. An archive in the schema `public` of a PostgreSQL database, where earlier
    versions created it, is moved to the schema `esper`; stop the workers before.

    Examples:
      esper db upgrade
    """
    from esper_agents.api import upgrade_database

    done = upgrade_database(project)
    if as_json:
        echo_json(asdict(done))
    elif done.migrations or done.moved:
        if done.moved:
            say("moved", f"{number_of(done.moved, 'table')} from schema public to esper")
        for migration in done.migrations:
            say("ran", migration)
        say("shape", f"{done.after}, before {done.before or 'nothing'}")
    else:
        say("shape", f"{done.after}; already current")


@db_app.command()
def grant(
    role: Annotated[DatabaseRole, typer.Argument(metavar="ROLE", help="Role: reader, worker or owner")],
    to: Annotated[str, typer.Option("--to", metavar="USER", help="Name of the database user")],
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Print the SQL that gives a user a role.

    Runs nothing: the owner of the tables runs the statements, for example with psql; an administrator of the server
    those for an owner. A reader can list, search and
    verify. A worker can also run sessions and issue certificates, but not change or delete events, certificates or
    entries of the log. An owner can also upgrade, prune and repair. Repeat it after an upgrade that added tables.

    Examples:
      esper db grant worker --to worker_1 | psql "$ESPER_DATABASE_URL"
      esper db grant reader --to dashboard
    """
    from esper_agents.api import database_grants

    statements = database_grants(role, to, project)
    if as_json:
        echo_json({"role": str(role), "user": to, "statements": list(statements)})
    else:
        echo("\n".join(statements))


@db_app.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Backup file; must not exist")],
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Back up an SQLite database.

    Copies the database to a new file, even while it is in use, and checks the copy. For PostgreSQL, prints the command
    to use instead and exits with 2.

    Examples:
      esper db backup ~/backups/my-model.db
    """
    from esper_agents.api import back_up_database

    made = back_up_database(file, project)
    done = made.backup
    apart = {"artifacts": str(made.artifacts), "keys": str(made.keys), "pins": str(made.pins)}
    if as_json:
        echo_json(asdict(done) | {"path": str(done.path), "not_in_it": apart})
        return
    say("made", f"{done.path}, {_size(done.size_bytes)}, checked")
    say(
        "in it",
        f"{number_of(done.sessions, 'session')}, {number_of(done.certificates, 'certificate')},"
        f" {number_of(done.log_entries, 'entry of the log', 'entries of the log')}",
    )
    say("not in it", f"files that tools made, in {apart['artifacts']}")
    say("", f"the signing key, in {apart['keys']}")
    say("", f"what was last seen of the log, in {apart['pins']}")


@db_app.command()
def vacuum(project: ProjectOption = HERE, as_json: JsonOption = False) -> None:
    """Reclaim unused space.

    Also optimizes the full-text index.

    Examples:
      esper db vacuum
    """
    from esper_agents.api import vacuum_database

    done = vacuum_database(project)
    if as_json:
        echo_json(asdict(done))
    else:
        say("size", f"{_size(done.after_bytes)}, before {_size(done.before_bytes)}")


@db_app.command()
def join(
    other: Annotated[Path, typer.Argument(metavar="PATH", help="Another checkout of the repository")],
    yes: YesOption = False,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Use the database of another checkout.

    For checkouts and work trees of one repository at different paths: this one uses sessions, certificates, log and
    memory of the other from now on. Both must have the same first commit and, if both have a remote, the same address.
    This checkout must have no sessions of its own.

    Examples:
      esper db join ~/src/my-model
    """
    from esper_agents.api import find_checkout, join_checkout

    found = find_checkout(other, project)
    if not yes:
        if as_json or not is_interactive():
            raise UsageError("sharing a database needs a confirmation", remedy="pass --yes")
        say("checkout", f"{found.root}, first commit {found.first_commit[:12]}")
        typer.confirm(f"Use its archive of {number_of(found.certificates, 'certificate')} here?", abort=True)
    join_checkout(other, project)
    if as_json:
        echo_json(asdict(found))
        return
    say("joined", f"{found.root}, first commit {found.first_commit[:12]}")
    say("in it", f"{number_of(found.sessions, 'session')}, {number_of(found.certificates, 'certificate')}")


@db_app.command()
def prune(
    days: Annotated[
        int, typer.Option("--sessions-older-than", min=0, metavar="DAYS", help="Minimum days since the last activity")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the data to delete, delete nothing")] = False,
    yes: YesOption = False,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Delete old session data.

    Deletes the events of old, finished sessions of the project, and artifacts without references. Requests, results,
    certificates, memory and the log are kept, and so are open and waiting sessions. A pruned session can be shown,
    verified and continued, but not replayed.

    Examples:
      esper db prune --sessions-older-than 90 --dry-run
      esper db prune --sessions-older-than 90 --yes
    """
    asyncio.run(_prune(project, days, is_dry=dry_run, is_agreed=yes, as_json=as_json))


async def _prune(where: Path, days: int, *, is_dry: bool, is_agreed: bool, as_json: bool) -> None:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        chosen = await project.certificates.prunable(days=days)
        if is_dry or not (chosen.sessions or chosen.artifacts or chosen.shared):
            _report(chosen, "can be removed" if is_dry else "removed", as_json=as_json)
            return
        if not is_agreed:
            _ask(chosen, as_json=as_json)
        _report(await project.certificates.prune(chosen, days=days), "removed", as_json=as_json)


def _ask(chosen: Prunable, *, as_json: bool) -> None:
    if as_json or not is_interactive():
        raise UsageError("deleting session data needs a confirmation", remedy="check with --dry-run, then pass --yes")
    _report(chosen, "can be removed", as_json=False)
    typer.confirm("Delete it? This cannot be undone.", abort=True)


def _report(chosen: Prunable, what: str, *, as_json: bool) -> None:
    if as_json:
        echo_json(
            {
                "removed": what == "removed",
                "sessions": [asdict(session) for session in chosen.sessions],
                "artifacts": [str(artifact.path) for artifact in chosen.artifacts],
                "shared_artifacts": [artifact.sha256 for artifact in chosen.shared],
                "rows": chosen.rows,
                "size_bytes": chosen.size_bytes,
            }
        )
        return
    rows, files = number_of(chosen.rows, "row"), number_of(len(chosen.artifacts), "file")
    say(what if what == "removed" else "removable", f"{rows} of {number_of(len(chosen.sessions), 'session')}")
    if chosen.shared:
        files += f" here and {number_of(len(chosen.shared), 'artifact')} in the database"
    say("", f"{files} that nothing names; {_size(chosen.size_bytes)} in all")
    if what == "removed" and chosen.rows:
        say("next", "esper db vacuum")


def _shape(found: DatabaseStatus) -> str:
    if found.is_newer:
        return f"{found.shape}, created by a newer version (this version supports up to {found.newest})"
    if found.pending:
        return f"{found.shape}; not yet run: {', '.join(found.pending)}"
    return f"{found.shape}, the newest"


def _size(size_bytes: int) -> str:
    amount = float(size_bytes)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:  # noqa: PLR2004 - decimal units
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
