"""List of certificates: filters with counts, full-text search, pages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse

from esper_agents.domain.status import Status
from esper_agents.errors import NotFoundError
from esper_agents.web.pages.query import chosen_filters, filter_of, text_of
from esper_agents.web.rendering import KIND_NAMES, address, part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from esper_agents.api import CertificateSummary, Filter, OpenProject, SearchHit, ValueCount, ValueCounts
    from esper_agents.web.site import ArchiveSite

# A whole identifier, or its end as lists show it.
_ID = re.compile(r"crt_[0-9a-f]{32}|[0-9a-f]{12,32}")
# Each row of a search reads its record for the passage.
_ROWS, _SEARCH_ROWS = 25, 15
_HEADINGS = {
    "status": "Status",
    "kind": "Question type",
    "agent": "Agent",
    "rule": "Rule",
    "file": "File",
    "signer": "Signed by",
}


@dataclass(frozen=True, slots=True)
class FilterValue:
    """One value of a filter.

    Attributes:
        label: The value as shown.
        count: Number of certificates with it.
        href: URL of the list with it, or without it if it is chosen.
        is_chosen: Whether the list has it.
    """

    label: str
    count: int
    href: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class FilterGroup:
    """Values of one filter.

    Attributes:
        heading: Heading of the group.
        values: Most frequent values.
    """

    heading: str
    values: tuple[FilterValue, ...]


@dataclass(frozen=True, slots=True)
class ListedCertificate:
    """One row of the list.

    Attributes:
        entry: The certificate.
        passage: Passage that matches the searched words; empty without a search.
        standing: What ended it or overrides its status; empty if nothing does.
        change: Change that it is about; empty if it is about files.
    """

    entry: CertificateSummary
    passage: str
    standing: str
    change: str


async def listing(request: Request, site: ArchiveSite, project: OpenProject) -> Response:
    """Return the list of certificates."""
    chosen, before = chosen_filters(request), text_of(request, "before")
    wanted = filter_of(chosen)
    if _ID.fullmatch(wanted.words.strip()) and (found := await _named(project, wanted.words.strip())):
        return RedirectResponse(f"/certificates/{part(found)}", status_code=303)
    most = _SEARCH_ROWS if wanted.words else _ROWS
    hits = await _hits(project, wanted, before, most + 1)
    entries = [entry for entry, _ in hits[:most]]
    standings, changes = await standings_of(project, entries), await project.certificates.changes(entries)
    rows = [
        ListedCertificate(entry, passage, standings.get(entry.id, ""), changes.get(entry.id, ""))
        for entry, passage in hits[:most]
    ]
    counts = await project.browsing.counts(wanted)
    names = site.key_names(project)
    return await site.render(
        project,
        "certificates.html.j2",
        "certificates",
        rows=rows,
        counts=counts,
        groups=_groups(counts, chosen, names),
        chosen=chosen,
        removable=_removable(chosen, names),
        older=address("/", **chosen, before=entries[-1].id) if len(hits) > most else "",
        newest=address("/", **chosen) if before else "",
        statuses=tuple(map(str, Status)) if site.exported else (),
    )


async def _named(project: OpenProject, identifier: str) -> str:
    """Return the certificate with an identifier or the end of one; empty if there is none."""
    try:
        return (await project.certificates.get(identifier)).id
    except NotFoundError:
        return ""


async def standings_of(project: OpenProject, entries: Sequence[CertificateSummary]) -> dict[str, str]:
    """Return what ended the listed certificates or overrides their status, by ID; the others are omitted."""
    endings, overrides = await project.certificates.endings(entries), await project.certificates.overrides(entries)
    return {
        entry.id: "; ".join(str(each[entry.id]) for each in (endings, overrides) if entry.id in each)
        for entry in entries
        if entry.id in endings or entry.id in overrides
    }


async def _hits(project: OpenProject, wanted: Filter, before: str, limit: int) -> list[tuple[CertificateSummary, str]]:
    """Return certificates with the passages that match the searched words."""
    try:
        if wanted.words:
            hits: Sequence[SearchHit] = await project.certificates.search(wanted, before=before, limit=limit)
            return [(hit.entry, hit.passage.text if hit.passage else "") for hit in hits]
        entries = await project.certificates.list(wanted=wanted, before=before, limit=limit)
    except NotFoundError:
        if before or not wanted.agent:
            raise
        # An agent that is not installed any more has certificates all the same, or none.
        return []
    return [(entry, "") for entry in entries]


def _groups(counts: ValueCounts, chosen: dict[str, str], names: Mapping[str, str]) -> tuple[FilterGroup, ...]:
    by_filter = {
        "status": counts.statuses,
        "kind": counts.kinds,
        "agent": counts.agents,
        "rule": counts.rules,
        "file": counts.files,
        "signer": counts.signers,
    }
    groups = (FilterGroup(_HEADINGS[name], _values(name, some, chosen, names)) for name, some in by_filter.items())
    return tuple(group for group in groups if group.values)


def _values(
    name: str, counted: Sequence[ValueCount], chosen: dict[str, str], names: Mapping[str, str]
) -> tuple[FilterValue, ...]:
    others = {key: value for key, value in chosen.items() if key != name}
    return tuple(
        FilterValue(
            _label(name, each.value, names),
            each.certificates,
            address("/", **others) if chosen.get(name) == each.value else address("/", **{**others, name: each.value}),
            chosen.get(name) == each.value,
        )
        for each in counted
        if each.value
    )


def _label(name: str, value: str, names: Mapping[str, str]) -> str:
    """Return a value of a filter as it is shown."""
    if name == "kind":
        return KIND_NAMES.get(value, value)
    return names.get(value, value) if name == "signer" else value


def _removable(chosen: dict[str, str], names: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return the chosen filters as name, value and URL of the list without it."""
    return [
        (
            {"q": "words", "kind": "question type"}.get(name, name),
            _label(name, value, names),
            address("/", **{other: text for other, text in chosen.items() if other != name}),
        )
        for name, value in chosen.items()
    ]
