"""`esper serve`: the archive of a project in the browser."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.browser import open_in_browser
from esper_agents.cli.project_root import project_root
from esper_agents.cli.shared_options import HERE, ProjectOption
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from esper_agents.web import ServerAddress

_PORT = 8750


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(serve)


def serve(
    project: ProjectOption = HERE,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="Port; 0 for a free one")] = _PORT,
    is_opened: Annotated[bool, typer.Option("--open", help="Open the start page in the browser")] = False,
    allow_answers: Annotated[
        bool, typer.Option("--allow-answers", help="Allow answers to questions from the pages")
    ] = False,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Allow an address that other machines can reach")
    ] = False,
) -> None:
    """Serve the archive to the browser.

    Prints a start URL that works once and opens the pages in one browser; after its use, a new one is printed. The
    pages only read, unless --allow-answers is given: then sessions can be approved, denied and answered from them, and
    continue in this process. It needs the extra `web`.

    An address other than 127.0.0.1 is refused without --allow-remote, because pages and cookie are sent unencrypted. An
    SSH tunnel is safer: `ssh -L 8750:127.0.0.1:8750 HOST`.

    Examples:
      esper serve --open
      esper serve --project ~/my-model --allow-answers
    """
    from esper_agents.extras import Extra, require_extra

    require_extra(Extra.WEB)
    root = project_root(project, "serve")
    from esper_agents.web import ServeSettings
    from esper_agents.web import serve as serve_pages

    def announce(address: ServerAddress) -> None:
        label = "serving" if address.is_first else "another browser"
        sys.stderr.write(f"{label}  {address.url}\n")
        sys.stderr.flush()
        if is_opened and address.is_first:
            open_in_browser(address.url)

    settings = ServeSettings(root, host, port, allow_answers, allow_remote)
    try:
        serve_pages(settings, announce)
    except OSError as error:
        problem = f"port {port} of {host} cannot be used: {(error.strerror or 'unknown error').lower()}"
        raise UsageError(problem, remedy="use another port: esper serve --port 0") from error
