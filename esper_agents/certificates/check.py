"""Results of certificate checks: passed, failed or unknown."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CheckOutcome(StrEnum):
    """How a check ended."""

    HOLDS = "holds"
    FAILS = "fails"
    CANNOT_DECIDE = "cannot decide"


@dataclass(frozen=True, slots=True)
class Check:
    """One claim about a certificate, checked.

    Attributes:
        name: What was checked.
        outcome: How it ended.
        detail: What was found, in one line; untrusted text in it is not escaped.
    """

    name: str
    outcome: CheckOutcome
    detail: str


def claim(name: str, problems: list[str], detail: str) -> Check:
    """Return a check that holds with a detail where there are no problems, and fails with the first ones otherwise."""
    if not problems:
        return Check(name, CheckOutcome.HOLDS, detail)
    more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""  # noqa: PLR2004 - three fit on a line
    return Check(name, CheckOutcome.FAILS, "; ".join(problems[:3]) + more)
