"""Pins: the newest checkpoint of each database, kept outside it, so that what it forgets is noticed."""

from __future__ import annotations

import os
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.certificates.log import log, merkle
from esper_agents.certificates.log.faults import Fault, FaultKind
from esper_agents.certificates.log.note import MOST_BYTES, Checkpoint, read_checkpoint, read_note
from esper_agents.errors import IntegrityError, StorageError
from esper_agents.storage import locks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

_POSTGRESQL_PORT = 5432


def pin_file(home: Path, where: str | None) -> Path | None:
    """Return where the pin of a database lies; None for one in memory, which nobody opens again.

    Args:
        home: `paths.home()`.
        where: `Store.where`. Who opens it, and with which password, makes no difference; a file inside the home stays
            the same when the whole home is moved.
    """
    if not where or where == ":memory:":
        return None
    return home / "pins" / f"{sha256(os.fsencode(_location(home, where))).hexdigest()[:32]}.checkpoint"


def _location(home: Path, where: str) -> str:
    if "://" not in where:
        file, folder = Path(where).resolve(), home.resolve()
        return f"home:{file.relative_to(folder)}" if file.is_relative_to(folder) else f"file:{file}"
    from sqlalchemy import make_url

    url = make_url(where)
    host = str(url.host or url.query.get("host") or "").lower()
    port = url.port or url.query.get("port") or _POSTGRESQL_PORT
    return f"{url.get_backend_name()}://{host}:{port}/{url.database}"


def pinned(home: Path, where: str | None) -> Checkpoint | None:
    """Return the checkpoint that is pinned of a database, or None where none is.

    Raises:
        IntegrityError: The pin holds no checkpoint.
        StorageError: It cannot be read.
    """
    file = pin_file(home, where)
    return None if file is None else _read(file)


def pinned_note(home: Path, where: str | None) -> str:
    """Return the signed checkpoint that is pinned of a database; empty where none is, or what is there is none.

    Raises:
        StorageError: It cannot be read.
    """
    file = pin_file(home, where)
    data = b"" if file is None else _bytes(file)
    try:
        read_checkpoint(read_note(data))
    except IntegrityError:
        return ""
    return data.decode()


def check_pin(connection: Connection, home: Path, where: str | None) -> tuple[Fault, ...]:
    """Return what is wrong between a log and its pin: nothing where nothing is pinned, or the log goes on from it.

    Takes time in the logarithm of the log's size: the root at the pinned size is computed from complete subtrees.
    Whether entries are still those of the subtrees is for an audit.

    Raises:
        StorageError: The pin cannot be read.
    """
    try:
        pin = pinned(home, where)
    except IntegrityError as error:
        return (Fault(FaultKind.PIN_DAMAGED, "pin", error.problem),)
    fault = None if pin is None else contradiction(connection, pin)
    return () if fault is None else (fault,)


def contradiction(connection: Connection, pin: Checkpoint) -> Fault | None:
    """Return what is wrong between a log and a checkpoint of it that is beyond doubt, or None."""
    name = log.origin(connection)
    if name and name != pin.origin:
        return Fault(FaultKind.REPLACED, "log", f"this is the log {name!r}, and pinned is {pin.origin!r}")
    try:
        if log.size(connection) < pin.size:
            return _loss(connection, pin, has_log=bool(name))
        if merkle.root(pin.size, log.reader(connection)) == pin.root:
            return None
    except IntegrityError as error:
        return Fault(FaultKind.NODE_MISSING, "log", error.problem)
    detail = f"its first {pin.size} entries are not those that were pinned: it was rolled back and then used"
    return Fault(FaultKind.FORKED, f"entry {pin.size - 1}", detail)


def _loss(connection: Connection, pin: Checkpoint, *, has_log: bool) -> Fault:
    entries, had = log.size(connection), f"{pin.size} entries were pinned"
    if not has_log:
        return Fault(FaultKind.DATABASE_DELETED, "log", f"the database holds no log any more, and {had}")
    if not entries:
        return Fault(FaultKind.EMPTIED, "log", f"the log is empty, and {had}")
    if _is_signed_here(connection, entries):
        detail = f"an older copy of the database was restored: it has {entries} entries, and {had}"
        return Fault(FaultKind.ROLLED_BACK, f"entry {entries}", detail)
    return Fault(FaultKind.NEWEST_DELETED, f"entry {entries}", f"the log ends after {entries} entries, and {had}")


def check_before_append(connection: Connection, home: Path, where: str | None) -> None:
    """Refuse to go on with a log that contradicts its pin; ask within the transaction that appends.

    Raises:
        IntegrityError: It does, or the pin is damaged.
        StorageError: The pin cannot be read.
    """
    for fault in check_pin(connection, home, where):
        raise IntegrityError(f"the log is not what it was ({fault.kind}): {fault.detail}", remedy=log.RESTORE)


def renew(connection: Connection, home: Path, where: str | None) -> None:
    """Pin the newest checkpoint that is stored, if the log goes on from what is pinned; otherwise leave the pin alone.

    A contradiction is for `check_pin` to tell: a pin that followed a log which was rolled back and used would hide it.

    Raises:
        StorageError: It cannot be read or written.
        BusyError: Another process has held it for long.
    """
    file, note = pin_file(home, where), log.latest_checkpoint(connection)
    if file is None or not note:
        return
    try:
        head = read_checkpoint(read_note(note))
        if head.origin != log.origin(connection) or contradiction(connection, head) is not None:
            return
        with _locked(file):
            old = _read(file)
            if old is None or (old.size < head.size and contradiction(connection, old) is None):
                _write(file, note)
    except IntegrityError:
        return


def accept(home: Path, where: str | None, note: str) -> None:
    """Pin a checkpoint whatever was pinned before: a person accepted what was lost.

    Raises:
        StorageError: It cannot be written.
        BusyError: Another process has held it for long.
    """
    file = pin_file(home, where)
    if file is None:
        return
    read_checkpoint(read_note(note))
    with _locked(file):
        if _bytes(file) != note.encode():
            _write(file, note)


def _is_signed_here(connection: Connection, entries: int) -> bool:
    note = log.latest_checkpoint(connection)
    head = read_checkpoint(read_note(note)) if note else None
    return head is not None and head.size == entries and merkle.root(entries, log.reader(connection)) == head.root


def _read(file: Path) -> Checkpoint | None:
    data = _bytes(file)
    if not data:
        return None
    try:
        return read_checkpoint(read_note(data))
    except IntegrityError as error:
        raise IntegrityError(
            f"the pin {str(file)!r} is damaged: {error.problem}",
            remedy=f"look for who changed it; `{log.REPAIR} --accept-rollback` then pins the log as it is",
        ) from error


def _bytes(file: Path) -> bytes:
    try:
        # Not following, not waiting: what lies there may be anybody's link or pipe.
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
    half = file.with_suffix(".new")
    try:
        half.unlink(missing_ok=True)
        opened = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(opened, "wb") as stream:
            stream.write(note.encode())
        # Not synced, which would take as long as the transaction did: after a power cut an older pin stands here, or
        # an empty file, which is as good as none; the next one goes forward again.
        half.replace(file)
    except OSError as error:
        raise _unusable(file, error) from error


def _unusable(file: Path, error: OSError) -> StorageError:
    return StorageError(
        f"the pin {str(file)!r} cannot be used: {error.strerror}",
        remedy="make it a file that you can write, or have ESPER_HOME name another folder",
    )
