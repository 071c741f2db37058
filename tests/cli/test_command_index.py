"""The table of commands says what the commands say, and a start that imports one command has all of it."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys

import typer.main
from typer.testing import CliRunner

import esper_agents.cli
from esper_agents.cli import main
from esper_agents.cli.command_index import COMMANDS, FREQUENT, overview

# Builds each command alone, in a process that has imported nothing else.
ALONE = """
import json, sys, typer.main
from esper_agents.cli.main import build

def subcommands(command):
    return sorted(getattr(command, "commands", {}))

built = typer.main.get_command(build(sys.argv[1:])).commands
print(json.dumps({name: subcommands(command) for name, command in built.items()}))
"""


def alone(*words):
    command = [sys.executable, "-c", ALONE, *words]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def whole():
    for found in pkgutil.iter_modules(esper_agents.cli.__path__):
        importlib.import_module(f"esper_agents.cli.{found.name}")
    return typer.main.get_command(main.build()).commands


def test_the_table_has_every_command_with_its_short_help():
    shown = {name: command.get_short_help_str(limit=1000) for name, command in whole().items() if not command.hidden}
    assert {name: short_help for name, (short_help, _) in COMMANDS.items()} == shown
    assert list(COMMANDS) == sorted(COMMANDS)


def test_a_command_that_is_loaded_alone_has_all_its_subcommands():
    for name in ("agents", "certificates", "sessions", "review"):
        assert alone(name) == {name: sorted(getattr(whole()[name], "commands", {}))}


def test_of_a_group_the_named_subcommand_is_made_alone_and_an_unknown_one_leaves_the_group_whole():
    assert alone("sessions", "list") == {"sessions": ["list"]}
    assert alone("sessions", "lst") == alone("sessions")


def test_a_frequent_subcommand_needs_the_first_module_of_its_command_alone():
    for name, subcommands in FREQUENT.items():
        for subcommand in subcommands:
            assert alone(name, subcommand) == {name: [subcommand]}


def test_the_help_that_is_written_without_the_commands_is_theirs():
    told = CliRunner().invoke(main.build(), ["--help"], env={"COLUMNS": "80"}).output.splitlines()
    at = told.index("Commands:")
    assert overview().splitlines() == [*told[: at + 1], *sorted(told[at + 1 :])]
