"""A review as workflow commands, which GitHub shows beside the lines of a pull request."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Severity, counted
from esper_agents.domain.pluralize import number_of

if TYPE_CHECKING:
    from esper_agents.domain.finding import Diagnostic
    from esper_agents.review.outcome import ReviewOutcome

_COMMANDS = {Severity.CRITICAL: "error", Severity.WARNING: "warning", Severity.SUGGESTION: "notice"}
# The percent sign first: the others bring it in.
_IN_MESSAGES = (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"))
_IN_PROPERTIES = (*_IN_MESSAGES, (":", "%3A"), (",", "%2C"))
# Control, format, surrogate and line-separator characters.
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


def as_annotations(outcome: ReviewOutcome) -> str:
    """Return a review as one workflow command a line, and a line that says how many there are.

    Nothing that comes from the reviewed files can end a command or begin another one.
    """
    report = outcome.report
    lines = [_command(each) for each in report.claims]
    lines += [
        f"::warning file={_property(each.path)},line={each.line or 1},title=not reviewed::"
        + _message(f"{each.problem}; {each.remedy}")
        for each in report.unreadable
    ]
    found = counted(each.severity for each in report.claims)
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
    listed = ",".join(f"{name}={_property(text)}" for name, text in properties.items())
    text = f"{claim.message}\nremedy: {claim.remedy}\nsure: {claim.confidence}, {claim.basis}"
    return f"::{_COMMANDS[claim.severity]} {listed}::{_message(text)}"


def _message(text: str) -> str:
    return _escaped(text, _IN_MESSAGES)


def _property(text: str) -> str:
    return _escaped(text, _IN_PROPERTIES)


def _escaped(text: str, replaced: tuple[tuple[str, str], ...]) -> str:
    shown = "".join(each if each == "\n" or unicodedata.category(each) not in _HIDDEN else _code(each) for each in text)
    for character, code in replaced:
        shown = shown.replace(character, code)
    return shown


def _code(character: str) -> str:
    return f"\\u{ord(character):04x}"
