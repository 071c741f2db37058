"""`esper db` in processes of its own."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from contextlib import closing

import pytest
from places import FAULTY, Place, git, write

from esper_agents.storage.schema_names import HEAD


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    root = folder / "toy"
    write(root, {"train.py": FAULTY})
    git(root, "init", "-q", "-b", "main", "--template=")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    place = Place(root, folder / "home")
    place.esper("submit", "review this training code", "train.py", code=3)
    return place


@pytest.fixture
def place(reviewed, tmp_path):
    return reviewed.with_home(tmp_path / "home")


def kinds(place):
    return [kind for (kind,) in place.rows("SELECT kind FROM ledger ORDER BY seq")]


def test_the_state_is_shown_and_nothing_is_made_by_looking(place, tmp_path):
    shown = place.esper("db", "status", code=0).stdout
    assert f"{HEAD}, the newest" in shown
    told = place.esper("db", "status", "--json", code=0).json
    assert told["where"] == str(place.database)
    assert (told["sessions"], told["certificates"], told["log_entries"], told["journal"]) == (1, 1, 1, "wal")
    fresh = Place(place.root, tmp_path / "fresh")
    assert "created by the first session" in fresh.esper("db", "status", code=0).stdout
    assert not list(fresh.home.glob("**/esper.db"))


def test_an_upgrade_with_nothing_to_do_says_so(place):
    assert "already current" in place.esper("db", "upgrade", code=0).stdout


def test_a_database_of_a_newer_version_is_shown_and_refused_in_two_lines(place):
    with closing(sqlite3.connect(place.database)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    assert "created by a newer version" in place.esper("db", "status", code=0).stdout
    for command in (["upgrade"], ["prune", "--sessions-older-than", "1", "--yes"]):
        problem, remedy = place.esper("db", *command).problem(1)
        assert problem.startswith("the database has schema version 9999")
        assert remedy == "pip install --upgrade esper-agents"


def test_a_backup_is_checked_and_never_written_over(place, tmp_path):
    to = tmp_path / "b.db"
    said = place.esper("db", "backup", str(to), code=0).stdout
    assert "1 session, 1 certificate, 1 entry of the log" in said
    assert "signing key" in said
    before = to.read_bytes()
    problem, _ = place.esper("db", "backup", str(to)).problem(2)
    assert problem == f"{str(to)!r} exists already"
    assert to.read_bytes() == before


def test_a_restored_backup_is_the_archive_that_it_was(place, tmp_path):
    to = tmp_path / "b.db"
    place.esper("db", "backup", str(to), code=0)
    for path in place.database.parent.glob("esper.db*"):
        path.unlink()
    to.rename(place.home / "projects" / next((place.home / "projects").iterdir()).name / "esper.db")
    place.esper("certificates", "verify", "latest", code=0)


def test_there_is_nothing_to_vacuum_without_a_database(place, tmp_path):
    fresh = Place(place.root, tmp_path / "fresh")
    assert fresh.esper("db", "vacuum").problem(2)[0] == "there is no database yet"
    assert "before" in place.esper("db", "vacuum", code=0).stdout


def test_nothing_is_pruned_unasked(place):
    before = kinds(place)
    dry = place.esper("db", "prune", "--sessions-older-than", "0", "--dry-run", code=0).stdout
    assert dry.startswith("removable")
    problem, remedy = place.esper("db", "prune", "--sessions-older-than", "0").problem(2)
    assert problem == "deleting session data needs a confirmation"
    assert "--yes" in remedy
    assert "removed    0 rows" in place.esper("db", "prune", "--sessions-older-than", "1", "--yes", code=0).stdout
    assert kinds(place) == before


def test_a_pruned_session_is_shown_verified_and_continued_but_not_replayed(place):
    name, certificate = place.rows("SELECT id, certificate_id FROM session")[0]
    place.esper("sessions", "replay", name, code=0)
    done = place.esper("db", "prune", "--sessions-older-than", "0", "--yes", "--json", code=0).json
    assert [each["id"] for each in done["sessions"]] == [name]
    assert kinds(place) == ["submitted", "routed", "certified", "pruned"]
    assert "pruned" in place.esper("sessions", "show", name, code=0).stdout
    place.esper("certificates", "verify", certificate, code=0)
    place.esper("certificates", "show", certificate, code=0)
    problem, remedy = place.esper("sessions", "replay", name).problem(2)
    assert "was pruned" in problem
    assert remedy.endswith(f"esper certificates verify {certificate}")
    # It ended before, and is not begun again.
    place.esper("resume", name, code=3)
    assert kinds(place) == ["submitted", "routed", "certified", "pruned"]


def test_a_file_that_nothing_names_is_removed_when_it_is_old_and_what_is_named_stays(place):
    folder = place.database.parent / "artifacts"
    data = b"left over"
    digest = hashlib.sha256(data).hexdigest()
    old, young = folder / digest[:2] / digest, folder / "ab" / ("ab" * 32)
    for each in (old, young):
        each.parent.mkdir(parents=True, exist_ok=True)
        each.write_bytes(data)
    kept = {path for path in folder.glob("*/*") if path not in {old, young}}
    then = time.time() - 200_000
    for each in (old, *kept):
        os.utime(each, (then, then))
    done = place.esper("db", "prune", "--sessions-older-than", "365", "--yes", "--json", code=0).json
    assert done["artifacts"] == [str(old)]
    assert not old.exists()
    assert young.exists()
    assert kept
    assert {each for each in kept if each.exists()} == kept
    place.esper("certificates", "verify", "latest", code=0)


@pytest.mark.slow
@pytest.mark.postgresql
def test_a_shared_database_is_upgraded_when_asked_and_backed_up_by_its_own_program(place, postgresql_url, tmp_path):
    env = {"ESPER_DATABASE_URL": postgresql_url.render_as_string(hide_password=False)}
    assert "created by the first session" in place.esper("db", "status", env=env, code=0).stdout
    assert "ran" in place.esper("db", "upgrade", env=env, code=0).stdout
    place.esper("submit", "review this training code", "train.py", env=env, code=3)
    told = json.loads(place.esper("db", "status", "--json", env=env, code=0).stdout)
    assert (told["system"], told["sessions"]) == ("postgresql", 1)
    problem, remedy = place.esper("db", "backup", str(tmp_path / "b.dump"), env=env).problem(2)
    assert problem == "a PostgreSQL database is backed up with pg_dump"
    assert remedy.startswith("pg_dump --format=custom")
    place.esper("db", "vacuum", env=env, code=0)
    done = place.esper("db", "prune", "--sessions-older-than", "0", "--yes", "--json", env=env, code=0).json
    assert len(done["sessions"]) == 1
    place.esper("certificates", "verify", "latest", env=env, code=0)
