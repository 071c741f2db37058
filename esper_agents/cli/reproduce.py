"""`esper certificates reproduce`: command that re-runs the evidence of a certificate."""

from __future__ import annotations

import asyncio
from pathlib import Path

import typer

from esper_agents.cli.shared_options import HERE, CertificateArgument, JsonOption, ProjectOption


def reproduce(
    certificate: CertificateArgument = "latest",
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Re-run the evidence and certify the result.

    Runs in a temporary copy of the recorded commit. Each piece of evidence is reproduced, differs, is not comparable or
    was not run. Exits with 3 if one differs, 4 if that is undecided, 7 if the certificate was modified after issuing.

    Examples:
      esper certificates reproduce latest
      esper certificates reproduce 12faba12a09f --json
    """
    raise typer.Exit(asyncio.run(_reproduce(project, certificate, as_json=as_json)))


async def _reproduce(where: Path, certificate: str, *, as_json: bool) -> int:
    from esper_agents.api import open_project
    from esper_agents.cli.begun import begin
    from esper_agents.cli.run_session import run_interactively

    async with open_project(where) as project:
        task = await project.tasks.reproduction(certificate)
        return await run_interactively(project, await begin(project.tasks.submit(task)), as_json=as_json)
