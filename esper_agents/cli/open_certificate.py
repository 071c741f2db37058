"""`esper open`: command that shows a certificate in the browser."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from esper_agents.cli.browser import open_in_browser
from esper_agents.cli.shared_options import HERE, CertificateArgument, JsonOption, ProjectOption
from esper_agents.cli.terminal import echo, echo_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="open")(open_page)


def open_page(
    certificate: CertificateArgument = "latest",
    print_path: Annotated[
        bool, typer.Option("--print-path", help="Print the path of the page instead of opening it")
    ] = False,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Open a certificate in the browser.

    The page is one HTML file without scripts and without network access. It is rewritten next to the published view.
    Without a display, the command prints its path.

    Examples:
      esper open
      esper open 12faba12a09f --print-path
    """
    page = asyncio.run(_page(project, certificate))
    is_open = not print_path and open_in_browser(page.resolve().as_uri())
    if as_json:
        echo_json({"page": str(page), "is_open": is_open})
    else:
        echo(str(page))


async def _page(where: Path, certificate: str) -> Path:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.certificates.page(certificate)
