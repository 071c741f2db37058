"""Spans: one operation of a session with its parent, times and result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeAlias

Attribute: TypeAlias = str | bool | int | tuple[str, ...]
Attributes: TypeAlias = Mapping[str, Attribute]

# Spans of a ledger: `session`, `frame 1`, `turn 1.2` and `call 1.2.0`.
SESSION = "session"


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """An event at one moment of a span.

    Attributes:
        name: Name of the event.
        at_ns: Time, in nanoseconds since 1970.
        attributes: Attributes of the event.
    """

    name: str
    at_ns: int
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class SpanLink:
    """A link to another span that caused a span.

    Attributes:
        trace: The other span's trace, as 32 hex digits.
        span: The other span, as 16 hex digits.
        attributes: Attributes of the link.
    """

    trace: str
    span: str
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """One operation of a session.

    Attributes:
        trace: The session's trace, as 32 hex digits.
        id: 16 hex digits.
        parent: The parent span, or empty.
        name: Name of the operation, in the terms of the conventions.
        start_ns: Start time, in nanoseconds since 1970.
        end_ns: End time, or the time of the latest event of the ledger.
        attributes: Attributes of the span.
        events: Events of the span.
        links: Links to the spans that caused it.
        error: Kind of the error that ended it, or empty.
        is_remote: Whether the operation ran on a model server.
    """

    trace: str
    id: str
    parent: str
    name: str
    start_ns: int
    end_ns: int
    attributes: Attributes
    events: tuple[SpanEvent, ...] = ()
    links: tuple[SpanLink, ...] = ()
    error: str = ""
    is_remote: bool = False


def trace_id(session: str) -> str:
    """Return the trace id of a session: its identifier without the prefix, which makes it reversible."""
    return session.rpartition("_")[2]


def span_id(session: str, what: str) -> str:
    """Return the deterministic identifier of a session's span.

    Args:
        session: `ses_` identifier.
        what: The span, such as `frame 1`.
    """
    return sha256(f"{session} {what}".encode()).hexdigest()[:16]
