from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest
from log_samples import PROJECT, Archive, notice_id
from sqlalchemy import URL, delete, insert, update

from esper_agents.certificates.log import pins, transparency_log
from esper_agents.certificates.log.note import Checkpoint, signed_checkpoint
from esper_agents.certificates.log.transparency_log import Record
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.domain.notice import EntryKind
from esper_agents.errors import BusyError, ExitCode, IntegrityError, StorageError
from esper_agents.storage import locks
from esper_agents.storage.store import Store
from esper_agents.storage.tables import log_checkpoint

WHERE = "/somewhere/esper.db"


def note(size, key, origin="example.org/log"):
    return signed_checkpoint(Checkpoint(origin, size, size.to_bytes(32, "big")), key)


@pytest.fixture
def key(home):
    return signing_key(home)


@pytest.fixture
def file(archive):
    return pins.pin_file(archive.home, archive.store.where, PROJECT.key)


def test_what_was_appended_is_pinned_outside_the_database_and_readable_by_its_owner_alone(archive):
    archive.grow(3)
    file = pins.pin_file(archive.home, archive.store.where, PROJECT.key)
    assert file.parent == archive.home / "pins"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert file.read_text() == archive.logged[-1].checkpoint_note
    assert pins.pinned(archive.home, archive.store.where, PROJECT.key).size == 3
    assert archive.check_pin() == []


def test_without_a_pin_there_is_nothing_to_contradict(archive):
    assert archive.check_pin() == []
    assert pins.pinned(archive.home, archive.store.where, PROJECT.key) is None
    assert pins.pinned_note(archive.home, archive.store.where, PROJECT.key) == ""


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("attack", "named"),
    [
        (["DELETE FROM log_entry WHERE idx >= 3"], "newest-deleted"),
        (["DELETE FROM log_entry WHERE idx >= 3", "DELETE FROM log_checkpoint"], "newest-deleted"),
        (["DELETE FROM log_entry"], "emptied"),
        (["DELETE FROM log_entry", "DELETE FROM log_node", "DELETE FROM log_checkpoint"], "emptied"),
        (
            ["DELETE FROM log_entry", "DELETE FROM log_node", "DELETE FROM log_checkpoint", "DELETE FROM log"],
            "database-deleted",
        ),
        (["UPDATE log SET origin = 'example.org/other'"], "replaced"),
        (["DELETE FROM log_node"], "node-missing"),
    ],
)
def test_what_a_log_lost_is_named_and_nothing_is_appended_to_it(archive, attack, named):
    archive.grow(5)
    archive.sql(*attack)
    assert archive.check_pin() == [named]
    with pytest.raises(IntegrityError, match=named) as caught:
        archive.grow(1)
    assert caught.value.exit_code == ExitCode.TAMPERED == 7
    assert "esper certificates repair --accept-rollback" in caught.value.remedy


def test_an_older_copy_that_was_restored_is_named(archive):
    archive.grow(3)
    older = archive.rows()
    archive.grow(2)
    archive.put_back(older)
    assert archive.check_pin() == ["rolled-back"]
    with pytest.raises(IntegrityError, match="older copy"):
        archive.grow(1)


@pytest.mark.sample(2)
@pytest.mark.parametrize("more", [2, 3, 9])
def test_an_older_copy_that_was_restored_and_then_used_is_named(archive, more):
    archive.grow(3)
    older = archive.rows()
    archive.grow(2)
    archive.put_back(older)
    append_elsewhere(archive, more)
    assert archive.check_pin() == ["forked"]
    with pytest.raises(IntegrityError, match="rolled back and then extended"):
        archive.grow(1)


def test_a_database_that_was_deleted_is_named_when_a_new_one_is_in_its_place(home, tmp_path):
    where = tmp_path / "esper.db"
    url = URL.create("sqlite", database=str(where))
    first = Archive(Store(url), home)
    first.grow(2)
    first.store.close()
    for path in tmp_path.glob("esper.db*"):
        path.unlink()
    second = Archive(Store(url), home)
    assert second.check_pin() == ["database-deleted"]
    with pytest.raises(IntegrityError, match="the database has no log"):
        second.grow(1)
    second.store.close()


