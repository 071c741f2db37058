"""Resolve the tool names of a definition: native names, and Claude Code's by `claude_code.toml`."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.tools.client_tools import CERTIFYING, PREFIX, native_tools

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

_NAMED = re.compile(r"\s*([^\s()]+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_ANYTHING = re.compile(r"[\s:*]*")
_SERVER = "mcp__"
_SHELL = "bash"


@dataclass(frozen=True, slots=True)
class OfferedTools:
    """Resolved tool names of a definition.

    Attributes:
        tools: Names of available tools, sorted.
        moves: Built-in actions of every agent that a name stands for, each with the name.
        missing: Names without a tool, each with the reason.
        unknown: Those of them that exist neither here nor in Claude Code.
    """

    tools: tuple[str, ...]
    moves: tuple[tuple[str, str], ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    unknown: tuple[str, ...] = ()


def resolve_tools(names: Iterable[str] | None, known: Collection[str]) -> OfferedTools:
    """Return the tools that an agent may use.

    Args:
        names: Tools as its definition names them; None if it does not name any, which means all.
        known: Names of all tools.
    """
    if names is None:
        return OfferedTools(tuple(sorted(known)))
    tools: set[str] = set()
    moves, missing, unknown = [], [], []
    for name in names:
        if name in known:
            tools.add(name)
            continue
        found = _read(name)
        if found.is_claude_code:
            tools.update(_table().reading)
        tools.update(found.tools)
        if found.move:
            moves.append((name, found.move))
        elif why := found.why or _not_installed(found.tools, known):
            missing.append((name, why))
            unknown += [] if found.is_claude_code else [name]
    return OfferedTools(tuple(sorted(tools & set(known))), tuple(moves), tuple(missing), tuple(unknown))


@dataclass(frozen=True, slots=True)
class _Read:
    tools: tuple[str, ...] = ()
    move: str = ""
    why: str = ""
    is_claude_code: bool = True


@dataclass(frozen=True, slots=True)
class _Table:
    reading: tuple[str, ...]
    writing: frozenset[str]
    names: Mapping[str, _Read]
    commands: Mapping[tuple[str, ...], tuple[str, ...]]


_UNKNOWN = _Read(why="no tool of that name is installed", is_claude_code=False)


def _not_installed(tools: Collection[str], known: Collection[str]) -> str:
    lacking = sorted(set(tools) - set(known))
    return f"{lacking[0]} is not installed" if lacking else ""


def _read(name: str) -> _Read:
    parts = _NAMED.fullmatch(name)
    word, pattern = (parts[1].casefold(), parts[2] or "") if parts else (name.casefold(), "")
    found = _table().names.get(word) or _table().names.get(_SERVER if word.startswith(_SERVER) else "", _UNKNOWN)
    if not found.tools or _ANYTHING.fullmatch(pattern):
        return found
    if word == _SHELL:
        return _commands(pattern)
    if _table().writing.intersection(found.tools):
        return _Read(why=f"{found.tools[0]} cannot be limited to part of the project")
    return found


def _commands(pattern: str) -> _Read:
    """Return the tools that match the command lines a definition allows."""
    found = {each: tuple(_command(each)) for each in filter(None, map(str.strip, pattern.split(",")))}
    tools = tuple(dict.fromkeys(tool for each in found.values() for tool in each))
    alone = [each for each, those in found.items() if not those]
    return _Read(
        tools=tools, why=f"no shell can be limited to {alone[0]!r}, and no tool does only that" if alone else ""
    )


def _command(text: str) -> Iterator[str]:
    words = tuple(text.replace(":", " ").replace("*", " ").split())
    for length in range(len(words), 0, -1):
        if words[:length] in _table().commands:
            yield from _table().commands[words[:length]]
            return


@cache
def _table() -> _Table:
    file = Path(__file__).with_name("claude_code.toml")
    read: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    names = {
        **{name: _Read(tools=tuple(each)) for name, each in read["tools"].items()},
        **{name: _Read(move=each) for name, each in read["moves"].items()},
        **{name: _Read(why=each) for name, each in read["missing"].items()},
        # Tools of our own server, in a plugin that `esper plugins build` wrote.
        **{f"{PREFIX}{each}": _Read(move="conclude") for each in CERTIFYING},
        **{name: _Read(tools=(each,)) for name, each in native_tools().items()},
    }
    return _Table(
        reading=tuple(read["reading"]),
        writing=frozenset(read["writing"]),
        names={name.casefold(): each for name, each in names.items()},
        commands={tuple(name.split()): tuple(each) for name, each in read["commands"].items()},
    )
