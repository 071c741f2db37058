"""`esper certificates`: command group, with `list`, `show` and `path`."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.certificate_filters import Before, filter_of, headline, within
from esper_agents.cli.indented_output import outline, outline_command
from esper_agents.cli.published_output import origin_of, report_reading, show_status, show_trust
from esper_agents.cli.shared_options import HERE, CertificateArgument, JsonOption, LimitOption, ProjectOption, gathered
from esper_agents.cli.terminal import echo, echo_json, note, short, width
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.task import short_request
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from esper_agents.api import (
        CertificateSummary,
        Filter,
        OpenProject,
        Override,
        PublishedPaths,
        PublishedStatus,
        SupersedingEntry,
    )

certificates_app = typer.Typer(no_args_is_help=True, help="List, verify and manage certificates", rich_markup_mode=None)


class CertificateFormat(StrEnum):
    """Output format of a certificate."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
    HTML = "html"


def register(app: typer.Typer) -> None:
    """Add the command group."""
    app.add_typer(certificates_app, name="certificates")


@certificates_app.command("list")
@gathered(filter_of, "wanted")
def list_certificates(
    wanted: Filter,
    before: Before = "",
    imported: Annotated[bool, typer.Option("--imported", help="List imported certificates, unverified")] = False,
    limit: LimitOption = 20,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """List certificates.

    Newest first; times are UTC. With --imported: third-party certificates, with the result of their audit.

    Examples:
      esper certificates list --agent pytorch-code-reviewer --limit 5
      esper certificates list --file train.py --status REJECTED --since 2026-01
    """
    if imported:
        from esper_agents.cli.audit import list_imported

        if wanted != filter_of() or before:
            raise UsageError("--imported takes no filter", remedy="remove the filters")
        list_imported(limit, project, as_json=as_json)
        return
    listed = asyncio.run(_list(project, wanted, before, limit + 1))
    found, overridden, changes = listed.found, listed.overridden, listed.changes
    if as_json:
        by_name = {name: asdict(each) for name, each in overridden.items()}
        ended = {name: asdict(each) for name, each in listed.ended.items()}
        rows = [
            asdict(each) | {"overridden": by_name.get(each.id), "ended": ended.get(each.id)} for each in found[:limit]
        ]
        echo_json([row | ({"change": changes[row["id"]]} if row["id"] in changes else {}) for row in rows])
        return
    for each in found[:limit]:
        outline(headline(each))
        if each.id in listed.ended:
            outline(str(listed.ended[each.id]), 1)
        if each.id in overridden:
            outline(str(overridden[each.id]), 1)
        about = changes.get(each.id, each.component)
        outline(f"{each.agent} on {about}: {short_request(each.request)}", 1)
    show_status(listed.published)
    if not found and wanted == filter_of() and not before:
        echo('no certificates yet; begin with: esper submit "review this training code" train.py')
        _name_other_checkouts(project)
    elif not found:
        echo("no matching certificates; remove a filter, or list all: esper certificates list")
    if len(found) > limit:
        echo(
            f"there are more: esper certificates list --limit {2 * limit}, or add --cursor {short(found[limit - 1].id)}"
        )


def _name_other_checkouts(where: Path) -> None:
    from esper_agents.api import find_checkouts

    for checkout in find_checkouts(where):
        outline(f"another checkout of this repository has {number_of(checkout.certificates, 'certificate')}")
        outline_command("to use its archive here", f"esper db join {quote(str(checkout.root))}", 1)


@certificates_app.command()
def show(
    certificate: CertificateArgument = "latest",
    style: Annotated[CertificateFormat, typer.Option("--format", help="Output format")] = CertificateFormat.TEXT,
    project: ProjectOption = HERE,
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json")] = False,
) -> None:
    """Show a certificate.

    Shows the complete certificate: as text for the terminal, as the Markdown or HTML view that is published, or as its
    in-toto statement in JSON. Begins with the certificate or notice that superseded or revoked it; for the published
    views and JSON, on standard error.

    Examples:
      esper certificates show
      esper certificates show 12faba12a09f --format markdown
      esper certificates show 12faba12a09f --format html > certificate.html
    """
    asyncio.run(_show(project, certificate, CertificateFormat.JSON if as_json else style))


@certificates_app.command()
def path(
    certificate: CertificateArgument = "latest", project: ProjectOption = HERE, as_json: JsonOption = False
) -> None:
    """Print the path of a published certificate.

    Prints the path of the view; the signed envelope is in the same directory. Missing files are rewritten first.

    Examples:
      less $(esper certificates path)
    """
    found = asyncio.run(_path(project, certificate))
    if as_json:
        echo_json({"view": str(found.view), "record": str(found.envelope)})
    else:
        echo(str(found.view))


@dataclass(frozen=True, slots=True)
class _Listing:
    """Certificates of one page, and what is known about them."""

    found: tuple[CertificateSummary, ...]
    overridden: dict[str, Override]
    ended: dict[str, SupersedingEntry]
    changes: dict[str, str]
    published: PublishedStatus


async def _list(where: Path, wanted: Filter, before: str, limit: int) -> _Listing:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        report_reading(project)
        found = await project.certificates.list(wanted=within(project, wanted), before=before, limit=limit)
        overridden = await project.certificates.overrides(found)
        ended, changes = await project.certificates.endings(found), await project.certificates.changes(found)
        return _Listing(found, overridden, ended, changes, await project.certificates.published_status())


async def _show(where: Path, certificate: str, style: CertificateFormat) -> None:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        report_reading(project)
        entry = await project.certificates.get(certificate)
        show_trust(entry)
        ending = (await project.certificates.endings([entry])).get(entry.id)
        if ending and style is not CertificateFormat.TEXT:
            note(f"{entry.id} is {ending}")
        match style:
            case CertificateFormat.TEXT:
                await _show_text(project, entry, ending)
            case CertificateFormat.MARKDOWN:
                echo((await project.certificates.markdown(entry.id)).removesuffix("\n"), is_data=True)
            case CertificateFormat.JSON:
                echo_json(json.loads(await project.certificates.record(entry.id)))
            case CertificateFormat.HTML:
                echo((await project.certificates.html(entry.id)).removesuffix("\n"), is_data=True)


async def _show_text(project: OpenProject, entry: CertificateSummary, ending: SupersedingEntry | None) -> None:
    text = await project.certificates.text(entry.id, width=width())
    if ending:
        outline(str(ending))
        echo()
    if entry.is_trusted and (origin := origin_of(entry)):
        outline(origin)
        echo()
    if change := (await project.certificates.changes([entry])).get(entry.id):
        outline(change)
        echo()
    if override := (await project.certificates.overrides([entry])).get(entry.id):
        outline(str(override))
        echo()
    echo(text.removesuffix("\n"))


async def _path(where: Path, certificate: str) -> PublishedPaths:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.certificates.published(certificate)
