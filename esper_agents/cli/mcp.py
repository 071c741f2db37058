"""`esper mcp`: MCP server for coding agents."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.project_root import project_root
from esper_agents.cli.shared_options import HERE, ProjectOption
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from esper_agents.mcp_server import HttpAddress

TOKEN_VARIABLE = "ESPER_MCP_TOKEN"  # noqa: S105 - the name of a variable


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(mcp)


def mcp(
    project: ProjectOption = HERE,
    http: Annotated[bool, typer.Option("--http", help="Serve streamable HTTP on 127.0.0.1")] = False,
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="Port for --http; 0 for a free one")] = 0,
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="TOOL", help="Allow a tool in sessions of the server (repeatable)"),
    ] = None,
) -> None:
    """Serve a project to coding agents by MCP.

    Clients start it themselves; configure them with the command `esper mcp --project PATH`. A server serves one project
    and refuses paths outside it. It needs the extra `mcp`.

    With --http the server prints its URL and a token on standard error. Clients send the token as
    `Authorization: Bearer TOKEN`; set ESPER_MCP_TOKEN to choose it.

    Sessions of clients run no tests unless --allow run-tests is given, as in `esper submit`.

    Examples:
      esper mcp
      esper mcp --project ~/my-model --allow run-tests
      ESPER_MCP_TOKEN=... esper mcp --http --port 8123
    """
    from esper_agents.extras import Extra, require_extra

    require_extra(Extra.MCP)
    root = project_root(project, "mcp")
    if port and not http:
        raise UsageError("--port belongs to --http", remedy="esper mcp --http --port 8123")
    from esper_agents.mcp_server import serve_http, serve_stdio

    if not http:
        serve_stdio(root, allow or ())
        return
    try:
        serve_http(root, port, os.environ.get(TOKEN_VARIABLE, ""), _announce, allow or ())
    except OSError as error:
        raise UsageError(f"port {port} cannot be used: {error.strerror}", remedy="esper mcp --http --port 0") from error


def _announce(address: HttpAddress) -> None:
    sys.stderr.write(f"serving {address.url}\ntoken {address.token}\n")
    sys.stderr.flush()
