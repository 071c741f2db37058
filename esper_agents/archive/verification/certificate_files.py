"""Find the envelope, proof and views of a certificate, in the archive or in published files."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.archive import store as archive
from esper_agents.archive.changes.countersignatures import check_each
from esper_agents.archive.inspection import inspect_certificate
from esper_agents.archive.inspection import keyring as trusted_keyring
from esper_agents.archive.pruned_pages import pages_since
from esper_agents.archive.published_notices import (
    colleagues_among,
    notice_files,
    sealed_files,
    unlogged,
    unlogged_check,
)
from esper_agents.archive.publishing import RECORD_SUFFIX, page_path, proof_path, record_path, view_places
from esper_agents.archive.verification.published_files import content_of, irregular_file, published_files
from esper_agents.archive.verification.published_records import (
    PublishedFolder,
    bytes_of,
    latest_record,
    notice_checks,
    published_countersignatures,
    published_endings,
    published_override,
    published_record,
)
from esper_agents.archive.verification.signature import read_sealed
from esper_agents.archive.verification.supersession import override_of
from esper_agents.archive.verification.verify import ARCHIVE_CHECK
from esper_agents.archive.verification.witnessed import NO_DEMAND
from esper_agents.certificates.check import Check, CheckOutcome
from esper_agents.certificates.statement import parse
from esper_agents.errors import (
    EsperError,
    EvidenceError,
    InputFileError,
    IntegrityError,
    NoCertificatesError,
    NotFoundError,
)
from esper_agents.git.find_project import find_project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.archive.published_notices import NoticeFolders, UnloggedNotice
    from esper_agents.archive.store import CertificateSummary
    from esper_agents.archive.verification.signature import Keyring
    from esper_agents.archive.verification.supersession import Override, SupersedingEntry
    from esper_agents.archive.verification.witnessed import WitnessDemand
    from esper_agents.certificates.signing.allowed_signers import Signer
    from esper_agents.domain.notice import LogNoticeStatement
    from esper_agents.domain.project import Project


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Files of a certificate with the context needed to verify them.

    Attributes:
        data: Bytes of the statement; None if they are not available.
        envelope: Signed envelope that contains the statement; None if there is none.
        proof: Inclusion proof of the envelope, unverified; None if there is none.
        index: Index of the log entry, if known.
        views: Markdown and HTML views by path, unverified.
        known: Checks of the origin of the bytes.
        complete: Checks for missing files; empty without an archive.
        later: Known log entries that revoke or supersede the certificate.
        countersigned: Checks of the known countersignatures.
        overridden: Known override of the status; None if there is none.
        keyring: Trusted keys.
        artifacts: Directory of the artifacts; None without an archive.
        root: Project directory to compare with.
        missing: Published files that do not exist.
        is_published: Whether any published file exists.
        is_restorable: Whether `esper certificates repair` can rewrite these files from the archive.
        witnessed: Checks of the demanded cosignatures; none if no witness is demanded.
        objections: Checks for revocations by other keys than its signer's.
    """

    data: bytes | None
    envelope: bytes | None
    proof: bytes | None
    index: int | None
    views: tuple[tuple[Path, bytes], ...]
    known: tuple[Check, ...]
    complete: tuple[Check, ...]
    later: tuple[SupersedingEntry, ...]
    countersigned: tuple[Check, ...]
    overridden: Override | None
    keyring: Keyring
    artifacts: Path | None
    root: Path
    missing: tuple[Path, ...] = ()
    is_published: bool = True
    is_restorable: bool = False
    witnessed: tuple[Check, ...] = ()
    objections: tuple[Check, ...] = ()

    def shown(self, path: Path) -> str:
        """Return a path for output: relative to the project directory if it is inside it."""
        return shown_within(self.root, path)


def shown_within(root: Path, path: Path) -> str:
    """Return a path relative to a directory if it is inside it, else the full path; a final symlink is not followed."""
    whole = path.parent.resolve() / path.name
    return str(whole.relative_to(root) if whole.is_relative_to(root) else whole)


def project_of(target: str, where: Path | None) -> Project:
    """Return the project that a certificate is compared with.

    Args:
        target: Certificate ID, unique suffix, `latest`, or path of a published view or envelope.
        where: Path in the project; None for the project of the file, or the current one.

    Raises:
        InputFileError: The path in the project does not exist.
    """
    file = file_in(target)
    # A missing file is reported by what reads it.
    is_there = where is None and file is not None and os.path.exists(file)  # noqa: PTH110 - never raises
    if file is not None and is_there and (around := find_project([file], Path.cwd())).is_git:
        return around
    return find_project([where or Path()], Path.cwd())


