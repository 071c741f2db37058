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
    subcommands = {each: command.get_command(None, each) for each in command.list_commands(None)} if is_group else {}
    for each, subcommand in subcommands.items():
        found |= shapes(subcommand, (*name, each))
    if name and (not is_group or getattr(command, "invoke_without_command", False)):
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        options = [each for each in command.params if each.param_type_name == "option"]
        found[" ".join(name)] = {
            "least": sum(each.required for each in arguments),
            "most": None if any(each.nargs == -1 for each in arguments) else sum(each.nargs for each in arguments),
            "options": dict(
                sorted(
                    {"--help": 0}.items()
                    | {
                        (text, 0 if each.is_flag or each.count else each.nargs)
                        for each in options
                        for text in (*each.opts, *each.secondary_opts)
                    }
                )
            ),
            "choices": {
                text: [str(one) for one in annotation]
                for each in options
                if isinstance(annotation := each.type_descriptor.annotation, EnumType)
                for text in each.opts
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
