"""Names of published files: unique, derived from the certificate, and never taken from a row of the database."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
from contextlib import suppress

import pytest
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from places import Place
from rows import is_shared, rows_of
from sqlalchemy import text
from toys import calling

from esper_agents.api import verify_archive
from esper_agents.certificates.views import file_names
from esper_agents.errors import EsperError, ExitCode, IntegrityError
from esper_agents.paths import data_folder
from esper_agents.storage.database_url import database_url
from esper_agents.storage.engine import WRITES, open_engine

pytestmark = pytest.mark.both_databases

MIGRATION = "0007_unique_view_names.py"
INSTANT_MS = 4_000_000_000_000
HOSTILE = ["../../../../../../victim.md", "/tmp/victim.md", "..", "", "a/b.md", "victim.md", "x\n.md", "\u202e.md"]  # noqa: S108 - nothing is to be there


@pytest.fixture
def looking(toybox, monkeypatch):
    toybox.tool("look")
    toybox.agent("worker", calling("look"))
    monkeypatch.chdir(toybox.project)
    return toybox


@pytest.fixture
def in_one_second(looking, monkeypatch):
    """Return what issues certificates of one agent for one file in one second: their views by identifier, in order."""

    def issue(count):
        async def run():
            async with looking.open() as opened:
                monkeypatch.setattr(opened.services.store.store, "_clock", lambda _: INSTANT_MS)
                outcomes = [await (await looking.submit(opened, "worker")).run() for _ in range(count)]
            return {outcome.certificate.id: outcome.view for outcome in outcomes}

        return asyncio.run(run())

    return issue


def on_project(looking, work):
    async def run():
        async with looking.open() as opened:
            return await work(opened)

    return asyncio.run(run())


def soundness(looking):
    """Return how `verify --all` ends for each certificate that is not sound."""
    whole = asyncio.run(verify_archive(looking.project))
    assert whole.faults == ()
    found = {certificate.id: certificate.verified.soundness for certificate in whole.certificates}
    return {name: code for name, code in found.items() if code is not ExitCode.DONE}


def files(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def put_back_to_0_1_0(home, views):
    """Name certificates as version 0.1.0 did whose sessions ran at once: under one name, the last one's files there."""
    (old,) = {view.with_name(re.sub(r"_[0-9a-f]{12}\.md$", ".md", view.name)) for view in views.values()}
    for view in views.values():
        for file in view.parent.glob(f"{view.stem}.*"):
            file.replace(old.with_name(old.stem + file.name.removeprefix(view.stem)))
    with rows_of(home) as connection:
        connection.execute("DROP INDEX uq_certificate_project_key_view_name")
        connection.execute("DROP INDEX ix_note_current")
        connection.execute(f"UPDATE certificate SET view_name = '{old.name}'")  # noqa: S608 - a name of ours
    return old


def upgrade(home):
    """Run the one migration that has been undone."""
    found = importlib.util.spec_from_file_location("migration", data_folder("alembic") / "versions" / MIGRATION)
    migration = importlib.util.module_from_spec(found)
    found.loader.exec_module(migration)
    (file,) = home.glob("projects/*/esper.db") if not is_shared() else (home,)
    engine = open_engine(database_url(file))
    writing = engine.connect().execution_options(**{WRITES: True})
    with writing as connection, connection.begin(), Operations.context(MigrationContext.configure(connection)):
        migration.upgrade()
    engine.dispose()


def test_certificates_of_one_second_have_names_of_their_own(in_one_second, looking):
    views = in_one_second(3)
    assert len({each.name for each in views.values()}) == 3
    for name, view in views.items():
        assert view.name.endswith(f"_{name[-12:]}.md")
        assert view.is_file()
    assert soundness(looking) == {}


def test_certificates_that_version_0_1_0_gave_one_name_are_renamed_and_published_apart(in_one_second, looking, home):
    views = in_one_second(3)
    published = files(looking.project / "docs")
    old = put_back_to_0_1_0(home, views)
    upgrade(home)
    first, second, third = views
    assert set(soundness(looking).values()) == {ExitCode.TAMPERED}
    done = on_project(looking, lambda opened: opened.certificates.repair())
    assert done.left == ()
    assert [(each.certificate, each.kept_by, each.old, each.new) for each in done.separated] == [
        (second, first, old.name, views[second].name),
        (third, first, old.name, views[third].name),
    ]
    assert soundness(looking) == {}
    # The first of them keeps the name that links lead to; the others have what they would have today.
    now = files(looking.project / "docs")
    for view, data in published.items():
        if not view.name.endswith(".tlog-proof"):
            kept = view.name.replace(views[first].stem, old.stem)
            assert now.pop(view.with_name(kept)) == data
    assert {each.suffix for each in now} == {".tlog-proof"}
    now = files(looking.project / "docs")
    again = on_project(looking, lambda opened: opened.certificates.repair())
    assert (again.separated, again.written, again.left) == ((), (), ())
    assert files(looking.project / "docs") == now