async def find_certificate_files(
    target: str,
    project: Project,
    place: ProjectPlace | None,
    given: Sequence[Signer] = (),
    demand: WitnessDemand = NO_DEMAND,
    *,
    beside: PublishedFolder | None = None,
) -> CertificateFiles:
    """Return the files of the named certificate; does not create a database.

    Args:
        target: Certificate ID, unique suffix, `latest`, or path of a published view or envelope.
        project: Project to compare with.
        place: Archive of the project; None if it has no database.
        given: Additional trusted keys for this call.
        demand: Witnesses that must have cosigned.
        beside: Published files that were listed before; None to list them.

    Raises:
        NotFoundError: The certificate is neither in the archive nor in the published files.
        InputFileError: The file cannot be read.
        EvidenceError: The envelope of the view is not next to it.
    """
    file = file_in(target)
    if file is not None:
        return await published_certificate(file, project, place, given, demand=demand, beside=beside)
    folders = beside.notices if beside else None
    try:
        return await archived_certificate(target, _required(place, target), given, folders, demand)
    except NotFoundError:
        is_latest = target == "latest"
        published = (
            latest_record(project, trusted_keyring(project, given=given))
            if is_latest
            else published_record(project, target)
        )
        if published is None:
            raise
        return await published_certificate(published, project, place, given, demand=demand, beside=beside)


def _required(place: ProjectPlace | None, target: str) -> ProjectPlace:
    if place is not None:
        return place
    if target == "latest":
        raise NoCertificatesError
    raise NotFoundError("certificate", target, (), listing="esper certificates list")


def file_in(target: str) -> Path | None:
    """Return the published file that a target names; None if it names a certificate by ID."""
    is_file = target.endswith((".md", ".html", ".json")) or os.sep in target
    return Path(target).expanduser() if is_file else None


async def archived_certificate(
    wanted: str,
    place: ProjectPlace,
    given: Sequence[Signer] = (),
    folders: NoticeFolders | None = None,
    demand: WitnessDemand = NO_DEMAND,
) -> CertificateFiles:
    """Return a certificate of an archive, with its published files.

    Args:
        wanted: Certificate ID, unique suffix, or `latest`.
        place: The archive.
        given: Additional trusted keys for this call.
        folders: Folders that were listed before; see `published_notices.notice_files`.
        demand: Witnesses that must have cosigned.

    Raises:
        NotFoundError: The certificate does not exist.
    """
    entry = await place.store.run(archive.find, place.project.key, wanted)
    places = await _places(place, entry)
    root = Path(place.project.root)
    # Read these before the log: a notice is published after its log entry is written.
    notices = [sealed_file for view in places for sealed_file in sealed_files(notice_files(view, folders), "")]
    held, keyring = await place.store.run(inspect_certificate, place.project, place.home, entry.id, given)
    colleagues = await place.store.run(colleagues_among, place.project.key, notices, keyring)
    published = published_files(
        places,
        notices,
        held,
        keyring,
        partial(shown_within, root),
        without_page=entry.issued_at < pages_since(place.home),
        colleagues=colleagues,
    )
    others = published.from_colleagues if held.data is not None else ()
    witnessed = await place.store.run(demand.in_log, place.project.key, held.index) if demand.witnesses else ()
    return CertificateFiles(
        data=held.data,
        envelope=held.envelope,
        proof=held.proof,
        index=held.index,
        views=published.views if held.data is not None else (),
        known=(*held.checks, *published.checks),
        complete=held.complete,
        later=(*held.later, *published.revocations),
        objections=published.objections,
        countersigned=(*held.countersigned, *check_each(others, held.data or b"", keyring)),
        overridden=held.overridden or (override_of(others, held.data or b"", keyring.history) if others else None),
        keyring=keyring,
        artifacts=place.artifacts,
        root=root,
        missing=published.missing,
        is_published=published.is_published,
        is_restorable=True,
        witnessed=witnessed,
    )


async def _places(place: ProjectPlace, entry: CertificateSummary) -> tuple[Path, ...]:
    """Return the possible paths of the view of a certificate; none if its stored name is refused, as `held` reports."""
    try:
        return view_places(place, entry, parse(await place.store.run(archive.read, entry.id)))
    except IntegrityError:
        return ()


