"""Finds the bytes of a certificate and the views that are said to show it, in the archive or in files."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.certificates.check import Check, Outcome
from esper_agents.errors import EsperError, EvidenceError, InputFileError, IntegrityError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.certificates.archive import Entry
    from esper_agents.domain.project import Project
    from esper_agents.orchestration.workshop import Workshop

ARCHIVE = "archive"
_RECORD_SUFFIX = ".intoto.json"
_OWN_ID = re.compile(rb'"id":"(crt_[0-9a-f]{32})"')
_END = re.compile(r"(?:crt_)?([0-9a-f]{6,32})")


@dataclass(frozen=True, slots=True)
class Exhibit:
    """What is to be checked.

    Attributes:
        data: The bytes of a record; None where the archive's are not what it issued.
        views: Markdown pages that are said to show it, each with its path.
        known: What is known already of where the bytes came from.
        root: The tree to compare with.
    """

    data: bytes | None
    views: tuple[tuple[Path, bytes], ...]
    known: tuple[Check, ...]
    root: Path

    def shown(self, path: Path) -> str:
        """Return a path as it is shown: from the tree's root, where it is in the tree."""
        whole = path.resolve()
        return str(whole.relative_to(self.root) if whole.is_relative_to(self.root) else whole)


async def find_exhibit(target: str, where: Path | None) -> Exhibit:
    """Return what a person names; makes no database where there is none.

    Args:
        target: An identifier, the end of one, or `latest`; else a published view or record.
        where: A path in the tree to compare with; None for the file's own tree, or the one at hand.

    Raises:
        NotFoundError: Neither the archive nor the project's published files have it.
        InputFileError: The file cannot be read.
        EvidenceError: The view's record is not beside it.
    """
    from esper_agents.tools.git import find_project

    if target.endswith((".md", ".json")) or os.sep in target:
        return await _of_file(Path(target).expanduser(), where)
    project = find_project([where or Path()], Path.cwd())
    try:
        return await _of_archive(target, project)
    except NotFoundError:
        published = _published_record(project, target)
        if published is None:
            raise
        return await _of_file(published, where)


def published_views(workshop: Workshop, entry: Entry) -> tuple[Path, ...]:
    """Return the Markdown views of a certificate that there are, in the project and in the data folder."""
    from esper_agents.orchestration.publish import view_path

    places = (view_path(each, entry) for each in (workshop, replace(workshop, publish=False)))
    return tuple(dict.fromkeys(each for each in places if each.is_file()))


async def _of_archive(wanted: str, project: Project) -> Exhibit:
    from esper_agents.api import open_project

    root = Path(project.root)
    if not _has_archive(project):
        raise NotFoundError("certificate", wanted, (), listing="esper certificates list")
    async with open_project(root) as opened:
        entry = await opened.certificate(wanted)
        try:
            data = await opened.record(entry.id)
        except IntegrityError as error:
            return Exhibit(None, (), (Check(ARCHIVE, Outcome.FAILS, error.problem),), root)
        views = published_views(opened.workshop, entry)
    exhibit = Exhibit(data, tuple((view, _bytes_of(view)) for view in views), (_issued(entry),), root)
    return replace(exhibit, known=(*exhibit.known, *_copy_checks(exhibit, data)))


def _issued(entry: Entry) -> Check:
    return Check(ARCHIVE, Outcome.HOLDS, f"these are the bytes that were issued at {entry.issued_at}")


def _copy_checks(exhibit: Exhibit, data: bytes) -> Iterator[Check]:
    from esper_agents.orchestration.publish import record_path

    for copy in (record_path(view) for view, _ in exhibit.views):
        if copy.is_file():
            same = _bytes_of(copy) == data
            said = "the bytes that the archive has" if same else "not the bytes that the archive has"
            yield Check("published record", Outcome.HOLDS if same else Outcome.FAILS, f"{exhibit.shown(copy)}: {said}")


