"""Lint agent definitions: report lines that could mislead the router, a user or the agent."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.agents.decoding import MAX_BYTES
from esper_agents.agents.definition_warnings import DefinitionWarnings, shorten
from esper_agents.agents.registry import PROJECT

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from esper_agents.domain.agent import Agent, DefinitionWarning

_MOST_DESCRIPTION = 2_000


def lint_agent(
    agent: Agent,
    *,
    agents: Collection[str],
    tools: Collection[str],
    unknown: Collection[str] = (),
    missing: Collection[tuple[str, str]] = (),
) -> tuple[DefinitionWarning, ...]:
    """Return all warnings about one definition by line, including those from reading it.

    Args:
        agent: The agent; its file is read again to locate the lines.
        agents: Names of all known agents.
        tools: Names of all known tools, for suggestions.
        unknown: Tools of the definition that exist neither here nor in Claude Code.
        missing: Tools of the definition that cannot be offered, with the reasons; unknown ones are ignored.
    """
    notes, lines = DefinitionWarnings(agent.path), _lines(agent.path)
    short_name = agent.name.rpartition(":")[2]
    if short_name != Path(agent.path).stem:
        line = _line_of("name:", lines)
        notes.add(line, f"name {short_name!r} differs from the file's name", f"rename the file to {short_name}.md")
    if len(agent.description) > _MOST_DESCRIPTION:
        line = _line_of("description:", lines)
        notes.add(line, f"description is longer than {_MOST_DESCRIPTION} characters", "move details into the body")
    if not agent.examples:
        notes.add(1, "no examples of requests", "add `examples:` with requests for it and against it")
    elif all(example.is_for for example in agent.examples):
        notes.add(_line_of("example", lines), "no example of a request for another agent", "add one with `for: false`")
    for tool in unknown:
        remedy = _nearest(_bare(tool), tools) or "delete it, or install the package that provides it"
        notes.add(_line_of(tool, lines), f"unknown tool {shorten(tool)}", remedy)
    for tool, why in missing:
        if tool not in unknown:
            remedy = "leave it for Claude Code, or delete it"
            notes.add(_line_of(tool, lines), f"{shorten(tool)} is not offered here: {why}", remedy)
    _check_names(agent, notes, lines, agents)
    return tuple(sorted((*agent.oddities, *notes.all()), key=lambda oddity: oddity.line))


def _check_names(agent: Agent, notes: DefinitionWarnings, lines: Sequence[str], agents: Collection[str]) -> None:
    space = "".join(agent.name.rpartition(":")[:2])
    named = (
        *agent.hands_off_to,
        *(example.instead for example in agent.examples if not example.instead.startswith("/")),
    )
    for name in dict.fromkeys(named):
        if name and name not in agents and f"{space}{name}" not in agents and f"{PROJECT}:{name}" not in agents:
            remedy = _nearest(name, agents) or "choose one of those that `esper agents list` shows"
            notes.add(_line_of(name, lines), f"hands off to an unknown agent {shorten(name)}", remedy)


def _bare(tool: str) -> str:
    return tool.split("(", 1)[0].strip()


def _nearest(name: str, known: Collection[str]) -> str:
    close = get_close_matches(name, sorted(known), n=1)
    return f"did you mean {close[0]!r}?" if close else ""


def _lines(path: str) -> Sequence[str]:
    try:
        with Path(path).open("rb") as stream:
            return stream.read(MAX_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return ()


def _line_of(text: str, lines: Sequence[str]) -> int:
    return next((number for number, line in enumerate(lines, 1) if text in line), 1)
