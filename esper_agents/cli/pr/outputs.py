"""Review of a pull request as JUnit XML and as a Code Quality report of GitLab."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

from esper_agents.cli.gate.outputs import XML_HEAD, junit_suite, xml_attribute, xml_text
from esper_agents.cli.terminal import one_line
from esper_agents.domain.finding import Severity

if TYPE_CHECKING:
    from esper_agents.api import PullRequestReview
    from esper_agents.domain.finding import Diagnostic

_LEVELS = {Severity.CRITICAL: "critical", Severity.WARNING: "major", Severity.SUGGESTION: "minor"}


def as_junit(review: PullRequestReview) -> str:
    """Return JUnit XML with one suite for the findings by changed file, and one for the coverage by certificates."""
    found: dict[str, list[str]] = {path: [] for path in review.changed}
    report = review.outcome.report
    for claim in report.claims:
        found.setdefault(claim.location.path, []).append(
            f"{claim.location}: {claim.severity} {claim.rule} {claim.message}; {claim.remedy}"
        )
    for unread in report.unreadable:
        found.setdefault(unread.path, []).append(f"not reviewed: {unread.problem}; {unread.remedy}")
    failed = sum(bool(each) for each in found.values())
    lines = [
        XML_HEAD,
        "<testsuites>",
        f'<testsuite name="esper review" tests="{len(found)}" failures="{failed}" errors="0" skipped="0">',
    ]
    for path, texts in found.items():
        head = f'  <testcase classname="esper review" name={xml_attribute(path)}'
        if not texts:
            lines.append(f"{head}/>")
            continue
        summary = xml_attribute(f"{len(texts)} new" if len(texts) > 1 else texts[0])
        lines.append(f"{head}><failure message={summary}>{xml_text(chr(10).join(texts))}</failure></testcase>")
    return "\n".join([*lines, "</testsuite>", junit_suite(review.gate.coverage), "</testsuites>"]) + "\n"


def as_code_quality(review: PullRequestReview) -> str:
    """Return the findings as a Code Quality report, which GitLab compares with that of the target branch."""
    seen: dict[str, int] = defaultdict(int)
    return json.dumps([_issue(claim, seen) for claim in review.outcome.report.claims], indent=1) + "\n"


def _issue(claim: Diagnostic, seen: dict[str, int]) -> dict[str, object]:
    # GitLab keeps one of two issues with the same fingerprint.
    number = seen[claim.fingerprint]
    seen[claim.fingerprint] += 1
    place = claim.location
    return {
        "description": one_line(f"{claim.message}. Fix: {claim.remedy}"),
        "check_name": claim.rule,
        "fingerprint": f"{claim.fingerprint}{f'-{number}' if number else ''}",
        "severity": _LEVELS[claim.severity],
        "location": {
            "path": place.path.encode("utf-8", "backslashreplace").decode(),
            "lines": {"begin": place.line, "end": max(place.line, place.end_line)},
        },
    }
