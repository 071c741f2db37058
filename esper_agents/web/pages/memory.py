"""Notes of all agents, by agent, document or file."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from esper_agents.domain.memory import NoteKind
from esper_agents.errors import NotFoundError
from esper_agents.web.pages.query import text_of
from esper_agents.web.rendering import address

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from esper_agents.api import OpenProject
    from esper_agents.web.site import ArchiveSite

_MOST_NOTES = 200
_MOST_FILES = 50


async def listing(request: Request, site: ArchiveSite, project: OpenProject) -> Response:
    """Return the newest notes, with the files that they are about.

    Raises:
        NotFoundError: There is no such document of notes.
    """
    kind, path = text_of(request, "kind"), text_of(request, "file")
    if kind and kind not in set(NoteKind):
        raise NotFoundError("document", kind, map(str, NoteKind), listing="esper memory list --help")
    if path:
        notes = await project.memory.about(path, limit=_MOST_NOTES)
    else:
        notes = await project.memory.list(kind=NoteKind(kind) if kind else None, limit=_MOST_NOTES)
    files = await site.files(project)
    about = Counter(name for note in notes for name in {source.path for source in note.sources} if name in files)
    return await site.render(
        project,
        "memory.html.j2",
        "memory",
        notes=notes,
        most=_MOST_NOTES,
        path=path,
        files=files,
        about=about.most_common(_MOST_FILES),
        kinds=[(str(each), address("/memory", kind=each), str(each) == kind) for each in NoteKind],
        kind=kind,
    )
