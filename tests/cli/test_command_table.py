"""The generated table of commands that suggestions are checked against."""

from __future__ import annotations

import json
import os
from enum import EnumType

import typer
from command_line import build

from esper_agents.certificates.suggested_command import TABLE
from esper_agents.paths import data_folder

REWRITE = bool(os.environ.get("ESPER_REWRITE_EXPECTED"))


def shapes(command, name=()):
    """Return the arguments and options of a command and its subcommands, by name."""
    found = {}
    is_group = hasattr(command, "commands")
    # The group `torch` builds its commands on first use.
    subcommands = (
        {list_command: command.get_command(None, list_command) for list_command in command.list_commands(None)}
        if is_group
        else {}
    )
    for each, subcommand in subcommands.items():
        found |= shapes(subcommand, (*name, each))
    if name and (not is_group or getattr(command, "invoke_without_command", False)):
        arguments = [param for param in command.params if param.param_type_name == "argument"]
        options = [param for param in command.params if param.param_type_name == "option"]
        found[" ".join(name)] = {
            "least": sum(argument.required for argument in arguments),
            "most": None
            if any(argument.nargs == -1 for argument in arguments)
            else sum(argument.nargs for argument in arguments),
            "options": dict(
                sorted(
                    {"--help": 0}.items()
                    | {
                        (text, 0 if option.is_flag or option.count else option.nargs)
                        for option in options
                        for text in (*option.opts, *option.secondary_opts)
                    }
                )
            ),
            "choices": {
                text: [str(one) for one in annotation]
                for option in options
                if isinstance(annotation := option.type_descriptor.annotation, EnumType)
                for text in option.opts
            },
        }
    return found


def test_the_table_of_commands_is_that_of_the_command_line():
    found = dict(sorted(shapes(typer.main.get_command(build())).items()))
    stored = data_folder("certificates") / TABLE
    if REWRITE:
        rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in found.items())
        stored.write_text(f"{{\n{rows}\n}}\n", encoding="utf-8")
    assert json.loads(stored.read_text(encoding="utf-8")) == found, "run `make docs`"
