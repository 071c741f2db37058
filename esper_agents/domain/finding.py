"""Findings: located diagnostics with confidence and a fingerprint that survives line shifts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256


class Severity(StrEnum):
    """How much a finding matters, from worst."""

    CRITICAL = "critical"
    WARNING = "warning"
    SUGGESTION = "suggestion"


class Confidence(StrEnum):
    """How sure a claim is, in the words of the SME protocol."""

    HIGH = "High"
    MODERATE = "Moderate"
    LOW = "Low"
    INSUFFICIENT_DATA = "Insufficient Data"


class Category(StrEnum):
    """Which part of the review checklist a finding belongs to."""

    CORRECTNESS = "correctness"
    SILENT_CORRECTNESS = "silent-correctness"
    MEMORY = "memory"
    PERFORMANCE = "performance"
    COMPILE = "compile-and-version"
    COMPANION = "companion-changes"
    SECURITY = "security"


@dataclass(frozen=True, slots=True)
class Location:
    """Where in the project.

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
    """What a tool or an agent says of the code, before anybody has recorded it.

    Attributes:
        rule: The code of the rule, such as `ESP305`, or the name of the check that made the claim.
        name: The rule's name, such as `item-in-training-loop`.
        severity: How much it matters.
        category: Which part of the checklist it belongs to.
        location: Where.
        message: What is wrong, in one sentence.
        remedy: What to do about it.
        confidence: How sure the claim is.
        basis: Why it is that sure, such as `seen in one function`.
        excerpt: The line of source it points at, without its line end.
        fingerprint: The same for the same claim on the same line, wherever that line has moved.
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
    """A claim on record.

    Attributes:
        id: `fnd_` identifier.
        claim: What is claimed.
        agent: Who recorded it first.
        evidence: Identifiers of the evidence it rests on, the first one first.
    """

    id: str
    claim: Diagnostic
    agent: str
    evidence: tuple[str, ...]


def fingerprint(rule: str, path: str, line_text: str, occurrence: int) -> str:
    """Return the name that a claim keeps when its line moves, as 32 hex digits.

    Args:
        rule: The code of the rule.
        path: Relative to the project.
        line_text: The line of source; its white space does not count.
        occurrence: How many claims of this rule on equal lines stand above it in the file, from 0.
    """
    parts = "\0".join((rule, path, " ".join(line_text.split()), str(occurrence)))
    return sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def counted(severities: Iterable[Severity]) -> str:
    """Return how many there are of each severity, in words, worst first: `1 critical, 2 warnings`; or `nothing`."""
    numbers = Counter(severities)
    words = {Severity.CRITICAL: "critical", Severity.WARNING: "warning", Severity.SUGGESTION: "suggestion"}
    # "critical" is an adjective here; the nouns take their plural.
    return (
        ", ".join(
            f"{numbers[each]} {word}" + ("s" if numbers[each] > 1 and each is not Severity.CRITICAL else "")
            for each, word in words.items()
            if numbers[each]
        )
        or "nothing"
    )
