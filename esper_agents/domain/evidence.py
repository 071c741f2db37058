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

FINDS_INPUTS = "torch-scaffold"
_MEASURES, _FINDS_TARGETS = "torch-", "torch-targets"
# As `domain.request.Wish` is recorded.
_FIND_CAUSE = "find-cause"
INSPECT = "inspect-code"
DOCUMENTS_TOOL = "search-documents"
# Query that answers direct questions about an API or option.
USAGE_QUESTIONS = "usage-questions"
# Queries that answer a question by its words: the decisive lines, and the lines that belong to them.
# The measurement of what calls do.
OBSERVES_CALLS = "torch-behaviour"
QUESTION_ANSWERS, QUESTION_DETAILS = "question-answers", "question-details"
# Runs what a change edits before and after it.
VERSIONS = "torch-versions"
_RUNS_OF_MODELS = frozenset(("run-python", "check-draft"))
_SCAFFOLD = "torch-scaffold"
# Ends of a search for arguments that ran a harness of the project as it is.
OWN_HARNESS_ENDS = frozenset(("edited", "captured"))


class Risk(StrEnum):
    """Risk of running a tool, lowest first."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class CallOutcome(StrEnum):
    """Outcome of a tool call."""

    COMPLETED = "completed"
    FAILED = "failed"
    DENIED = "denied"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """Digests of a file that was read, at the time of reading.

    Attributes:
        path: Relative to the project, with forward slashes.
        sha256: Digest of its bytes, 64 hex digits.
        git_blob: Git's own object id of the same bytes, 40 hex digits.
        lines: Number of lines.
        size_bytes: File size in bytes.
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
    # Git's object ids are SHA-1 by definition; readers should rely on the SHA-256 digest.
    blob = sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    return SourceFile(path, sha256(data).hexdigest(), blob, len(data.splitlines()), len(data))


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file produced by a tool, stored by content digest.

    Attributes:
        name: Display name, such as `trace.json`.
        sha256: Digest of its bytes.
        size_bytes: File size in bytes.
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
        provider: Distribution and version that provides the tool, such as `esper-agents 0.1.0`.
        risk: The tool's risk.
        is_repeatable: Whether running it again changes nothing.
        arguments: Arguments of the call.
        arguments_sha256: Digest of the arguments.
        outcome: Outcome of the call.
        summary: The result, in one line.
        output: The result, as JSON; large parts are artifacts.
        output_sha256: Digest of the output.
        examined: The files that the tool read.
        artifacts: The files that the tool produced.
        started_at: Start time, as `YYYY-MM-DDTHH:MM:SS.mmmZ`.
        duration_ns: Duration of the call, in nanoseconds.
        rerun: A command line that repeats the call.
        refutes: Fingerprints of claims that it refutes.
        redactions: Number of secrets removed before the digest was computed.
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


def lines_read(evidence: Evidence) -> dict[str, tuple[tuple[int, int], ...]]:
    """Return the ranges of lines that a call read, by file: those that its output shows, else whole files.

    A search shows the lines that it found, and a reading the lines that it returned, whatever size the file has.
    """
    ranges: dict[str, list[tuple[int, int]]] = {}
    match evidence.output:
        case {"path": str(path), "first_line": int(first), "last_line": int(last), "lines": _}:
            ranges[path] = [(first, last)]
        case {"parts": [*shown]} | {"hits": [*shown]}:
            for each in shown:
                match each:
                    case {"path": str(path), "first_line": int(first), "last_line": int(last)}:
                        ranges.setdefault(path, []).append((first, last))
                    case {"path": str(path), "line": int(line)}:
                        ranges.setdefault(path, []).append((line, line))
                    case _:
                        continue
        case {"definitions": [*definitions]}:
            for each in definitions:
                for place in (each, *each["called_by"]):
                    ranges.setdefault(place["path"], []).append((place["line"], place["line"]))
        case _:
            ranges = {file.path: [(1, file.lines)] for file in evidence.examined if file.lines}
    return {path: tuple(some) for path, some in ranges.items()}


def tests_told(evidence: Iterable[Evidence]) -> str:
    """Return the test results and the line coverage of the files in question, in words; empty if no tests ran.

    Example:
        "12 tests passed and executed 84 of 120 lines of train.py".
    """
    return "; ".join(_run_told(each) for each in evidence if is_test_run(each))


def is_test_run(evidence: Evidence) -> bool:
    """Return whether the evidence records a complete test run with line coverage."""
    is_complete = evidence.tool == _TESTS and evidence.outcome is CallOutcome.COMPLETED
    return is_complete and "coverage" in evidence.output and "counts" in evidence.output


def coverage_rows(evidence: Evidence) -> Iterator[tuple[str, int, int]]:
    """Yield the files with line coverage: path, executable lines, executed lines."""
    rows = evidence.output.get("coverage", ())
    for row in rows if isinstance(rows, list | tuple) else ():
        match row:
            case {"path": str(path), "lines": int(lines), "executed": int(executed)}:
                yield path, lines, executed
            case _:
                continue


