from __future__ import annotations

from dataclasses import replace

import pytest
from log_samples import PROJECT, leaf, notice_bytes, notice_id
from sqlalchemy import insert, select

from esper_agents.certificates.log import transparency_log
from esper_agents.certificates.log.audit_log import audit_log
from esper_agents.certificates.log.block_tree import BLOCK
from esper_agents.certificates.log.faults import MOST_OF_A_KIND
from esper_agents.certificates.log.note import Checkpoint, read_note, read_proof, signed_checkpoint
from esper_agents.certificates.log.transparency_log import Record
from esper_agents.certificates.signing.signing_key import load
from esper_agents.domain.notice import EntryKind
from esper_agents.storage.tables import log_entry


@pytest.fixture
def grown(archive):
    archive.grow(6)
    archive.certify()
    return archive


def forget(archive):
    """Remove the pin, as if the attacker had been there, too."""
    archive.pin.unlink()


def named(archive, published=()):
    return {(fault.kind, fault.where) for fault in archive.audit(published).faults}


def test_a_log_that_is_whole_has_no_faults(grown):
    found = grown.audit()
    assert (found.size, found.faults, found.counts, found.is_pinned) == (7, (), {}, True)
    assert found.origin.startswith("urn:uuid:")


def test_a_database_without_a_log_has_no_faults(archive):
    found = archive.audit()
    assert (found.origin, found.size, found.faults, found.is_pinned) == ("", 0, (), False)


@pytest.mark.sample(3)
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_newest_deleted_are_named_with_and_without_the_pin(grown, count):
    grown.sql(f"DELETE FROM log_entry WHERE idx >= {7 - count}")
    assert "newest-deleted" in grown.kinds()
    forget(grown)
    assert "newest-deleted" in grown.kinds()


def test_the_newest_deleted_with_their_nodes_are_named(grown):
    grown.sql("DELETE FROM log_entry WHERE idx >= 5")
    grown.rebuild()
    forget(grown)
    assert ("newest-deleted", "checkpoint of 7") in named(grown)


def test_the_newest_deleted_and_the_checkpoint_with_them_are_missed_by_a_published_proof(grown):
    with grown.store.reading() as connection:
        published = read_proof(transparency_log.proof(connection, grown.log_id, notice_id(0))).note
    grown.sql("DELETE FROM log_entry WHERE idx >= 5")
    grown.rebuild(key=grown.key)
    assert grown.kinds() & {"rolled-back"}
    forget(grown)
    grown.remove("crt_" + "0" * 32)
    assert not grown.kinds()
    assert named(grown, [("docs/one.tlog-proof", published)]) == {("newest-deleted", "docs/one.tlog-proof")}


def test_an_emptied_log_is_named(grown):
    grown.sql("DELETE FROM log_entry", "DELETE FROM log_node", "DELETE FROM log_checkpoint")
    assert "emptied" in grown.kinds()


def test_one_removed_from_the_middle_is_named_by_its_place(grown):
    grown.sql("DELETE FROM log_entry WHERE idx = 2")
    assert named(grown) == {("middle-removed", "entry 2")}


@pytest.mark.sample(2)
@pytest.mark.parametrize("removed", [0, 2, 5])
def test_one_removed_from_the_middle_is_named_though_the_others_moved_up(grown, removed):
    grown.renumber([each for each in range(7) if each != removed])
    assert ("middle-removed", f"entry {removed}") in named(grown)
    assert not grown.kinds() & {"reordered", "entry-changed", "duplicated"}


def test_one_removed_and_everything_rebuilt_is_contradicted_by_the_checkpoint_and_the_pin(grown):
    grown.renumber([0, 1, 3, 4, 5, 6])
    grown.rebuild()
    assert {"newest-deleted"} <= grown.kinds()
    grown.rebuild(key=grown.key)
    assert grown.kinds() & {"rolled-back", "newest-deleted", "forked"}


def test_two_that_changed_places_are_named(grown):
    grown.renumber([0, 4, 2, 3, 1, 5, 6])
    assert named(grown) == {("reordered", "entry 1"), ("reordered", "entry 4")}


def test_three_that_changed_places_in_a_circle_are_named(grown):
    grown.renumber([0, 2, 3, 1, 4, 5, 6])
    assert named(grown) == {("reordered", "entry 1"), ("reordered", "entry 2"), ("reordered", "entry 3")}