def test_an_accepted_rollback_pins_what_is_there(archive):
    archive.grow(3)
    older = archive.rows()
    archive.grow(2)
    archive.put_back(older)
    pins.accept(archive.home, archive.store.where, PROJECT.key, older["log_checkpoint"][0].note)
    assert archive.check_pin() == []
    archive.grow(1)
    assert archive.check_pin() == []


def append_elsewhere(archive, count, statement=b"{}"):
    """Append as another home would, which has no pin of this database."""
    for each in range(count):
        with archive.store.writing() as transaction:
            record = Record(notice_id(1000 + each), EntryKind.NOTICE, "", statement)
            transparency_log.append(transaction, archive.key, PROJECT.key, record)


def test_a_pin_follows_a_log_that_others_wrote_to_and_none_that_was_rolled_back_and_used(archive):
    archive.grow(3)
    older = archive.rows()
    append_elsewhere(archive, 2)
    archive.renew()
    assert pins.pinned(archive.home, archive.store.where, PROJECT.key).size == 5
    archive.put_back(older)
    for _ in range(2):
        archive.renew()
        assert archive.check_pin() == ["rolled-back"]
    archive.put_back(older)
    append_elsewhere(archive, 4, b"[]")
    archive.renew()
    assert archive.check_pin() == ["forked"]


def test_a_stored_checkpoint_that_is_not_of_the_log_is_not_pinned(archive):
    archive.grow(3)
    archive.pin.unlink()
    wrong = note(3, archive.key, archive.logged[0].checkpoint_note.partition("\n")[0])
    for each in (wrong, note(3, archive.key), "nothing"):
        with archive.store.writing() as transaction:
            transaction.connection.execute(update(log_checkpoint).values(note=each))
        archive.renew()
        assert pins.pinned(archive.home, archive.store.where, PROJECT.key) is None


def test_a_pin_goes_forward_only(archive):
    archive.grow(3)
    older = archive.rows()["log_checkpoint"]
    archive.grow(4)
    newest = pins.pinned_note(archive.home, archive.store.where, PROJECT.key)
    with archive.store.writing() as transaction:
        transaction.connection.execute(delete(log_checkpoint))
        transaction.connection.execute(insert(log_checkpoint), [each._asdict() for each in older])
    archive.renew()
    assert pins.pinned_note(archive.home, archive.store.where, PROJECT.key) == newest
    assert pins.pinned(archive.home, archive.store.where, PROJECT.key).size == 7


def test_a_pin_is_of_one_log(archive, file, key):
    archive.grow(3)
    other = note(1, key)
    file.write_text(other)
    archive.renew()
    assert file.read_text() == other
    with pytest.raises(IntegrityError, match=r"pinned log is 'example.org/log'"):
        archive.grow(1)


@pytest.mark.sample(3)
@pytest.mark.parametrize("damage", [b"\n", b"\x00" * 200, b"not a note\n", b"x" * 2**20])
def test_a_damaged_pin_is_named_and_stops_who_would_append(archive, file, damage):
    archive.grow(2)
    file.write_bytes(damage)
    assert archive.check_pin() == ["pin-damaged"]
    assert pins.pinned_note(archive.home, archive.store.where, PROJECT.key) == ""
    with pytest.raises(IntegrityError, match="damaged"):
        archive.grow(1)
    archive.renew()
    assert file.read_bytes() == damage


def test_an_empty_pin_as_a_power_cut_may_leave_it_is_none(archive, file):
    archive.grow(2)
    file.write_bytes(b"")
    assert pins.pinned(archive.home, archive.store.where, PROJECT.key) is None
    archive.grow(1)
    assert pins.pinned(archive.home, archive.store.where, PROJECT.key).size == 3


def test_a_pipe_or_a_link_in_place_of_a_pin_is_refused_without_waiting(archive, file, tmp_path):
    archive.grow(1)
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="cannot be used"):
        pins.pinned(archive.home, archive.store.where, PROJECT.key)
    file.unlink()
    os.mkfifo(file)
    assert pins.pinned(archive.home, archive.store.where, PROJECT.key) is None


