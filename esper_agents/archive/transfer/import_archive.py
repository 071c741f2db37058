"""Import of a whole archive: verified in a copy first, then inserted in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import URL, func, select
from sqlalchemy.exc import IntegrityError as DuplicateError

from esper_agents.archive.inspection import audit_log_faults, keyring
from esper_agents.archive.record_audit import audit_records
from esper_agents.archive.transfer.archive_file import counts_of, remove_remains, unpacked
from esper_agents.archive.transfer.rows import insert_rows
from esper_agents.certificates.log import pins, transparency_log
from esper_agents.certificates.log.faults import FaultKind
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import EvidenceError, IntegrityError, UsageError
from esper_agents.paths import home
from esper_agents.storage import locks
from esper_agents.storage.artifacts import Artifacts
from esper_agents.storage.projects import note_project
from esper_agents.storage.store import Store
from esper_agents.storage.tables import log, log_entry, project, session

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.archive.transfer.archive_file import ArchiveCounts, UnpackedArchive

_FIRST_LOG = 2


def import_archive(store: Store, place: ProjectPlace, file: Path) -> ArchiveCounts:
    """Insert the archive in a file into the database of a project that has none.

    The archive is verified first, as `esper certificates verify --all` does, in a database of its own. The rows are
    inserted in one transaction: an interrupted import leaves no row.

    Args:
        store: Database of the project.
        place: The project with its folder in the data directory.
        file: File of `write_archive`.

    Raises:
        InputFileError: The file cannot be read.
        IntegrityError: The archive was changed, or is older than the log that was seen here.
        EvidenceError: A key that is not trusted signed the archive.
        UsageError: The project has an archive, or the file has another format.
    """
    _refuse_present(store, place)
    place.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = locks.locked(place.home / ".import.lock")
    try:
        remove_remains(place.home)
        with unpacked(file, place.home) as archive:
            _verify(archive, store, place)
            artifacts = _keep_artifacts(archive, place)
            _insert(store, place, archive)
            with store.reading() as connection:
                pins.renew(connection, home(), store.where, place.project.key)
            return counts_of(file, archive.project, archive.counts, artifacts)
    finally:
        locks.release(lock)


def _verify(archive: UnpackedArchive, store: Store, place: ProjectPlace) -> None:
    key = place.project.key
    copy = Store(URL.create("sqlite", database=str(archive.folder / "copy.db")))
    try:
        _insert(copy, place, archive)
        found = audit_log_faults(copy, place.project)
        faults = (*found.faults, *audit_records(copy, key).faults.listed)
        unknown = next((fault for fault in faults if fault.kind is FaultKind.UNKNOWN_KEY), None)
        if unknown is not None:
            problem = f"the archive is signed by a key that is not trusted: {', '.join(_unknown_keys(copy, place))}"
            remedy = "on the other machine: esper keys export > key.pub; here: esper keys trust key.pub"
            raise EvidenceError(problem, remedy=remedy)
        for fault in faults:
            problem = f"the archive was changed: {fault.kind} at {fault.where}: {fault.detail}"
            raise IntegrityError(problem, remedy="export it again, and keep the file where others cannot write")
        _compare_with_pin(copy, store, key)
    finally:
        copy.close()


def _unknown_keys(copy: Store, place: ProjectPlace) -> list[str]:
    with copy.reading() as connection:
        known = keyring(place.project, connection).history.spans
        named = connection.scalars(select(log_entry.c.key_id).distinct()).all()
    return sorted(ascii(each)[1:-1][:60] for each in named if each not in known)


def _compare_with_pin(copy: Store, store: Store, key: str) -> None:
    """Refuse an archive whose log lacks entries that were seen on this machine."""
    pin = pins.pinned(home(), store.where, key)
    if pin is None:
        return
    with copy.reading() as connection:
        fault = pins.contradiction(connection, transparency_log.log_of(connection, key), pin)
    if fault is not None:
        raise IntegrityError(
            f"the archive contradicts the log that was seen here: {fault.detail}",
            remedy="import a newer archive, or use another data directory: ESPER_HOME",
        )


def _keep_artifacts(archive: UnpackedArchive, place: ProjectPlace) -> int:
    kept = Artifacts(place.artifacts)
    for path in archive.artifacts():
        # Stored by content; without the rows of the archive they are removed by `esper db prune`.
        if kept.keep(path, path.name, "application/octet-stream").sha256 != path.name:
            raise IntegrityError(f"artifact {path.name} does not match its digest", remedy="export the archive again")
    return len(archive.artifacts())


def _insert(store: Store, place: ProjectPlace, archive: UnpackedArchive) -> None:
    key = place.project.key
    try:
        with store.writing() as transaction:
            note_project(transaction, place.project)
            transparency_log.hold_beginnings(transaction)
            logs = select(func.max(log.c.id)), select(func.max(project.c.log_id))
            last = max(transaction.connection.scalar(each) or 0 for each in logs)
            insert_rows(transaction, key, max(last + 1, _FIRST_LOG), archive.rows())
    except DuplicateError as error:
        problem = "the database contains sessions of this archive already, for another project"
        raise UsageError(problem, remedy="use the checkout that they belong to, or another database") from error


def _refuse_present(store: Store, place: ProjectPlace) -> None:
    with store.reading() as connection:
        count = connection.scalar(select(func.count()).where(session.c.project_key == place.project.key)) or 0
    if count:
        problem = f"the project has an archive already, with {number_of(count, 'session')}"
        raise UsageError(problem, remedy="import into a checkout or a data directory without one: ESPER_HOME")