async def _of_file(file: Path, where: Path | None) -> Exhibit:
    from esper_agents.orchestration.publish import record_path

    if file.suffix == ".json" and not file.name.endswith(_RECORD_SUFFIX):
        raise InputFileError(str(file), "neither a view nor a record", remedy=f"name a .md or {_RECORD_SUFFIX} file")
    named = _bytes_of(file)
    is_record = file.suffix == ".json"
    record = file if is_record else record_path(file)
    view = file.with_name(file.name.removesuffix(_RECORD_SUFFIX) + ".md") if is_record else file
    if not record.is_file():
        raise EvidenceError(f"the record of this view is not beside it: {str(record)!r}", remedy=_elsewhere(named))
    data = named if is_record else _bytes_of(record)
    project = _tree_of(file, where)
    views = ((view, _bytes_of(view)),) if view.is_file() else ()
    return Exhibit(data, views, await _known_of(data, project), Path(project.root))


def _elsewhere(page: bytes) -> str:
    named = re.search(rb"crt_[0-9a-f]{32}", page)
    if named is None:
        return "put it there, or name an identifier: run `esper certificates list`"
    return f"put it there, or run `esper certificates verify {named.group().decode()}` where it was issued"


def _tree_of(file: Path, where: Path | None) -> Project:
    from esper_agents.tools.git import find_project

    if where is not None:
        return find_project([where], Path.cwd())
    around = find_project([file], Path.cwd())
    return around if around.is_git else find_project([], Path.cwd())


async def _known_of(data: bytes, project: Project) -> tuple[Check, ...]:
    """Return what the archive of this machine says of bytes; nothing where it cannot be asked or never issued them."""
    from hashlib import sha256

    from esper_agents.api import open_project
    from esper_agents.certificates.statement import parse

    try:
        certificate = parse(data)
        if not _has_archive(project):
            return ()
        async with open_project(project.root) as opened:
            entry = await opened.certificate(certificate.id)
    except EsperError:
        return ()
    if sha256(data).hexdigest() == entry.sha256:
        return (_issued(entry),)
    return (Check(ARCHIVE, Outcome.FAILS, f"{entry.id} was issued with sha256:{entry.sha256}, not with these bytes"),)


def _has_archive(project: Project) -> bool:
    """Return whether there is a database to ask: to open one that is not there would make it."""
    from esper_agents.paths import project_home
    from esper_agents.storage.engine import database_url

    url = database_url(project_home(project.key) / "esper.db")
    return url.get_backend_name() != "sqlite" or os.path.exists(url.database or "")  # noqa: PTH110 - never raises


def _published_record(project: Project, wanted: str) -> Path | None:
    """Return the one record among the project's published files whose identifier ends as wanted."""
    from esper_agents.tools.git import PUBLISHED

    end = _END.fullmatch(wanted)
    if end is None:
        return None
    known = sorted((Path(project.root) / PUBLISHED).glob(f"*/certificates/*{_RECORD_SUFFIX}"))
    matches = [path for path in known if _identifier(path, mentioning=end.group(1)).endswith(end.group(1))]
    return matches[0] if len(matches) == 1 else None


def _identifier(record: Path, *, mentioning: str) -> str:
    """Return whose record a file is, or was before somebody broke it; empty where it does not mention a text."""
    from esper_agents.certificates.statement import parse

    data = _bytes_of(record)
    if mentioning.encode() not in data:
        return ""
    try:
        return parse(data).id
    except IntegrityError:
        named = _OWN_ID.findall(data)
        return named[-1].decode() if named else ""


def _bytes_of(path: Path) -> bytes:
    """Return a file's bytes, at most one more than a record may have."""
    from esper_agents.certificates.strict_json import MOST_BYTES

    if not path.is_file():
        raise InputFileError(str(path), "no such file", remedy="correct the path, or name an identifier")
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        problem = (error.strerror or "cannot be read").lower()
        raise InputFileError(str(path), problem, remedy="make the file readable") from error
