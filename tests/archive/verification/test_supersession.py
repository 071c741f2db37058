from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest
from certificate_samples import of_status
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.archive.verification.supersession import by_notices, forged_notices, override_of
from esper_agents.certificates.notices import notice_statement
from esper_agents.certificates.signing.dsse import seal
from esper_agents.certificates.signing.key_history import LogNotice, key_history
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.certificates.statement import statement
from esper_agents.domain.notice import LogNoticeStatement, NoticeKind
from esper_agents.domain.status import QuestionType, Status, replacements, statuses_of

SAMPLES = {status: statement(of_status(status)) for status in Status}


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    return signing_key(tmp_path_factory.mktemp("home"))


def noticed(key, index, own, status, **changes):
    about = {"certificate": of_status(own).id, "certificate_sha256": sha256(SAMPLES[own]).hexdigest()}
    made = LogNoticeStatement(
        f"ntc_{index:032x}", NoticeKind.OVERRIDDEN, "2026-01-31T09:30:00.000Z", "ann", "so", **about, status=status
    )
    made = replace(made, **changes)
    return LogNotice(index, made, seal(key, notice_statement(made)))


@given(own=st.sampled_from(Status), said=st.lists(st.sampled_from(Status), max_size=6))
def test_whatever_was_said_the_last_status_of_its_kind_counts_and_never_an_emergency_stop(key, own, said):
    kind = of_status(own).verdict.kind
    notices = [noticed(key, index, own, status) for index, status in enumerate(said)]
    found = override_of(notices, SAMPLES[own], key_history((), [key.public_key]))
    fit = [each for each in said if each in statuses_of(kind) and each is not Status.EMERGENCY_STOP]
    if own is Status.EMERGENCY_STOP or not fit or fit[-1] is own:
        assert found is None
    else:
        row = statuses_of(kind)
        assert (found.status, found.is_better) == (fit[-1], row.index(fit[-1]) < row.index(own))


def test_of_overrides_whose_place_nobody_knows_the_latest_by_its_signed_time_counts(key):
    own, nowhere = Status.REJECTED, 2**62
    early = noticed(key, 1, own, Status.APPROVED, at="2026-01-31T09:30:00.000Z")
    late = noticed(key, 2, own, Status.NEEDS_FURTHER_REVIEW, at="2026-01-31T09:30:00.001Z")
    notices = [replace(each, index=nowhere) for each in (late, early)]
    found = override_of(notices, SAMPLES[own], key_history((), [key.public_key]))
    assert found.status is Status.NEEDS_FURTHER_REVIEW


def test_in_a_log_its_order_counts_and_no_clock(key):
    own = Status.REJECTED
    first = noticed(key, 1, own, Status.APPROVED, at="2036-01-31T09:30:00.000Z")
    second = noticed(key, 2, own, Status.NEEDS_FURTHER_REVIEW, at="2016-01-31T09:30:00.000Z")
    found = override_of([second, first], SAMPLES[own], key_history((), [key.public_key]))
    assert found.status is Status.NEEDS_FURTHER_REVIEW


def test_what_a_known_key_is_said_to_have_signed_and_did_not_is_named(key, tmp_path):
    whole = noticed(key, 1, Status.REJECTED, Status.APPROVED)
    changed = replace(whole.envelope, payload=whole.envelope.payload.replace(b"APPROVED", b"REJECTED"))
    stranger = noticed(signing_key(tmp_path / "stranger"), 2, Status.REJECTED, Status.APPROVED)
    keys = key_history((), [key.public_key])
    assert list(forged_notices([whole, stranger], keys)) == []
    assert list(forged_notices([replace(whole, envelope=changed)], keys)) == [whole.notice.id]


def test_an_override_of_other_bytes_does_not_count(key):
    own = Status.REJECTED
    other = noticed(key, 1, own, Status.APPROVED, certificate_sha256="0" * 64)
    assert override_of([other], SAMPLES[own], key_history((), [key.public_key])) is None


def test_a_revocation_counts_only_if_a_valid_key_signed_it(key, tmp_path):
    own, kind = Status.APPROVED, NoticeKind.CERTIFICATE_REVOKED
    keys = key_history((), [key.public_key])
    ours = noticed(key, 1, own, "", kind=kind)
    stranger = noticed(signing_key(tmp_path / "stranger"), 2, own, "", kind=kind)
    certificate = of_status(own).id
    assert [entry.by for entry in by_notices([stranger, ours], certificate, keys)] == [ours.notice.id]
    assert list(by_notices([ours], "crt_other", keys)) == []


@pytest.mark.parametrize("kind", QuestionType)
def test_a_row_of_statuses_has_each_once_from_best_to_worst(kind):
    row = statuses_of(kind)
    assert len(set(row)) == len(row)
    assert row[-1] is Status.EMERGENCY_STOP
    assert replacements(kind, Status.EMERGENCY_STOP) == ()
    assert replacements(kind, row[0]) == row[:-1]
