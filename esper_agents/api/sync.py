"""Synchronous API: the project on an event loop in its own thread, notebooks included.

It is generated from the asynchronous API: every service, method and session has the same name, arguments and result,
without `await`. Results of asynchronous generators are iterators.
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from esper_agents.api.project import open_project
from esper_agents.api.service import Service
from esper_agents.api.session import Session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from anyio.from_thread import BlockingPortal

    from esper_agents.api.session import SessionResult
    from esper_agents.domain.session import Event


_END = object()


@contextmanager
def open_project_sync(*paths: str | Path, **options: Any) -> Iterator[SyncProject]:
    """Yield the project that contains all paths, open until the block ends; see `open_project` for the options."""
    from anyio.from_thread import start_blocking_portal

    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(open_project(*paths, **options)) as opened,
    ):
        yield SyncProject(portal, opened)


class _Synchronous:
    """The attributes of an object of the asynchronous API, without `await`."""

    def __init__(self, portal: BlockingPortal, wrapped: object) -> None:
        """Wrap an object; use `open_project_sync`."""
        self._portal = portal
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _wrapped(self._portal, getattr(self._wrapped, name))

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._wrapped) if not name.startswith("_")]


class SyncProject(_Synchronous):
    """Synchronous face of an open project; see `OpenProject` for its services."""


class SyncSession(_Synchronous):
    """Synchronous face of a session held by this process; see `Session`."""

    _wrapped: Session

    def run(self, watch: Callable[[Event], None] | None = None) -> SessionResult:
        """Run the session until it ends or needs a user's answer; call `watch` with each event as it is written."""
        return self._portal.call(self._watched, watch)

    async def _watched(self, watch: Callable[[Event], None] | None) -> SessionResult:
        import asyncio

        running = asyncio.create_task(self._wrapped.run())
        try:
            async for event in self._wrapped.events():
                if watch is not None:
                    watch(event)
        except BaseException:
            self._wrapped.stop()
            await asyncio.gather(running, return_exceptions=True)
            raise
        return await running

    def stop(self) -> None:
        """Ask the run to stop at the next step boundary; may be called from a signal handler."""
        self._portal.start_task_soon(self._wrapped.stop)


def _wrapped(portal: BlockingPortal, found: Any) -> Any:
    """Return the synchronous face of an attribute or result of the asynchronous API."""
    if isinstance(found, Session):
        return SyncSession(portal, found)
    if isinstance(found, Service):
        return _Synchronous(portal, found)
    if not inspect.ismethod(found):
        return found

    @wraps(found)
    def call(*args: Any, **options: Any) -> Any:
        # Methods without `await` run on the event loop, too: one thread uses the project's services.
        result = portal.call(partial(_called, found, args, options))
        return _iterated(portal, result) if inspect.isasyncgen(result) else _wrapped(portal, result)

    return call


async def _called(method: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    result = method(*args, **options)
    return await result if inspect.isawaitable(result) else result


def _iterated(portal: BlockingPortal, events: AsyncIterator[Any]) -> Iterator[Any]:
    while (event := portal.call(_next, events)) is not _END:
        yield event


async def _next(events: AsyncIterator[Any]) -> Any:
    return await anext(events, _END)
