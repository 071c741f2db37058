"""A review as workflow commands, which GitHub shows beside the lines of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Severity, counted
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.workflow_command import workflow_command

if TYPE_CHECKING:
    from esper_agents.domain.finding import Diagnostic
    from esper_agents.review.outcome import ReviewOutcome

_COMMANDS = {Severity.CRITICAL: "error", Severity.WARNING: "warning", Severity.SUGGESTION: "notice"}


# GitHub shows this many annotations of each level for one step, and drops the others.
_MOST_SHOWN = 10


def as_annotations(outcome: ReviewOutcome, *, is_limited: bool = False) -> str:
    """Return a review as one workflow command a line, and a line that says how many there are.

    Nothing that comes from the reviewed files can end a command or begin another one.

    Args:
        outcome: The review.
        is_limited: Whether to omit what GitHub would not show.
    """
    most = _MOST_SHOWN if is_limited else None
    report = outcome.report
    lines: list[str] = []
    for severity in Severity:
        claims = [claim for claim in report.claims if claim.severity is severity]
        lines += [_command(claim) for claim in claims[:most]]
    # Unread files are warnings, too.
    warnings = sum(claim.severity is Severity.WARNING for claim in report.claims)
    unread = report.unreadable if most is None else report.unreadable[: max(0, most - warnings)]
    lines += [
        workflow_command(
            "warning",
            {"file": each.path, "line": str(each.line or 1), "title": "not reviewed"},
            f"{each.problem}; {each.remedy}",
        )
        for each in unread
    ]
    found = counted(claim.severity for claim in report.claims)
    return "\n".join([*lines, f"found {found} in {number_of(len(report.examined), 'file')}"]) + "\n"


def _command(claim: Diagnostic) -> str:
    place = claim.location
    properties = {
        "file": place.path,
        "line": str(place.line),
        "endLine": str(max(place.line, place.end_line)),
        "col": str(place.column),
        "title": f"{claim.rule} {claim.name}",
    }
    text = f"{claim.message}\nremedy: {claim.remedy}\nsure: {claim.confidence}, {claim.basis}"
    return workflow_command(_COMMANDS[claim.severity], properties, text)
