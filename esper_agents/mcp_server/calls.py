"""Calls of tools: errors as text for the caller, progress, cancellation, and results without secrets."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import anyio
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from esper_agents.errors import EsperError, UsageError
from esper_agents.mcp_server.results import as_result
from esper_agents.mcp_server.server_project import ServerProject
from esper_agents.mcp_server.suggested_calls import for_tools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from mcp.server.mcpserver import MCPServer
    from mcp_types import CallToolResult

    from esper_agents.api import Progress

T = TypeVar("T")
ToolCallContext: TypeAlias = Context[ServerProject, Any]

# Nothing changes in the project or outside it.
READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
# Runs code of the project in a sandbox, or adds to the data directory; replaces nothing.
RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)

LONGEST_TEXT = 1_000_000
_BEAT_S = 2.0
# A thread ends at its next file; after this time it is left to end with the process.
_THREAD_PATIENCE_S = 10.0


@dataclass(slots=True)
class CallActivity:
    """CallActivity of a call, for its progress notifications.

    Attributes:
        text: What it does.
        done: Completed units.
        total: All units; 0 if unknown, and the seconds are reported.
        since: Start, by the monotonic clock.
    """

    text: str
    done: int = 0
    total: int = 0
    since: float = field(default_factory=time.monotonic)


def add_tool(
    server: MCPServer[Any], function: Callable[..., Awaitable[CallToolResult]], annotations: ToolAnnotations
) -> None:
    """Add a tool; its name and description are those of the function, and its errors are texts for the caller."""

    @functools.wraps(function)
    async def call(*arguments: Any, **named: Any) -> Any:
        try:
            _refuse_long(named)
            return await function(*arguments, **named)
        except EsperError as error:
            raise ToolError(f"{error.problem}\nfix: {_for_tools(error.remedy, named)}") from error

    server.add_tool(
        call,
        name=function.__name__,
        title=function.__name__.replace("_", " ").capitalize(),
        description=inspect.cleandoc(function.__doc__ or ""),
        annotations=annotations,
    )


def _for_tools(remedy: str, arguments: dict[str, Any]) -> str:
    """Return the fix of an error with the tools' names for commands and options."""
    context = arguments.get("context")
    return for_tools(remedy, project_of(context).root) if isinstance(context, Context) else remedy


def answered(answer: Any) -> CallToolResult:
    """Return the result of a call, without secrets."""
    from esper_agents.api import redacted, secrets_of

    return as_result(redacted(answer, known=secrets_of(os.environ)).value)


def project_of(context: ToolCallContext) -> ServerProject:
    """Return the project of the server that answers a call."""
    return context.request_context.lifespan_context


async def working(context: ToolCallContext, activity: CallActivity, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of work that may take long; report its progress, and end it if the call is cancelled.

    The work runs in a task of its own, which is cancelled once and can then clean up undisturbed.
    """
    beat = asyncio.create_task(_beat(context, activity))
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
        raise
    finally:
        beat.cancel()


async def in_thread(
    work: Callable[[Callable[[Progress], None]], T], activity: CallActivity, slots: asyncio.Semaphore
) -> T:
    """Return the result of a review in a thread; on cancellation it ends at its next file.

    Args:
        work: The review; it receives the progress callback.
        activity: CallActivity to update.
        slots: Limits the reviews that run at the same time.
    """
    stopped = threading.Event()

    def on_progress(progress: Progress) -> None:
        if stopped.is_set():
            raise _StoppedReviewError
        activity.text, activity.done, activity.total = f"{progress.doing} files", progress.done, progress.total

    async with slots:
        running = asyncio.get_running_loop().run_in_executor(None, work, on_progress)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            stopped.set()
            with suppress(_StoppedReviewError, EsperError, TimeoutError):
                await asyncio.wait_for(asyncio.shield(running), _THREAD_PATIENCE_S)
            raise


class _StoppedReviewError(Exception):
    """A review was cancelled."""


async def _beat(context: ToolCallContext, activity: CallActivity) -> None:
    """Report the progress of a call until it is cancelled."""
    while True:
        await asyncio.sleep(_BEAT_S)
        seconds = time.monotonic() - activity.since
        # Progress must grow with each report, also while no unit is completed.
        total = float(activity.total) if activity.total else None
        done = activity.done + min(seconds / 1e6, 0.9) if total else seconds
        # A client that has gone gets no progress; the call ends by itself.
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await context.report_progress(done, total, activity.text)


def _refuse_long(arguments: dict[str, Any]) -> None:
    """Raise an error if an argument is longer than any use of it.

    Raises:
        UsageError: It is.
    """
    for name, value in arguments.items():
        texts = value if isinstance(value, list) else [value]
        if sum(len(text) for text in texts if isinstance(text, str)) > LONGEST_TEXT:
            problem = f"{name!r} has more than {LONGEST_TEXT:,} characters"
            raise UsageError(problem, remedy="give less, or name a file of the project")
