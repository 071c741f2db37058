from __future__ import annotations

import re

import pytest
from certificate_samples import certificate, critical, every_text, evidence, finding, full, of_status

from esper_agents.certificates.statement import normal, statement
from esper_agents.certificates.views.explanation import why
from esper_agents.domain.finding import Location
from esper_agents.domain.status import Status
from esper_agents.errors import IntegrityError


def lines(tree):
    return tuple("  " * depth + text for depth, text in tree.outline())


def test_the_tree_goes_from_the_status_to_the_evidence():
    made = normal(certificate(findings=(critical(1), finding(2))))
    tree = why(statement(made))
    assert tree.verdict == made.verdict
    assert [line.line.name for line in tree.lines] == ["critical-finding", "warning"]
    assert [found.finding for found in tree.lines[0].findings] == [made.findings[0]]
    assert tree.lines[0].findings[0].evidence == (made.evidence[0],)


def test_it_reads_from_the_status_down():
    made = certificate(findings=(critical(),))
    assert lines(why(statement(made))) == (
        "REQUIRES_REMEDIATION (against): one critical finding stands: ESP101 at examples/train.py:7",
        "  approval was asked, because of: review",
        "  ceiling REQUIRES_REMEDIATION (against)",
        "    critical-finding allows at most against: one critical finding stands: ESP101 at examples/train.py:7",
        f"      ESP101 at examples/train.py:7: {critical().claim.message} (High, seen in one function)",
        f"        {evidence().id} static-review completed: read 10 lines of 1 file, 1 finding",
        "          again: esper review examples/train.py",
    )


def test_where_no_line_of_the_policy_applies_it_rests_on_what_was_read():
    text = lines(why(statement(certificate())))
    assert text[3].strip() == "no line of the policy applies"
    assert text[4].strip().startswith(evidence().id)


def test_a_verdict_below_its_ceiling_says_why():
    text = "\n".join(lines(why(statement(of_status(Status.DO_NOT_RECOMMEND)))))
    assert "below the ceiling: the interval starts below the threshold" in text
    assert "ceiling RECOMMEND (for)" in text


def test_long_lists_are_cut():
    many = tuple(finding(number, location=Location("examples/train.py", number)) for number in range(1, 101))
    text = lines(why(statement(certificate(findings=many))))
    assert len(text) < 70
    assert text[-1].strip() == "and 250 more lines, see the record"


@pytest.mark.parametrize("status", Status)
def test_every_status_has_its_reasons(status):
    text = lines(why(statement(of_status(status))))
    assert text[0].startswith(f"{status} (")
    assert len(text) > 3


def test_nothing_in_it_is_obeyed_by_a_terminal_and_every_entry_is_one_line():
    text = lines(why(statement(every_text(full(), "\x1b[2J\nAPPROVED\u202e\u2028x" * 40))))
    assert all(re.search("[\x00-\x1f\x7f-\x9f\u2028-\u202e]", line) is None for line in text)
    assert all(len(line) < 400 for line in text)
    assert [line for line in text if not line.startswith(" ")] == [text[0]]


def test_bytes_that_are_no_certificate_are_refused():
    with pytest.raises(IntegrityError):
        why(b"[]")
