"""`esper certificates countersign`: command that adds an SSH signature to a certificate."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.certificates import certificates_app
from esper_agents.cli.indented_output import outline, outline_command
from esper_agents.cli.shared_options import HERE, CertificateArgument, JsonOption, ProjectOption, ReasonOption
from esper_agents.cli.terminal import echo_json

if TYPE_CHECKING:
    from esper_agents.domain.notice import LogNoticeStatement


@certificates_app.command()
def countersign(
    certificate: CertificateArgument,
    key: Annotated[Path, typer.Option(metavar="FILE", help="SSH private key, or the .pub of a key in your SSH agent")],
    reason: ReasonOption = "",
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Countersign a certificate with an SSH key.

    The signature is added to the transparency log and is reported by `esper certificates verify`.

    Examples:
      esper certificates countersign latest --key ~/.ssh/id_ed25519 --reason "read it, and the code"
    """
    notice = asyncio.run(_countersign(project, certificate, key, reason))
    if as_json:
        echo_json(asdict(notice))
        return
    kind, blob = notice.key.split(" ")
    outline(f"countersigned: {notice.certificate}")
    outline(f"by a key of type {kind}, in the log as {notice.id}", 1)
    outline_command("for those who are to believe it", f'esper keys trust "{kind} {blob}" --name {notice.by}')


async def _countersign(where: Path, certificate: str, key: Path, reason: str) -> LogNoticeStatement:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.certificates.countersign(certificate, key, reason)
