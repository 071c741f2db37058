from __future__ import annotations

import threading

import pytest
from log_samples import PROJECT, notice_bytes, notice_id
from sqlalchemy import text

from esper_agents.certificates.log import merkle, transparency_log
from esper_agents.certificates.log.note import includes, is_signed_by, read_checkpoint, read_note, read_proof
from esper_agents.certificates.log.transparency_log import Record
from esper_agents.certificates.signing.dsse import envelope_bytes
from esper_agents.certificates.signing.dsse import is_signed_by as is_sealed_by
from esper_agents.domain.notice import EntryKind
from esper_agents.errors import IntegrityError, NotFoundError
from esper_agents.storage.store import Store


def test_every_record_is_proved_by_the_newest_checkpoint(archive):
    archive.grow(6)
    certified = archive.certify()
    with archive.store.reading() as connection:
        head = read_checkpoint(read_note(transparency_log.latest_checkpoint(connection, archive.log_id)))
        assert (head.size, head.root) == (7, archive.logged[-1].root)
        for record_id in (*(notice_id(each) for each in range(6)), certified):
            proof, sealed = (
                read_proof(transparency_log.proof(connection, archive.log_id, record_id)),
                transparency_log.envelope(connection, archive.log_id, record_id),
            )
            assert proof.checkpoint == head
            assert includes(proof, envelope_bytes(sealed))
            assert is_signed_by(proof.note, transparency_log.origin(connection, archive.log_id), archive.key.public_key)
            assert is_sealed_by(sealed, archive.key.public_key)


def test_what_was_logged_says_where_it_stands(archive):
    archive.grow(3)
    assert [(each.idx, each.size) for each in archive.logged] == [(0, 1), (1, 2), (2, 3)]
    with archive.store.reading() as connection:
        entry = transparency_log.entry(connection, archive.log_id, notice_id(1))
        assert transparency_log.latest_checkpoint(connection, archive.log_id) == archive.logged[-1].checkpoint_note
        assert transparency_log.size(connection, archive.log_id) == 3
    assert (entry.idx, entry.kind, entry.project_key) == (1, EntryKind.NOTICE, PROJECT.key)
    assert (entry.statement, entry.key_id) == (notice_bytes(1), archive.key.key_id)


def test_a_log_is_consistent_with_each_of_its_earlier_checkpoints(archive):
    archive.grow(9)
    last = archive.logged[-1]
    with archive.store.reading() as connection:
        read = transparency_log.reader(connection, archive.log_id)
        for each in archive.logged:
            proof = merkle.consistency(each.size, last.size, read)
            assert merkle.check_consistency(each.size, each.root, last.size, last.root, proof)


def test_only_the_newest_checkpoint_is_kept_so_that_nobody_can_cut_the_log_off_at_an_older_one(archive):
    archive.grow(3)
    with archive.store.reading() as connection:
        assert connection.execute(text("SELECT size FROM log_checkpoint")).scalars().all() == [3]


def test_a_transaction_that_fails_enters_nothing(archive):
    archive.grow(1)
    before = archive.rows()

    def half_way():
        with archive.store.writing() as transaction:
            transparency_log.append(
                transaction, archive.key, PROJECT.key, Record(notice_id(1), EntryKind.NOTICE, "", b"{}")
            )
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half_way()
    assert archive.rows() == before


def test_two_logs_have_two_names(archive, home, tmp_path):
    from log_samples import Archive
    from sqlalchemy import URL

    archive.grow(1)
    other = Archive(Store(URL.create("sqlite", database=str(tmp_path / "other.db"))), home)
    other.grow(1)
    with archive.store.reading() as one, other.store.reading() as two:
        assert transparency_log.origin(one, archive.log_id).startswith("urn:uuid:")
        assert transparency_log.origin(one, archive.log_id) != transparency_log.origin(two, other.log_id)
    other.store.close()


