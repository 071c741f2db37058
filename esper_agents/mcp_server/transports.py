"""Serving over stdio and over streamable HTTP on the loopback interface."""

from __future__ import annotations

import asyncio
import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.server.stdio import stdio_server

from esper_agents.http_server import LOOPBACK, end_process, listen, signalled
from esper_agents.mcp_server.bounded_streams import BoundedReadStream, BoundedWriteStream, OpenRequests
from esper_agents.mcp_server.server import build_server
from esper_agents.mcp_server.server_project import ServerProject

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, MutableMapping, Sequence
    from pathlib import Path
    from typing import TypeAlias

    from mcp.server import MCPServer

    Message: TypeAlias = MutableMapping[str, Any]
    Receive: TypeAlias = Callable[[], Awaitable[Message]]
    Send: TypeAlias = Callable[[Message], Awaitable[None]]
    AsgiApp: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

_BEARER = b"bearer "
_GRACE_S = 1


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """Address of an HTTP server.

    Attributes:
        url: URL of the endpoint.
        token: Token that every request must carry, as `Authorization: Bearer TOKEN`.
    """

    url: str
    token: str


def serve_stdio(root: Path, allowed: Sequence[str] = ()) -> None:
    """Serve a project over standard input and output until the client closes them.

    Args:
        root: Project directory.
        allowed: Tools that sessions may call without approval; granted by the user who starts the server.
    """

    async def serve(project: ServerProject) -> None:
        # A client that disappears closes the pipes: that ends the server, and is no error of it.
        try:
            await _serve_streams(build_server(project))
        except* (BrokenPipeError, ConnectionResetError):
            pass

    _run(root, allowed, serve)


async def _serve_streams(server: MCPServer[Any]) -> None:
    """Serve standard input and output as `run_stdio_async` does, with a bounded number of open requests."""
    requests, lowlevel = OpenRequests(), server._lowlevel_server  # noqa: SLF001 - the SDK has no hook between the two
    async with stdio_server() as (read, write):
        await lowlevel.run(
            BoundedReadStream(read, requests),
            BoundedWriteStream(write, requests),
            lowlevel.create_initialization_options(),
        )


def serve_http(
    root: Path, port: int, token: str, announce: Callable[[HttpAddress], None], allowed: Sequence[str] = ()
) -> None:
    """Serve a project over streamable HTTP on 127.0.0.1 until a signal ends it.

    Requests with a foreign `Host` or `Origin` are refused, and requests without the token.

    Args:
        root: Project directory.
        port: Port; 0 for a free one.
        token: Token; a new one if empty.
        announce: Called with the address before the first request is served.
        allowed: As in `serve_stdio`.

    Raises:
        OSError: The port cannot be used.
    """
    import uvicorn

    listener = listen(LOOPBACK, port)
    chosen = listener.getsockname()[1]
    address = HttpAddress(f"http://{LOOPBACK}:{chosen}/mcp", token or secrets.token_urlsafe(32))

    async def serve(project: ServerProject) -> None:
        app = require_token(build_server(project).streamable_http_app(host=LOOPBACK), address.token)
        config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=_GRACE_S, access_log=False)
        announce(address)
        server = uvicorn.Server(config)
        # The signals are those of `_run`.
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        await server.serve(sockets=[listener])

    _run(root, allowed, serve)


def require_token(app: AsgiApp, token: str) -> AsgiApp:
    """Return an application that answers only requests with the token."""
    expected = token.encode()

    async def guarded(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _has_token(scope["headers"], expected):
            headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b"the token is missing or wrong\n"})
            return
        await app(scope, receive, send)

    return guarded


def _has_token(headers: Sequence[tuple[bytes, bytes]], expected: bytes) -> bool:
    given = [value for name, value in headers if name.lower() == b"authorization"]
    if len(given) != 1 or given[0][: len(_BEARER)].lower() != _BEARER:
        return False
    return secrets.compare_digest(given[0][len(_BEARER) :].strip(), expected)


def _run(root: Path, allowed: Sequence[str], serve: Callable[[ServerProject], Coroutine[Any, Any, None]]) -> None:
    """Run a server until it ends or a signal arrives, then end its sessions and processes, and the process.

    The process ends without waiting for its threads: one may read standard input, or review a large file, and neither
    can be interrupted.
    """
    # Paths in results and in commands are then relative to the project.
    os.chdir(root)

    async def main() -> None:
        async with ServerProject(root, allowed) as project:
            serving = asyncio.create_task(serve(project))
            stopped = asyncio.create_task(signalled())
            await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if serving.done():
                serving.result()
            else:
                # What a call of a client started ends with the project, before the process does.
                serving.cancel()
        end_process()

    asyncio.run(main())
