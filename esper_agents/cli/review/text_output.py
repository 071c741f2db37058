"""Text and JSON output of `esper review`."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import TYPE_CHECKING

from esper_agents.cli.review.source_excerpt import excerpt
from esper_agents.cli.terminal import echo, say, width
from esper_agents.domain.finding import counted
from esper_agents.domain.pluralize import number_of

if TYPE_CHECKING:
    from esper_agents.api import LineReview, ReviewOutcome
    from esper_agents.domain.finding import Diagnostic

_NUMBER = 8
_NAMED = 3


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
    context = f", with {number_of(report.context_files, 'other file')} as context" if report.context_files else ""
    return f"{found}{brought} in {read}{context}, by {number_of(len(report.rules), 'rule')}{rest}"


def line_as_text(review: LineReview) -> str:
    """Return a line as text: the source around it, findings, values and events, and the pages of the rules."""
    from esper_agents.api import rule_page

    stream = io.StringIO()
    with redirect_stdout(stream):
        echo(f"{review.path}:{review.line}")
        for number, text in review.source.items():
            echo(f"{'>' if number == review.line else ' '}{number:>{_NUMBER - 1}} | {text}")
        echo()
        for claim in review.diagnostics:
            _claim(claim)
        for each in review.suppressed:
            _claim(each.claim)
            say("suppressed", each.reason)
            echo()
        for label, texts in (("value", review.values), ("event", review.events)):
            for text in texts:
                say(label, text)
        if review.note:
            say("note", review.note)
        if review.values or review.events or review.note:
            echo()
        for code in _rules_of(review):
            echo(rule_page(code))
    return stream.getvalue()


def line_as_json(review: LineReview) -> str:
    """Return the findings at a line as JSON with sorted members."""
    from esper_agents.api import rule_page

    data = asdict(review) | {"pages": {code: rule_page(code) for code in _rules_of(review)}}
    return json.dumps(data, indent=2, sort_keys=True, ensure_ascii=True, default=str) + "\n"


def _rules_of(review: LineReview) -> tuple[str, ...]:
    claims = (*review.diagnostics, *(each.claim for each in review.suppressed))
    return tuple(dict.fromkeys(claim.rule for claim in claims))


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
