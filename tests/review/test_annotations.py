"""A review as workflow commands: one a line, and nothing from the source can add to them."""

from __future__ import annotations

from dataclasses import replace

from esper_agents.domain.finding import Location, Severity
from esper_agents.review.annotations import as_annotations
from esper_agents.review.engine import review_sources
from esper_agents.review.outcome import ReviewOutcome
from esper_agents.review.source import Unreadable

REPORT = review_sources({"train.py": "for x in loader:\n    model(x).backward()\n    optimizer.step()\n"})


def lines_of(**changes):
    (claim,) = REPORT.claims
    return as_annotations(ReviewOutcome(replace(REPORT, claims=(replace(claim, **changes),)))).splitlines()


def test_a_finding_is_one_command_with_its_place():
    command, summary = lines_of()
    assert command.startswith("::error file=train.py,line=2,endLine=2,col=5,title=ESP101 gradients-not-cleared::")
    assert "%0Aremedy: " in command
    assert summary == "found 1 critical in 1 file"


def test_each_severity_has_its_command():
    commands = [lines_of(severity=each)[0].split()[0] for each in Severity]
    assert commands == ["::error", "::warning", "::notice"]


def test_nothing_in_a_message_ends_the_command_or_begins_another():
    command, _ = lines_of(message="100%\r\n::set-output name=x::y\n##[add-mask]z", remedy="a\u2028::error::b\x1b[2J")
    assert "::100%25%0D%0A::set-output name=x::y%0A##[add-mask]z%0A" in command.replace("\\u000d", "%0D")
    assert "\\u2028" in command
    assert "\x1b" not in command


def test_nothing_in_a_path_ends_the_command_or_begins_another():
    command, _ = lines_of(location=Location("a,b:c\n::error::%0A.py", 1))
    assert command.startswith("::error file=a%2Cb%3Ac%0A%3A%3Aerror%3A%3A%250A.py,line=1,endLine=1,col=1,title=")


def test_a_file_that_was_not_read_is_a_warning():
    report = replace(REPORT, claims=(), unreadable=(Unreadable("b:c.py", "does not parse", "mend\nit", 3),))
    command, _ = as_annotations(ReviewOutcome(report)).splitlines()
    assert command == "::warning file=b%3Ac.py,line=3,title=not reviewed::does not parse; mend%0Ait"
