"""Problem found in one document by an audit check."""

from __future__ import annotations

from dataclasses import dataclass

from esper_agents.certificates.check import CheckOutcome


@dataclass(frozen=True, slots=True)
class AuditProblem:
    """Failed or undecided audit check.

    Attributes:
        code: Problem code, such as `status-unknown`; the check module defines its meaning.
        detail: Details in one line; untrusted text in it is not escaped.
        line: Line number, from 1; None if the problem concerns the whole document.
        outcome: `fails` or `cannot decide`.
    """

    code: str
    detail: str
    line: int | None = None
    outcome: CheckOutcome = CheckOutcome.FAILS


def undecided(code: str, detail: str, line: int | None = None) -> AuditProblem:
    """Return a problem whose check is undecided."""
    return AuditProblem(code, detail, line, CheckOutcome.CANNOT_DECIDE)


def quoted(text: str, most: int = 80) -> str:
    """Return untrusted text quoted for a detail: on one line, truncated, control characters escaped."""
    line = " ".join(text[: 4 * most].split())
    return repr(line if len(line) <= most else f"{line[:most]}...")
