from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esper_agents.certificates.notices import notice_statement
from esper_agents.certificates.signing.dsse import seal
from esper_agents.certificates.signing.key_history import LogNotice, key_history
from esper_agents.certificates.signing.signing_key import as_ssh, signing_key
from esper_agents.domain.notice import LogNoticeStatement, NoticeKind

ADDED, RETIRED, REVOKED = NoticeKind.KEY_ADDED, NoticeKind.KEY_RETIRED, NoticeKind.KEY_REVOKED


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return [signing_key(tmp_path_factory.mktemp("home")) for _ in range(5)]


def notice(index, signer, kind, key, reason="because"):
    made = LogNoticeStatement(
        f"ntc_{index:032x}", kind, "2026-01-31T09:30:00.000Z", "ann", reason, key=as_ssh(key.public_key)
    )
    return LogNotice(index, made, seal(signer, notice_statement(made)))


def good(history, key, size=12):
    return [index for index in range(size) if history.is_good(key.key_id, index)]


def test_a_key_that_is_trusted_directly_is_good_everywhere(keys):
    history = key_history([], [keys[0].public_key])
    assert good(history, keys[0]) == list(range(12))
    assert history.good_key(keys[0].key_id, 7) == keys[0].public_key


def test_a_key_that_nobody_brought_is_good_nowhere(keys):
    history = key_history([], [keys[0].public_key])
    assert good(history, keys[1]) == []
    assert history.good_key(keys[1].key_id, 0) is None
    assert "not trusted" in history.said(keys[1].key_id, 3)


def test_a_key_counts_after_a_good_one_brought_it(keys):
    old, new, *_ = keys
    history = key_history([notice(3, old, ADDED, new)], [old.public_key])
    assert good(history, new) == list(range(4, 12))
    assert "was added to the log after entry 2, at entry 3" in history.said(new.key_id, 2)


def test_a_key_that_brings_itself_does_not_count(keys):
    root, stranger, *_ = keys
    history = key_history([notice(3, stranger, ADDED, stranger)], [root.public_key])
    assert good(history, stranger) == []
    assert [each.index for each in history.ignored] == [3]


def test_keys_come_by_a_chain_and_only_from_trusted_ones(keys):
    root, second, third, stranger, friend = keys
    history = key_history(
        [
            notice(1, root, ADDED, second),
            notice(2, second, ADDED, third),
            notice(3, stranger, ADDED, friend),
        ],
        [root.public_key],
    )
    assert good(history, third) == list(range(3, 12))
    assert good(history, friend) == []
    assert [each.key_id for each in history.added_by(root.key_id)] == [second.key_id, third.key_id]


def test_a_retired_key_is_good_up_to_its_retirement(keys):
    old, new, *_ = keys
    history = key_history([notice(3, old, ADDED, new), notice(4, new, RETIRED, old)], [old.public_key])
    assert good(history, old) == [0, 1, 2, 3, 4]
    assert good(history, new) == list(range(4, 12))
    assert "retired at entry 4" in history.said(old.key_id, 9)


def test_what_a_revoked_key_signed_before_is_genuine_by_the_log_s_order_and_that_is_said(keys):
    old, new, *_ = keys
    history = key_history([notice(5, new, REVOKED, old, "stolen")], [old.public_key, new.public_key])
    assert good(history, old) == [0, 1, 2, 3, 4, 5]
    assert "authentic by log order only" in history.said(old.key_id, 2)
    assert "revoked at entry 5: stolen" in history.said(old.key_id, 6)


def test_a_key_that_was_retired_can_still_be_revoked_and_gains_nothing_by_it(keys):
    old, new, *_ = keys
    notices = [notice(3, new, RETIRED, old), notice(6, new, REVOKED, old, "stolen")]
    history = key_history(notices, [old.public_key, new.public_key])
    assert good(history, old) == [0, 1, 2, 3]
    assert history.spans[old.key_id].ended_by is REVOKED


def test_a_key_that_ended_does_not_come_back(keys):
    old, new, third, *_ = keys
    for end in (RETIRED, REVOKED):
        history = key_history([notice(3, new, end, old), notice(5, new, ADDED, old)], [old.public_key, new.public_key])
        assert good(history, old) == [0, 1, 2, 3]
        assert "cannot become valid again" in history.ignored[0].why
    notices = [notice(1, new, ADDED, third), notice(3, new, REVOKED, third), notice(5, new, ADDED, third)]
    assert good(key_history(notices, [new.public_key]), third) == [2, 3]


def test_a_retired_or_revoked_key_neither_brings_nor_ends_others(keys):
    old, new, third, *_ = keys
    for end in (RETIRED, REVOKED):
        notices = [notice(3, new, end, old), notice(4, old, ADDED, third), notice(5, old, REVOKED, new)]
        history = key_history(notices, [old.public_key, new.public_key])
        assert good(history, third) == []
        assert good(history, new) == list(range(12))
        assert [each.index for each in history.ignored] == [4, 5]


