"""The sessions that this process began or resumed and that are not over, to be named if it is interrupted."""

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
    """Return the session that `submit`, `resume` or their like returns, and note it.

    A cancellation waits until the session is stored or refused: only then is it known whether there is one to resume.
    """
    this = asyncio.current_task()
    if this is not None and this.cancelling():
        # Ctrl-C came during an import, and is only noticed at the next wait.
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
