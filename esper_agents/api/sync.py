"""Synchronous API: the project on an event loop in its own thread, notebooks included.

It is generated from the asynchronous API: every service, method and session has the same name, arguments and result,
without `await`. Results of asynchronous generators are iterators.
"""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar

from esper_agents.api.project import open_project
from esper_agents.api.service import Service
from esper_agents.api.session import Session
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Event
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from pathlib import Path

    from esper_agents.api.project import OpenProject
    from esper_agents.api.session import SessionResult
    from esper_agents.domain.session import Event as SessionEvent


_T = TypeVar("_T")
_END = object()


@contextmanager
def open_project_sync(*paths: str | Path, **options: Any) -> Iterator[SyncProject]:
    """Yield the project that contains all paths, open until the block ends; see `open_project` for the options."""
    opened: Future[tuple[OpenProject, AbstractEventLoop, Event]] = Future()
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(asyncio.run, _hold_open(opened, *paths, **options))
        running.add_done_callback(partial(_report_failure, opened))
        project, loop, closing = opened.result()
        try:
            yield SyncProject(loop, project)
        finally:
            loop.call_soon_threadsafe(closing.set)
            running.result()


def _report_failure(opened: Future[Any], done: Future[None]) -> None:
    """Pass the error of a project that could not be opened to the caller."""
    if not opened.done():
        opened.set_exception(done.exception())


async def _hold_open(opened: Future[Any], *paths: str | Path, **options: Any) -> None:
    closing = asyncio.Event()
    async with open_project(*paths, **options) as project:
        opened.set_result((project, asyncio.get_running_loop(), closing))
        await closing.wait()


class _Synchronous:
    """The attributes of an object of the asynchronous API, without `await`."""

    def __init__(self, loop: AbstractEventLoop, wrapped: object) -> None:
        """Wrap an object; use `open_project_sync`."""
        self._loop = loop
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _wrapped(self._loop, getattr(self._wrapped, name))

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._wrapped) if not name.startswith("_")]


class SyncProject(_Synchronous):
    """Synchronous face of an open project; see `OpenProject` for its services."""


class SyncSession(_Synchronous):
    """Synchronous face of a session held by this process; see `Session`."""

    _wrapped: Session

    def run(self, watch: Callable[[SessionEvent], None] | None = None) -> SessionResult:
        """Run the session until it ends or needs a user's answer; call `watch` with each event as it is written."""
        return _call(self._loop, self._watched(watch))

    async def _watched(self, watch: Callable[[SessionEvent], None] | None) -> SessionResult:
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
        self._loop.call_soon_threadsafe(self._wrapped.stop)


def _wrapped(loop: AbstractEventLoop, found: Any) -> Any:
    """Return the synchronous face of an attribute or result of the asynchronous API."""
    if isinstance(found, Session):
        return SyncSession(loop, found)
    if isinstance(found, Service):
        return _Synchronous(loop, found)
    if not inspect.ismethod(found):
        return found

    @wraps(found)
    def call(*args: Any, **options: Any) -> Any:
        # Methods without `await` run on the event loop, too: one thread uses the project's services.
        result = _call(loop, _called(found, args, options))
        return _iterated(loop, result) if inspect.isasyncgen(result) else _wrapped(loop, result)

    return call


async def _called(method: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    result = method(*args, **options)
    return await result if inspect.isawaitable(result) else result


def _iterated(loop: AbstractEventLoop, events: AsyncIterator[Any]) -> Iterator[Any]:
    while (event := _call(loop, _next(events))) is not _END:
        yield event


async def _next(events: AsyncIterator[Any]) -> Any:
    return await anext(events, _END)


def _call(loop: AbstractEventLoop, work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine on the event loop of another thread and return its result; Ctrl-C cancels it."""
    with suppress(RuntimeError):  # this thread has no running loop
        if asyncio.get_running_loop() is loop:
            work.close()
            problem = "the synchronous API was called from one of its own callbacks"
            raise UsageError(problem, remedy="call it after the call has returned, or use `open_project`")
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
