"""Calls of the server's tools that do what a suggested command does."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

    from esper_agents.api import ParsedCommand

_SUBMIT, _RUN_TESTS = "submit", "--allow"
_COMMAND = re.compile(r"(?:\brun )?`(esper [a-z][^`]*)`|(?:^|(?<=: )|\brun )(esper [a-z].*)$", re.MULTILINE)
# Options of the command line as the tools name them, in texts about arguments.
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]+)")
_ARGUMENTS = {
    **{name: name for name in ("base", "claim", "steps", "train", "device", "effort", "diff")},
    "input": "inputs",
    "inputs": "inputs_from",
}


@dataclass(frozen=True)
class SuggestedCall:
    """Call of a tool of this server.

    Attributes:
        tool: Name of the tool.
        arguments: Its arguments.
        note: What to do before the call, or which arguments to replace; empty if it can be made as it is.
    """

    tool: str
    arguments: dict[str, Any]
    note: str = ""


@dataclass(frozen=True)
class _Served:
    """Tool that does what a command does.

    Attributes:
        tool: Its name.
        arguments: Arguments of the tool for those of the command, in order; the last one may take all others.
        options: Arguments of the tool for options with a value.
        flags: Argument and value for options without a value.
    """

    tool: str
    arguments: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    flags: dict[str, tuple[str, Any]] = field(default_factory=dict)


_INPUTS = {"--input": "inputs", "--inputs": "inputs_from", "--device": "device"}
_TRAIN = {"--train": ("train", True)}
_LISTS = frozenset(("paths", "inputs", "rules"))
_NUMBERS = {"claim": float, "steps": int}
_COMMANDS = {
    _SUBMIT: _Served(
        "submit_task",
        ("request", "paths"),
        {"--diff": "diff", "--agent": "agent", "--rerun": "rerun"},
        {"--pr": ("diff", "branch"), "--staged": ("diff", "--staged")},
    ),
    "review": _Served("review", ("paths",), {"--diff": "diff", "--rule": "rules"}, {"--staged": ("staged", True)}),
    "rule": _Served("explain_rule", ("rule",)),
    "gate": _Served("gate", ("paths",), {"--diff": "diff"}),
    "certificates verify": _Served("verify_certificate", ("certificate",), {"--rev": "rev"}),
    "certificates show": _Served("show_certificate", ("certificate",)),
    "certificates list": _Served("search_certificates"),
    "why": _Served("show_certificate", ("certificate",)),
    "approvals list": _Served("pending_questions"),
    "sessions list": _Served("get_session"),
    "sessions show": _Served("get_session", ("session",)),
    "sessions cancel": _Served("cancel_session", ("session",)),
    "torch compare": _Served(
        "compare",
        ("baseline", "candidate"),
        {**_INPUTS, "--base": "base", "--claim": "claim", "--effort": "effort"},
        {"--train": ("mode", "training-step"), "--throughput": ("mode", "throughput")},
    ),
    "torch profile": _Served("profile", ("target",), {**_INPUTS, "--effort": "effort"}, _TRAIN),
    "torch explain": _Served("explain_compile", ("target",), _INPUTS, _TRAIN),
    "torch memory": _Served("find_memory_growth", ("target",), {**_INPUTS, "--steps": "steps"}, _TRAIN),
    "torch nan": _Served("find_nan", ("target",), {**_INPUTS, "--steps": "steps"}, _TRAIN),
    "torch scaffold": _Served("scaffold_harness", ("target",)),
}


def call_of(command: str, root: Path, allowed: Collection[str] = ()) -> SuggestedCall | None:
    """Return the call that does what a command does; None if no tool does all of it.

    Args:
        command: Suggested command, with paths relative to the working directory.
        root: Project directory.
        allowed: Tools that the user allowed when starting the server.
    """
    from esper_agents.api import parse_command, seen_from

    if not command or (parsed := parse_command(command)) is None or parsed.name not in _COMMANDS:
        return None
    moved = parse_command(seen_from(command, Path.cwd(), root)) or parsed
    return _call(moved, _COMMANDS[parsed.name], allowed)


def _call(parsed: ParsedCommand, served: _Served, allowed: Collection[str]) -> SuggestedCall | None:
    options = dict(parsed.options)
    if parsed.name == _SUBMIT and set(options.pop(_RUN_TESTS, ())) - set(allowed):
        return None
    names = served.arguments[1:] if parsed.name == _SUBMIT and "--rerun" in options else served.arguments
    arguments: dict[str, Any] = {}
    for at, word in enumerate(parsed.arguments):
        if not names:
            return None
        name = names[min(at, len(names) - 1)]
        if name in arguments and name not in _LISTS:
            return None
        arguments[name] = [*arguments.get(name, ()), word] if name in _LISTS else word
    for option, values in options.items():
        if option in served.flags and not values:
            name, value = served.flags[option]
            arguments[name] = value
        elif option in served.options and values:
            name = served.options[option]
            arguments[name] = list(values) if name in _LISTS else _NUMBERS.get(name, str)(values[-1])
        else:
            return None
    return SuggestedCall(served.tool, arguments, parsed.comment)


def for_tools(text: str, root: Path) -> str:
    """Return an advice of the command line for a caller of tools: options as arguments, and commands as calls."""
    import json

    def call(match: re.Match[str]) -> str:
        found = call_of(match[1] or match[2], root)
        if found is None:
            return match[0]
        return f"call {found.tool}{f' with {json.dumps(found.arguments)}' if found.arguments else ''}"

    said = _COMMAND.sub(call, text)
    if _COMMAND.search(said):
        return said
    shown = _OPTION.sub(lambda match: f"`{_ARGUMENTS[match[1]]}`" if match[1] in _ARGUMENTS else match[0], said)
    return f"{shown} (an option of the command, for the user)" if _OPTION.search(shown) else shown