def test_a_key_may_revoke_itself(keys):
    history = key_history([notice(4, keys[0], REVOKED, keys[0])], [keys[0].public_key])
    assert good(history, keys[0]) == [0, 1, 2, 3, 4]


def test_what_a_stolen_key_brought_stays_good_and_is_named(keys):
    old, new, third, fourth, _ = keys
    notices = [notice(1, old, ADDED, third), notice(2, third, ADDED, fourth), notice(5, new, REVOKED, old)]
    history = key_history(notices, [old.public_key, new.public_key])
    assert good(history, third) == list(range(2, 12))
    assert {each.key_id for each in history.added_by(old.key_id)} == {third.key_id, fourth.key_id}


def test_a_revoked_key_vouches_for_no_checkpoint_however_small(keys):
    old, new, third, *_ = keys
    roots = [old.public_key, new.public_key]
    notices = [notice(3, new, ADDED, third), notice(5, new, REVOKED, old)]
    history = key_history(notices, roots)
    assert history.checkpoint_keys(1) == (new.public_key,)
    assert set(history.checkpoint_keys(5)) == {new.public_key, third.public_key}
    retired = key_history([notice(5, new, RETIRED, old)], roots)
    assert set(retired.checkpoint_keys(6)) == set(roots)
    assert retired.checkpoint_keys(7) == (new.public_key,)


def test_a_notice_without_its_signer_s_signature_counts_for_nothing(keys):
    root, stranger, *_ = keys
    forged = notice(3, stranger, ADDED, stranger)
    as_root = replace(forged, envelope=replace(forged.envelope, key_id=root.key_id))
    broken = notice(4, root, ADDED, stranger)
    bits = bytes([broken.envelope.signature[0] ^ 1]) + broken.envelope.signature[1:]
    history = key_history(
        [as_root, replace(broken, envelope=replace(broken.envelope, signature=bits))], [root.public_key]
    )
    assert good(history, stranger) == []
    assert [each.index for each in history.ignored] == [3, 4]
    assert all("signature" in each.why for each in history.ignored)


@pytest.mark.parametrize(
    "key", ["", "ssh-rsa AAAA", "ssh-ed25519 AAAA", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43, "x" * 10_000]
)
def test_a_notice_with_a_key_that_is_none_counts_for_nothing(keys, key):
    root = keys[0]
    made = LogNoticeStatement("ntc_" + "0" * 32, ADDED, "2026-01-31T09:30:00.000Z", "ann", "", key=key)
    for kind in (ADDED, RETIRED, REVOKED):
        entry = LogNotice(2, replace(made, kind=kind), seal(root, b"{}"))
        history = key_history([entry], [root.public_key])
        assert list(history.spans) == [root.key_id]
        assert [each.index for each in history.ignored] == [2]


def test_ending_a_key_that_was_never_good_changes_nothing(keys):
    root, stranger, *_ = keys
    history = key_history([notice(2, root, REVOKED, stranger)], [root.public_key])
    assert "never valid in this log" in history.ignored[0].why


def test_other_notices_are_passed_over(keys):
    root = keys[0]
    made = replace(notice(2, root, ADDED, keys[1]).notice, kind=NoticeKind.ROLLBACK_ACCEPTED)
    history = key_history([LogNotice(2, made, seal(root, b"{}"))], [root.public_key])
    assert (list(history.spans), history.ignored) == ([root.key_id], ())


ACTION = st.tuples(st.integers(0, 4), st.sampled_from([ADDED, RETIRED, REVOKED]), st.integers(0, 4))


@settings(max_examples=200)
@given(actions=st.lists(ACTION, max_size=12), roots=st.sets(st.integers(0, 4), max_size=2))
def test_a_key_is_good_exactly_where_a_slow_reading_of_the_log_says_so(keys, actions, roots):
    """The slow reading: a set of good keys, entry by entry."""
    log = [notice(index, keys[by], kind, keys[about]) for index, (by, kind, about) in enumerate(actions)]
    history = key_history(log, [keys[root].public_key for root in sorted(roots)])
    good_now, ended = set(roots), set()
    for index, (by, kind, about) in enumerate(actions):
        for number, key in enumerate(keys):
            assert history.is_good(key.key_id, index) == (number in good_now), (index, number)
        if by not in good_now:
            continue
        if kind is ADDED and about not in ended:
            good_now.add(about)
        elif kind is not ADDED and about in good_now:
            good_now.discard(about)
            ended.add(about)
    for number, key in enumerate(keys):
        assert history.is_good(key.key_id, len(actions)) == (number in good_now)
