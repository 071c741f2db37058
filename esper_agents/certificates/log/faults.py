"""Kinds of faults that a log audit reports."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from esper_agents.domain.identifier import is_id

MOST_OF_A_KIND = 20


class FaultKind(StrEnum):
    """Kind of a log fault."""

    DATABASE_DELETED = "database-deleted"
    REPLACED = "replaced"
    EMPTIED = "emptied"
    NEWEST_DELETED = "newest-deleted"
    ROLLED_BACK = "rolled-back"
    FORKED = "forked"
    PIN_DAMAGED = "pin-damaged"
    MIDDLE_REMOVED = "middle-removed"
    REORDERED = "reordered"
    DUPLICATED = "duplicated"
    ENTRY_CHANGED = "entry-changed"
    NODE_CHANGED = "node-changed"
    NODE_MISSING = "node-missing"
    NODE_LEFT_OVER = "node-left-over"
    CHECKPOINT_MISSING = "checkpoint-missing"
    CHECKPOINT_CHANGED = "checkpoint-changed"
    CHECKPOINT_CONTRADICTED = "checkpoint-contradicted"
    NOT_COVERED = "not-covered"
    UNKNOWN_KEY = "unknown-key"
    STATEMENT_CHANGED = "statement-changed"
    INDEX_CHANGED = "index-changed"
    CERTIFICATE_REMOVED = "certificate-removed"
    CERTIFICATE_NOT_LOGGED = "certificate-not-logged"
    EVENTS_CHANGED = "events-changed"
    NOTES_CHANGED = "notes-changed"


@dataclass(frozen=True, slots=True)
class Fault:
    """Fault of a log.

    Attributes:
        kind: Kind of the fault.
        where: Affected object, such as `entry 12`.
        detail: Details as text; lower case, no full stop.
    """

    kind: FaultKind
    where: str
    detail: str


@dataclass(slots=True)
class Faults:
    """Collected faults, up to 20 of each kind.

    Attributes:
        listed: Faults that are listed.
        counts: Number of faults of each kind, listed or not.
    """

    listed: list[Fault] = field(default_factory=list)
    counts: Counter[FaultKind] = field(default_factory=Counter)

    def add(self, kind: FaultKind, where: str, detail: str) -> None:
        """Add a fault."""
        self.counts[kind] += 1
        if self.counts[kind] <= MOST_OF_A_KIND:
            self.listed.append(Fault(kind, where, detail))


def shown(record_id: str) -> str:
    """Return a stored identifier safe for display: the database may contain any text."""
    return record_id if is_id(record_id) else ascii(record_id[:60])
