"""Problem found in one document by an audit check."""

from __future__ import annotations

from dataclasses import dataclass

from esper_agents.certificates.check import CheckOutcome


@dataclass(frozen=True, slots=True)
class AuditProblem:
    """One thing that does not hold, or that cannot be decided.

    Attributes:
        code: What sort of thing, such as `status-unknown`; checks say what each of theirs means.
        detail: What was found, in one line; untrusted text in it is not escaped.
        line: Where it stands, from 1; None where the whole document is meant.
        outcome: `fails` or `cannot decide`.
    """

    code: str
    detail: str
    line: int | None = None
    outcome: CheckOutcome = CheckOutcome.FAILS


def undecided(code: str, detail: str, line: int | None = None) -> AuditProblem:
    """Return a problem that says that something cannot be decided."""
    return AuditProblem(code, detail, line, CheckOutcome.CANNOT_DECIDE)


def quoted(text: str, most: int = 80) -> str:
    """Return untrusted text as it is quoted in a detail: on one line, cut, its control characters escaped."""
    line = " ".join(text[: 4 * most].split())
    return repr(line if len(line) <= most else f"{line[:most]}...")
