"""Evidence: the record of one tool call, with everything needed to run it again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha1, sha256

from esper_agents.domain.codec import JsonObject


class Risk(StrEnum):
    """How much can go wrong when a tool runs, from least."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class CallOutcome(StrEnum):
    """How a tool call ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    DENIED = "denied"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that was read, as it was when it was read.

    Attributes:
        path: Relative to the project, with forward slashes.
        sha256: Digest of its bytes, 64 hex digits.
        git_blob: Git's own object id of the same bytes, 40 hex digits.
        lines: How many lines it has.
        size_bytes: How long it is.
    """

    path: str
    sha256: str
    git_blob: str
    lines: int
    size_bytes: int


def source_file(path: str, data: bytes) -> SourceFile:
    """Return the record of a file that was read.

    Args:
        path: Relative to the project, with forward slashes.
        data: All its bytes.
    """
    # Git's object ids are sha1 by definition; the sha256 beside it is what a reader should trust.
    blob = sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    return SourceFile(path, sha256(data).hexdigest(), blob, len(data.splitlines()), len(data))


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that a tool made, kept by its digest.

    Attributes:
        name: What to call it, such as `trace.json`.
        sha256: Digest of its bytes.
        size_bytes: How long it is.
        media_type: Such as `application/json`.
    """

    name: str
    sha256: str
    size_bytes: int
    media_type: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """The record of one tool call.

    Attributes:
        id: `ev_` identifier.
        tool: The tool's name.
        provider: Distribution and version that the tool came from, such as `esper-agents 0.1.0`.
        risk: The tool's risk.
        is_repeatable: Whether running it again changes nothing.
        arguments: What it was called with.
        arguments_sha256: Digest of the arguments.
        outcome: How the call ended.
        summary: What came out, in one line.
        output: The result, as JSON; large parts are artifacts.
        output_sha256: Digest of the output.
        examined: The files it read.
        artifacts: The files it made.
        started_at: When, as `YYYY-MM-DDTHH:MM:SS.mmmZ`.
        duration_ns: How long the call took, in nanoseconds.
        rerun: A command line that runs it again.
        refutes: Fingerprints of claims that it showed not to be so.
        redactions: How many secrets were struck out of it before it was digested.
    """

    id: str
    tool: str
    provider: str
    risk: Risk
    is_repeatable: bool
    arguments: JsonObject
    arguments_sha256: str
    outcome: CallOutcome
    summary: str
    output: JsonObject
    output_sha256: str
    examined: tuple[SourceFile, ...]
    artifacts: tuple[Artifact, ...]
    started_at: str
    duration_ns: int
    rerun: str
    refutes: tuple[str, ...] = ()
    redactions: int = 0
