"""Projects open in a queue worker: reloaded periodically, closed when idle."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.errors import EsperError, UsageError
from esper_agents.git.find_project import find_project
from esper_agents.orchestration.project_services import ServiceOverrides, services_of
from esper_agents.orchestration.snapshot_sessions import SnapshotSource, snapshot_services

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from esper_agents.orchestration.project_services import ProjectServices
    from esper_agents.storage.store import AsyncStore

# Sessions that begin later than this load agents, playbooks and settings again.
_FRESH_S = 10.0


@dataclass(slots=True)
class _Desk:
    """An open project with its running sessions.

    Attributes:
        services: The services of the project.
        until: Time at which new sessions get new services, by the clock of the event loop.
        users: Number of sessions that run in it.
        stack: Closes it.
    """

    services: ProjectServices
    until: float
    stack: AsyncExitStack
    users: int = 0


class ProjectPool:
    """The open projects of a queue worker."""

    def __init__(self, store: AsyncStore, *, publish: bool, additions: ServiceOverrides) -> None:
        """Create an empty pool.

        Args:
            store: The store of all its projects.
            publish: Whether views may be published into projects, if the program owns the files there.
            additions: Additional tools, playbooks, agents and rules.
        """
        self._store, self._publish, self._additions = store, publish, additions
        # By the key of the project, and the digest of the snapshot that its sessions read.
        self._desks: dict[tuple[str, str], _Desk] = {}
        self._opening = asyncio.Lock()

    def is_here(self, key: str, root: str) -> bool:
        """Return whether a project is on this machine.

        Args:
            key: Key of the project.
            root: The expected folder of the project.
        """
        if (key, "") in self._desks:
            return True
        try:
            return Path(root).is_dir() and find_project([Path(root)], Path(root)).key == key
        except (EsperError, OSError):
            return False

    @asynccontextmanager
    async def at(self, key: str, root: str, snapshot: str = "") -> AsyncIterator[ProjectServices]:
        """Yield the services of a project for its sessions.

        Args:
            key: Key of the project.
            root: The expected folder of the project.
            snapshot: Digest of the artifact to read instead of that folder; empty for none.

        Raises:
            UsageError: The project no longer exists, or the snapshot is not shared with this machine.
            IntegrityError: The snapshot is damaged.
        """
        # Sessions that begin together share what the first one unpacks.
        async with self._opening:
            desk = await self._desk(key, root, snapshot)
            desk.users += 1
        try:
            yield desk.services
        finally:
            desk.users -= 1
            if not desk.users and self._desks.get((key, snapshot)) is not desk:
                await desk.stack.aclose()

    async def _desk(self, key: str, root: str, snapshot: str) -> _Desk:
        now = asyncio.get_running_loop().time()
        desk = self._desks.get((key, snapshot))
        if desk is None or desk.until <= now:
            stack = AsyncExitStack()
            if snapshot:
                source = SnapshotSource(key, root, snapshot)
                services = await stack.enter_async_context(snapshot_services(source, self._store, self._additions))
            else:
                found = find_project([Path(root)], Path(root))
                # The folder comes from a database row and may contain another project by now.
                if found.key != key:
                    raise UsageError(f"{root!r} is not the project {key!r}", remedy="run `esper doctor` in that folder")
                services = services_of(found, self._store, self._additions, publish=self._publish)
                stack.push_async_callback(services.close)
            older = desk
            desk = self._desks[key, snapshot] = _Desk(services, now + _FRESH_S, stack)
            if older is not None and not older.users:
                await older.stack.aclose()
        return desk

    async def leave(self, *, everything: bool = False) -> None:
        """Close the projects without running sessions.

        Args:
            everything: Include projects whose services could still be reused by a later session.
        """
        now = asyncio.get_running_loop().time()
        idle = [key for key, desk in self._desks.items() if not desk.users and (everything or desk.until <= now)]
        for key in idle:
            await self._desks.pop(key).stack.aclose()
