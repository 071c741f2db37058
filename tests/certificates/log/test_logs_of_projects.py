"""Several projects in one database: a log of each, and the one that they shared in 0.1.0."""

from __future__ import annotations

import threading
from dataclasses import replace
from hashlib import sha256

import pytest
from alembic.config import Config
from certificate_samples import certificate
from log_samples import notice_bytes, notice_id
from sqlalchemy import create_engine, select, text, update

from alembic import command
from esper_agents.archive import log_discovery as logs
from esper_agents.archive import store as archive
from esper_agents.archive.changes import key_changes
from esper_agents.archive.changes.key_changes import ChangeReason, revoke, rotate
from esper_agents.archive.verification.signature import Keyring, proof_check
from esper_agents.certificates.check import CheckOutcome
from esper_agents.certificates.log import merkle, pins, transparency_log
from esper_agents.certificates.log.audit_log import audit_log
from esper_agents.certificates.log.deep_audit import deep_audit
from esper_agents.certificates.log.note import Checkpoint, read_checkpoint, read_note, signed_checkpoint
from esper_agents.certificates.log.transparency_log import Record
from esper_agents.certificates.log_entry import enter_unlogged, sign_and_log
from esper_agents.certificates.notices import log_notices
from esper_agents.certificates.signing.allowed_signers import own_signer
from esper_agents.certificates.signing.dsse import envelope_bytes, seal
from esper_agents.certificates.signing.key_history import key_history
from esper_agents.certificates.signing.public_keys import key_id_of
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.certificates.signing.trusted_keys import trust, trusted
from esper_agents.certificates.statement import OLD_VOCABULARY, VOCABULARY, statement
from esper_agents.domain.notice import EntryKind, NoticeKind
from esper_agents.domain.project import GitRevision, Project
from esper_agents.domain.session import Submission
from esper_agents.domain.status import QuestionType
from esper_agents.domain.task import Task
from esper_agents.errors import IntegrityError, NotFoundError, StorageError
from esper_agents.paths import data_folder
from esper_agents.storage import migrate, sessions
from esper_agents.storage.engine import WRITES
from esper_agents.storage.store import Store
from esper_agents.storage.tables import log_entry
from esper_agents.storage.tables import project as projects

ONE, TWO, THREE = (Project(f"/nowhere/{name}", name, f"{name}-0123456789ab", is_git=False) for name in "abc")
SAID = ChangeReason("ann", "once a year")


class Team:
    """Several projects of one home in one database."""

    def __init__(self, store, home):
        self.store, self.home, self.key = store, home, signing_key(home)
        self.keys = {self.key.key_id: self.key.public_key}
        self.count = 0

    def issue(self, project):
        self.count += 1
        issued = replace(certificate(), id=f"crt_{self.count:032x}", session=session_of(self.store, project))
        data = statement(issued)
        with self.store.writing() as transaction:
            enter_unlogged(transaction, str(self.store.where), project.key)
            archive.add(transaction, project.key, issued, data)
            sign_and_log(transaction, project.key, issued.id, data)
        with self.store.reading() as connection:
            pins.renew(connection, self.home, self.store.where, project.key)
        return issued.id

    def log_of(self, project):
        with self.store.reading() as connection:
            return transparency_log.log_of(connection, project.key)

    def origin(self, project):
        with self.store.reading() as connection:
            return transparency_log.origin(connection, transparency_log.log_of(connection, project.key))

    def faults(self, project):
        shallow = audit_log(self.store, self.home, project.key, list(self.keys.values()))
        return set(shallow.counts) | set(deep_audit(self.store, project.key, self.keys).counts)

    def check_pin(self, project):
        with self.store.reading() as connection:
            return [each.kind for each in pins.check_pin(connection, self.home, self.store.where, project.key)]

    def notices(self, project):
        with self.store.reading() as connection:
            return list(
                log_notices(transparency_log.notices(connection, transparency_log.log_of(connection, project.key)))
            )

    def history(self, project, *roots):
        return key_history(self.notices(project), roots)

    def sealed(self, project, certificate_id):
        """Return an envelope and its proof, as they are published."""
        with self.store.reading() as connection:
            log_id = transparency_log.log_of(connection, project.key)
            envelope = envelope_bytes(transparency_log.envelope(connection, log_id, certificate_id))
            return envelope, transparency_log.proof(connection, log_id, certificate_id)

    def write(self, *statements):
        with self.store.writing() as transaction:
            for each in statements:
                transaction.connection.execute(each)


