"""`esper torch --help`: what there is, with an example each, and made only when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer
from command_line import build

from esper_agents.cli.main import keep_examples

COMMANDS = ["data", "explain", "export", "memory", "nan", "profile", "environment", "verify", "watch"]


@pytest.fixture
def helped(capsys, monkeypatch):
    """Return what gives the help of a command, as on a terminal of eighty columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def helped(*words):
        command = typer.main.get_command(build())
        keep_examples(command)
        command([*words, "--help"], standalone_mode=False)
        return capsys.readouterr().out

    return helped


def test_every_command_has_one_whole_line(helped):
    _, _, listed = helped("torch").partition("Commands:\n")
    lines = {line.split()[0]: line for line in listed.splitlines() if line.strip()}
    assert not [lines[name] for name in COMMANDS if lines[name].endswith("...")]


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_an_example_of_itself(helped, name):
    assert f"\n    esper torch {name}" in helped("torch", name)


def test_the_commands_are_not_made_for_other_help():
    code = (
        "import sys, typer; from esper_agents.cli.main import build, keep_examples;"
        "keep_examples(typer.main.get_command(build()));"
        "loaded = [each for each in sys.modules if each.startswith(('esper_agents.torchlab', 'rich', 'torch'))];"
        "print(loaded)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
