"""`esper certificates override`: command that replaces the status of a certificate."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.certificates import certificates_app
from esper_agents.cli.indented_output import outline, outline_command
from esper_agents.cli.shared_options import (
    HERE,
    CertificateArgument,
    JsonOption,
    ProjectOption,
    ReasonOption,
    YesOption,
)
from esper_agents.cli.terminal import echo_json, is_interactive, one_line
from esper_agents.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from esper_agents.domain.notice import LogNoticeStatement
    from esper_agents.domain.status import Status


@certificates_app.command()
def override(
    certificate: CertificateArgument,
    status: Annotated[str, typer.Option(metavar="STATUS", help="New status; the original status removes the override")],
    reason: ReasonOption,
    yes: YesOption = False,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Override the status of a certificate.

    The certificate is unchanged; the override is recorded in the log under your name and is shown with the certificate.
    `esper gate` counts a better status only with --accept-overrides. The latest override applies; all stay in the log.
    For the published certificate of a colleague, the override is recorded in your log and published next to the
    certificate; it counts for everybody who trusts your key.

    Examples:
      esper certificates override 12faba12a09f --status CONDITIONALLY_APPROVED --reason "the faulty path is not shipped"
      esper certificates override 12faba12a09f --status REQUIRES_REMEDIATION --reason "taken back: it is shipped"
    """
    from esper_agents.api import read_filter

    (wanted,) = read_filter(statuses=(status,)).statuses
    notice = asyncio.run(_override(project, certificate, wanted, reason, asks=not yes, as_json=as_json))
    if notice is None:
        raise typer.Exit(ExitCode.CANCELLED)
    if as_json:
        echo_json(asdict(notice))
        return
    outline(f"overridden: {notice.certificate} is {notice.status} by {notice.by}, in the log as {notice.id}")
    outline_command("seen by", f"esper certificates verify {notice.certificate}")


async def _override(
    where: Path, certificate: str, status: Status, reason: str, *, asks: bool, as_json: bool
) -> LogNoticeStatement | None:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        entry = await project.certificates.get_trusted(certificate)
        if asks:
            if as_json or not is_interactive():
                raise UsageError("an override needs a confirmation", remedy="pass --yes")
            outline(f"{entry.id}: {entry.status} for {entry.component}, by {entry.agent}")
            if not typer.confirm(f"{status} in its place, on record, because: {one_line(reason)}?"):
                return None
        return await project.certificates.override(entry.id, status, reason)