def session_of(store, project):
    revision = GitRevision("", "", "", "", is_git=False, dirty=())
    submission = Submission(Task("review", (), QuestionType.APPROVAL, "review"), "toy", revision, {}, "somebody")
    return sessions.create(store, project, submission).session


@pytest.fixture
def team(store, home):
    return Team(store, home)


@pytest.fixture
def known(team, monkeypatch):
    """Have changes of keys find the database."""
    url = team.store.url
    monkeypatch.setattr(logs, "database_url", lambda _file: url)
    return team


def test_each_project_has_a_log_of_its_own_that_is_whole_and_pinned(team):
    for project in (ONE, TWO, ONE, TWO, TWO):
        team.issue(project)
    assert (team.log_of(ONE), team.log_of(TWO)) == (2, 3)
    assert team.origin(ONE) != team.origin(TWO)
    with team.store.reading() as connection:
        assert [transparency_log.size(connection, team.log_of(each)) for each in (ONE, TWO)] == [2, 3]
    for project, size in ((ONE, 2), (TWO, 3)):
        assert (team.faults(project), team.check_pin(project)) == (set(), [])
        pin = pins.pinned(team.home, team.store.where, project.key)
        assert (pin.origin, pin.size) == (team.origin(project), size)


def test_a_project_that_asks_for_nothing_begins_no_log(team):
    session_of(team.store, ONE)
    with team.store.writing() as transaction:
        assert enter_unlogged(transaction, str(team.store.where), ONE.key) == 0
    with team.store.reading() as connection:
        assert transparency_log.logs(connection) == {}


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
@pytest.mark.postgresql
def test_while_one_project_issues_another_does_not_wait_and_a_second_writer_of_the_same_does(team):
    """The second writer gives up after a time that the server counts, so that a wait is an error and not a hang."""
    for project in (ONE, TWO):
        team.issue(project)

    def append(transaction, project, number):
        transaction.connection.execute(text("SET LOCAL lock_timeout = '500ms'"))
        record = Record(notice_id(number), EntryKind.NOTICE, "", notice_bytes(number))
        transparency_log.append(transaction, team.key, project.key, record)

    with team.store.writing() as held:
        append(held, ONE, 1)
        with team.store.writing() as other:
            append(other, TWO, 2)
        with pytest.raises(StorageError, match="lock timeout"), team.store.writing() as same:
            append(same, ONE, 3)
        team.issue(TWO)
    assert (team.faults(ONE), team.faults(TWO)) == (set(), set())


