"""Project of a server: opened once, with its running sessions and the check of paths."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Self

from esper_agents.errors import EsperError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from esper_agents.api import OpenProject, Session, SessionResult

# Reviews compute in one process: a second one at the same time would only slow both down.
_REVIEWS = 1
# Sessions that run at the same time; further ones are refused, as each may start measurements.
MOST_SESSIONS = 8
_PATIENCE_S = 5.0


class ServerProject:
    """Project of a server.

    Attributes:
        root: Project directory.
        allowed: Tools that the user allowed when starting the server, as `esper submit --allow` takes them.
        reviews: Limits the reviews that run at the same time.
    """

    def __init__(self, root: Path, allowed: Sequence[str] = ()) -> None:
        """Belong to a project; it is opened when a tool needs its database."""
        self.root = root.resolve()
        self.allowed = tuple(allowed)
        self.reviews = asyncio.Semaphore(_REVIEWS)
        self._open: OpenProject | None = None
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._sessions: dict[str, tuple[Session, asyncio.Task[SessionResult]]] = {}

    async def __aenter__(self) -> Self:
        """Return the project."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the sessions and end all processes."""
        await self.close()

    async def close(self) -> None:
        """Stop the sessions at their next step, end all processes, and close the database."""
        running = [task for _, task in self._sessions.values() if not task.done()]
        for session, _ in self._sessions.values():
            session.stop(at_once=True)
        if running:
            await asyncio.wait(running, timeout=_PATIENCE_S)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        with suppress(EsperError):
            await self._stack.aclose()

    async def opened(self) -> OpenProject:
        """Return the open project; the first call opens it.

        Raises:
            StorageError: The database cannot be used.
        """
        from esper_agents.api import open_project

        async with self._opening:
            if self._open is None:
                self._open = await self._stack.enter_async_context(open_project(self.root))
        return self._open

    def inside(self, path: str, *, is_absent_allowed: bool = False) -> Path:
        """Return the absolute path of a file or folder of the project.

        Args:
            path: Relative to the project.
            is_absent_allowed: Whether it may be a path that only another commit has.

        Raises:
            UsageError: It is outside the project, or does not exist.
        """
        if "\0" in path:
            raise UsageError("a path with a NUL character", remedy="name a file of the project")
        try:
            found = (self.root / path).resolve()
            is_there = found.exists()
        except (OSError, RuntimeError):
            raise UsageError(f"{path[:200]!r} is not a path", remedy="name a file of the project") from None
        if not found.is_relative_to(self.root):
            raise UsageError(
                f"{path[:200]!r} is outside the project {str(self.root)!r}",
                remedy="name a file of the project; one server serves one project",
            )
        if not is_there and not is_absent_allowed:
            raise UsageError(f"no such file or folder: {path[:200]!r}", remedy="name a path relative to the project")
        return found

    def target(self, name: str) -> str:
        """Return a measurement target with its file relative to the project: `FILE.py:NAME` or `package.module:NAME`.

        Raises:
            UsageError: The file is outside the project, or the text is not a target.
        """
        where, _, attribute = name.rpartition(":")
        is_file = where.endswith(".py")
        if not _is_dotted(attribute) or not (is_file or _is_dotted(where)):
            raise UsageError(f"{name[:200]!r} names no target", remedy="write FILE.py:FUNCTION or package.module:NAME")
        if is_file:
            return f"{self.inside(where).relative_to(self.root).as_posix()}:{attribute}"
        return name

    def start(self, session: Session) -> asyncio.Task[SessionResult]:
        """Run a session in the background, and return its task.

        Raises:
            UsageError: Too many sessions run already.
        """
        self.refuse_if_busy()
        task = asyncio.create_task(session.run())
        # The result is read by whoever asks for it; an error is not lost to the loop's own handler.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._sessions[session.id] = (session, task)
        return task

    def refuse_if_busy(self) -> None:
        """Raise an error if too many sessions run already.

        Raises:
            UsageError: They do.
        """
        running = [name for name, (_, task) in self._sessions.items() if not task.done()]
        if len(running) >= MOST_SESSIONS:
            raise UsageError(
                f"{len(running)} sessions run already", remedy=f"wait for one: get_session with {running[0]}"
            )

    def running(self, session_id: str) -> asyncio.Task[SessionResult] | None:
        """Return the task of a session that this server runs or ran; None for another one."""
        found = self._sessions.get(session_id)
        return found[1] if found else None

    def stop(self, session_id: str) -> None:
        """Stop a session of this server at its next step; it can be resumed."""
        if found := self._sessions.get(session_id):
            found[0].stop(at_once=True)


def _is_dotted(name: str) -> bool:
    return all(map(str.isidentifier, name.split(".")))
