"""Write `esper_agents/cli/completion_table.py` from the commands: `python checks/completion_table.py > FILE`."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import typer.main

from esper_agents.cli.main import build
from esper_agents.domain.status import Status

_KINDS = {
    "AGENT": "agent",
    "CERT": "certificate",
    "CODE": "rule",
    "ID": "certificate",
    "ID|FILE": "certificate",
    "RULE": "rule",
    "SESSION": "session",
    "STATUS": "status",
}
_HEAD = '''"""Commands, options and statuses for shell completion; written by `checks/completion_table.py`."""

# ruff: noqa: E501 - choices are one text

from __future__ import annotations

# Command: short help, options with the kinds of their values, kinds of the arguments, subcommands.
TABLE: dict[str, tuple[str, dict[str, str], tuple[str, ...], tuple[str, ...]]] = '''


def table() -> dict[str, tuple[str, dict[str, str], tuple[str, ...], tuple[str, ...]]]:
    """Return the visible commands by their words."""
    found: dict[str, Any] = {}

    def walk(path: str, command: Any) -> None:
        names = command.list_commands(None) if hasattr(command, "list_commands") else []
        inner = {name: command.get_command(None, name) for name in names}
        shown = {name: each for name, each in inner.items() if not each.hidden}
        params = [param for param in command.params if not getattr(param, "hidden", False)]
        options = {name: _kind(each) for each in params if each.param_type_name == "option" for name in each.opts}
        arguments = tuple(_kind(each) for each in params if each.param_type_name == "argument")
        text = command.get_short_help_str(limit=1000) if path else ""
        found[path] = (text, options, arguments, tuple(shown))
        for name, each in shown.items():
            walk(f"{path} {name}".strip(), each)

    walk("", typer.main.get_command(build()))
    return found


def _kind(param: Any) -> str:
    if getattr(param, "is_flag", False):
        return ""
    described = param.type_descriptor
    if described.is_choice and described.choices:
        return "|".join(str(choice.value) for choice in described.choices) + "|"
    return _KINDS.get(param.metavar or "", "text")


def written() -> str:
    """Return the module."""
    text = f"{_HEAD}{table()!r}\n\nSTATUSES: tuple[str, ...] = {tuple(map(str, Status))!r}\n"
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "completion_table.py", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.stdout.write(written())
