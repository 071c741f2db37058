"""Outcome of a review for output: diagnostics, and counts of those omitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from esper_agents.domain.finding import Diagnostic
    from esper_agents.review.baseline import BaselineEntry
    from esper_agents.review.report import ReviewReport


@dataclass(frozen=True, slots=True)
class UnfixedDiagnostic:
    """A claim whose rule knows a fix, and that stands all the same.

    Attributes:
        claim: The claim.
        why: Why it was left.
    """

    claim: Diagnostic
    why: str


@dataclass(frozen=True, slots=True)
class ReviewOutcome:
    """A review as it is reported.

    Attributes:
        report: The review, with the claims that are to be shown.
        earlier: How many claims stood before the change that was asked about; None where none was.
        known: The claims that a baseline holds.
        stale: The entries of the baseline that nothing answers to any more.
        mended: The claims that were mended.
        not_mended: Those that could not be, each with why.
    """

    report: ReviewReport
    earlier: int | None = None
    known: tuple[Diagnostic, ...] = ()
    stale: tuple[BaselineEntry, ...] = ()
    mended: tuple[Diagnostic, ...] = ()
    not_mended: tuple[UnfixedDiagnostic, ...] = ()
