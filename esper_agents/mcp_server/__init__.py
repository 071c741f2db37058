"""MCP server of one project: reviews, measurements, sessions and certificates as tools.

`server.py` builds the server; `transports.py` serves it over stdio or streamable HTTP. Each `*_tools.py` adds the tools
of one subject, `results.py` has the data classes of their results, and `server_project.py` is what they share: the open
project, the running sessions, and the check that a path is in the project.

The package uses the public API only.
"""

from __future__ import annotations

from esper_agents.mcp_server.transports import HttpAddress, serve_http, serve_stdio

__all__ = ["HttpAddress", "serve_http", "serve_stdio"]
