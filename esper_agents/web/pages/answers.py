"""Questions of sessions: pending ones with forms, answered ones with who answered."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.responses import RedirectResponse, Response

from esper_agents.errors import UsageError
from esper_agents.web.rendering import part

if TYPE_CHECKING:
    from starlette.requests import Request

    from esper_agents.api import OpenProject
    from esper_agents.web.site import ArchiveSite

_MOST_SESSIONS = 200
_MOST_BODY = 16 * 1024
_DECISIONS = frozenset(("approve", "deny"))


async def listing(_request: Request, site: ArchiveSite, project: OpenProject) -> Response:
    """Return the pending questions, and the answers in the newest sessions."""
    sessions = await project.sessions.list(limit=_MOST_SESSIONS)
    return await site.render(
        project,
        "approvals.html.j2",
        "approvals",
        answers=await project.browsing.answers([each.id for each in sessions]),
        most=_MOST_SESSIONS,
        is_all=len(sessions) < _MOST_SESSIONS,
    )


async def answer(request: Request, site: ArchiveSite, project: OpenProject) -> Response:
    """Record an answer from a form, resume its session, and return to its page.

    Raises:
        UsageError: The form is not one of this server, or the question does not accept the answer.
    """
    form = parse_qs((await _body(request)).decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=8)
    if not site.access.is_form_token(form.get("token", [""])[0]):
        raise UsageError("the form is not one of this page", remedy="load the page again, then answer")
    text = form.get("answer", [""])[0].strip()
    if not text:
        raise UsageError("the answer is empty", remedy="write the answer, or choose one")
    is_decision = text in _DECISIONS and "is_decision" in form
    recorded = await project.approvals.record(request.path_params["question"], text, is_decision=is_decision)
    site.run(project, recorded.session)
    return RedirectResponse(f"/sessions/{part(recorded.session)}", status_code=303)


async def _body(request: Request) -> bytes:
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > _MOST_BODY:
            raise UsageError("the answer is too long", remedy="shorten it, or use `esper answer`")
    return data
