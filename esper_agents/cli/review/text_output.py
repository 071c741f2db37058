"""Text and JSON output of `esper review`."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import TYPE_CHECKING

from esper_agents.cli.review.source_excerpt import excerpt
from esper_agents.cli.terminal import echo, say, table, width
from esper_agents.domain.finding import counted
from esper_agents.domain.pluralize import number_of

if TYPE_CHECKING:
    from esper_agents.api import ReviewOutcome
    from esper_agents.domain.finding import Diagnostic

_NUMBER = 8
_NAMED = 3


def rule_table() -> str:
    """Return a table of all rules."""
    from esper_agents.api.review import lint_rules

    rows = [
        (each.code, each.name, str(each.severity), str(each.category), "yes" if each.is_fixable else "")
        for each in lint_rules()
    ]
    stream = io.StringIO()
    with redirect_stdout(stream):
        table(("code", "name", "severity", "category", "fixed"), rows)
    return stream.getvalue()


def rules_as_json(code: str, *, has_pages: bool) -> str:
    """Return rules as JSON with sorted members.

    Args:
        code: Code or name of a rule, or `all`.
        has_pages: Whether to include the documentation and examples of each rule.
    """
    from esper_agents.api.review import lint_rules, rule_page

    listed = []
    for each in lint_rules(code):
        data: dict[str, object] = {
            "code": each.code,
            "name": each.name,
            "severity": each.severity,
            "category": each.category,
            "is_fixable": each.is_fixable,
            "summary": each.summary,
        }
        if has_pages:
            data |= {"page": rule_page(each.code), "bad": each.bad, "good": each.good}
        listed.append(data)
    return json.dumps({"rules": listed}, indent=2, sort_keys=True, ensure_ascii=True) + "\n"


def as_text(outcome: ReviewOutcome) -> str:
    """Return a review as text: findings with their source line, then the files read and not read."""
    stream = io.StringIO()
    with redirect_stdout(stream):
        for claim in outcome.report.claims:
            _claim(claim)
        _rest(outcome)
    return stream.getvalue()


def _claim(claim: Diagnostic) -> None:
    place = claim.location
    echo(f"{place}:{place.column}: {claim.severity} {claim.rule} {claim.name}")
    say("", claim.message)
    gutter = " | "
    shown = excerpt(claim.excerpt, place.column, max(20, width() - _NUMBER - len(gutter)))
    echo(f"{place.line:>{_NUMBER}}{gutter}{shown.line}")
    if shown.mark:
        echo(" " * _NUMBER + gutter + shown.mark)
    say("remedy", claim.remedy)
    say("sure", f"{claim.confidence}, {claim.basis}")
    echo()


def _rest(outcome: ReviewOutcome) -> None:
    report = outcome.report
    for each in report.unreadable:
        say("unread", f"{each.path}{f':{each.line}' if each.line else ''}: {each.problem}; {each.remedy}")
    for claim in outcome.mended:
        say("mended", f"{claim.location} {claim.rule} {claim.name}")
    for left in outcome.not_mended:
        say("not fixed", f"{left.claim.location} {left.claim.rule}: {left.why}")
    for entry in outcome.stale:
        say("stale", f"{entry.path} {entry.rule} is a stale baseline entry: {entry.excerpt}")
    if report.generated:
        more = f" and {len(report.generated) - _NAMED} more" if len(report.generated) > _NAMED else ""
        say("generated", f"{', '.join(report.generated[:_NAMED])}{more}: findings in generated files are suggestions")
    if report.parts:
        say("parts", f"reviewed in {len(report.parts)} parts; calls across parts were not analyzed")
    for part in report.parts:
        say("", part)
    say("found", summary(outcome))


def summary(outcome: ReviewOutcome) -> str:
    """Return the summary: numbers of findings, files and hidden findings."""
    report = outcome.report
    hidden = (
        (report.suppressed, "suppressed"),
        (len(outcome.known), "in the baseline"),
        (outcome.earlier or 0, "existed before the change"),
    )
    rest = "".join(f", {number} {what}" for number, what in hidden if number)
    brought = " introduced by the change" if outcome.earlier is not None else ""
    found = counted(claim.severity for claim in report.claims)
    read = f"{number_of(len(report.examined), 'file')}, {number_of(report.lines, 'line')}"
    return f"{found}{brought} in {read}, by {number_of(len(report.rules), 'rule')}{rest}"


def as_json(outcome: ReviewOutcome) -> str:
    """Return a review as JSON with sorted members."""
    report = outcome.report
    data = {
        "claims": [asdict(claim) for claim in report.claims],
        "files": [asdict(file) for file in report.examined],
        "unreadable": [asdict(each) for each in report.unreadable],
        "rules": list(report.rules),
        "suppressed": report.suppressed,
        "silenced": [asdict(each) for each in report.silenced],
        "generated": list(report.generated),
        "parts": list(report.parts),
        "lines": report.lines,
        "torch_files": report.torch_files,
        "earlier": outcome.earlier,
        "known": [claim.fingerprint for claim in outcome.known],
        "stale": [asdict(entry) for entry in outcome.stale],
        "mended": [asdict(claim) for claim in outcome.mended],
        "not_mended": [{"fingerprint": each.claim.fingerprint, "why": each.why} for each in outcome.not_mended],
    }
    return json.dumps(data, indent=2, sort_keys=True, ensure_ascii=True, default=str) + "\n"
