"""A thread that runs the calls of coroutines one after the other."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class WorkerThread:
    """A thread that starts with its first task.

    A single-threaded executor does the same in twice the time, because its futures are made for waiting threads.
    """

    def __init__(self, name: str) -> None:
        """Set the thread's name; the thread is not started yet."""
        self._name = name
        self._given: SimpleQueue[tuple[asyncio.Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._is_closed = False
        self._turn = Lock()

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of a call; a call whose caller was cancelled before its turn is skipped.

        Raises:
            RuntimeError: The thread is closed.
        """
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._turn:
            if self._is_closed:
                raise RuntimeError(f"the thread {self._name} was closed")
            if self._thread is None:
                self._thread = Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
            self._given.put((done, work))
        return await done

    def close(self) -> None:
        """Wait until all given calls are done, and end the thread."""
        with self._turn:
            self._is_closed = True
            thread = self._thread
        if thread is not None:
            self._given.put(None)
            thread.join()

    def _serve(self) -> None:
        while (given := self._given.get()) is not None:
            done, work = given
            if not done.cancelled():
                _settle(done, work)


def _settle(done: asyncio.Future[Any], work: Callable[[], Any]) -> None:
    result, error = None, None
    try:
        result = work()
    except BaseException as raised:  # noqa: BLE001 - whoever waits gets it
        error = raised
    # A closed event loop has no waiting coroutine.
    with suppress(RuntimeError):
        done.get_loop().call_soon_threadsafe(_tell, done, result, error)


def _tell(done: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if done.cancelled():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)
