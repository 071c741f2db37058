"""Evidence: the record of one tool call, with the command that repeats it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha1, sha256
from typing import TYPE_CHECKING

from esper_agents.domain.codec import JsonObject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_TESTS = "run-tests"
_FILES_NAMED = 3


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


def tests_told(evidence: Iterable[Evidence]) -> str:
    """Return how the tests came out and how much of the files in question they executed; empty where none ran.

    Example:
        "12 tests passed and executed 84 of 120 lines of train.py".
    """
    return "; ".join(_run_told(each) for each in evidence if is_test_run(each))


def is_test_run(evidence: Evidence) -> bool:
    """Return whether it is the record of tests that ran to their end, with the lines of the files in question."""
    is_complete = evidence.tool == _TESTS and evidence.outcome is CallOutcome.COMPLETED
    return is_complete and "coverage" in evidence.output and "counts" in evidence.output


def coverage_rows(evidence: Evidence) -> Iterator[tuple[str, int, int]]:
    """Yield each file whose lines were watched, how many of them a run can execute, and how many it did."""
    rows = evidence.output.get("coverage", ())
    for row in rows if isinstance(rows, list | tuple) else ():
        match row:
            case {"path": str(path), "lines": int(lines), "executed": int(executed)}:
                yield path, lines, executed
            case _:
                continue


def _run_told(evidence: Evidence) -> str:
    told = evidence.output.get("counts")
    counts = (
        {name: number for name, number in told.items() if isinstance(number, int)} if isinstance(told, dict) else {}
    )
    passed, failed = counts.get("passed", 0), counts.get("failed", 0) + counts.get("errors", 0)
    tests = f"{passed} test{'' if passed == 1 else 's'} passed"
    if failed:
        tests = f"{failed} test{'' if failed == 1 else 's'} failed, {passed} passed"
    watched = [row for row in coverage_rows(evidence) if row[1]]
    if not watched:
        return tests
    lines, executed = sum(row[1] for row in watched), sum(row[2] for row in watched)
    named = ", ".join(path for path, _, _ in watched[:_FILES_NAMED])
    more = f" and {len(watched) - _FILES_NAMED} more" if len(watched) > _FILES_NAMED else ""
    return f"{tests} and executed {executed} of {lines} lines of {named}{more}"
