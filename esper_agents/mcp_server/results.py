"""Data classes of the tools' results, and their compact form on the wire.

They have no slots: the SDK reads the defaults of a schema from the class.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from mcp_types import CallToolResult, TextContent

from esper_agents.mcp_server.suggested_calls import SuggestedCall

if TYPE_CHECKING:
    from esper_agents.api import Diagnostic

# Some clients cut a result at 25,000 tokens; this leaves room for the same text in both forms.
MOST_BYTES = 20_000
_LONGEST_TEXT = 600
_LONGEST_CODE = 160


def clipped(text: str, most: int = _LONGEST_TEXT) -> str:
    """Return a text without its end if it is too long, marked with `...`."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


@dataclass(frozen=True)
class FindingRow:
    """Finding of a rule, a measurement or an agent.

    Attributes:
        rule: Code of the rule.
        severity: critical, warning or suggestion.
        at: File and line.
        message: The problem.
        fix: Suggested change.
        code: Source line.
        confidence: Confidence and its reason.
    """

    rule: str
    severity: str
    at: str
    message: str
    fix: str = ""
    code: str = ""
    confidence: str = ""


def finding_row(diagnostic: Diagnostic) -> FindingRow:
    """Return the row of a diagnostic, with long texts cut."""
    return FindingRow(
        diagnostic.rule,
        str(diagnostic.severity),
        clipped(str(diagnostic.location)),
        clipped(diagnostic.message),
        clipped(diagnostic.remedy),
        clipped(diagnostic.excerpt.strip(), _LONGEST_CODE),
        clipped(f"{diagnostic.confidence}: {diagnostic.basis}", _LONGEST_CODE),
    )


@dataclass(frozen=True)
class ReviewAnswer:
    """Result of a review.

    Attributes:
        files: Number of files reviewed.
        lines: Number of lines reviewed.
        total: Number of findings.
        by_severity: Number of findings of each severity.
        findings: Findings of this page, worst first.
        next_cursor: Cursor of the next page; empty on the last one.
        unread: Files that could not be reviewed, with the reasons.
        more_unread: Number of further such files.
        before: For a change, number of findings that existed before it.
        suppressed: Number of suppressed findings.
    """

    files: int
    lines: int
    total: int
    by_severity: dict[str, int]
    findings: tuple[FindingRow, ...] = ()
    next_cursor: str = ""
    unread: tuple[str, ...] = ()
    more_unread: int = 0
    before: int | None = None
    suppressed: int = 0


@dataclass(frozen=True)
class PatchAnswer:
    """Safe fixes as a patch for `git apply`.

    Attributes:
        patch: The patch of this page; empty if nothing can be fixed.
        files: Number of files that the whole patch changes.
        next_cursor: Cursor of the next page; empty on the last one.
        omitted: Files whose patch is too large for a result.
    """

    patch: str
    files: int
    next_cursor: str = ""
    omitted: tuple[str, ...] = ()


@dataclass(frozen=True)
class RuleAnswer:
    """Documentation of a lint rule or of a diagnostic of the measurements.

    Attributes:
        code: Its code.
        name: Its name.
        severity: Severity of its findings.
        is_fixable: Whether some of its findings can be fixed automatically.
        page: Its page, as Markdown.
    """

    code: str
    name: str
    severity: str
    is_fixable: bool
    page: str


@dataclass(frozen=True)
class TraceAnswer:
    """Explanation of a stack trace or error message.

    Attributes:
        answer: The cause, with the line.
        fix: Change that removes it; empty if the cause is not known.
        why: Reason for the error.
        at: Line of the project that the answer is about; empty if no frame is in the project.
        is_cause_certain: Whether message or code decided for the cause; the fix may still offer a choice.
        family: Name of the error family; empty if none matches.
        alternatives: Other causes, each with how to find out.
        frames: The frames, as far as they are in the project.
        also: Other lines of the project with the same pattern.
        findings: Findings of lint rules at that line.
        next: Call that helps to confirm the cause.
        target: Target that may reproduce the error; empty if there is none.
    """

    answer: str
    fix: str
    why: str
    at: str
    is_cause_certain: bool
    family: str
    alternatives: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    next: SuggestedCall | None = None
    target: str = ""


