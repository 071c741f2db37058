"""Spans: one operation of a session with its parent, times and result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeAlias

Attribute: TypeAlias = str | bool | int | tuple[str, ...]
Attributes: TypeAlias = Mapping[str, Attribute]

# Which spans a ledger has: `session`, `frame 1`, `turn 1.2` and `call 1.2.0`.
SESSION = "session"


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened at one moment of a span.

    Attributes:
        name: What.
        at_ns: When, in nanoseconds since 1970.
        attributes: What is known of it.
    """

    name: str
    at_ns: int
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class SpanLink:
    """Another span that a span came of.

    Attributes:
        trace: The other span's trace, as 32 hex digits.
        span: The other span, as 16 hex digits.
        attributes: How it came of it.
    """

    trace: str
    span: str
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """One thing that a session did.

    Attributes:
        trace: The session's trace, as 32 hex digits.
        id: 16 hex digits.
        parent: The span it is part of, or empty.
        name: What was done, in the words of the conventions.
        start_ns: When it began, in nanoseconds since 1970.
        end_ns: When it ended, or how far the ledger has come.
        attributes: What is known of it.
        events: What happened on the way.
        links: What it came of.
        error: The kind of error it ended with, or empty.
        is_remote: Whether it was done elsewhere, at a model's server.
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
    """Return the trace of a session: its own identifier without the prefix, so that either is found by the other."""
    return session.rpartition("_")[2]


def span_id(session: str, what: str) -> str:
    """Return the identifier of a session's span, the same each time it is made.

    Args:
        session: `ses_` identifier.
        what: Such as `frame 1`.
    """
    return sha256(f"{session} {what}".encode()).hexdigest()[:16]