def test_appending_from_many_threads_gives_one_log_without_a_gap(archive, database):
    stores, errors = [Store(database) for _ in range(4)], []

    def write(number, store):
        try:
            for each in range(5):
                record = Record(notice_id(number * 100 + each), EntryKind.NOTICE, "", notice_bytes(number))
                with store.writing() as transaction:
                    transparency_log.append(transaction, archive.key, PROJECT.key, record)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not be
            errors.append(error)

    threads = [threading.Thread(target=write, args=each) for each in enumerate(stores)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for each in stores:
        each.close()
    assert not errors
    assert archive.size == 20
    assert not archive.kinds()


def test_notices_are_listed_oldest_first_all_of_them_and_those_about_a_certificate(archive):
    certified = archive.certify()
    archive.grow(1)
    archive.enter(Record(notice_id(7), EntryKind.NOTICE, certified, notice_bytes(7)))
    with archive.store.reading() as connection:
        assert [notice.idx for notice in transparency_log.notices(connection, archive.log_id)] == [1, 2]
        (about,) = transparency_log.notices_about(connection, archive.log_id, certified)
    assert about.record_id == notice_id(7)


def test_what_was_never_entered_is_not_found(archive):
    with archive.store.reading() as connection:
        assert (transparency_log.log_of(connection, PROJECT.key), transparency_log.logs(connection)) == (0, {})
        assert (
            transparency_log.origin(connection, 0),
            transparency_log.size(connection, 0),
            transparency_log.latest_checkpoint(connection, 0),
        ) == ("", 0, "")
        for read in (transparency_log.entry, transparency_log.envelope, transparency_log.proof):
            with pytest.raises(NotFoundError, match="crt_x"):
                read(connection, 0, "crt_x")


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "attack",
    [
        "UPDATE certificate SET statement = CAST('{}' AS {bytes})",
        "UPDATE log_entry SET signature = CAST('no' AS {bytes})",
        "UPDATE log_entry SET key_id = 'SHA256:another'",
    ],
)
def test_an_envelope_that_is_not_what_was_entered_is_refused(archive, backend, attack):
    certified = archive.certify()
    archive.sql(attack.format("{}", bytes="BYTEA" if backend == "postgresql" else "BLOB"))
    with archive.store.reading() as connection, pytest.raises(IntegrityError, match="does not match its log entry"):
        transparency_log.envelope(connection, archive.log_id, certified)


def test_the_envelope_of_a_certificate_that_was_removed_is_refused(archive):
    certified = archive.certify()
    archive.remove(certified)
    with archive.store.reading() as connection, pytest.raises(IntegrityError, match="does not match its log entry"):
        transparency_log.envelope(connection, archive.log_id, certified)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "attack",
    [
        "DELETE FROM log_entry WHERE idx = 2",
        "DELETE FROM log_entry",
        "DELETE FROM log_checkpoint",
        "UPDATE log SET origin = 'example.org/other'",
        "UPDATE log_checkpoint SET size = 9, note = ''",
    ],
)
def test_nothing_is_appended_to_a_log_that_is_not_the_one_of_its_checkpoint(archive, attack):
    archive.grow(3)
    archive.sql(attack)
    before = archive.rows()
    record = Record(notice_id(3), EntryKind.NOTICE, "", b"{}")
    with pytest.raises(IntegrityError), archive.store.writing() as transaction:
        transparency_log.append(transaction, archive.key, PROJECT.key, record)
    assert archive.rows() == before


def test_a_kind_that_does_not_exist_is_refused(archive):
    archive.grow(1)
    archive.sql("UPDATE log_entry SET kind = 'verdict'")
    with archive.store.reading() as connection, pytest.raises(IntegrityError, match="has an unknown kind"):
        transparency_log.entry(connection, archive.log_id, notice_id(0))


def test_a_proof_without_its_nodes_is_refused(archive):
    archive.grow(4)
    archive.sql("DELETE FROM log_node WHERE level = 1 AND idx = 1")
    with archive.store.reading() as connection, pytest.raises(IntegrityError, match="no node 1 on level 1"):
        transparency_log.proof(connection, archive.log_id, notice_id(0))


def test_a_proof_without_a_checkpoint_is_refused(archive):
    archive.grow(4)
    archive.sql("DELETE FROM log_checkpoint")
    with archive.store.reading() as connection, pytest.raises(IntegrityError):
        transparency_log.proof(connection, archive.log_id, notice_id(0))