@dataclass(frozen=True)
class MeasurementAnswer:
    """Result of a measurement.

    Attributes:
        kind: Kind of measurement.
        target: The target.
        headline: The result in one sentence.
        findings: Diagnostics that the measurement supports.
        rows: Labelled facts of the report, `label: text`.
        report: Resource with the whole report.
        more_rows: Number of facts that only the report has.
    """

    kind: str
    target: str
    headline: str
    findings: tuple[FindingRow, ...] = ()
    rows: tuple[str, ...] = ()
    report: str = ""
    more_rows: int = 0


@dataclass(frozen=True)
class ComparisonAnswer:
    """Result of a comparison.

    Attributes:
        outcome: Outcome, such as `faster as claimed`.
        because: Reasons for it.
        baseline: Target A.
        candidate: Target B.
        claimed: Speedup that was required.
        speedup: Estimate of A's time over B's; None if nothing was timed.
        interval: Its bounds.
        confidence: Coverage of the interval.
        replicates: Number of process pairs.
        failed_checks: Number of checks of the outputs that failed; `because` names each fault once.
        checks: Number of checks of the outputs.
        report: Resource with the whole report.
    """

    outcome: str
    because: tuple[str, ...]
    baseline: str
    candidate: str
    claimed: float
    speedup: float | None = None
    interval: tuple[float, ...] = ()
    confidence: float | None = None
    replicates: int = 0
    failed_checks: int = 0
    checks: int = 0
    report: str = ""


@dataclass(frozen=True)
class QuestionRow:
    """Question of a session that waits for an answer.

    Attributes:
        id: `qst_` identifier.
        session: Session that waits.
        agent: Agent that asks.
        text: The question.
        options: Accepted answers; empty if any text is accepted.
        needs_person: Whether only a person can answer it, in a terminal.
        command: Command with which a person answers.
    """

    id: str
    session: str
    agent: str
    text: str
    options: tuple[str, ...]
    needs_person: bool
    command: str


@dataclass(frozen=True)
class SessionAnswer:
    """State of a session, and its result once it has ended.

    Attributes:
        session: `ses_` identifier.
        state: running, done, waiting, refused, cancelled or interrupted.
        agent: Selected agent.
        status: Status of the certificate; empty before it is issued.
        answer: The answer, in the program's words.
        because: Statements that decided the status.
        also: Further findings.
        measured: Results of measurements and tests.
        unknown: Missing information that limits the answer, then conditions and caveats of a model.
        certificate: `crt_` identifier.
        resource: Resource with the whole certificate.
        questions: Questions that must be answered before the session continues.
        next: Call that comes next; None if no tool of this server does it.
        next_command: The same as a command for the user's terminal.
        steps: Latest activities, newest last.
    """

    session: str
    state: str
    agent: str = ""
    status: str = ""
    answer: str = ""
    because: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    certificate: str = ""
    resource: str = ""
    questions: tuple[QuestionRow, ...] = ()
    next: SuggestedCall | None = None
    next_command: str = ""
    steps: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClaimAnswer:
    """What became of a claim.

    Attributes:
        claim: The claim.
        outcome: confirmed, refuted or not decided.
        reason: The measurement or the gap that decides.
        session: The session, with its certificate if it has ended.
    """

    claim: str
    outcome: str
    reason: str
    session: SessionAnswer


@dataclass(frozen=True)
class QuestionsAnswer:
    """Questions that wait for an answer.

    Attributes:
        questions: The questions of this page, oldest first.
        total: Number of questions.
        next_cursor: Cursor of the next page; empty on the last one.
    """

    questions: tuple[QuestionRow, ...]
    total: int
    next_cursor: str = ""


@dataclass(frozen=True)
class CertificateRow:
    """Row of a list of certificates.

    Attributes:
        id: `crt_` identifier.
        status: Status of the verdict.
        kind: Question type.
        agent: Agent that concluded.
        issued_at: Time of its conclusion.
        request: The request.
        passage: Matching passage.
    """

    id: str
    status: str
    kind: str
    agent: str
    issued_at: str
    request: str
    passage: str = ""


