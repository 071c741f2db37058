from __future__ import annotations

import pytest
from log_samples import PROJECT

from esper_agents.certificates.log import pins, transparency_log
from esper_agents.certificates.log.rebuild import LogRebuildResult, rebuild_log
from esper_agents.errors import IntegrityError


@pytest.fixture
def grown(archive):
    archive.grow(7)
    return archive


def mended(archive, **options):
    pin = pins.pinned(archive.home, archive.store.where, PROJECT.key)
    with archive.store.writing() as transaction:
        return rebuild_log(transaction, PROJECT.key, archive.key, [archive.key.public_key], pin=pin, **options)


def test_a_log_that_is_whole_is_left_alone(grown):
    before = grown.rows()
    assert mended(grown) == LogRebuildResult(0, is_signed=False)
    assert mended(grown, accepts_loss=True) == LogRebuildResult(0, is_signed=False)
    assert grown.rows() == before


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("DELETE FROM log_node", LogRebuildResult(11, is_signed=False)),
        ("DELETE FROM log_node WHERE level = 1", LogRebuildResult(3, is_signed=False)),
        (
            "UPDATE log_node SET hash = leaf_hash FROM log_entry WHERE log_entry.idx = 6",
            LogRebuildResult(10, is_signed=False),
        ),
        (
            "INSERT INTO log_node (log_id, level, idx, hash) SELECT log_id, 40, idx, leaf_hash FROM log_entry",
            LogRebuildResult(7, is_signed=False),
        ),
        ("DELETE FROM log_checkpoint", LogRebuildResult(0, is_signed=True)),
        ("UPDATE log_checkpoint SET note = 'nothing'", LogRebuildResult(0, is_signed=True)),
        ("UPDATE log_checkpoint SET size = 3", LogRebuildResult(0, is_signed=True)),
    ],
)
def test_what_entries_vouch_for_is_made_again_byte_for_byte_and_the_second_time_changes_nothing(grown, damage, found):
    before = grown.rows()
    grown.sql(damage)
    assert mended(grown) == found
    after = grown.rows()
    assert {name: after[name] for name in ("log_node", "log_entry")} == {
        name: before[name] for name in ("log_node", "log_entry")
    }
    assert [each.note for each in after["log_checkpoint"]] == [each.note for each in before["log_checkpoint"]]
    assert mended(grown) == LogRebuildResult(0, is_signed=False)
    assert grown.rows() == after
    assert not grown.kinds()


@pytest.mark.parametrize(
    "attack", ["DELETE FROM log_entry WHERE idx >= 5", "UPDATE log_entry SET leaf_hash = signature WHERE idx = 2"]
)
def test_lost_or_changed_entries_are_not_signed_for_unless_a_person_accepts_it(grown, attack):
    grown.sql(attack)
    before = grown.rows()
    with pytest.raises(IntegrityError, match="inconsistent with the signed or pinned checkpoint of 7 entries"):
        mended(grown)
    assert grown.rows() == before
    assert mended(grown, accepts_loss=True).is_signed
    with grown.store.reading() as connection:
        pins.accept(
            grown.home, grown.store.where, PROJECT.key, transparency_log.latest_checkpoint(connection, grown.log_id)
        )
    assert not grown.kinds()
    grown.sql("UPDATE log_entry SET record_id = 'ntc_other' WHERE idx = 4")
    grown.grow(1)
    assert not grown.kinds()


def test_entries_that_nobody_vouches_for_are_not_signed_for(grown):
    grown.sql("DELETE FROM log_checkpoint")
    grown.pin.unlink()
    with pytest.raises(IntegrityError, match="no checkpoint or pin covers the 7 stored entries"):
        mended(grown)


def test_a_hole_in_the_middle_is_not_mended(grown):
    grown.sql("DELETE FROM log_entry WHERE idx = 3")
    for accepts_loss in (False, True):
        with pytest.raises(IntegrityError, match="in the middle of the log") as caught:
            mended(grown, accepts_loss=accepts_loss)
        assert caught.value.remedy == "restore a backup"


def test_a_log_that_was_emptied_begins_again_only_when_a_person_accepts_it(grown):
    grown.sql("DELETE FROM log_entry")
    with pytest.raises(IntegrityError):
        mended(grown)
    assert mended(grown, accepts_loss=True) == LogRebuildResult(12, is_signed=False)
    with grown.store.reading() as connection:
        assert transparency_log.latest_checkpoint(connection, grown.log_id) == ""