def test_two_that_changed_places_are_named_though_everything_was_rebuilt(grown):
    for idx in range(7):
        grown.sql(f"UPDATE log_entry SET at = '2026-01-0{idx + 1}T00:00:00.000Z' WHERE idx = {idx}")
    grown.renumber([0, 4, 2, 3, 1, 5, 6])
    grown.rebuild()
    assert {"forked", "reordered"} <= grown.kinds()
    forget(grown)
    assert {"checkpoint-contradicted", "reordered"} <= grown.kinds()


def duplicate(archive, idx, at):
    with archive.store.writing() as transaction:
        found = transaction.connection.execute(select(log_entry).where(log_entry.c.idx == idx)).one()._asdict()
        again = {**found, "idx": at, "record_id": "ntc_" + "f" * 32}
        transaction.connection.execute(insert(log_entry), [again])


def test_one_entered_twice_is_named(grown):
    duplicate(grown, 3, 7)
    assert ("duplicated", "entry 7") in named(grown)
    assert "not-covered" in grown.kinds()


def test_one_entered_twice_is_named_though_everything_was_rebuilt(grown):
    duplicate(grown, 3, 7)
    grown.rebuild()
    assert named(grown) >= {("duplicated", "entry 7"), ("not-covered", "entry 7")}


def test_one_put_in_the_place_of_another_is_named(grown):
    grown.sql("DELETE FROM log_entry WHERE idx = 5")
    duplicate(grown, 1, 5)
    assert named(grown) == {("duplicated", "entry 5")}


def test_an_older_copy_restored_and_then_used_is_named(grown):
    older = grown.rows()
    grown.grow(2)
    grown.put_back(older)
    assert grown.kinds() == {"rolled-back"}
    for each in range(3):
        with grown.store.writing() as transaction:
            record = Record(notice_id(1000 + each), EntryKind.NOTICE, "", notice_bytes(1000 + each))
            transparency_log.append(transaction, grown.key, PROJECT.key, record)
    assert grown.kinds() == {"forked"}


def test_a_leaf_hash_that_was_changed_is_named(grown, backend):
    other = "'\\x{}'::bytea" if backend == "postgresql" else "x'{}'"
    grown.sql(f"UPDATE log_entry SET leaf_hash = {other.format('ab' * 32)} WHERE idx = 4")
    assert named(grown) == {("entry-changed", "entry 4")}


@pytest.mark.sample(3)
@pytest.mark.parametrize(("level", "idx"), [(0, 3), (0, 6), (1, 1), (2, 0)])
def test_a_node_that_was_changed_is_named(grown, backend, level, idx):
    other = "'\\x{}'::bytea" if backend == "postgresql" else "x'{}'"
    value = other.format("ab" * 32)
    grown.sql(f"UPDATE log_node SET hash = {value} WHERE level = {level} AND idx = {idx}")
    found = named(grown)
    # The last of an odd number stands under no node: nothing says whether it or its entry was changed.
    last = {("entry-changed", "entry 6"), ("forked", "pin"), ("checkpoint-contradicted", "checkpoint of 7")}
    assert ("node-changed", f"node {idx} on level {level}") in found or (idx == 6 and found & last)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("level", "idx"), [(0, 3), (0, 6), (1, 1), (2, 0)])
def test_a_node_that_is_missing_is_named(grown, level, idx):
    grown.sql(f"DELETE FROM log_node WHERE level = {level} AND idx = {idx}")
    assert ("node-missing", f"node {idx} on level {level}") in named(grown)


def test_a_node_too_many_is_named(grown):
    grown.sql(
        "INSERT INTO log_node (log_id, level, idx, hash)"
        " SELECT log_id, 5, 0, hash FROM log_node WHERE level = 0 AND idx = 0"
    )
    assert grown.kinds() == {"node-left-over"}


def test_a_missing_checkpoint_is_named(grown):
    grown.sql("DELETE FROM log_checkpoint")
    assert grown.kinds() == {"checkpoint-missing"}


@pytest.mark.sample(2)
@pytest.mark.parametrize("change", ["note = 'nothing'", "size = 6", "note = replace(note, '7', '6')"])
def test_a_changed_checkpoint_is_named(grown, change):
    grown.sql(f"UPDATE log_checkpoint SET {change}")
    assert grown.kinds() & {"checkpoint-changed", "unknown-key"}