@dataclass(frozen=True)
class CertificatesAnswer:
    """Certificates of the project, newest first.

    Attributes:
        certificates: Certificates of this page.
        next_cursor: Cursor of the next page; empty on the last one.
    """

    certificates: tuple[CertificateRow, ...]
    next_cursor: str = ""


@dataclass(frozen=True)
class CertificateAnswer:
    """One certificate.

    Attributes:
        id: `crt_` identifier.
        status: Status of the verdict.
        kind: Question type.
        agent: Agent that concluded.
        issued_at: Time of its conclusion.
        subject: What the verdict is about.
        answer: The answer, in the program's words.
        because: Statements that decided the status.
        also: Further findings.
        measured: Results of measurements and tests.
        unknown: Missing information that limits the answer, then conditions and caveats of a model.
        rules: Policy rules that set the status.
        next: Call that would settle the rest; None if no tool of this server does it.
        next_command: The same as a command for the user's terminal.
        resource: Resource with the whole certificate.
    """

    id: str
    status: str
    kind: str
    agent: str
    issued_at: str
    subject: str
    answer: str
    because: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    next: SuggestedCall | None = None
    next_command: str = ""
    resource: str = ""


@dataclass(frozen=True)
class VerificationAnswer:
    """Verification of a certificate.

    Attributes:
        id: `crt_` identifier; empty if the statement cannot be read.
        result: valid, modified, not current or undecided.
        exit_code: Exit code of `esper certificates verify`.
        freshness: Whether the certified files are unchanged.
        failed: Checks that failed or could not be made.
        passed: Number of checks that passed.
        changed_files: Certified files that have changed.
        more_files: Number of further such files.
        commit: Commit whose files were compared; empty for the work tree.
        unchanged_at: Judged commit that is not checked out, if the certified files are unchanged there.
        next: Call that makes the certificate, or its check, current again.
    """

    id: str
    result: str
    exit_code: int
    freshness: str
    failed: tuple[str, ...] = ()
    passed: int = 0
    changed_files: tuple[str, ...] = ()
    more_files: int = 0
    commit: str = ""
    unchanged_at: str = ""
    next: SuggestedCall | None = None


@dataclass(frozen=True)
class CoverageRow:
    """Coverage of a file.

    Attributes:
        path: The file.
        state: Its coverage state.
        why: The reason.
        certificate: The certificate that decides.
    """

    path: str
    state: str
    why: str
    certificate: str = ""


@dataclass(frozen=True)
class GateAnswer:
    """Result of the gate.

    Attributes:
        is_passed: Whether the gate passes.
        exit_code: Exit code of `esper gate`.
        covered: Number of covered files.
        total: Number of files.
        files: Files that are not covered, of this page, worst first.
        next_cursor: Cursor of the next page; empty on the last one.
        commit: Commit whose files were checked; empty for the work tree.
        next: Call that judges the files that no certificate covers.
    """

    is_passed: bool
    exit_code: int
    covered: int
    total: int
    files: tuple[CoverageRow, ...] = ()
    next_cursor: str = ""
    commit: str = ""
    next: SuggestedCall | None = None


def as_result(answer: Any) -> CallToolResult:
    """Return a result on the wire: the data without empty members, and the same as compact JSON text."""
    data = compact(answer)
    return CallToolResult(content=[TextContent(type="text", text=json_text(data))], structured_content=data)


def compact(answer: Any) -> Any:
    """Return a data class as JSON without the members that have their default."""
    if is_dataclass(answer) and not isinstance(answer, type):
        defaults = {field.name: field.default for field in fields(answer)}
        members = ((field.name, getattr(answer, field.name)) for field in fields(answer))
        return {name: compact(value) for name, value in members if value != defaults[name]}
    if isinstance(answer, list | tuple):
        return [compact(each) for each in answer]
    return answer


def json_text(data: object) -> str:
    """Return JSON without white space."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
