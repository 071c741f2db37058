"""What `docs/operations.md` says of the commands is so."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
from command_line import build
from places import SOUND, Place, git, write

from esper_agents.storage.lease import LEASE_MS

TEXT = (Path(__file__).parents[2] / "docs/operations.md").read_text(encoding="utf-8")
SHOWN = [
    line
    for block in re.findall(r"^```console\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
COMMANDS = [shlex.split(line.removeprefix("$ ")) for line in SHOWN if line.startswith("$ esper")]


def test_every_command_of_the_group_is_told_of():
    group = typer.main.get_command(build()).commands["db"]
    assert set(group.commands) == {words[2] for words in COMMANDS if words[1] == "db"}


@pytest.mark.sample(2)
@pytest.mark.parametrize("option", sorted(set(re.findall(r"`(--[\w-]+)`", TEXT))))
def test_every_option_that_is_named_exists(option):
    app = typer.main.get_command(build())
    commands = [app.commands["worker"], app.commands["submit"], *app.commands["db"].commands.values()]
    assert any(option in param.opts for command in commands for param in command.params)


def test_the_lease_is_as_long_as_it_says():
    assert f"after {LEASE_MS // 1000} seconds" in TEXT


def test_the_commands_work_one_after_the_other(tmp_path):
    root = tmp_path / "src" / "my-model"
    write(root, {"train.py": SOUND})
    git(root, "init", "-q", "-b", "main", "--template=")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    place = Place(root, tmp_path / "home")
    (tmp_path / "backups").mkdir()
    for words in COMMANDS:
        typed = [word.replace("~", str(tmp_path)) for word in words[1:]]
        if words[2:3] == ["join"]:
            # Typed in another checkout, at a terminal that asks.
            git(tmp_path, "clone", "-q", str(root), str(tmp_path / "second"))
            place.esper(*typed, "--yes", cwd=tmp_path / "second", code=0)
        elif words[2:3] == ["grant"]:
            # On PostgreSQL: `tests/storage/test_database_roles.py`.
            assert "an SQLite database has no users" in place.esper(*typed, code=2).stderr
        else:
            place.esper(*typed, code=0)
    assert place.rows("SELECT state FROM session") == [("done",)]
