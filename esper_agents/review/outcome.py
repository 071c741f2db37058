"""What is reported of a review: its claims, and what became of those that are not shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from esper_agents.domain.finding import Claim
    from esper_agents.review.baseline import Entry
    from esper_agents.review.report import Report


@dataclass(frozen=True, slots=True)
class NotMended:
    """A claim whose rule knows a fix, and that stands all the same.

    Attributes:
        claim: The claim.
        why: Why it was left.
    """

    claim: Claim
    why: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """A review as it is reported.

    Attributes:
        report: The review, with the claims that are to be shown.
        earlier: How many claims stood before the change that was asked about; None where none was.
        known: The claims that a baseline holds.
        stale: The entries of the baseline that nothing answers to any more.
        mended: The claims that were mended.
        not_mended: Those that could not be, each with why.
    """

    report: Report
    earlier: int | None = None
    known: tuple[Claim, ...] = ()
    stale: tuple[Entry, ...] = ()
    mended: tuple[Claim, ...] = ()
    not_mended: tuple[NotMended, ...] = ()
