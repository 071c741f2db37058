"""Pins: newest checkpoint of each log, stored outside its database to detect rollback."""

from __future__ import annotations

import os
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.atomic_file import write_atomically
from esper_agents.certificates.log import merkle, transparency_log
from esper_agents.certificates.log.faults import Fault, FaultKind
from esper_agents.certificates.log.note import MOST_BYTES, Checkpoint, read_checkpoint, read_note
from esper_agents.errors import IntegrityError, StorageError
from esper_agents.storage import locks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

_POSTGRESQL_PORT = 5432


# The log that all projects of a database shared in 0.1.0 has one pin for the database.
SHARED = ""


def pin_file(home: Path, where: str | None, project_key: str) -> Path | None:
    """Return the pin file of a project's log; None for an in-memory database, which is never opened again.

    The file depends on the project, not on the log's origin, so that a replaced log is detected.

    Args:
        home: `paths.home()`.
        where: `Store.where`. User name and password of the database do not matter; for a file inside the data
            directory, the pin stays valid if the whole data directory is moved.
        project_key: Key of the project, or `SHARED`.
    """
    if not where or where == ":memory:":
        return None
    named = _location(home, where) + (f"\n{project_key}" if project_key else "")
    return home / "pins" / f"{sha256(os.fsencode(named)).hexdigest()[:32]}.checkpoint"


def pinned_for(connection: Connection, project_key: str) -> str:
    """Return the pin key of a project's log: the project, or `SHARED`."""
    return SHARED if transparency_log.log_of(connection, project_key) == transparency_log.SHARED else project_key


def _location(home: Path, where: str) -> str:
    if "://" not in where:
        file, folder = Path(where).resolve(), home.resolve()
        return f"home:{file.relative_to(folder)}" if file.is_relative_to(folder) else f"file:{file}"
    from sqlalchemy import make_url

    url = make_url(where)
    host = str(url.host or url.query.get("host") or "").lower()
    port = url.port or url.query.get("port") or _POSTGRESQL_PORT
    return f"{url.get_backend_name()}://{host}:{port}/{url.database}"


def pinned(home: Path, where: str | None, project_key: str) -> Checkpoint | None:
    """Return the pinned checkpoint of a log, or None if none is pinned; see `pin_file` for the arguments.

    Raises:
        IntegrityError: The pin is not a valid checkpoint.
        StorageError: The pin cannot be read.
    """
    file = pin_file(home, where, project_key)
    return None if file is None else _read(file)


def pinned_note(home: Path, where: str | None, project_key: str) -> str:
    """Return the pinned signed checkpoint of a log; empty if there is none or it is invalid.

    Raises:
        StorageError: The pin cannot be read.
    """
    file = pin_file(home, where, project_key)
    data = b"" if file is None else _bytes(file)
    try:
        read_checkpoint(read_note(data))
    except IntegrityError:
        return ""
    return data.decode()


def check_pin(connection: Connection, home: Path, where: str | None, project_key: str) -> tuple[Fault, ...]:
    """Return the faults between a project's log and its pin: none if nothing is pinned or the log extends the pin.

    The pin of the shared log applies to its projects, and to a project without a log if the shared log is gone.
    Takes time logarithmic in the log's size: the root at the pinned size is computed from complete subtrees.
    An audit checks that the entries still match these subtrees.

    Raises:
        StorageError: The pin cannot be read.
    """
    return tuple(fault for _, fault in faults_by_pin(connection, home, where, project_key))


def faults_by_pin(
    connection: Connection, home: Path, where: str | None, project_key: str
) -> tuple[tuple[str, Fault], ...]:
    """Return the faults of `check_pin`, each with its pin: the project, or `SHARED`."""
    own, found = transparency_log.log_of(connection, project_key), []
    logs = [(project_key, own)]
    if own == transparency_log.SHARED or (not own and not transparency_log.origin(connection, transparency_log.SHARED)):
        logs.append((SHARED, transparency_log.SHARED))
    for pinned_as, log_id in logs:
        try:
            pin = pinned(home, where, pinned_as)
        except IntegrityError as error:
            fault: Fault | None = Fault(FaultKind.PIN_DAMAGED, "pin", error.problem)
        else:
            fault = None if pin is None else contradiction(connection, log_id, pin)
        if fault is not None:
            found.append((pinned_as, fault))
    return tuple(found)


def contradiction(connection: Connection, log_id: int, pin: Checkpoint) -> Fault | None:
    """Return the fault between a log and a checkpoint of it if it is certain, or None."""
    name = transparency_log.origin(connection, log_id)
    if name and name != pin.origin:
        return Fault(FaultKind.REPLACED, "log", f"log is {name!r}, but the pinned log is {pin.origin!r}")
    try:
        if transparency_log.size(connection, log_id) < pin.size:
            return _loss(connection, log_id, pin, has_log=bool(name))
        if merkle.root(pin.size, transparency_log.reader(connection, log_id)) == pin.root:
            return None
    except IntegrityError as error:
        return Fault(FaultKind.NODE_MISSING, "log", error.problem)
    detail = f"first {pin.size} entries differ from the pinned checkpoint: the log was rolled back and then extended"
    return Fault(FaultKind.FORKED, f"entry {pin.size - 1}", detail)


