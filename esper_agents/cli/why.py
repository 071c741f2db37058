"""`esper why`: command that explains the verdict of a certificate."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.cli.indented_output import outline, outline_command
from esper_agents.cli.shared_options import HERE, CertificateArgument, JsonOption, ProjectOption
from esper_agents.cli.terminal import echo_json

if TYPE_CHECKING:
    import typer

    from esper_agents.api import VerdictExplanation


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(why)


def why(
    certificate: CertificateArgument = "latest",
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Explain the verdict of a certificate.

    Shows the status, the policy rules that determined it, the findings and their evidence.

    Examples:
      esper why
      esper why 12faba12a09f
    """
    tree = asyncio.run(_explain(project, certificate))
    if as_json:
        echo_json(asdict(tree))
        return
    for depth, text in tree.outline():
        _show(text, depth)


def _show(text: str, depth: int) -> None:
    label, _, command = text.partition(": ")
    if label == "again":
        outline_command(label, command, depth)
    else:
        outline(text, depth)


async def _explain(where: Path, certificate: str) -> VerdictExplanation:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        entry = await project.certificates.get(certificate)
        if not entry.is_trusted:
            from esper_agents.cli.published_output import show_trust

            show_trust(entry)
        return await project.certificates.explain(entry.id)