def change_rows(evidence: Evidence) -> Iterator[tuple[str, int, int]]:
    """Yield the changed sources of a test run: path, edits, edits that passing tests executed."""
    change = evidence.output.get("change")
    rows = change.get("files", ()) if isinstance(change, dict) else ()
    for row in rows if isinstance(rows, list | tuple) else ():
        match row:
            case {"path": str(path), "blocks": int(blocks), "executed_blocks": int(executed)}:
                yield path, blocks, executed
            case _:
                # A row that cannot be read shows no execution.
                yield "", 1, 0


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
    if by_failing := _lines_of_failing(evidence):
        tests = f"{failed} test{'' if failed == 1 else 's'} failed and executed {by_failing}, {passed} passed"
    return f"{tests} and executed {executed} of {lines} lines of {named}{more}"


def _lines_of_failing(evidence: Evidence) -> int:
    """Return the number of lines that failing tests executed; 0 if it is not recorded."""
    rows = evidence.output.get("coverage", ())
    rows = rows if isinstance(rows, list | tuple) else ()
    return sum(each["failing"] for each in rows if isinstance(each, dict) and isinstance(each.get("failing"), int))


@dataclass(frozen=True, slots=True)
class RecordedFact:
    """One fact of an inspection.

    Attributes:
        assessment: `must change`, `should check`, `open`, `fine` or `description`.
        place: File and line as `train.py:12`.
        text: The fact, in one sentence without a full stop.
        remedy: A fix; empty if none is needed.
        rule: Code of the review rule that reported it; empty for a fact of a query.
        query: Name of the query.
    """

    assessment: str
    place: str
    text: str
    remedy: str
    rule: str
    query: str


def was_inspected(evidence: Iterable[Evidence]) -> bool:
    """Return whether an inspection was completed, whether or not it found facts."""
    return any(each.tool == INSPECT and each.outcome is CallOutcome.COMPLETED for each in evidence)


def facts_of(evidence: Iterable[Evidence]) -> tuple[RecordedFact, ...]:
    """Return the facts that completed inspections found, without repetitions."""
    done = (each for each in evidence if each.tool == INSPECT and each.outcome is CallOutcome.COMPLETED)
    found = (
        RecordedFact(
            fact["assessment"],
            f"{fact['path']}:{fact['line']}",
            fact["text"],
            fact["remedy"],
            fact["rule"],
            query["name"],
        )
        for each in done
        for query in each.output.get("queries", ())
        for fact in query["facts"]
    )
    return tuple(dict.fromkeys(found))


def documents_told(evidence: Iterable[Evidence]) -> tuple[tuple[str, str], ...]:
    """Return the place and the words of what the project's documents say, the best match first, without repetitions."""
    done = (each for each in evidence if each.tool == DOCUMENTS_TOOL and each.outcome is CallOutcome.COMPLETED)
    found = (
        (f"{passage['path']}:{passage['line']}", f"{passage['heading']}: {passage['text']}".removeprefix(": "))
        for each in done
        for passage in each.output.get("passages", ())
    )
    return tuple(dict.fromkeys(found))


def faults_asked_about(evidence: Iterable[Evidence]) -> frozenset[tuple[str, str]] | None:
    """Return the faults of the cause that was asked for, as `FILE:LINE` and rule or query; None if none was looked for.

    Other findings are beside the question.
    """
    asked = [each for each in evidence if each.tool == INSPECT and each.arguments.get("wish") == _FIND_CAUSE]
    if not any(each.outcome is CallOutcome.COMPLETED and each.arguments.get("topics") for each in asked):
        return None
    return frozenset((fact.place, fact.rule or fact.query) for fact in facts_of(asked))


def is_measurement(evidence: Evidence) -> bool:
    """Return whether a completed call ran something in the lab; a search for arguments that found none did not."""
    is_of_lab = evidence.tool.startswith(_MEASURES) and evidence.tool != _FINDS_TARGETS
    is_run = evidence.tool != FINDS_INPUTS or bool(evidence.output.get("runnable"))
    return is_of_lab and is_run and evidence.outcome is CallOutcome.COMPLETED


def is_run_of_model(evidence: Evidence) -> bool:
    """Return whether a completed call ran code that a model wrote; it confirms nothing about a verdict."""
    return evidence.tool in _RUNS_OF_MODELS and evidence.outcome is CallOutcome.COMPLETED


def own_harness(evidence: Evidence) -> str:
    """Return the harness of the project that a search for arguments ran as it is; empty if it wrote one or ran none.

    The project's author wrote it, so that it may run anything.
    """
    result = evidence.output.get("result")
    is_own = isinstance(result, dict) and result.get("ended") in OWN_HARNESS_ENDS
    return str(evidence.output.get("runnable", "")) if evidence.tool == _SCAFFOLD and is_own else ""
