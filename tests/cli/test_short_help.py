"""Every command and option has a short help that fits one line."""

from __future__ import annotations

import typer
from command_line import build

LONGEST_COMMAND_HELP = 45
LONGEST_OPTION_HELP = 60
OF_TYPER = {"--install-completion", "--show-completion"}


def _walk(command, path):
    yield path, command
    if hasattr(command, "list_commands"):
        context = typer.Context(command)
        for name in command.list_commands(context):
            yield from _walk(command.get_command(context, name), f"{path} {name}")


def test_every_command_and_option_has_a_short_help():
    commands = dict(_walk(typer.main.get_command(build()), "esper"))
    assert "esper torch compare" in commands
    for path, command in commands.items():
        text = command.get_short_help_str(1000)
        assert text, path
        assert len(text) <= LONGEST_COMMAND_HELP, (path, text)
        assert text[0].isupper(), (path, text)
        assert not text.endswith("."), (path, text)
        assert command.help.startswith(text), (path, command.help)
        for option in command.params:
            if not OF_TYPER.intersection(option.opts):
                assert option.help, (path, option.name)
                assert len(option.help) <= LONGEST_OPTION_HELP, (path, option.help)
                assert not option.help.endswith("."), (path, option.help)
