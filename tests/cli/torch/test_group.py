"""`esper torch --help`: what there is, with an example each, and made only when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

COMMANDS = ["explain", "export", "memory", "nan", "profile", "environment", "recheck"]


def esper(*arguments):
    command = [sys.executable, "-m", "esper_agents.cli.main", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def helped():
    return esper("torch", "--help")


def test_every_command_has_one_whole_line(helped):
    _, _, listed = helped.partition("Commands:\n")
    lines = {line.split()[0]: line for line in listed.splitlines() if line.strip()}
    assert not [lines[name] for name in COMMANDS if lines[name].endswith("...")]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_an_example_of_itself(name):
    shown = esper("torch", name, "--help")
    assert f"\n    esper torch {name}" in shown


def test_the_commands_are_not_made_for_other_help():
    code = (
        "import sys, typer; from esper_agents.cli.main import build, keep_examples;"
        "keep_examples(typer.main.get_command(build()));"
        "loaded = [each for each in sys.modules if each.startswith(('esper_agents.torchlab', 'rich', 'torch'))];"
        "print(loaded)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
