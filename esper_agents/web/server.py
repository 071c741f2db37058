"""Server of the pages: address, limits, signals."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn

from esper_agents.errors import UsageError
from esper_agents.http_server import LOOPBACK, end_process, listen, signalled
from esper_agents.web.access import Access
from esper_agents.web.app import build_app
from esper_agents.web.bounded_connections import BoundedConnection
from esper_agents.web.guard import START, AllowedHosts, Guard
from esper_agents.web.served_project import ServedProject
from esper_agents.web.site import ArchiveSite

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_GRACE_S = 1
_MOST_HEAD = 32 * 1024
_KEEP_ALIVE_S = 15
_LOCAL_NAMES = frozenset((LOOPBACK, "localhost", "::1"))
_ALL_INTERFACES = frozenset(("0.0.0.0", "::"))  # noqa: S104 - refused unless the user allows it


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """Settings of a server.

    Attributes:
        root: Project directory.
        host: Address of the interface to listen on.
        port: Port; 0 for a free one.
        allows_answers: Whether questions of sessions can be answered from pages.
        allows_remote: Whether an address that other machines can reach is accepted.
    """

    root: Path
    host: str = LOOPBACK
    port: int = 0
    allows_answers: bool = False
    allows_remote: bool = False


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Address of a server.

    Attributes:
        url: Start URL with a token that can be used once.
        is_first: Whether it is the first one; each later one replaces a used one.
    """

    url: str
    is_first: bool


def serve(settings: ServeSettings, announce: Callable[[ServerAddress], None]) -> None:
    """Serve the pages of a project until a signal ends the process.

    Args:
        settings: What to serve, and where.
        announce: Called with the start URL before the first request is served, and after each use with a new one.

    Raises:
        UsageError: The address is not of this machine, or other machines can reach it and that is not allowed.
        OSError: The port cannot be used.
        StorageError: The database cannot be used.
    """
    _require_local(settings)
    listener = listen(settings.host, settings.port)
    port = int(listener.getsockname()[1])
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    shown = LOOPBACK if settings.host in _ALL_INTERFACES else shown

    def say(token: str, *, is_first: bool = False) -> None:
        announce(ServerAddress(f"http://{shown}:{port}{START}?token={token}", is_first))

    access = Access(port, say)

    async def main() -> None:
        async with ServedProject(settings.root) as served:
            site = ArchiveSite(served, access, settings.allows_answers)
            guard = Guard(build_app(site), access, _hosts(settings, port), accepts_writes=settings.allows_answers)
            say(access.start_token, is_first=True)
            await _until_signalled(uvicorn.Server(_config(guard)), listener)
            for task in site.runs:
                task.cancel()
            await asyncio.gather(*site.runs, return_exceptions=True)
        end_process()

    # Paths in commands that the pages show are relative to the project.
    os.chdir(settings.root)
    asyncio.run(main())


def _config(guard: Guard) -> uvicorn.Config:
    return uvicorn.Config(
        guard,
        http=BoundedConnection,
        ws="none",
        lifespan="off",
        log_level="critical",
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
        h11_max_incomplete_event_size=_MOST_HEAD,
    )


async def _until_signalled(server: uvicorn.Server, listener: socket.socket) -> None:
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    serving, stopped = asyncio.create_task(server.serve(sockets=[listener])), asyncio.create_task(signalled())
    await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    server.should_exit = True
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def _hosts(settings: ServeSettings, port: int) -> AllowedHosts:
    names = _LOCAL_NAMES | ({settings.host.lower(), socket.gethostname().lower()} if settings.allows_remote else set())
    return AllowedHosts(names, port, accepts_addresses=settings.host in _ALL_INTERFACES)


def _require_local(settings: ServeSettings) -> None:
    """Raise an error for an address that other machines can reach, unless that is allowed.

    Raises:
        UsageError: It can be reached, or is not an address.
    """
    try:
        is_local = ipaddress.ip_address(settings.host).is_loopback
    except ValueError:
        is_local = settings.host == "localhost"
        if not is_local:
            problem = f"{settings.host!r} is not an address of an interface"
            raise UsageError(problem, remedy="use an IP address, such as --host 127.0.0.1") from None
    if not is_local and not settings.allows_remote:
        raise UsageError(
            f"other machines can reach {settings.host}, and the pages and the cookie are sent unencrypted",
            remedy="use an SSH tunnel to 127.0.0.1, or accept that with --allow-remote",
        )