def test_no_half_written_pin_is_left_and_one_that_was_left_does_no_harm(archive, file):
    archive.grow(1)
    file.with_suffix(".new").write_text("half")
    archive.grow(1)
    assert sorted(path.suffix for path in file.parent.iterdir()) == [".checkpoint", ".lock"]
    assert pins.pinned(archive.home, archive.store.where, PROJECT.key).size == 2


def test_what_is_no_checkpoint_is_never_pinned(home):
    with pytest.raises(IntegrityError):
        pins.accept(home, WHERE, PROJECT.key, "nothing\n")
    assert not (home / "pins").exists()


def test_a_pin_that_somebody_who_is_stopped_has_is_waited_for_within_a_limit(archive, file, monkeypatch):
    archive.grow(1)
    monkeypatch.setattr(locks, "PATIENCE_S", 0.05)
    held = locks.locked(file.with_suffix(".lock"))
    with pytest.raises(BusyError, match="held the lock") as caught:
        archive.grow(1)
    assert caught.value.exit_code == ExitCode.BUSY == 75
    locks.release(held)
    archive.renew()
    assert pins.pinned(archive.home, archive.store.where, PROJECT.key).size == 2


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("postgresql://ann:***@db.example/esper", "postgresql://ben:***@DB.example:5432/esper", True),
        ("postgresql://ann@db.example/esper", "postgresql+psycopg://ann@db.example/esper", True),
        ("postgresql://ann@db.example/esper", "postgresql://ann@db.example/other", False),
        ("postgresql://ann@db.example/esper", "postgresql://ann@db2.example/esper", False),
        ("postgresql://ann@db.example:5433/esper", "postgresql://ann@db.example/esper", False),
        ("/a/esper.db", "/a/b/../esper.db", True),
        ("/a/esper.db", "/b/esper.db", False),
    ],
)
def test_a_pin_is_found_by_where_the_database_is_and_not_by_who_opens_it(home, one, other, same):
    assert (pins.pin_file(home, one, PROJECT.key) == pins.pin_file(home, other, PROJECT.key)) is same


def test_a_home_that_is_moved_as_a_whole_keeps_its_pins(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    files = (pins.pin_file(home, str(home / "projects" / "toy" / "esper.db"), PROJECT.key) for home in (one, other))
    names = [file.name for file in files]
    assert names[0] == names[1]


@pytest.mark.sample(2)
@pytest.mark.parametrize("where", [None, "", ":memory:"])
def test_a_database_in_memory_has_no_pin(archive, key, where):
    archive.grow(1)
    before = sorted((archive.home / "pins").iterdir())
    with archive.store.reading() as connection:
        pins.renew(connection, archive.home, where, PROJECT.key)
    pins.accept(archive.home, where, PROJECT.key, note(1, key))
    assert pins.pin_file(archive.home, where, PROJECT.key) is None
    assert sorted((archive.home / "pins").iterdir()) == before


ENTER = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[4:]
from log_samples import Archive, notice_id
from sqlalchemy import make_url
from esper_agents.certificates.log.transparency_log import Record
from esper_agents.domain.notice import EntryKind
from esper_agents.storage.store import Store
url, home, first = sys.argv[1:4]
archive = Archive(Store(make_url(url)), Path(home))
for number in range(int(first), int(first) + 5):
    archive.enter(Record(notice_id(number), EntryKind.NOTICE, "", b"{}"))
"""


@pytest.mark.slow
def test_of_many_processes_the_newest_checkpoint_stays_pinned(home, tmp_path):
    url = URL.create("sqlite", database=str(tmp_path / "esper.db"))
    archive = Archive(Store(url), home)
    command = [sys.executable, "-c", ENTER, str(url), str(home)]
    running = [subprocess.Popen([*command, str(first), *sys.path]) for first in range(0, 20, 5)]
    assert [each.wait() for each in running] == [0] * 4
    assert pins.pinned(home, archive.store.where, PROJECT.key).size == archive.size == 20
    archive.store.close()


def test_a_home_that_cannot_be_written_is_told(tmp_path, key):
    home = tmp_path / "file"
    home.write_text("")
    with pytest.raises(StorageError, match="cannot be used"):
        pins.accept(home, WHERE, PROJECT.key, note(1, key))
