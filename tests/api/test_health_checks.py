"""What the checkup finds wrong, and what it says mends it."""

from __future__ import annotations

import asyncio
import os
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from command_line import build
from judged import FAULTY, judge
from typer.testing import CliRunner

from esper_agents.api.environment_checks import Folder, find_versions, look_at_folder
from esper_agents.api.health_checks import LEAST_FREE_BYTES, check_health, general_problems
from esper_agents.errors import InputFileError


@pytest.fixture
def judged(judged_project):
    return judged_project


@pytest.fixture
def database(judged, home):
    (found,) = home.glob("projects/*/esper.db")
    return found


def look(root):
    return asyncio.run(check_health(root))


def test_a_sound_project_has_no_problem_and_its_parts_are_counted(judged, database) -> None:
    found = look(judged.root)
    assert found.problems == ()
    assert (found.database.sessions, found.database.certificates) == (1, 1)
    assert found.database.where == str(database)
    assert found.database.size_bytes == database.stat().st_size
    assert found.folder.free_bytes > 0


def test_a_project_without_a_database_gets_none(project, home) -> None:
    found = look(project)
    assert not found.database.exists
    assert found.problems == ()
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("under_git", [True, False])
def test_views_are_published_where_it_says(make_project, under_git) -> None:
    judged = judge(make_project({"train.py": FAULTY}, under_git=under_git))
    published = look(judged.root).publishing
    assert judged.view.is_relative_to(published.folder)
    assert published.because == ("the project is ours to write" if under_git else "the project is not under git")


def test_a_folder_for_views_that_leads_elsewhere_is_not_used(project, tmp_path, home) -> None:
    (project / "docs").symlink_to(tmp_path)
    published = look(project).publishing
    assert published.because == "docs/ai/agents leads out of the project"
    assert published.folder.is_relative_to(home)
    assert judge(project).view.is_relative_to(published.folder)


def test_a_file_that_is_no_database_is_named(judged, database) -> None:
    database.write_bytes(b"no database at all, but long enough to look at" * 100)
    found = look(judged.root)
    (problem,) = found.problems
    assert "is damaged or not a database" in problem.problem
    assert problem.remedy.startswith("move the file away")
    assert found.database.sessions is None


def test_damage_that_no_other_look_meets_is_found(judged, database) -> None:
    with closing(sqlite3.connect(database)) as connection:
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        wanted = "SELECT rootpage FROM sqlite_master WHERE name = 'ix_ledger_session_id_seq'"
        page = connection.execute(wanted).fetchone()[0]
    with database.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\x00" * size)
    found = look(judged.root)
    assert found.database.certificates == 1
    (problem,) = found.problems
    assert "is damaged" in problem.problem
    assert f"mv {database} {database}.damaged" in problem.remedy


def test_a_database_of_a_newer_version_is_named(judged, database) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    (problem,) = look(judged.root).problems
    assert "the database has schema version 9999" in problem.problem
    assert problem.remedy == "pip install --upgrade esper-agents"


def add_sessions(database, count, **columns) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        first = dict(zip(*_one_row(connection), strict=True))
        for number in range(count):
            row = first | {"id": f"ses_{number:032x}", "state": "open"} | columns
            marks = ", ".join("?" * len(row))
            connection.execute("INSERT INTO session VALUES (%s)" % marks, tuple(row.values()))  # noqa: S608, UP031


@pytest.mark.parametrize("count", [2, 12])
def test_interrupted_sessions_are_one_problem_with_one_remedy(judged, database, count) -> None:
    add_sessions(database, count)
    found = look(judged.root)
    assert len(found.database.interrupted) == count
    (problem,) = found.problems
    assert problem.problem == f"{count} sessions are interrupted"
    assert "`esper sessions cancel --interrupted`" in problem.remedy


def test_one_interrupted_session_is_named(judged, database) -> None:
    add_sessions(database, 1)
    (problem,) = look(judged.root).problems
    assert problem.problem == f"session ses_{0:032x} is interrupted"
    assert f"`esper resume ses_{0:032x}`" in problem.remedy


def test_a_queued_session_is_not_interrupted(judged, monkeypatch) -> None:
    monkeypatch.chdir(judged.root)
    queued = CliRunner().invoke(build(), ["submit", "--queue", "review this training code", "train.py"])
    assert queued.exit_code == 0, queued.output
    assert look(judged.root).problems == ()


def _one_row(connection):
    cursor = connection.execute("SELECT * FROM session LIMIT 1")
    return [each[0] for each in cursor.description], cursor.fetchone()


def test_a_definition_that_was_refused_is_named(project) -> None:
    agents = project / ".claude" / "agents"
    agents.mkdir(parents=True)
    (agents / "empty.md").write_text("")
    (problem,) = look(project).problems
    assert "empty.md" in problem.problem
    assert problem.remedy


def test_a_machine_without_git_is_told_so(project, monkeypatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    found = look(project)
    assert found.versions.git == ""
    assert found.problems[0].problem.startswith("git is not found")


@pytest.mark.parametrize("url", ["nonsense", "nobase://", "postgresql://me:secret@127.0.0.1:1/none"])
def test_a_database_url_that_leads_nowhere_is_named_without_its_password(project, monkeypatch, url) -> None:
    monkeypatch.setenv("ESPER_DATABASE_URL", url)
    found = look(project)
    (problem,) = found.problems
    assert "secret" not in f"{found}"
    assert "ESPER_DATABASE_URL" in problem.problem + problem.remedy


def test_a_home_that_is_a_file_cannot_be_written(project, tmp_path, monkeypatch) -> None:
    (tmp_path / "occupied").write_text("")
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "occupied"))
    found = look(project)
    assert not found.folder.is_writable
    assert "or set ESPER_HOME to a folder that you may write" in found.problems[0].remedy


def test_a_folder_that_cannot_even_be_made_is_not_writable() -> None:
    assert not look_at_folder(Path("/proc/none/of/this")).is_writable


def test_a_remedy_for_a_folder_with_a_strange_name_can_be_pasted(tmp_path) -> None:
    folder = Folder(f"{tmp_path}/a b; c", is_writable=False, free_bytes=LEAST_FREE_BYTES)
    (problem,) = general_problems(find_versions(), folder)
    assert shlex.quote(folder.path) in problem.remedy


def test_a_disk_that_is_nearly_full_is_named_before_it_is_full() -> None:
    versions = find_versions()
    assert list(general_problems(versions, Folder(os.sep, is_writable=True, free_bytes=LEAST_FREE_BYTES))) == []
    (problem,) = general_problems(versions, Folder(os.sep, is_writable=True, free_bytes=LEAST_FREE_BYTES - 1))
    assert "has only 99 MB left" in problem.problem


def test_a_path_that_is_not_there_is_refused(project) -> None:
    with pytest.raises(InputFileError, match="no such file or folder"):
        look(project / "nowhere")
