"""Agents with their memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.api import Filter
from esper_agents.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from esper_agents.api import CertificateSummary, OpenProject
    from esper_agents.web.site import ArchiveSite

_MOST_NOTES, _MOST_CERTIFICATES = 200, 10


async def listing(_request: Request, site: ArchiveSite, project: OpenProject) -> Response:
    """Return the agents with the number of their newest certificates, and those that only their memory names."""
    counts = await project.browsing.counts()
    concluded = {each.value: each.certificates for each in counts.agents}
    registry = project.agents.registry
    defined = {name: sum(concluded.get(each, 0) for each in registry.known_as(name)) for name in registry.agents}
    known = {alias for name in defined for alias in registry.known_as(name)}
    others = {name for name in (*concluded, *await project.memory.agents()) if name not in known}
    rows: list[tuple[str, str | None, int]] = [
        (name, registry.agents[name].description, defined[name]) for name in _most_first(defined)
    ]
    rows += [(name, None, concluded.get(name, 0)) for name in sorted(others)]
    return await site.render(project, "agents.html.j2", "agents", rows=rows, counts=counts)


def _most_first(counts: Mapping[str, int]) -> list[str]:
    return sorted(counts, key=lambda name: -counts[name])


async def show(request: Request, site: ArchiveSite, project: OpenProject) -> Response:
    """Return the page of one agent: definition, tools, memory, newest certificates.

    An agent that is not defined here any more has its memory and its certificates.

    Raises:
        NotFoundError: There is no agent of that name, and nothing by one.
    """
    asked = request.path_params["agent"]
    registry = project.agents.registry
    names = registry.known_as(asked)
    name = next((each for each in names if each in registry.agents), asked)
    certificates = await _certificates(project, names)
    try:
        notes = await project.memory.list(agent=name, limit=_MOST_NOTES)
    except NotFoundError:
        if not certificates:
            raise
        notes = ()
    return await site.render(
        project,
        "agent.html.j2",
        "agents",
        name=name,
        details=project.agents.show(name) if name in registry.agents else None,
        notes=notes,
        entries=certificates,
    )


async def _certificates(project: OpenProject, names: tuple[str, ...]) -> list[CertificateSummary]:
    found: list[CertificateSummary] = []
    for name in names:
        try:
            found += await project.certificates.list(wanted=Filter(agent=name), limit=_MOST_CERTIFICATES)
        except NotFoundError:
            continue
    return sorted(found, key=lambda entry: entry.issued_at, reverse=True)[:_MOST_CERTIFICATES]
