"""Pages of a project's transparency log: entries, newest checkpoint, and consistency with the pin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select

from esper_agents.certificates.log import pins, transparency_log
from esper_agents.certificates.log.note import Checkpoint, read_checkpoint, read_note
from esper_agents.errors import IntegrityError
from esper_agents.paths import home
from esper_agents.storage.tables import log_entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.certificates.log.faults import Fault
    from esper_agents.domain.project import Project
    from esper_agents.storage.store import Store


@dataclass(frozen=True, slots=True)
class ListedLogEntry:
    """Entry of a log in a listing.

    Attributes:
        idx: Index in the log, from 0.
        record_id: Identifier of the record.
        kind: Kind of the record: certificate or notice.
        about: Certificate that a notice concerns; empty if there is none.
        at: Time of the append.
        key_id: Fingerprint of the signing key.
    """

    idx: int
    record_id: str
    kind: str
    about: str
    at: str
    key_id: str


@dataclass(frozen=True, slots=True)
class LogPage:
    """State of a project's log, and some of its entries.

    Attributes:
        origin: Name of the log; empty if there is none yet.
        size: Number of entries.
        note: Newest signed checkpoint, as text; empty if there is none.
        checkpoint: Tree head in that checkpoint; None if there is none, or it is damaged.
        pinned: Checkpoint that was seen last on this machine; None if none is pinned.
        faults: Contradictions between the log and the pin.
        entries: Entries of the project, newest first.
    """

    origin: str
    size: int
    note: str
    checkpoint: Checkpoint | None
    pinned: Checkpoint | None
    faults: tuple[Fault, ...]
    entries: tuple[ListedLogEntry, ...]


def log_page(store: Store, project: Project, *, before: int | None = None, limit: int = 50) -> LogPage:
    """Return the state of a project's log and its newest entries.

    Takes time logarithmic in the log's size; `audit_log` compares every entry.

    Args:
        store: The archive.
        project: The project.
        before: Only entries with a lower index.
        limit: Maximum number of entries.
    """
    with store.reading() as connection:
        log_id = transparency_log.log_of(connection, project.key)
        note = transparency_log.latest_checkpoint(connection, log_id)
        column = log_entry.c
        wanted = select(column.idx, column.record_id, column.kind, column.about, column.at, column.key_id)
        wanted = wanted.where(column.log_id == log_id, column.project_key == project.key)
        wanted = wanted if before is None else wanted.where(column.idx < before)
        rows = connection.execute(wanted.order_by(column.idx.desc()).limit(limit)).all()
        pinned_as = pins.pinned_for(connection, project.key)
        return LogPage(
            origin=transparency_log.origin(connection, log_id),
            size=transparency_log.size(connection, log_id),
            note=note,
            checkpoint=_head(note),
            pinned=_pinned(store, pinned_as),
            faults=pins.check_pin(connection, home(), store.where, project.key),
            entries=tuple(
                ListedLogEntry(int(idx), str(record), str(kind), str(about), str(at), str(key))
                for idx, record, kind, about, at, key in rows
            ),
        )


def logged_keys(store: Store, certificate_ids: Sequence[str]) -> dict[str, str]:
    """Return the fingerprints of the keys in the log entries of certificates, by ID."""
    with store.reading() as connection:
        wanted = select(log_entry.c.record_id, log_entry.c.key_id)
        rows = connection.execute(wanted.where(log_entry.c.record_id.in_(certificate_ids))).all()
    return {str(record): str(key) for record, key in rows}


def _head(note: str) -> Checkpoint | None:
    try:
        return read_checkpoint(read_note(note.encode())) if note else None
    except IntegrityError:
        return None


def _pinned(store: Store, pinned_as: str) -> Checkpoint | None:
    try:
        return pins.pinned(home(), store.where, pinned_as)
    except IntegrityError:
        # `check_pin` reports the damage.
        return None