def test_a_name_that_version_0_1_0_gave_alone_stays(in_one_second, looking, home):
    views = in_one_second(1)
    old = put_back_to_0_1_0(home, views)
    upgrade(home)
    assert soundness(looking) == {}
    done = on_project(looking, lambda opened: opened.certificates.repair())
    assert (done.separated, done.written) == ((), ())
    assert on_project(looking, lambda opened: opened.certificates.view("latest")) == old


def test_two_certificates_of_a_project_cannot_have_one_name(in_one_second, home):
    views = in_one_second(2)
    first, _ = views.values()
    with rows_of(home) as connection, pytest.raises(Exception, match=r"UNIQUE|unique"):
        connection.execute(f"UPDATE certificate SET view_name = '{first.name}'")  # noqa: S608 - a name of ours


def test_a_certificate_whose_name_is_taken_is_issued_under_all_its_digits(in_one_second, looking, monkeypatch):
    monkeypatch.setattr(file_names, "_DIGITS", 0 + 1)
    monkeypatch.setattr(file_names, "_digits", lambda issued: issued.id.rpartition("_")[2] + "0")
    first, second = in_one_second(2).items()
    assert first[1].name.endswith("_0.md")
    assert second[1].name.endswith(f"_{second[0].rpartition('_')[2]}0.md")
    assert soundness(looking) == {}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", HOSTILE)
def test_no_stored_name_leads_anywhere_and_none_is_followed(in_one_second, looking, home, tmp_path, name):
    ((identifier, view),) = in_one_second(1).items()
    victims = [tmp_path / "victim.md", view.with_name("victim.md"), looking.project / "victim.md"]
    for victim in victims:
        victim.write_text("mine\n")
    before = files(tmp_path)
    rename_row(home, name)

    async def everything(opened):
        for work in (opened.certificates.view, opened.certificates.page):
            with pytest.raises(IntegrityError, match="not one of its names"):
                await work(identifier)

    on_project(looking, everything)
    assert soundness(looking) == {identifier: ExitCode.TAMPERED}
    after = files(tmp_path)
    assert {path: after[path] for path in before if path.suffix != ".db"} == {
        path: data for path, data in before.items() if path.suffix != ".db"
    }
    assert set(after) == set(before)


def test_repair_puts_a_refused_name_right_and_publishes_under_it(in_one_second, looking, home):
    views = in_one_second(2)
    first, second = views
    rename_row(home, "x", first)
    rename_row(home, views[first].name, second)
    done = on_project(looking, lambda opened: opened.certificates.repair())
    assert done.left == ()
    assert set(done.corrected) == {first, second}
    assert on_project(looking, lambda opened: opened.certificates.view(second)) == views[second]
    assert soundness(looking) == {}


def rename_row(home, name, identifier="crt_%"):
    engine = open_engine(database_url(next(home.glob("projects/*/esper.db"), home)))
    with engine.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        statement = text("UPDATE certificate SET view_name = :name WHERE id LIKE :identifier")
        connection.execute(statement, {"name": name, "identifier": identifier})
    engine.dispose()


def test_another_certificate_s_name_is_refused(in_one_second, looking, home):
    views = in_one_second(2)
    first, second = views
    rename_row(home, "x", first)
    rename_row(home, views[first].name, second)
    with pytest.raises(IntegrityError, match="not one of its names"):
        on_project(looking, lambda opened: opened.certificates.view(second))


def test_the_commands_refuse_a_stored_name_in_two_lines(in_one_second, looking, home, tmp_path):
    in_one_second(1)
    rename_row(home, "../../../../../../victim.md")
    (tmp_path / "victim.md").write_text("mine\n")
    place = Place(looking.project, home)
    env = {name: value for name, value in os.environ.items() if name == "ESPER_DATABASE_URL"}
    for command in (("open", "--print-path"), ("certificates", "path")):
        problem, remedy = place.esper(*command, env=env).problem(ExitCode.TAMPERED)
        assert "'../../../../../../victim.md', which is not one of its names" in problem
        assert "esper certificates repair" in remedy
    assert (tmp_path / "victim.md").read_text() == "mine\n"


def test_an_agent_s_name_in_the_database_is_no_folder(in_one_second, looking, home):
    ((identifier, view),) = in_one_second(1).items()
    with rows_of(home) as connection:
        connection.execute("UPDATE certificate SET agent = 'somebody-else'")
    with suppress(EsperError):
        assert on_project(looking, lambda opened: opened.certificates.view(identifier)) == view
    assert not (view.parent.parent.parent / "somebody-else").exists()