def _loss(connection: Connection, log_id: int, pin: Checkpoint, *, has_log: bool) -> Fault:
    entries, had = transparency_log.size(connection, log_id), f"{pin.size} entries were pinned"
    if not has_log:
        return Fault(FaultKind.DATABASE_DELETED, "log", f"the database has no log, but {had}")
    if not entries:
        return Fault(FaultKind.EMPTIED, "log", f"log is empty, but {had}")
    if _is_signed_here(connection, log_id, entries):
        detail = f"an older copy of the database was restored: it has {entries} entries, but {had}"
        return Fault(FaultKind.ROLLED_BACK, f"entry {entries}", detail)
    return Fault(FaultKind.NEWEST_DELETED, f"entry {entries}", f"log ends after {entries} entries, but {had}")


def check_before_append(connection: Connection, home: Path, where: str | None, project_key: str) -> None:
    """Refuse to extend a project's log that contradicts its pin; call this within the transaction that appends.

    Raises:
        IntegrityError: The log contradicts the pin, or the pin is damaged.
        StorageError: The pin cannot be read.
    """
    for fault in check_pin(connection, home, where, project_key):
        raise IntegrityError(
            f"transparency log is inconsistent with the pinned checkpoint ({fault.kind}): {fault.detail}",
            remedy=transparency_log.RESTORE,
        )


def renew(connection: Connection, home: Path, where: str | None, project_key: str) -> None:
    """Pin the newest stored checkpoint of a project's log, if the log extends the pinned checkpoint.

    Otherwise the pin is left unchanged.

    `check_pin` reports contradictions: a pin that followed a rolled-back log would hide the rollback.

    Raises:
        StorageError: The pin cannot be read or written.
        BusyError: Another process held the lock for too long.
    """
    log_id = transparency_log.log_of(connection, project_key)
    file, note = (
        pin_file(home, where, pinned_for(connection, project_key)),
        transparency_log.latest_checkpoint(connection, log_id),
    )
    if file is None or not note:
        return
    try:
        head = read_checkpoint(read_note(note))
        if (
            head.origin != transparency_log.origin(connection, log_id)
            or contradiction(connection, log_id, head) is not None
        ):
            return
        with _locked(file):
            old = _read(file)
            if old is None or (old.size < head.size and contradiction(connection, log_id, old) is None):
                _write(file, note)
    except IntegrityError:
        return


def accept(home: Path, where: str | None, project_key: str, note: str) -> None:
    """Replace the pin of a log, or remove it: a user accepted the loss of entries.

    Args:
        home: `paths.home()`.
        where: `Store.where`.
        project_key: Key of the log's pin, as returned by `pinned_for`.
        note: Signed checkpoint; empty to remove the pin.

    Raises:
        StorageError: The pin cannot be written.
        BusyError: Another process held the lock for too long.
    """
    file = pin_file(home, where, project_key)
    if file is None:
        return
    if note:
        read_checkpoint(read_note(note))
    with _locked(file):
        if not note:
            file.unlink(missing_ok=True)
        elif _bytes(file) != note.encode():
            _write(file, note)


def _is_signed_here(connection: Connection, log_id: int, entries: int) -> bool:
    note = transparency_log.latest_checkpoint(connection, log_id)
    head = read_checkpoint(read_note(note)) if note else None
    return (
        head is not None
        and head.size == entries
        and merkle.root(entries, transparency_log.reader(connection, log_id)) == head.root
    )


def _read(file: Path) -> Checkpoint | None:
    data = _bytes(file)
    if not data:
        return None
    try:
        return read_checkpoint(read_note(data))
    except IntegrityError as error:
        raise IntegrityError(
            f"the pin {str(file)!r} is damaged: {error.problem}",
            remedy=f"find out who changed it; `{transparency_log.REPAIR} --accept-rollback` then pins the log as it is",
        ) from error


def _bytes(file: Path) -> bytes:
    try:
        # Opened without following links and without blocking: the file may be a planted link or pipe.
        opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(opened, "rb") as stream:
            return stream.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise _unusable(file, error) from error


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    try:
        file.parent.parent.mkdir(parents=True, exist_ok=True)
        file.parent.mkdir(mode=0o700, exist_ok=True)
        lock = locks.locked(file.with_suffix(".lock"))
    except OSError as error:
        raise _unusable(file, error) from error
    try:
        yield
    finally:
        locks.release(lock)


def _write(file: Path, note: str) -> None:
    try:
        # Not synced, which would take as long as the transaction did: after a power cut this may be an older pin or an
        # empty file, which counts as no pin; the next renewal writes a current one.
        write_atomically(file, note.encode(), mode=0o600, scratch=file.with_suffix(".new"), is_synced=False)
    except OSError as error:
        raise _unusable(file, error) from error


def _unusable(file: Path, error: OSError) -> StorageError:
    return StorageError(
        f"the pin {str(file)!r} cannot be used: {error.strerror}",
        remedy="make it a writable file, or set ESPER_HOME to another folder",
    )
