"""Artifacts on a shared database: one machine reads what another one stored, and every digest is checked."""

from __future__ import annotations

import asyncio
import os
import shutil
from hashlib import sha256

import pytest
from judged import FAULTY, judge
from sqlalchemy import text, update

from esper_agents.api import export_key, open_project, trust_key
from esper_agents.archive import retention
from esper_agents.errors import ExitCode, IntegrityError, NotFoundError, StorageError, UsageError
from esper_agents.paths import PUBLISHED
from esper_agents.storage.artifacts import Artifacts, connect, disconnect, shared_of
from esper_agents.storage.shared_artifacts import MOST_DATABASE_BYTES, SharedArtifacts
from esper_agents.storage.store import Store
from esper_agents.storage.tables import artifact

pytestmark = pytest.mark.postgresql
KEY = "toy-0123456789ab"
LARGE = b"x" * (MOST_DATABASE_BYTES + 1)


@pytest.fixture
def store(postgresql_url):
    opened = Store(postgresql_url)
    yield opened
    opened.close()


@pytest.fixture
def machine(store, tmp_path):
    """Return what opens the artifacts of a project on a machine of the given name."""
    opened = []

    def make(name, key=KEY):
        folder, shared = tmp_path / name / "artifacts", SharedArtifacts(store, key)
        connect(folder, shared)
        opened.append((folder, shared))
        return Artifacts(folder)

    yield make
    for folder, shared in opened:
        disconnect(folder, shared)
        assert shared_of(folder) is None


@pytest.fixture
def folder(tmp_path, monkeypatch):
    made = tmp_path / "mounted"
    made.mkdir()
    monkeypatch.setenv("ESPER_ARTIFACT_FOLDER", str(made))
    return made


def kept(artifacts, data, name="report.json"):
    return artifacts.keep_text(data, name, "application/json").sha256


def test_another_machine_reads_what_one_stored(machine):
    one, other = machine("one"), machine("other")
    digest = kept(one, b"measured")
    assert other.path(digest).read_bytes() == b"measured"
    assert other.path(digest) != one.path(digest)


def test_a_project_does_not_see_the_artifacts_of_another_one_in_the_same_database(machine):
    digest = kept(machine("one"), b"measured")
    with pytest.raises(NotFoundError):
        machine("other", "else-0123456789ab").path(digest)


def test_a_large_artifact_goes_through_the_shared_folder_and_a_small_one_does_not(machine, folder):
    one, other = machine("one"), machine("other")
    small, large = kept(one, b"s" * MOST_DATABASE_BYTES), kept(one, LARGE)
    assert [path.name for path in folder.iterdir()] == [large]
    assert other.path(large).read_bytes() == LARGE
    assert len(other.path(small).read_bytes()) == MOST_DATABASE_BYTES


def test_without_a_folder_a_large_artifact_stays_on_its_machine(machine):
    one, other = machine("one"), machine("other")
    digest = kept(one, LARGE)
    assert one.path(digest).read_bytes() == LARGE
    with pytest.raises(NotFoundError):
        other.path(digest)


def test_bytes_that_were_changed_in_the_database_are_refused_and_not_stored(machine, store):
    digest = kept(machine("one"), b"measured")
    with store.writing() as transaction:
        transaction.connection.execute(update(artifact).values(data=b"invented"))
    other = machine("other")
    for _ in range(2):
        with pytest.raises(IntegrityError, match=f"artifact {digest} is corrupted in the database"):
            other.path(digest)


@pytest.mark.parametrize("how", ["changed", "cut", "pipe", "link"])
def test_what_is_not_the_artifact_in_the_shared_folder_is_refused(machine, folder, tmp_path, how):
    digest = kept(machine("one"), LARGE)
    place = folder / digest
    match how:
        case "changed":
            place.write_bytes(b"y" + LARGE[1:])
        case "cut":
            place.write_bytes(LARGE[:-1])
        case "pipe":
            place.unlink()
            os.mkfifo(place)
        case "link":
            (tmp_path / "elsewhere").write_bytes(LARGE)
            place.unlink()
            place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises((IntegrityError, StorageError)):
        machine("other").path(digest)


