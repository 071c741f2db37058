"""`esper doctor`: on a sound machine, and on one where something is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from esper_agents.storage.schema_names import HEAD

CRASH = """
import asyncio, os
from esper_agents.api import open_project

async def crash():
    async with open_project(".") as project:
        await project.tasks.submit(project.tasks.create("review this training code", ["train.py"]))
        os._exit(9)

asyncio.run(crash())
"""


def test_a_sound_project_has_nothing_wrong(desk) -> None:
    done = desk.esper("doctor", code=0)
    assert "nothing is wrong" in done.stdout
    assert f"database: {desk.database}" in " ".join(done.stdout.split())
    found = desk.esper("doctor", "--json", code=0).json
    assert found["is_well"]
    assert (found["database"]["sessions"], found["database"]["certificates"]) == (2, 2)
    assert found["database"]["shape"] == HEAD
    assert found["database"]["size_bytes"] == desk.database.stat().st_size
    assert found["versions"]["git"]
    assert found["folder"]["free_bytes"] > 0


def test_looking_leaves_no_file_behind(desk, everything, tmp_path) -> None:
    before = everything()
    desk.esper("doctor", code=0)
    assert everything() == before
    elsewhere = type(desk)(desk.root, tmp_path / "home")
    assert "not created yet" in " ".join(elsewhere.esper("doctor", code=0).stdout.split())
    assert not elsewhere.home.exists()


def test_a_file_that_is_no_database_is_named_with_what_mends_it(desk) -> None:
    desk.database.write_bytes(b"no database at all, but long enough to look at" * 100)
    done = desk.esper("doctor", code=1)
    assert "wrong: " in done.stdout
    assert "is damaged or not a database" in " ".join(done.stdout.split())
    assert "fix: move the file away" in done.stdout


def test_a_read_only_data_folder_is_named_with_what_mends_it(desk, closed, unprivileged) -> None:
    esper = Path(sys.executable).with_name("esper")
    environment = {**os.environ, "ESPER_HOME": str(desk.home)}
    done = subprocess.run(
        [*unprivileged, esper, "doctor"], cwd=desk.root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert f"the data folder '{closed}' cannot be written" in " ".join(done.stdout.split())
    assert f"chmod -R u+rwX {closed}" in done.stdout


@pytest.mark.slow
def test_a_session_of_a_dead_process_is_named_and_its_remedy_works(desk) -> None:
    environment = {**os.environ, "ESPER_HOME": str(desk.home)}
    crashed = subprocess.run([sys.executable, "-c", CRASH], cwd=desk.root, env=environment, check=False)
    assert crashed.returncode == 9
    (session,) = desk.rows("SELECT id FROM session WHERE state = 'open'")[0]
    assert f"fix: run `esper resume {session}`" in desk.esper("doctor", code=1).stdout
    desk.esper("resume", session, code=3)
    desk.esper("doctor", code=0)


def test_a_project_that_is_not_there_is_refused(desk) -> None:
    assert desk.esper("doctor", "--project", "nowhere").problem(2)[0] == "no such file or folder: 'nowhere'"


def test_it_has_an_example_in_its_help(desk) -> None:
    assert "esper doctor" in desk.esper("doctor", "--help", code=0).stdout.split("Examples:")[1]
