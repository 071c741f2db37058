"""Export the registry as one Markdown document: a roster, then each agent's scope."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.agents.registry import Registry
    from esper_agents.domain.agent import Agent, Example

# Characters that begin markup anywhere in a line, in CommonMark and in GitHub's dialect.
_SPECIAL = re.compile(r"[\\`*_\[\]|<>~$&@]|:(?=//)|(?<=\bwww)\.")
# Characters that begin a heading, a list, a quotation or a rule at the start of a text.
_BLOCK_START = re.compile(r"(?:[#+=-]|\d+(?=[.)]))")
# Some table readers still treat an escaped pipe or angle bracket as markup; a character reference is safe in all of
# them.
_REFERENCE = frozenset("|<>&`@:.")


def escape(text: str) -> str:
    """Return untrusted text escaped as one line of inert Markdown."""
    line = _SPECIAL.sub(_escaped, " ".join(text.split()))
    start = _BLOCK_START.match(line)
    return f"{_reference(line[0])}{line[1:]}" if start else line


def _escaped(match: re.Match[str]) -> str:
    return _reference(match[0]) if match[0] in _REFERENCE else "\\" + match[0]


def _reference(character: str) -> str:
    return f"&#{ord(character)};"


def render_registry(registry: Registry) -> str:
    """Return the registry as a Markdown document; equal registries give equal text."""
    lines = ["# Agents", "", "| agent | domain | model | what it is for |", "| --- | --- | --- | --- |"]
    for agent in registry.agents.values():
        cells = (agent.name, agent.domain, agent.model, _first_sentences(agent.description))
        lines.append("| " + " | ".join(escape(cell) for cell in cells) + " |")
    for agent in registry.agents.values():
        lines.extend(("", *_section(agent)))
    if registry.refused:
        lines.extend(
            ("", "## Files that cannot be used", "", *(f"- {escape(each.problem)}" for each in registry.refused))
        )
    return "\n".join(lines) + "\n"


def _section(agent: Agent) -> Iterator[str]:
    yield f"## {escape(agent.name)}"
    yield ""
    yield escape(agent.description)
    tools = ("every permitted tool",) if agent.tools is None else agent.tools or ("none",)
    for title, items in (
        ("Handles", agent.handles),
        ("Declines", agent.declines),
        ("Hands off to", agent.hands_off_to),
        ("Skills", agent.skills),
        ("Tools", tools),
        ("Examples for it", _requests(agent.examples, is_for=True)),
        ("Examples for others", _requests(agent.examples, is_for=False)),
    ):
        if items:
            yield from ("", f"### {title}", "", *(f"- {escape(item)}" for item in items))


def _requests(examples: Sequence[Example], *, is_for: bool) -> tuple[str, ...]:
    chosen = (example for example in examples if example.is_for is is_for)
    return tuple(f"{each.text} ({each.instead})" if each.instead else each.text for each in chosen)


def _first_sentences(text: str, limit: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit].rsplit(" ", 1)[0] + " ..."
