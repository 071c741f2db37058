"""Agents with their memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.api import Filter

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from esper_agents.api import OpenProject
    from esper_agents.web.site import ArchiveSite

_MOST_NOTES = 200


async def listing(_request: Request, site: ArchiveSite, project: OpenProject) -> Response:
    """Return the agents with the number of their newest certificates."""
    counts = await project.browsing.counts()
    concluded = {each.value: each.certificates for each in counts.agents}
    agents = project.agents.registry.agents
    rows = [(agents[name], concluded.get(name, 0)) for name in sorted(agents, key=lambda name: -concluded.get(name, 0))]
    return await site.render(project, "agents.html.j2", "agents", rows=rows, counts=counts)


async def show(request: Request, site: ArchiveSite, project: OpenProject) -> Response:
    """Return the page of one agent: definition, tools, memory, newest certificates."""
    details = project.agents.show(request.path_params["agent"])
    name = details.agent.name
    return await site.render(
        project,
        "agent.html.j2",
        "agents",
        details=details,
        agent=details.agent,
        notes=await project.memory.list(agent=name, limit=_MOST_NOTES),
        entries=await project.certificates.list(wanted=Filter(agent=name), limit=10),
    )
