"""What `docs/sessions.md` says of the commands is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from command_line import build

TEXT = (Path(__file__).parents[2] / "docs/sessions.md").read_text(encoding="utf-8")
SHOWN = sorted(set(re.findall(r"esper (sessions \w+|resume)([^`\n#]*)", TEXT)))


@pytest.fixture(scope="module")
def options():
    app = typer.main.get_command(build())
    commands = {f"sessions {name}": each for name, each in app.commands["sessions"].commands.items()}
    commands["resume"] = app.commands["resume"]
    return {
        name: {opt for parameter in command.params for opt in parameter.opts if opt.startswith("--")}
        for name, command in commands.items()
    }


@pytest.mark.parametrize(("command", "arguments"), SHOWN)
def test_every_command_and_option_that_is_shown_exists(options, command, arguments):
    assert set(re.findall(r"--[\w-]+", arguments)) <= options[command]


def test_every_command_is_told_of(options):
    assert set(options) == {command for command, _ in SHOWN}
