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
    """Diagnostic whose rule has a fix that was not applied.

    Attributes:
        claim: The diagnostic.
        why: Reason it was not fixed.
    """

    claim: Diagnostic
    why: str


@dataclass(frozen=True, slots=True)
class ReviewOutcome:
    """Outcome of a review, as shown to the user.

    Attributes:
        report: The review report, limited to the diagnostics to show.
        earlier: Number of diagnostics that existed before the change; None if no change was reviewed.
        known: Diagnostics accepted by the baseline file.
        stale: Entries of the baseline file that match no diagnostic any more.
        mended: Diagnostics that were fixed.
        not_mended: Diagnostics that could not be fixed, with the reasons.
    """

    report: ReviewReport
    earlier: int | None = None
    known: tuple[Diagnostic, ...] = ()
    stale: tuple[BaselineEntry, ...] = ()
    mended: tuple[Diagnostic, ...] = ()
    not_mended: tuple[UnfixedDiagnostic, ...] = ()
