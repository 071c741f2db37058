"""Rotation and revocation as the logs of a home have them, and what becomes of them when somebody pulls the plug."""

from __future__ import annotations

import asyncio

import pytest
from judged import FAULTY, judge
from rows import rows_of

from esper_agents.api import open_project
from esper_agents.archive.changes import key_changes
from esper_agents.archive.changes.key_changes import ChangeReason, known_key, revoke, rotate
from esper_agents.archive.log_discovery import open_logs
from esper_agents.certificates.log import transparency_log
from esper_agents.certificates.notices import log_notices
from esper_agents.certificates.signing.allowed_signers import own_signer
from esper_agents.certificates.signing.key_history import key_history
from esper_agents.certificates.signing.public_keys import key_id_of
from esper_agents.certificates.signing.signing_key import VARIABLE, existing_key, key_file, signing_key
from esper_agents.certificates.signing.trusted_keys import trust, trusted
from esper_agents.domain.notice import NoticeKind
from esper_agents.errors import IntegrityError, StorageError, UsageError

SAID = ChangeReason("ann", "once a year")


@pytest.fixture
def judged(judged_project):
    return judged_project


def notices(home):
    """Return the notices of every log of a home, by the log."""
    found = {}
    with open_logs(home) as stores:
        for store in stores:
            with store.reading() as connection:
                (log_id,) = transparency_log.logs(connection)
                found[str(store.where)] = list(log_notices(transparency_log.notices(connection, log_id)))
    return found


def entered(connection, record_id):
    """Return an entry of the one log of a database."""
    (log_id,) = transparency_log.logs(connection)
    return transparency_log.entry(connection, log_id, record_id)


def told(home):
    """Return what the one log of a home says of keys: what, of which key, signed by which."""
    (entries,) = notices(home).values()
    return [(entry.notice.kind, entry.notice.key, entry.envelope.key_id) for entry in entries]


def history(home, roots):
    (entries,) = notices(home).values()
    return key_history(entries, roots)


def private_files(home):
    return sorted(path.name for path in (home / "keys").iterdir() if "PRIVATE" in path.read_text())


@pytest.mark.both_databases
def test_a_rotation_is_told_in_the_log_by_the_old_key_and_the_new_one(home, judged):
    from esper_agents.certificates.signing.signing_key import as_ssh

    old = signing_key(home)
    done = rotate(home, SAID)
    new = signing_key(home)
    assert (done.old, done.new) == (old.public_key, new.public_key)
    assert told(home) == [
        (NoticeKind.KEY_ADDED, as_ssh(new.public_key), old.key_id),
        (NoticeKind.KEY_RETIRED, as_ssh(old.public_key), new.key_id),
    ]


@pytest.mark.both_databases
def test_whoever_trusts_the_old_key_trusts_the_new_one_through_the_log(home, judged):
    old = signing_key(home)
    rotate(home, SAID)
    again = judge(judged.root)
    found = history(home, [old.public_key])
    with open_logs(home) as (store,), store.reading() as connection:
        before, after = (entered(connection, each.id) for each in (judged, again))
    assert found.is_good(before.key_id, before.idx)
    assert found.is_good(after.key_id, after.idx)
    assert after.key_id == signing_key(home).key_id != before.key_id
    assert not found.is_good(old.key_id, after.idx)


def test_only_the_public_half_of_the_old_key_is_kept(home, judged):
    old = signing_key(home)
    rotate(home, SAID)
    assert private_files(home) == ["signing-key.pem"]
    assert trusted(home, None).who(old.public_key) == "this-home"


def test_every_log_of_the_home_is_told(home, make_project):
    for name in ("one", "two"):
        judge(make_project({"train.py": FAULTY}, name=name))
    done = rotate(home, SAID)
    found = notices(home)
    assert sorted(done.logs) == sorted(found)
    assert [len(each) for each in found.values()] == [2, 2]


@pytest.mark.postgresql
def test_a_shared_database_s_log_is_told_as_well(home, make_project, postgresql_url, monkeypatch):
    judge(make_project({"train.py": FAULTY}, name="embedded"))
    monkeypatch.setenv("ESPER_DATABASE_URL", postgresql_url.render_as_string(hide_password=False))
    judge(make_project({"train.py": FAULTY}, name="shared"))
    done = rotate(home, SAID)
    assert len(done.logs) == 2
    assert sorted(notices(home)) == sorted(done.logs)
    assert all(len(notice) == 2 for notice in notices(home).values())


@pytest.mark.both_databases
def test_rotating_again_and_again_makes_a_chain(home, judged):
    first = signing_key(home)
    for _ in range(3):
        rotate(home, SAID)
    found = history(home, [first.public_key])
    assert found.is_good(signing_key(home).key_id, 100)
    assert found.ignored == ()
    assert len([span for span in found.spans.values() if span.last is None]) == 1