def test_a_folder_that_vanished_is_an_error_that_names_it(machine, folder):
    one = machine("one")
    shutil.rmtree(folder)
    with pytest.raises(StorageError, match="the folder of shared artifacts") as refused:
        kept(one, LARGE)
    assert "ESPER_ARTIFACT_FOLDER" in refused.value.remedy


@pytest.mark.parametrize("given", ["relative/folder", "/nonexistent/folder"])
def test_a_setting_that_is_no_folder_is_refused(postgresql_url, project, monkeypatch, given):
    monkeypatch.setenv("ESPER_DATABASE_URL", postgresql_url.render_as_string(hide_password=False))
    monkeypatch.setenv("ESPER_ARTIFACT_FOLDER", given)

    async def run():
        async with open_project(project):
            pass

    with pytest.raises(UsageError, match="is not a folder"):
        asyncio.run(run())


def test_two_machines_that_store_equal_bytes_store_them_once(machine, store):
    assert kept(machine("one"), b"measured") == kept(machine("other"), b"measured")
    with store.reading() as connection:
        assert connection.scalar(text("SELECT count(*) FROM artifact")) == 1


def test_an_embedded_database_shares_nothing(project, home):
    async def run():
        async with open_project(project) as opened:
            return opened.services.shared, shared_of(opened.services.place.artifacts)

    assert asyncio.run(run()) == (None, None)


def test_another_machine_verifies_repairs_and_reads_everything_from_the_database(
    postgresql_url, make_project, monkeypatch, tmp_path
):
    """Its data directory is empty, and its checkout has no published files."""
    monkeypatch.setenv("ESPER_DATABASE_URL", postgresql_url.render_as_string(hide_password=False))
    root = make_project({"train.py": FAULTY})
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "one"))
    issued = judge(root)
    first = export_key(name="one@example.org")
    views = {path.relative_to(root): path.read_bytes() for path in (root / PUBLISHED).rglob("*.md")}
    shutil.rmtree(root / PUBLISHED)

    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "other"))
    trust_key(first)

    async def look():
        async with open_project(root) as project:
            await project.certificates.repair()
            artifacts = project.services.place.artifacts
            named = await project.services.store.run(lambda store: retention._named(store, project.services.place, ()))
            shared = project.services.shared.digests()
            for digest in shared:
                assert sha256(Artifacts(artifacts).path(digest).read_bytes()).hexdigest() == digest
            return (await project.certificates.verify_all()), shared & named

    found, shared = asyncio.run(look())
    assert found.exit_code is ExitCode.DONE
    assert found.is_pinned
    assert [each.id for each in found.certificates] == [issued.id]
    assert shared
    assert {path: (root / path).read_bytes() for path in views} == views


def test_pruning_removes_what_nothing_names_from_the_database(postgresql_url, make_project, monkeypatch):
    monkeypatch.setenv("ESPER_DATABASE_URL", postgresql_url.render_as_string(hide_password=False))
    root = make_project({"train.py": FAULTY})
    judge(root)

    async def run():
        async with open_project(root) as project:
            place, run = project.services.place, project.services.store.run
            before = project.services.shared.digests()
            stray = kept(Artifacts(place.artifacts), b"stray")

            def age(store):
                with store.writing() as transaction:
                    transaction.connection.execute(update(artifact).values(stored_at="2020-01-01T00:00:00.000Z"))

            await run(age)
            chosen = await project.certificates.prunable(days=90)
            done = await project.certificates.prune(chosen, days=90)
            return before, stray, done, project.services.shared.digests()

    before, stray, done, after = asyncio.run(run())
    assert stray in {each.sha256 for each in done.shared}
    assert after == before - {each.sha256 for each in done.shared}
    assert after
