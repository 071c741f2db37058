"""The open project of a server, opened again if its database file was replaced."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from esper_agents.api import open_project

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from esper_agents.api import OpenProject


class ServedProject:
    """A project that stays readable while the server runs."""

    def __init__(self, root: Path) -> None:
        """Serve the project at a root; it is opened by the context manager."""
        self.root = root
        self._lock = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._project: OpenProject | None = None

    async def __aenter__(self) -> Self:
        """Open the project.

        Raises:
            StorageError: The database cannot be used.
        """
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the project."""
        await self._stack.aclose()

    async def current(self) -> OpenProject:
        """Return the open project, on the database file that exists now.

        Raises:
            StorageError: The database is missing or cannot be used.
        """
        async with self._lock:
            if self._project is None or self._project.browsing.is_replaced():
                self._project = None
                # Closed first: SQLite would apply the write-ahead log of the earlier file to the new one.
                await self._stack.aclose()
                return await self._open()
            return self._project

    async def _open(self) -> OpenProject:
        self._project = await self._stack.enter_async_context(open_project(self.root))
        # Remembers the database file from now on.
        self._project.browsing.is_replaced()
        return self._project
