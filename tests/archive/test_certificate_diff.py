"""What changed between two certificates: findings by fingerprint, files by digest, numbers by name."""

from __future__ import annotations

from dataclasses import replace

import pytest
from archive_samples import found, made
from certificate_samples import critical, evidence, source
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.archive.certificate_diff import diff_certificates
from esper_agents.domain.finding import Location
from esper_agents.domain.status import Status
from esper_agents.errors import UsageError


def with_findings(number, prints):
    each = (
        replace(found(n, "ESP301", "a.py", n + 1), claim=replace(critical(n).claim, fingerprint=p)) for n, p in prints
    )
    return made(number, findings=tuple(each))


def prints(findings):
    return [finding.claim.fingerprint for finding in findings]


def test_a_certificate_does_not_differ_from_itself() -> None:
    same = made(1, findings=(critical(1), critical(2)))
    found_now = diff_certificates(same, same)
    assert (found_now.gone, found_now.new, found_now.files, found_now.numbers) == ((), (), (), ())
    assert found_now.still == same.findings
    assert found_now.same_files == 1


@given(st.sets(st.sampled_from("abcdef")), st.sets(st.sampled_from("abcdef")))
def test_every_finding_is_gone_new_or_still_there(before, after) -> None:
    one = with_findings(1, list(enumerate(sorted(before), 1)))
    other = with_findings(2, list(enumerate(sorted(after), 1)))
    found_now = diff_certificates(one, other)
    assert set(prints(found_now.gone)) == before - after
    assert set(prints(found_now.new)) == after - before
    assert set(prints(found_now.still)) == before & after
    back = diff_certificates(other, one)
    assert (back.gone, back.new) == (found_now.new, found_now.gone)


def test_a_finding_whose_line_moved_is_still_there_at_its_new_line() -> None:
    old = critical(1)
    moved = replace(old, claim=replace(old.claim, location=Location("examples/train.py", 70, 9, 70)))
    (still,) = diff_certificates(made(1, findings=(old,)), made(2, findings=(moved,))).still
    assert still.claim.location.line == 70


def test_the_verdict_and_what_policy_allowed_are_compared() -> None:
    found_now = diff_certificates(made(1, findings=(critical(1),)), made(2))
    assert (found_now.status.before, found_now.status.after) == (
        Status.REQUIRES_REMEDIATION,
        found_now.after.verdict.status,
    )
    assert found_now.ceiling.before is Status.REQUIRES_REMEDIATION


def test_files_are_compared_by_digest_also_those_of_one_side_only() -> None:
    one = made(1, examined=(source("a.py", "1"), source("b.py", "1"), source("c.py", "1")))
    other = made(2, examined=(source("a.py", "1"), source("b.py", "2"), source("d.py", "1")))
    found_now = diff_certificates(one, other)
    assert found_now.same_files == 1
    assert [(file.path, len(file.before), len(file.after)) for file in found_now.files] == [
        ("b.py", 1, 1),
        ("c.py", 1, 0),
        ("d.py", 0, 1),
    ]


def test_numbers_are_compared_by_name_with_how_many_times_as_much_it_is() -> None:
    def ran(number, *amounts):
        calls = (evidence(at, tool="bench", output={"p50_ms": each}) for at, each in enumerate(amounts, 1))
        return made(number, evidence=tuple(calls))

    (change,) = diff_certificates(ran(1, 2.0), ran(2, 3.0)).numbers
    assert (change.name, change.before, change.after, change.ratio) == ("bench/p50_ms", (2.0,), (3.0,), 1.5)
    (change,) = diff_certificates(ran(1, 0.0), ran(2, 3.0)).numbers
    assert change.ratio is None
    (change,) = diff_certificates(ran(1, 1.0, 2.0), ran(2)).numbers
    assert (change.before, change.after, change.ratio) == ((1.0, 2.0), (), None)


def test_certificates_of_two_components_are_not_compared() -> None:
    with pytest.raises(UsageError, match="judges 'model'") as refused:
        diff_certificates(made(1, component="train"), made(2, component="model"))
    assert refused.value.remedy.endswith("esper certificates list --component model")