@pytest.mark.sample(4)
@pytest.mark.parametrize("step", range(14))
def test_a_rotation_that_is_cut_off_anywhere_is_finished_by_the_next_one(home, judged, monkeypatch, step):
    old = signing_key(home)
    steps = iter(range(100))

    def cut(original):
        def run(*arguments, **options):
            if next(steps) == step:
                raise KeyboardInterrupt
            done = original(*arguments, **options)
            if next(steps) == step:
                raise KeyboardInterrupt
            return done

        return run

    with monkeypatch.context() as patched:
        for name in ("new_private_file", "_tell_added", "write_whole", "keep_earlier", "_tell_retired", "sync_folder"):
            patched.setattr(key_changes, name, cut(getattr(key_changes, name)))
        with pytest.raises(KeyboardInterrupt):
            rotate(home, SAID)
    # In between there is a key, and what it signs is genuine.
    between = existing_key(home)
    assert between is not None
    again = judge(judged.root)
    done = rotate(home, SAID)
    assert private_files(home) == ["signing-key.pem"]
    found = history(home, [old.public_key])
    with open_logs(home) as (store,), store.reading() as connection:
        entry = entered(connection, again.id)
    assert found.is_good(entry.key_id, entry.idx)
    assert found.ignored == ()
    assert done.new == signing_key(home).public_key != old.public_key
    last = judge(judged.root)
    with open_logs(home) as (store,), store.reading() as connection:
        entry = entered(connection, last.id)
    assert history(home, [old.public_key]).is_good(entry.key_id, entry.idx)


def test_a_home_without_a_key_has_nothing_to_rotate(home):
    with pytest.raises(UsageError, match="no signing key yet"):
        rotate(home, SAID)
    assert not key_file(home).exists()


def test_a_given_key_is_not_this_home_s_to_rotate(home, judged, tmp_path, monkeypatch):
    signing_key(tmp_path / "ci")
    monkeypatch.setenv(VARIABLE, str(key_file(tmp_path / "ci")))
    with pytest.raises(UsageError, match="ESPER_SIGNING_KEY_FILE"):
        rotate(home, SAID)
    assert told(home) == []


def test_nothing_is_rotated_where_a_database_cannot_be_told(home, judged):
    old = signing_key(home)
    broken = home / "projects" / "other" / "esper.db"
    broken.parent.mkdir()
    broken.write_bytes(b"no database" * 100)
    with pytest.raises(StorageError, match="other") as refused:
        rotate(home, SAID)
    assert refused.value.remedy
    assert signing_key(home).key_id == old.key_id
    assert private_files(home) == ["signing-key.pem"]


@pytest.mark.both_databases
def test_nothing_is_entered_in_a_log_that_lost_its_newest_entries(home, judged):
    rotate(home, SAID)
    with rows_of(home) as rows:
        rows.execute("DELETE FROM log_entry WHERE idx > 0")
        rows.execute("DELETE FROM log_node")
        rows.execute("DELETE FROM log_checkpoint")
    with pytest.raises(IntegrityError):
        rotate(home, SAID)


@pytest.mark.both_databases
def test_a_revoked_key_counts_no_longer_and_what_the_thief_brought_is_named(home, judged, tmp_path):
    first = signing_key(home)
    rotate(home, SAID)
    second, thief = signing_key(home), signing_key(tmp_path / "thief")
    with open_logs(home) as (store,):
        key_changes._tell_added(store, home, second, thief, SAID)
    rotate(home, SAID)
    done = revoke(home, second.public_key, ChangeReason("ann", "stolen"), project_key="")
    assert done.brought == (thief.key_id,)
    revoke(home, thief.public_key, ChangeReason("ann", "the thief's"), project_key="")
    found = history(home, [first.public_key])
    assert found.spans[second.key_id].ended_by is NoticeKind.KEY_REVOKED
    assert "stolen" in found.said(second.key_id, 100)


def test_a_team_s_key_is_revoked_in_the_project_s_log_and_not_in_others(home, make_project, tmp_path):
    from esper_agents.git.find_project import find_project

    one = make_project({"train.py": FAULTY}, name="one")
    for root in (one, make_project({"train.py": FAULTY}, name="two")):
        judge(root)
    bob = signing_key(tmp_path / "bob")
    trust(home, own_signer("bob", bob.public_key))
    done = revoke(home, bob.public_key, SAID, project_key=find_project([one], one).key)
    assert len(done.logs) == 1
    assert "one-" in done.logs[0]
    with pytest.raises(UsageError, match="not valid in any local log"):
        revoke(home, bob.public_key, SAID, project_key=find_project([one], one).key)


def test_the_key_that_signs_cannot_revoke_itself(home, judged):
    with pytest.raises(UsageError, match="itself") as refused:
        revoke(home, signing_key(home).public_key, SAID, project_key="")
    assert "esper keys rotate" in refused.value.remedy


def test_a_key_is_known_by_its_fingerprint_where_it_is_trusted_or_the_log_names_it(home, judged, tmp_path):
    old = signing_key(home)
    rotate(home, SAID)
    bob = signing_key(tmp_path / "bob")
    trust(home, own_signer("bob", bob.public_key))
    for key in (old, signing_key(home), bob):
        assert known_key(home, key_id_of(key.public_key)) == key.public_key
    assert known_key(home, "SHA256:" + "A" * 43) is None


@pytest.mark.both_databases
def test_sessions_that_run_while_the_key_is_rotated_sign_with_a_good_key(home, judged):
    old = signing_key(home)

    async def both():
        async def review():
            async with open_project(judged.root) as project:
                task = project.tasks.create("review this training code", [judged.train], agent="pytorch-code-reviewer")
                return await (await project.tasks.submit(task)).run()

        return await asyncio.gather(*(review() for _ in range(4)), asyncio.to_thread(rotate, home, SAID))

    asyncio.run(both())
    found = history(home, [old.public_key])
    with open_logs(home) as (store,), store.reading() as connection:
        ids = [each for (each,) in connection.exec_driver_sql("SELECT record_id FROM log_entry ORDER BY idx")]
        entries = [entered(connection, each) for each in ids]
    assert len(entries) == 7
    assert all(found.is_good(entry.key_id, entry.idx) for entry in entries)
