"""Projects open in a queue worker: reloaded periodically, closed when idle."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.errors import EsperError, UsageError
from esper_agents.orchestration.project_services import ProjectServices, ServiceOverrides
from esper_agents.paths import project_home
from esper_agents.tools.projects import find_project

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from esper_agents.storage.store import AsyncStore

# Agents, playbooks and settings are read anew for sessions that begin later than this.
_FRESH_S = 10.0


@dataclass(slots=True)
class _Desk:
    """A project that sessions run in.

    Attributes:
        workshop: What they work with.
        until: When later sessions get another one, by the clock of the event loop.
        users: How many run in it.
    """

    workshop: ProjectServices
    until: float
    users: int = 0


class ProjectPool:
    """The projects that a worker has sessions in."""

    def __init__(self, store: AsyncStore, *, publish: bool, additions: ServiceOverrides) -> None:
        """Begin with none.

        Args:
            store: Where the rows of all of them live.
            publish: Whether views may be written into projects where they are ours to write.
            additions: Further tools, playbooks, agents and rules.
        """
        self._store, self._publish, self._additions = store, publish, additions
        self._desks: dict[str, _Desk] = {}

    def is_here(self, key: str, root: str) -> bool:
        """Return whether a project is on this machine.

        Args:
            key: What names it.
            root: The folder that it is to be in.
        """
        if key in self._desks:
            return True
        try:
            return Path(root).is_dir() and find_project([Path(root)], Path(root)).key == key
        except (EsperError, OSError):
            return False

    @asynccontextmanager
    async def at(self, key: str, root: str) -> AsyncIterator[ProjectServices]:
        """Yield what sessions of a project work with.

        Raises:
            UsageError: The project is not there any more.
        """
        desk = self._desk(key, root)
        desk.users += 1
        try:
            yield desk.workshop
        finally:
            desk.users -= 1
            if not desk.users and self._desks.get(key) is not desk:
                await desk.workshop.close()

    def _desk(self, key: str, root: str) -> _Desk:
        now = asyncio.get_running_loop().time()
        desk = self._desks.get(key)
        if desk is None or desk.until <= now:
            found = find_project([Path(root)], Path(root))
            # The folder comes from a row of the database, and may name another project by now.
            if found.key != key:
                raise UsageError(f"{root!r} is not the project {key!r}", remedy="run `esper doctor` in that folder")
            workshop = ProjectServices(found, project_home(found.key), self._store, self._publish, self._additions)
            desk = self._desks[key] = _Desk(workshop, now + _FRESH_S)
        return desk

    async def leave(self, *, everything: bool = False) -> None:
        """Leave no process of projects behind in which nothing runs.

        Args:
            everything: Also of those that a session may soon begin in.
        """
        now = asyncio.get_running_loop().time()
        idle = [key for key, desk in self._desks.items() if not desk.users and (everything or desk.until <= now)]
        for key in idle:
            await self._desks.pop(key).workshop.close()
