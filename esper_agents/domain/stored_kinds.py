"""Closed sets of words stored in database columns; imports only the standard library."""

from __future__ import annotations

from enum import StrEnum


class RowKind(StrEnum):
    """Kind of a ledger event."""

    SUBMITTED = "submitted"
    ROUTED = "routed"
    REFUSED = "refused"
    OPENED = "opened"
    DECIDING = "deciding"
    MOVED = "moved"
    MOVE_REFUSED = "move-refused"
    ASKED = "asked"
    ANSWERED = "answered"
    CALLING = "calling"
    CALLED = "called"
    HANDED_OFF = "handed-off"
    CONCLUDED = "concluded"
    CERTIFIED = "certified"
    CANCELLED = "cancelled"
    DRIFT_ACCEPTED = "drift-accepted"
    PRUNED = "pruned"


class NoteKind(StrEnum):
    """Memory document that a note belongs to."""

    WORKING = "working-memory"
    DECISION = "decisions-log"
    ACTION = "next-actions"


class NoteState(StrEnum):
    """State of a note."""

    CURRENT = "current"
    SUPERSEDED = "superseded"
    DONE = "done"
    DROPPED = "dropped"
    # The text is deleted; the note's row remains.
    FORGOTTEN = "forgotten"


class EntryKind(StrEnum):
    """Kind of a transparency log entry."""

    CERTIFICATE = "certificate"
    NOTICE = "notice"


class OriginKind(StrEnum):
    """Kind of session origin."""

    SUBMITTED = "submitted"
    FORKED = "forked"
    CONTINUED = "continued"


class RelationKind(StrEnum):
    """Kind of relation between certificates."""

    SUPERSEDES = "supersedes"
    REVOKES = "revokes"
    DEPENDS_ON = "depends on"
    COUNTERSIGNS = "countersigns"


class SessionState(StrEnum):
    """State of a session, derived from its ledger."""

    OPEN = "open"
    WAITING = "waiting"
    DONE = "done"
    REFUSED = "refused"
    CANCELLED = "cancelled"
