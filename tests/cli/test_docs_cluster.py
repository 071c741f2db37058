"""What `docs/cluster.md` says of the commands is so."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
from command_line import build
from places import FAULTY, Place, git, write

from esper_agents.storage.lease import LEASE_MS

TEXT = (Path(__file__).parents[2] / "docs/cluster.md").read_text(encoding="utf-8")
SHOWN = [
    line.removeprefix("$ ")
    for block in re.findall(r"^```console\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
COMMANDS = [shlex.split(line) for line in SHOWN]


def test_every_command_of_the_group_is_told_of():
    group = typer.main.get_command(build()).commands["cluster"]
    assert set(group.commands) == {words[2] for words in COMMANDS if words[1] == "cluster"}


@pytest.mark.parametrize("option", sorted(set(re.findall(r"`(--[\w-]+)", TEXT))))
def test_every_option_that_is_named_exists(option):
    app = typer.main.get_command(build())
    commands = [
        *(app.commands[name] for name in ("worker", "review", "submit")),
        *app.commands["cluster"].commands.values(),
    ]
    assert any(option in param.opts for command in commands for param in command.params)


def test_the_lease_is_as_long_as_it_says():
    assert f"else after {LEASE_MS // 1000} seconds" in TEXT


def test_the_commands_without_a_cluster_work(tmp_path):
    root = tmp_path / "my-model"
    write(root, {"train.py": FAULTY})
    git(root, "init", "-q", "-b", "main", "--template=")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    place = Place(root, tmp_path / "home")
    for words in COMMANDS:
        if "ray" not in words:
            place.esper(*words[1:], code=0)
    shown = place.esper("cluster", "status", code=0).stdout
    assert "2 queued" in shown
