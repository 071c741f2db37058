"""Findings: located diagnostics with confidence and a fingerprint that survives line shifts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256

# Metadata of a field that 0.1.0 did not know: a certificate omits it while it has its default.
ABSENT = {"is_absent_by_default": True}


class Severity(StrEnum):
    """Severity of a finding, worst first."""

    CRITICAL = "critical"
    WARNING = "warning"
    SUGGESTION = "suggestion"


class Confidence(StrEnum):
    """Confidence in a finding, in the terms of the SME protocol."""

    HIGH = "High"
    MODERATE = "Moderate"
    LOW = "Low"
    INSUFFICIENT_DATA = "Insufficient Data"


class Category(StrEnum):
    """Part of the review checklist that a finding belongs to."""

    CORRECTNESS = "correctness"
    SILENT_CORRECTNESS = "silent-correctness"
    MEMORY = "memory"
    PERFORMANCE = "performance"
    COMPILE = "compile-and-version"
    COMPANION = "companion-changes"
    SECURITY = "security"


class Standing(StrEnum):
    """Support of a finding: who says it, and what the program could check of it."""

    RECORDED = "recorded"
    CONFIRMED = "confirmed"
    LOCATED = "located"
    UNVERIFIED = "unverified"


# Findings of a model that no rule, run or test confirmed.
UNCONFIRMED = frozenset((Standing.LOCATED, Standing.UNVERIFIED))


@dataclass(frozen=True, slots=True)
class Location:
    """A source range in the project.

    Attributes:
        path: Relative to the project, with forward slashes.
        line: From 1.
        column: From 1.
        end_line: The last line, at least `line`.
    """

    path: str
    line: int
    column: int = 1
    end_line: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A located result of a tool or an agent, before it is recorded as a finding.

    Attributes:
        rule: The code of the rule, such as `ESP305`, or the name of the check that reported it.
        name: The rule's name, such as `item-in-training-loop`.
        severity: Its severity.
        category: Part of the checklist that it belongs to.
        location: Its source range.
        message: The problem, in one sentence.
        remedy: A fix for it.
        confidence: The confidence level.
        basis: Reason for the confidence level, such as `seen in one function`.
        excerpt: The source line that it points at, without its line end.
        fingerprint: Stable identifier of the same diagnostic on the same source line, even if the line moves.
    """

    rule: str
    name: str
    severity: Severity
    category: Category
    location: Location
    message: str
    remedy: str
    confidence: Confidence
    basis: str
    excerpt: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A recorded diagnostic with its evidence.

    Attributes:
        id: `fnd_` identifier.
        claim: The diagnostic.
        agent: The agent that recorded it first.
        evidence: Identifiers of the supporting evidence, the original one first.
        standing: Recorded by a rule, a run or a test of the program; or said by a model, and then confirmed by one,
            only located in the code, or unverified.
        checks: Results of the program's checks of a model's finding, as sentences.
        patch: Unified diff that was drafted as its remedy and applied by no tool; empty if there is none.
    """

    id: str
    claim: Diagnostic
    agent: str
    evidence: tuple[str, ...]
    standing: Standing = field(default=Standing.RECORDED, metadata=ABSENT)
    checks: tuple[str, ...] = field(default=(), metadata=ABSENT)
    patch: str = field(default="", metadata=ABSENT)


class EarlierState(StrEnum):
    """What became of a finding of an earlier certificate."""

    FOUND_AGAIN = "found again"
    FIXED = "fixed"
    NO_LONGER_REPORTED = "no longer reported"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class EarlierFinding:
    """A finding that an agent remembers about the files of a task.

    Attributes:
        fingerprint: Its fingerprint.
        text: Severity, rule, name and place, as the earlier certificate has them.
        path: The file.
        certificate: The earlier certificate.
        state: Found again; fixed, if its rule ran on the changed file and does not report it; no longer reported, if
            the file is the same and the rule differs; not checked, if its rule did not run on the file.
    """

    fingerprint: str
    text: str
    path: str
    certificate: str
    state: EarlierState


def fingerprint(rule: str, path: str, line_text: str, occurrence: int) -> str:
    """Return the identifier of a diagnostic that stays the same when its line moves, as 32 hex digits.

    Args:
        rule: The code of the rule.
        path: Relative to the project.
        line_text: The source line; white space is ignored.
        occurrence: Number of earlier diagnostics of this rule on equal lines of the file, from 0.
    """
    parts = "\0".join((rule, path, " ".join(line_text.split()), str(occurrence)))
    return sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def counted(severities: Iterable[Severity]) -> str:
    """Return the count per severity in words, worst first: `1 critical, 2 warnings`; or `nothing`."""
    numbers = Counter(severities)
    words = {Severity.CRITICAL: "critical", Severity.WARNING: "warning", Severity.SUGGESTION: "suggestion"}
    # "critical" is an adjective here; only the nouns take a plural.
    return (
        ", ".join(
            f"{numbers[each]} {word}" + ("s" if numbers[each] > 1 and each is not Severity.CRITICAL else "")
            for each, word in words.items()
            if numbers[each]
        )
        or "nothing"
    )
