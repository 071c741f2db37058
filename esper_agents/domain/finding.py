"""Findings: located diagnostics with confidence and a fingerprint that survives line shifts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256


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
    """

    id: str
    claim: Diagnostic
    agent: str
    evidence: tuple[str, ...]


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
