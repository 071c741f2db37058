"""What `docs/plugins.md` and `docs/retrospect.md` say of commands and formats is so."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
from command_line import build

from esper_agents.agents import registry, skill_folders

DOCS = Path(__file__).parents[2] / "docs"
TEXT = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("plugins.md", "retrospect.md"))
COMMANDS = [shlex.split(line[2:]) for line in re.findall(r"^\$ esper .*$", TEXT, re.MULTILINE)]


@pytest.fixture(scope="module")
def app():
    return typer.main.get_command(build())


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_and_option_that_is_shown_exists(app, words):
    command, known = app, set()
    for word in words[1:]:
        command = getattr(command, "commands", {}).get(word, command)
        known |= {opt for parameter in command.params for opt in parameter.opts}
    assert {each for each in words if each.startswith("--")} <= known


@pytest.mark.parametrize("group", ["plugins", "retrospect"])
def test_every_command_of_the_groups_is_told_of(app, group):
    told = {word for words in COMMANDS if words[1] == group for word in words[2:3]}
    assert {name for name, each in app.commands[group].commands.items() if not each.hidden} <= told


def test_the_groups_of_entry_points_are_those_that_are_looked_for():
    from esper_agents.reasoning import playbook
    from esper_agents.review import catalogue
    from esper_agents.tools import registry as tools

    groups = {registry.ENTRY_POINTS, skill_folders.ENTRY_POINTS, tools._GROUP, catalogue.GROUP, playbook._GROUP}
    assert groups == set(re.findall(r"^\| `(esper_agents\.\w+)` \|", TEXT, re.MULTILINE))
