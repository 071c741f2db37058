"""Transparency log and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.api import list_keys
from esper_agents.web.pages.query import number_of
from esper_agents.web.rendering import address

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from esper_agents.api import OpenProject
    from esper_agents.web.site import ArchiveSite

_ROWS = 50


async def show(request: Request, site: ArchiveSite, project: OpenProject) -> Response:
    """Return the checkpoint, its consistency with the pin, the keys and the entries of the log."""
    log = await project.browsing.log(before=number_of(request, "before"), limit=_ROWS)
    more = address("/log", before=log.entries[-1].idx) if len(log.entries) == _ROWS and log.entries[-1].idx else ""
    return await site.render(
        project,
        "log.html.j2",
        "log",
        log=log,
        root=log.checkpoint.root.hex() if log.checkpoint else "",
        pinned_root=log.pinned.root.hex() if log.pinned else "",
        keys=list_keys(project.root),
        names=site.key_names(project),
        older=more,
        published=await project.certificates.published_status(),
    )