def test_a_checkpoint_of_a_stranger_is_named(grown, tmp_path):
    stranger = stranger_key(tmp_path)
    grown.rebuild(key=stranger)
    assert named(grown) == {("unknown-key", "checkpoint of 7")}


def test_a_published_checkpoint_of_another_history_is_named(grown):
    origin = grown.audit().origin
    forked = read_note(signed_checkpoint(Checkpoint(origin, 3, b"\x07" * 32), grown.key))
    assert named(grown, [("docs/one.tlog-proof", forked)]) == {("forked", "docs/one.tlog-proof")}


def test_published_checkpoints_of_this_history_another_log_or_a_stranger_are_no_fault(grown, tmp_path):
    origin, wrong = grown.audit().origin, b"\x07" * 32
    notes = [
        *(each.checkpoint_note for each in grown.logged),
        signed_checkpoint(Checkpoint("example.org/other", 99, wrong), grown.key),
        signed_checkpoint(Checkpoint(origin, 99, wrong), stranger_key(tmp_path)),
    ]
    assert not grown.kinds([("somewhere", read_note(note)) for note in notes])


def stranger_key(folder):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    file = folder / "stranger.pem"
    private = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.touch(mode=0o600)
    file.write_bytes(private)
    return load(file)


def test_a_certificate_that_was_removed_is_named_and_so_is_one_that_was_slipped_in(grown):
    grown.remove("crt_" + "0" * 32)
    assert named(grown) == {("certificate-removed", "crt_" + "0" * 32)}
    second = grown.certify(1)
    grown.sql(f"UPDATE log_entry SET record_id = 'crt_{'0' * 31}2' WHERE record_id = '{second}'")
    assert ("certificate-not-logged", second) in named(grown)


def test_what_somebody_wrote_into_the_database_is_shown_as_text(grown):
    grown.remove("crt_" + "0" * 32)
    grown.sql("UPDATE log_entry SET record_id = '\x1b[31mcrt' WHERE idx = 6")
    assert named(grown) == {("certificate-removed", r"'\x1b[31mcrt'")}


@pytest.mark.sample(2)
@pytest.mark.parametrize("far", [10**9, 2**62])
def test_an_entry_far_beyond_the_others_does_not_make_the_audit_endless(grown, far):
    grown.sql(f"UPDATE log_entry SET idx = {far} WHERE idx = 6")
    found = grown.audit()
    assert found.size == 7 + BLOCK
    assert found.counts["middle-removed"] > 1


def test_an_entry_before_the_first_is_named(grown):
    grown.sql("UPDATE log_entry SET idx = -1 WHERE idx = 6")
    assert ("reordered", "entry -1") in named(grown)


def test_of_many_faults_of_one_kind_some_are_listed_and_all_are_counted(archive):
    archive.grow(60)
    archive.sql("DELETE FROM log_entry WHERE idx % 2 = 0")
    found = archive.audit()
    assert found.counts["middle-removed"] == 30
    assert len(found.faults) == MOST_OF_A_KIND


@pytest.mark.slow
def test_a_log_of_several_blocks_is_audited_to_its_end(archive):
    archive.grow(1)
    size = 2 * BLOCK + 3
    with archive.store.writing() as transaction:
        row = transaction.connection.execute(select(log_entry)).one()._asdict()
        leaves = [{**row, "idx": each, "record_id": notice_id(each), "leaf_hash": leaf(each)} for each in range(size)]
        transaction.connection.execute(insert(log_entry), leaves[1:])
    archive.rebuild(key=archive.key)
    assert not archive.kinds()
    archive.sql(f"DELETE FROM log_entry WHERE idx = {2 * BLOCK}")
    archive.sql(f"DELETE FROM log_node WHERE level = {BLOCK.bit_length()} AND idx = 0")
    found = {(fault.kind, fault.where) for fault in archive.audit().faults}
    assert ("middle-removed", f"entry {2 * BLOCK}") in found
    assert ("node-missing", f"node 0 on level {BLOCK.bit_length()}") in found


def test_the_audit_tells_which_store_it_looked_at(grown):
    other = audit_log(grown.store, grown.home / "nobody", PROJECT.key, [grown.key.public_key])
    assert not other.is_pinned
    assert replace(other, is_pinned=True) == grown.audit()
