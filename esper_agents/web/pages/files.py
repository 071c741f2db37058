"""Files: which certificates cover them, and how their findings developed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.api import CoverageState, Filter
from esper_agents.domain.memory import NoteState
from esper_agents.errors import NotFoundError
from esper_agents.web.pages.query import number_of, text_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from esper_agents.api import FileCoverage, OpenProject
    from esper_agents.web.site import ArchiveSite

_ROWS = 100
_MOST_CERTIFICATES = 20
_SHOWN_SINCE = 10
_MOST_NOTES = 20
_MOST_LINES = 3000
_TONES = {
    CoverageState.TAMPERED: "stop",
    CoverageState.AGAINST: "bad",
    CoverageState.OTHER_STATUS: "caution",
    CoverageState.NOT_CURRENT: "caution",
    CoverageState.UNCOVERED: "open",
    CoverageState.UNDECIDED: "open",
    CoverageState.COVERED: "good",
}
# States of a file that no valid certificate is about, whatever its status: one that cannot be verified is not valid.
_WITHOUT = frozenset(
    (CoverageState.TAMPERED, CoverageState.NOT_CURRENT, CoverageState.UNCOVERED, CoverageState.UNDECIDED)
)


async def listing(request: Request, site: ArchiveSite, project: OpenProject) -> Response:
    """Return the files of the project with their coverage."""
    show, start = text_of(request, "show"), number_of(request, "from") or 0
    coverage, is_current = await site.coverage(project)
    rows = coverage.coverage if coverage else ()
    by_show = {
        "": rows,
        "missing": [each for each in rows if each.standing in _WITHOUT],
        "unapproved": [each for each in rows if each.standing is not CoverageState.COVERED],
    }
    labels = {"": "All", "missing": "No valid certificate", "unapproved": "Not approved"}
    chosen = by_show.get(show, rows)
    return await site.render(
        project,
        "files.html.j2",
        "files",
        is_ready=coverage is not None,
        is_current=is_current,
        rows=[(each, _TONES[each.standing]) for each in chosen[start : start + _ROWS]],
        total=len(rows),
        missing=len(by_show["missing"]),
        switches=[(name, label, len(by_show[name])) for name, label in labels.items()],
        show=show,
        start=start,
        more=start + _ROWS if start + _ROWS < len(chosen) else 0,
    )


async def show(request: Request, site: ArchiveSite, project: OpenProject) -> Response:
    """Return the page of one file.

    Raises:
        NotFoundError: The project has neither the file nor a certificate of it.
    """
    path = text_of(request, "path")
    entries = await project.certificates.list(wanted=Filter(path=path), limit=_MOST_CERTIFICATES) if path else ()
    known = await site.files(project)
    if not entries and path not in known:
        raise NotFoundError("file", path, sorted(known), listing="esper gate")
    coverage: tuple[FileCoverage, ...] = ()
    if site.exported:
        coverage = tuple(each for each in (await site.settled_coverage(project)).coverage if each.path == path)
    elif path in known:
        coverage = (await project.browsing.coverage((path,), await site.repository(project))).coverage
    # Exported pages may be published: they quote lines, and do not contain whole files.
    is_shown = path in known and site.exported is None
    lines = (await project.browsing.source_lines(path) or ()) if is_shown else ()
    notes = await project.memory.about(path, limit=_MOST_NOTES + 1)
    return await site.render(
        project,
        "file.html.j2",
        "files",
        path=path,
        lines=lines[:_MOST_LINES],
        more_lines=max(len(lines) - _MOST_LINES, 0),
        coverage=[(each, _TONES[each.standing]) for each in coverage],
        entries=entries,
        notes=sorted(notes, key=lambda note: note.state is not NoteState.CURRENT),
        most_notes=_MOST_NOTES,
        files=known,
        histories=await project.browsing.finding_histories(path, entries[:_SHOWN_SINCE]),
    )
