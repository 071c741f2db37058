"""Results of certificate checks: passed, failed or unknown."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CheckOutcome(StrEnum):
    """Outcome of a check."""

    HOLDS = "holds"
    FAILS = "fails"
    CANNOT_DECIDE = "cannot decide"


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one named check of a certificate.

    Attributes:
        name: Name of the check.
        outcome: Outcome of the check.
        detail: Details in one line; untrusted text in it is not escaped.
    """

    name: str
    outcome: CheckOutcome
    detail: str


def combine_outcomes(*checks: Check) -> CheckOutcome:
    """Return the combined outcome of checks: failed takes precedence over undecided, and no check is undecided."""
    outcomes = {check.outcome for check in checks}
    if CheckOutcome.FAILS in outcomes:
        return CheckOutcome.FAILS
    return CheckOutcome.HOLDS if outcomes == {CheckOutcome.HOLDS} else CheckOutcome.CANNOT_DECIDE


def claim(name: str, problems: list[str], detail: str) -> Check:
    """Return a check that holds with a detail if there are no problems, and fails with the first problems otherwise."""
    if not problems:
        return Check(name, CheckOutcome.HOLDS, detail)
    more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""  # noqa: PLR2004 - three fit on a line
    return Check(name, CheckOutcome.FAILS, "; ".join(problems[:3]) + more)
