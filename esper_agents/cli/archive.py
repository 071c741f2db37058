"""`esper archive`: commands that move whole archives, and remove what can be made again."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.indented_output import outline, outline_command
from esper_agents.cli.project_root import project_root
from esper_agents.cli.shared_options import HERE, JsonOption, ProjectOption, YesOption
from esper_agents.cli.terminal import echo_json, is_interactive
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from esper_agents.api import ArchiveCounts, PrunablePages

_MANY = 500

archive_app = typer.Typer(no_args_is_help=True, help="Move and prune archives")


def register(app: typer.Typer) -> None:
    """Add the command group."""
    app.add_typer(archive_app, name="archive")


@archive_app.command("export")
def export_command(
    file: Annotated[Path | None, typer.Argument(metavar="FILE.tar", help="File to write; must not exist")] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="DIR", help="Write static pages to a folder instead")
    ] = None,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Export the whole archive of a project.

    Writes sessions, certificates, transparency log, memory and artifacts as one snapshot, from SQLite or PostgreSQL.
    The file contains no key. It contains the source code that the sessions quote.

    With --html, writes the pages of `esper serve` instead: certificates with filters and search, files, sessions,
    approvals, agents with their memory, trends, keys and log. They work from disk and from any web server, and load
    nothing from other sites. The folder must be new, empty, or written by an earlier export, whose pages are
    replaced. It needs the extra `web`.

    Examples:
      esper archive export my-model.tar
      esper archive export --html public
    """
    if (file is None) == (html is None):
        problem = "name either a file or a folder with --html"
        raise UsageError(problem, remedy="use `esper archive export my-model.tar`, or `--html public`")
    if html is not None:
        _export_pages(html, project, as_json=as_json)
        return
    from esper_agents.api import export_archive

    assert file is not None  # noqa: S101 - one of the two is given
    _report("exported", asyncio.run(export_archive(file, project)), as_json=as_json)


def _export_pages(folder: Path, project: Path, *, as_json: bool) -> None:
    from esper_agents.extras import Extra, require_extra

    require_extra(Extra.WEB)
    from esper_agents.web import export_pages

    def begin(certificates: int) -> None:
        if not as_json and certificates >= _MANY:
            message = f"writing the pages of {certificates:,} certificates; 1,000 take up to a minute"
            sys.stderr.write(f"{message}\n")

    pages = asyncio.run(export_pages(project_root(project, "archive export"), folder.expanduser(), begin))
    if as_json:
        echo_json({**asdict(pages), "index": str(pages.index)})
        return
    outline(f"exported: {number_of(pages.certificates, 'certificate')}, {pages.index}")
    outline(f"{number_of(pages.files, 'file')}, {pages.size_bytes / 10**6:,.1f} MB", 1)
    if pages.incomplete:
        outline(
            f"{number_of(len(pages.incomplete), 'page')} with an error instead: {', '.join(pages.incomplete[:3])}", 1
        )


@archive_app.command("import")
def import_command(
    file: Annotated[Path, typer.Argument(metavar="FILE.tar", help="File of `esper archive export`")],
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Import a whole archive into a project.

    The project must not have sessions yet. Verifies digests, signatures, log, index, events and notes first: an archive
    that fails, or an interrupted import, changes nothing. Exits with 7 if the archive was changed or is older than the
    log that was seen here, and with 4 if a key that is not trusted signed it.

    Examples:
      esper archive import my-model.tar
    """
    from esper_agents.api import import_archive

    _report("imported", asyncio.run(import_archive(file, project)), as_json=as_json)
    if not as_json:
        outline_command("next", "esper certificates verify --all")


@archive_app.command()
def prune(
    days: Annotated[int, typer.Option("--pages-older-than", min=0, metavar="DAYS", help="Minimum age in days")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the pages to delete, delete nothing")] = False,
    yes: YesOption = False,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Delete the HTML pages of old certificates.

    Deletes published pages of your own certificates, and publishes none for them from now on. Envelopes, proofs,
    notices, Markdown views, log and ledger are kept, so every certificate stays verifiable. `esper open` renders a
    deleted page again.

    Examples:
      esper archive prune --pages-older-than 90 --dry-run
      esper archive prune --pages-older-than 90 --yes
    """
    asyncio.run(_prune(project, days, is_dry=dry_run, is_agreed=yes, as_json=as_json))


async def _prune(where: Path, days: int, *, is_dry: bool, is_agreed: bool, as_json: bool) -> None:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        chosen = await project.certificates.prunable_pages(days=days)
        is_asked = bool(chosen.pages) and not is_dry
        if is_asked and not is_agreed:
            if as_json or not is_interactive():
                raise UsageError("deleting pages needs a confirmation", remedy="check with --dry-run, then pass --yes")
            _report_pages("can be deleted", chosen)
            typer.confirm("Delete them?", abort=True)
        if is_asked:
            chosen = await project.certificates.prune_pages(chosen)
        if as_json:
            echo_json({"removed": is_asked, **asdict(chosen), "pages": [str(page) for page in chosen.pages]})
        else:
            _report_pages("deleted" if is_asked else "can be deleted", chosen)


def _report_pages(label: str, chosen: PrunablePages) -> None:
    size = f"{chosen.size_bytes / 10**6:,.1f} MB"
    outline(f"{label}: {number_of(len(chosen.pages), 'page')} of certificates before {chosen.before[:10]}, {size}")


def _report(label: str, counts: ArchiveCounts, *, as_json: bool) -> None:
    if as_json:
        echo_json(asdict(counts))
        return
    outline(f"{label}: archive of {counts.project}, {counts.file}")
    outline(
        f"{number_of(counts.certificates, 'certificate')}, {number_of(counts.sessions, 'session')},"
        f" {number_of(counts.log_entries, 'log entry', 'log entries')}, {number_of(counts.notes, 'note')},"
        f" {number_of(counts.artifacts, 'artifact')}",
        1,
    )
