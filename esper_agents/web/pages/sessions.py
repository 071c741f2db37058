"""Sessions: list, timeline with tool calls and cost, and the events of a running session as a stream."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING

from starlette.responses import Response, StreamingResponse

from esper_agents.api import event_lines, read_session_filter, session_timeline
from esper_agents.domain.plain_text import plain
from esper_agents.domain.session import SessionState
from esper_agents.domain.usage import Expense, dollars
from esper_agents.errors import NotFoundError, UsageError
from esper_agents.web.pages.query import number_of, text_of
from esper_agents.web.rendering import address

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from starlette.requests import Request

    from esper_agents.api import OpenProject, SessionSummary
    from esper_agents.web.site import ArchiveSite

_ROWS = 50
_MOST_COMPARED = 200
_MOST_STREAMS = 32
_MOST_LINES = 2000
_KEEP_ALIVE_S = 5.0
_COST = "cost"
_FREE = Expense()
_EVENT = re.compile(r"[0-9]{1,18}")
_WATCHED = frozenset((SessionState.OPEN, SessionState.WAITING))


async def listing(request: Request, site: ArchiveSite, project: OpenProject) -> Response:
    """Return the list of sessions, newest first or the most expensive of the newest ones first."""
    state, agent, before, order = (text_of(request, name) for name in ("state", "agent", "before", "order"))
    if state and state not in set(SessionState):
        raise NotFoundError("state", state, map(str, SessionState), listing="esper sessions list")
    wanted = read_session_filter(states=(SessionState(state),) if state else (), agent=agent)
    is_by_cost = order == _COST
    most = _MOST_COMPARED if is_by_cost else _ROWS
    found = await project.sessions.list(wanted=wanted, before=before, limit=most + 1)
    costs = await _costs(project, found[:most])
    rows = sorted(found[:most], key=lambda each: -costs.get(each.id, _FREE).money) if is_by_cost else found
    rows = rows[:_ROWS]
    has_more = len(found) > most and not is_by_cost
    more = address("/sessions", state=state, agent=agent, before=rows[-1].id) if has_more else ""
    return await site.render(
        project,
        "sessions.html.j2",
        "sessions",
        rows=[(each, dollars(costs[each.id].money) if each.id in costs else "") for each in rows],
        by_cost=address("/sessions", order=_COST),
        is_by_cost=is_by_cost,
        most=_MOST_COMPARED if len(found) > most else 0,
        states=[
            (str(each), address("/sessions", state=each, agent=agent), str(each) == state) for each in SessionState
        ],
        state=state,
        agent=agent,
        older=more,
    )


async def _costs(project: OpenProject, sessions: Sequence[SessionSummary]) -> dict[str, Expense]:
    """Return the usage of language models by session; sessions without a model are omitted."""
    found: dict[str, Expense] = {}
    for each in await project.models.usage([session.id for session in sessions]) if sessions else ():
        found[each.session] = found.get(each.session, _FREE) + each.expense
    return found


async def show(request: Request, site: ArchiveSite, project: OpenProject) -> Response:
    """Return the page of one session."""
    found = await project.sessions.get(request.path_params["session"])
    events = await project.sessions.timeline(found.id)
    calls = [event for event in events if event.kind == "called"]
    lines = session_timeline(found, events)
    return await site.render(
        project,
        "session.html.j2",
        "sessions",
        found=found,
        lines=lines[-_MOST_LINES:],
        hidden=max(len(lines) - _MOST_LINES, 0),
        problem=site.problems.get(found.id, ""),
        calls=[event.body["evidence"] for event in calls],
        handoffs=[event.body["handoff"] for event in events if event.kind == "handed-off"],
        answers=await project.browsing.answers((found.id,)),
        usage=await project.models.usage((found.id,)),
        waiting=[each for each in await site.pending(project) if each.session == found.id],
        is_live=found.state in _WATCHED and site.exported is None,
        last=events[-1].seq if events else 0,
    )


async def events(request: Request, site: ArchiveSite, project: OpenProject) -> Response:
    """Return the events of a session as a stream, from the last one that the browser has."""
    if site.streams >= _MOST_STREAMS:
        return Response("too many open streams\n", 503, {"retry-after": "5"})
    found = await project.sessions.get(request.path_params["session"])
    last = request.headers.get("last-event-id", "")
    # A browser that connects again sends the event that it has.
    after = int(last) if _EVENT.fullmatch(last) else number_of(request, "after")
    return StreamingResponse(_stream(site, project, found.id, after or 0), media_type="text/event-stream")


async def _stream(site: ArchiveSite, project: OpenProject, session_id: str, after: int) -> AsyncIterator[str]:
    """Yield the events of a session until no process works on it; a comment keeps an idle stream alive."""
    site.streams += 1
    watched = project.sessions.watch(session_id, after=after)
    upcoming: asyncio.Task[object] | None = None
    try:
        printed: set[str] = set()
        yield "retry: 3000\n\n"
        while True:
            upcoming = upcoming or asyncio.ensure_future(anext(watched, None))
            done, _ = await asyncio.wait({upcoming}, timeout=_KEEP_ALIVE_S)
            if not done:
                yield ": waiting\n\n"
                continue
            event, upcoming = upcoming.result(), None
            if event is None:
                break
            yield _message(event, printed)
        yield "event: end\ndata: {}\n\n"
    finally:
        site.streams -= 1
        if upcoming is not None:
            upcoming.cancel()


def _message(event: object, printed: set[str]) -> str:
    from esper_agents.domain.session import Event

    if not isinstance(event, Event):
        raise UsageError("this is no event of a session", remedy="report it")
    lines = [[label, plain(text)] for label, text in event_lines(event, printed)]
    return f"id: {event.seq}\ndata: {json.dumps({'at': event.at[11:19], 'lines': lines})}\n\n"
