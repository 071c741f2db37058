"""Unfinished sessions that this process started or resumed, named in the message after Ctrl-C."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from esper_agents.errors import EsperError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from esper_agents.api import Session

sessions: list[str] = []


async def begin(beginning: Coroutine[object, object, Session]) -> Session:
    """Await a session started by `submit`, `resume` or a similar call, remember it and return it.

    A cancellation waits until the session is stored or refused: only then is it known whether there is one to resume.
    """
    this = asyncio.current_task()
    if this is not None and this.cancelling():
        # Ctrl-C during an import is only raised at the next await.
        beginning.close()
        raise asyncio.CancelledError
    running = asyncio.ensure_future(beginning)
    try:
        session = await asyncio.shield(running)
    except asyncio.CancelledError:
        with suppress(EsperError):
            sessions.append((await running).id)
        raise
    sessions.append(session.id)
    return session