async def published_certificate(
    file: Path,
    project: Project,
    place: ProjectPlace | None,
    given: Sequence[Signer] = (),
    *,
    demand: WitnessDemand = NO_DEMAND,
    beside: PublishedFolder | None = None,
) -> CertificateFiles:
    """Return the certificate of a published view or envelope, with the files next to it.

    Args:
        file: The view or envelope.
        project: Project to compare with.
        place: Archive of the project; None if it has no database.
        given: Additional trusted keys for this call.
        demand: Witnesses that must have cosigned.
        beside: Published files that were listed before; None to list them.

    Raises:
        InputFileError: The file cannot be read.
        EvidenceError: The envelope of the view is not next to it.
    """
    if file.suffix == ".json" and not file.name.endswith(RECORD_SUFFIX):
        remedy = f"name a .md, .html or {RECORD_SUFFIX} file"
        raise InputFileError(str(file), "neither a view nor a record", remedy=remedy)
    named = bytes_of(file)
    is_record = file.suffix == ".json"
    record = file if is_record else record_path(file)
    view = file.with_name(file.name.removesuffix(RECORD_SUFFIX) + ".md") if is_record else file.with_suffix(".md")
    if not record.is_file():
        raise EvidenceError(f"the envelope of this view is not next to it: {str(record)!r}", remedy=_elsewhere(named))
    envelope = named if is_record else bytes_of(record)
    proof = bytes_of(proof_path(view)) if proof_path(view).is_file() else None
    sealed = read_sealed(envelope)
    # Read these before the log: a notice is published after its log entry is written.
    folders = beside.notices if beside else None
    notices = sealed_files(notice_files(view, folders), "")
    known = await _known_of(sealed.payload, place, given, view) if not isinstance(sealed, Check) else _Known()
    keyring = known.keyring or trusted_keyring(project, given=given)
    # The named file may be a symlink; the files next to it must be regular files.
    pages = {path: named if path == file else content_of(path) for path in (view, page_path(view))}
    irregular = [irregular_file(path.name, found) for path, found in pages.items() if isinstance(found, str)]
    lost: tuple[UnloggedNotice, ...] = ()
    if known.certificate and place is not None:
        colleagues = await place.store.run(colleagues_among, place.project.key, notices, keyring)
        lost = tuple(unlogged(notices, known.certificate, known.notices, keyring, colleagues))
    exhibit = CertificateFiles(
        data=None if isinstance(sealed, Check) else sealed.payload,
        envelope=envelope,
        proof=proof,
        index=known.index,
        views=tuple((path, found) for path, found in pages.items() if isinstance(found, bytes)),
        known=(*known.checks, *irregular, *notice_checks(notices, keyring), *map(unlogged_check, lost)),
        complete=known.complete,
        later=known.later,
        countersigned=known.countersigned,
        overridden=known.overridden,
        keyring=keyring,
        artifacts=known.artifacts,
        root=Path(project.root),
        is_restorable=known.is_restorable,
    )
    endings = published_endings(
        None if isinstance(sealed, Check) else sealed,
        view,
        exhibit.keyring,
        exhibit.later,
        records=await beside.naming(exhibit.data, view) if beside else None,
        folders=folders,
    )
    also = exhibit.countersigned or published_countersignatures(exhibit.data, view, exhibit.keyring, folders)
    witnessed = (
        await place.store.run(demand.in_log, place.project.key, known.index)
        if known.keyring and place is not None and demand.witnesses
        else demand.by_proof(envelope, proof)
    )
    # The archive preserves the order of entries; published files alone may be incomplete.
    override = exhibit.overridden if known.keyring else published_override(exhibit.data, view, exhibit.keyring, folders)
    return replace(
        exhibit,
        later=(*exhibit.later, *endings.later),
        objections=endings.objections,
        countersigned=also,
        overridden=override,
        witnessed=witnessed,
    )


def _elsewhere(page: bytes) -> str:
    named = re.search(rb"crt_[0-9a-f]{32}", page)
    if named is None:
        return "put it there, or pass a certificate ID: run `esper certificates list`"
    return f"put it there, or run `esper certificates verify {named.group().decode()}` where it was issued"


@dataclass(frozen=True, slots=True)
class _Known:
    """Checks of a file against the local archive; empty if the archive did not issue it."""

    checks: tuple[Check, ...] = ()
    complete: tuple[Check, ...] = ()
    later: tuple[SupersedingEntry, ...] = ()
    countersigned: tuple[Check, ...] = ()
    overridden: Override | None = None
    keyring: Keyring | None = None
    index: int | None = None
    artifacts: Path | None = None
    certificate: str = ""
    notices: frozenset[LogNoticeStatement] = frozenset()
    is_restorable: bool = False


async def _known_of(data: bytes, place: ProjectPlace | None, given: Sequence[Signer], view: Path) -> _Known:
    if place is None:
        return _Known()
    try:
        certificate = parse(data)
        held, keyring = await place.store.run(inspect_certificate, place.project, place.home, certificate.id, given)
        views = [each.parent.resolve() / each.name for each in await _places(place, held.entry)]
    except EsperError:
        return _Known()
    entry = held.entry
    archived = Check(ARCHIVE_CHECK, CheckOutcome.HOLDS, f"these are the bytes that were issued at {entry.issued_at}")
    if sha256(data).hexdigest() != entry.sha256:
        detail = f"{entry.id} was issued with sha256:{entry.sha256}, not with these bytes"
        archived = Check(ARCHIVE_CHECK, CheckOutcome.FAILS, detail)
    return _Known(
        checks=(archived,),
        complete=held.complete,
        later=held.later,
        countersigned=held.countersigned,
        overridden=held.overridden,
        keyring=keyring,
        index=held.index,
        artifacts=place.artifacts,
        certificate=entry.id,
        notices=frozenset(notice.notice for notice in held.notices),
        is_restorable=view.parent.resolve() / view.name in views,
    )