def test_projects_that_begin_at_once_get_a_log_each(team, database):
    everyone = [Project(f"/nowhere/{each}", "p", f"p-{each:012x}", is_git=False) for each in range(6)]
    for each in everyone:
        session_of(team.store, each)
    errors = []

    def begin(number, project):
        store = Store(database)
        try:
            with store.writing() as transaction:
                enter_unlogged(transaction, str(store.where), project.key)
                record = Record(notice_id(number), EntryKind.NOTICE, "", notice_bytes(number))
                transparency_log.append(transaction, team.key, project.key, record)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not be
            errors.append(error)
        store.close()

    threads = [threading.Thread(target=begin, args=each) for each in enumerate(everyone)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not errors
    assert len({team.log_of(each) for each in everyone}) == len({team.origin(each) for each in everyone}) == 6
    assert all(team.faults(each) == set() for each in everyone)


# Attacks with the database.


def test_an_entry_that_is_moved_to_the_log_of_another_project_is_missed_in_one_and_named_in_the_other(team):
    for project in (ONE, ONE, TWO):
        moved = team.issue(project)
    mine = team.issue(ONE)
    at_its_end = update(log_entry).where(log_entry.c.record_id == mine).values(log_id=team.log_of(TWO), idx=1)
    team.write(at_its_end)
    assert team.faults(ONE) & {"newest-deleted", "certificate-not-logged"} == {
        "newest-deleted",
        "certificate-not-logged",
    }
    assert "newest-deleted" in team.check_pin(ONE)
    assert team.faults(TWO)
    with team.store.reading() as connection:
        with pytest.raises(NotFoundError):
            transparency_log.envelope(connection, team.log_of(ONE), mine)
        assert transparency_log.envelope(connection, team.log_of(TWO), moved)
    for project in (ONE, TWO):
        with pytest.raises(IntegrityError):
            team.issue(project)


def test_projects_whose_logs_are_swapped_are_both_named_and_nothing_is_appended(team):
    for project in (ONE, TWO, TWO):
        team.issue(project)
    one, two = team.log_of(ONE), team.log_of(TWO)
    for project, log_id in ((ONE, two), (TWO, one)):
        team.write(update(projects).where(projects.c.key == project.key).values(log_id=log_id))
    for project in (ONE, TWO):
        assert team.check_pin(project) == ["replaced"]
        assert {"replaced", "certificate-not-logged"} <= team.faults(project)
        with pytest.raises(IntegrityError, match="replaced"):
            team.issue(project)


def test_a_project_that_no_longer_names_its_log_begins_no_other_one(team):
    team.issue(ONE)
    team.write(update(projects).where(projects.c.key == ONE.key).values(log_id=0))
    assert team.check_pin(ONE) == ["database-deleted"]
    pins.pin_file(team.home, team.store.where, ONE.key).unlink()
    with pytest.raises(IntegrityError, match="the project has log entries"):
        team.issue(ONE)
    assert team.faults(ONE) == {"certificate-not-logged"}


def test_a_proof_under_the_name_of_another_project_s_log_shows_nothing(team):
    first = team.issue(ONE)
    team.issue(TWO)
    envelope, proof = team.sealed(ONE, first)
    ring = Keyring(trusted(team.home, None), key_history((), [team.key.public_key]))
    assert proof_check(envelope, proof.encode(), ring).outcome is CheckOutcome.HOLDS
    assert proof_check(envelope, proof.encode(), ring, team.origin(TWO)).outcome is CheckOutcome.FAILS
    renamed = proof.replace(team.origin(ONE), team.origin(TWO))
    assert proof_check(envelope, renamed.encode(), ring, team.origin(TWO)).outcome is CheckOutcome.CANNOT_DECIDE


def test_a_proof_of_one_project_does_not_lead_from_a_certificate_of_another(team):
    one, two = team.issue(ONE), team.issue(TWO)
    ring = Keyring(trusted(team.home, None), key_history((), [team.key.public_key]))
    assert proof_check(team.sealed(TWO, two)[0], team.sealed(ONE, one)[1].encode(), ring).outcome is CheckOutcome.FAILS


# Keys.


def test_a_key_that_is_revoked_counts_no_longer_in_any_project_of_the_database_nor_in_later_ones(known, tmp_path):
    bob = signing_key(tmp_path / "bob")
    trust(known.home, own_signer("bob", bob.public_key))
    for project in (ONE, TWO):
        known.issue(project)
    done = revoke(known.home, bob.public_key, ChangeReason("ann", "stolen"), project_key=ONE.key)
    assert len(done.logs) == 1
    known.issue(THREE)
    for project in (ONE, TWO, THREE):
        roots = known.key.public_key, bob.public_key
        found = known.history(project, *roots)
        assert found.spans[bob.key_id].ended_by is NoticeKind.KEY_REVOKED, project.name
        assert not found.is_good(bob.key_id, 100)
        assert known.faults(project) == set()
    # One notice in all of them: a project that comes later takes it over once.
    assert [len(known.notices(each)) for each in (ONE, TWO, THREE)] == [1, 1, 1]
    assert len({each.notice.id for project in (ONE, TWO, THREE) for each in known.notices(project)}) == 1


def test_whoever_trusts_the_old_key_trusts_the_new_one_in_every_project_and_in_later_ones(known):
    old = known.key
    for project in (ONE, TWO):
        known.issue(project)
    rotate(known.home, SAID)
    known.key = signing_key(known.home)
    known.issue(THREE)
    for project in (ONE, TWO, THREE):
        found = known.history(project, old.public_key)
        assert found.is_good(known.key.key_id, 100)
        assert not found.is_good(old.key_id, 100)
        assert found.ignored == ()


def test_a_rotation_that_stopped_between_two_logs_is_finished_by_the_next_one(known, monkeypatch):
    for project in (ONE, TWO):
        known.issue(project)
    append, calls = transparency_log.append, []

    def stop_at_the_second(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return append(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(key_changes.transparency_log, "append", stop_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            rotate(known.home, SAID)
    rotate(known.home, SAID)
    for project in (ONE, TWO):
        kinds = [each.notice.kind for each in known.notices(project)]
        assert kinds == [NoticeKind.KEY_ADDED, NoticeKind.KEY_RETIRED]


def test_a_new_log_takes_over_no_notice_that_no_trusted_key_signed(known, tmp_path):
    known.issue(ONE)
    stranger = signing_key(tmp_path / "stranger")
    with known.store.writing() as transaction:
        planted = key_changes._KeyChange(NoticeKind.KEY_ADDED, stranger.public_key, stranger, SAID)
        planted.enter(transaction, ONE.key)
    known.issue(TWO)
    assert known.notices(TWO) == []
    assert known.faults(TWO) == set()


# A database of 0.1.0.


class Earlier:
    """A database of 0.1.0: the same rows, written by hand."""

    ORIGIN = "esper-agents.dev/log/" + "5" * 32

    def __init__(self, url, home):
        self.engine, self.key = create_engine(url), signing_key(home)
        self.nodes, self.size = {}, 0
        with self.engine.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
            config = Config()
            config.set_main_option("script_location", str(data_folder("alembic")))
            config.attributes["connection"] = connection
            command.upgrade(config, "0006")
            connection.execute(text(f"INSERT INTO log VALUES (1, '{self.ORIGIN}', '2026-01-31T09:30:00.000Z')"))

    def issue(self, project):
        """Issue a certificate as 0.1.0 did, with its names."""
        issued = replace(certificate(), id=f"crt_{1000 + self.size:032x}", session=f"ses_{self.size:032x}")
        data = statement(issued).replace(VOCABULARY.encode(), OLD_VOCABULARY.encode())
        sealed = seal(self.key, data)
        leaf, idx = merkle.leaf_hash(envelope_bytes(sealed)), self.size
        filled = merkle.appended(idx, leaf, lambda places: [self.nodes[each] for each in places])
        self.nodes |= filled
        self.size += 1
        root = merkle.root(self.size, lambda places: [self.nodes[each] for each in places])
        self.note = signed_checkpoint(Checkpoint(self.ORIGIN, self.size, root), self.key)
        at = "2026-01-31T09:30:00.000Z"
        with self.engine.begin() as connection:

            def write(table, **values):
                names = ", ".join(values)
                places = ", ".join(f":{each}" for each in values)
                more = " ON CONFLICT DO NOTHING" if table == "project" else ""
                connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({places}){more}"), values)

            write("project", key=project.key, root=project.root, name=project.name, opened_at=at)
            write(
                "session",
                id=issued.session,
                project_key=project.key,
                request="r",
                created_at=at,
                state="done",
                agent="toy",
                certificate_id=issued.id,
                changed_at=at,
                owner="",
                fence=1,
                expires_ms=0,
                attempts=0,
                cancel_requested=False,
            )
            columns = archive.index.columns(issued)
            shared = {"project_key": project.key, "view_name": f"{issued.id}.md"}
            write("certificate", id=issued.id, sha256=sha256(data).hexdigest(), statement=data, **shared, **columns)
            write(
                "log_entry",
                idx=idx,
                record_id=issued.id,
                kind="certificate",
                project_key=project.key,
                about=issued.id,
                at=at,
                key_id=self.key.key_id,
                signature=sealed.signature,
                leaf_hash=leaf,
                statement=b"",
            )
            for place, value in filled.items():
                write("log_node", level=place.level, idx=place.idx, hash=value)
            connection.execute(text("DELETE FROM log_checkpoint"))
            write("log_checkpoint", size=self.size, note=self.note, at=at)
        return issued.id

    def upgraded(self, home):
        """Return the database in its newest shape, as `esper db upgrade` leaves it."""
        url = self.engine.url
        assert migrate.upgrade_schema(self.engine).before == "0006"
        self.engine.dispose()
        return Team(Store(url), home)


@pytest.fixture
def earlier(empty_database, home, tmp_path):
    (tmp_path / "database").mkdir(exist_ok=True)
    return Earlier(empty_database, home)


def test_projects_that_shared_a_log_go_on_in_it_and_a_new_one_has_its_own(earlier, home):
    issued = [earlier.issue(each) for each in (ONE, TWO, ONE, TWO, ONE)]
    file = pins.pin_file(home, str(where_of(earlier)), pins.SHARED)
    file.parent.mkdir()
    file.write_text(earlier.note)
    team = earlier.upgraded(home)
    assert pins.pin_file(home, team.store.where, pins.SHARED) == file
    for project in (ONE, TWO):
        assert team.log_of(project) == transparency_log.SHARED
        assert (team.faults(project), team.check_pin(project)) == (set(), [])
    team.issue(ONE)
    team.issue(TWO)
    team.issue(THREE)
    assert [team.log_of(each) for each in (ONE, TWO, THREE)] == [1, 1, 2]
    assert team.origin(ONE) == team.origin(TWO) == earlier.ORIGIN
    assert team.origin(THREE).startswith("urn:uuid:")
    for project in (ONE, TWO, THREE):
        assert (team.faults(project), team.check_pin(project)) == (set(), [])
    assert read_checkpoint(read_note(file.read_text())).size == 7
    ring = Keyring(trusted(home, None), key_history((), [team.key.public_key]))
    for project, each in zip((ONE, TWO, ONE, TWO, ONE), issued, strict=True):
        envelope, proof = team.sealed(project, each)
        assert proof_check(envelope, proof.encode(), ring, earlier.ORIGIN).outcome is CheckOutcome.HOLDS
    team.store.close()


def where_of(earlier):
    url = earlier.engine.url
    return url.database if url.get_backend_name() == "sqlite" else url.render_as_string()


def test_a_shared_log_that_lost_entries_is_named_for_its_projects_and_not_for_others(earlier, home):
    for project in (ONE, TWO, TWO):
        earlier.issue(project)
    team = earlier.upgraded(home)
    for project in (ONE, THREE):
        team.issue(project)
    team.write(text("DELETE FROM log_entry WHERE log_id = 1 AND idx = 3"))
    for project in (ONE, TWO):
        assert team.check_pin(project) == ["newest-deleted"]
        assert "newest-deleted" in team.faults(project)
    assert (team.faults(THREE), team.check_pin(THREE)) == (set(), [])
    team.issue(THREE)
    team.store.close()


def test_a_project_that_is_taken_out_of_the_shared_log_begins_no_other_one(earlier, home):
    for project in (ONE, TWO):
        earlier.issue(project)
    team = earlier.upgraded(home)
    team.issue(ONE)
    team.write(update(projects).where(projects.c.key == ONE.key).values(log_id=0))
    with pytest.raises(IntegrityError, match="the project has log entries"):
        team.issue(ONE)
    assert team.faults(ONE) == {"certificate-not-logged"}
    team.store.close()


def test_a_database_whose_shared_log_was_pinned_and_is_gone_is_named(earlier, home, database, monkeypatch):
    earlier.issue(ONE)
    team = earlier.upgraded(home)
    team.issue(ONE)
    team.store.close()
    new = Store(database)
    monkeypatch.setattr(new, "where", team.store.where)
    fresh = Team(new, home)
    with pytest.raises(IntegrityError, match="database-deleted"):
        fresh.issue(ONE)
    new.close()


def test_the_upgrade_changes_no_byte_of_what_was_entered(earlier, home):
    for project in (ONE, TWO, ONE):
        earlier.issue(project)
    names = "idx, record_id, project_key, about, at, key_id, signature, leaf_hash, statement"
    rows = {
        "log_entry": f"SELECT {names} FROM log_entry ORDER BY idx",
        "log_node": "SELECT level, idx, hash FROM log_node ORDER BY 1, 2",
        "log_checkpoint": "SELECT size, note, at FROM log_checkpoint",
        "certificate": "SELECT id, statement, sha256 FROM certificate ORDER BY position",
    }

    def read(connection):
        return {name: connection.execute(text(wanted)).all() for name, wanted in rows.items()}

    with earlier.engine.connect() as connection:
        before = read(connection)
    team = earlier.upgraded(home)
    with team.store.reading() as connection:
        assert read(connection) == before
        assert connection.scalars(select(log_entry.c.log_id).distinct()).all() == [transparency_log.SHARED]
    team.store.close()


def test_inserting_without_naming_the_log_is_refused_after_the_upgrade(earlier, home):
    earlier.issue(ONE)
    team = earlier.upgraded(home)
    with pytest.raises(StorageError, match="log_id"):
        team.write(text("INSERT INTO log_node (level, idx, hash) SELECT 0, 7, hash FROM log_node"))
    team.store.close()


def test_the_fingerprint_of_a_key_is_known_from_any_log_of_the_database(known):
    old = known.key
    for project in (ONE, TWO):
        known.issue(project)
    rotate(known.home, SAID)
    for key in (old, signing_key(known.home)):
        assert key_changes.known_key(known.home, key_id_of(key.public_key)) == key.public_key
