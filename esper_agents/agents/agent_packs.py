"""Packs named by an agent definition: offer the installed ones, recommend the others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.agents.plugins import PluginPart

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from esper_agents.agents.plugins import Plugin
    from esper_agents.domain.agent import Agent

_NAME = r"[a-z0-9][a-z0-9_.-]{1,62}[a-z0-9]"
# Path patterns by which definitions look for a pack: `plugins/NAME/plugin.json`,
# `plugins/NAME/.claude-plugin/plugin.json`.
_LOOKED_FOR = re.compile(rf"\bplugins/({_NAME})/(?:\.claude-plugin/)?(?:plugin\.json|skills\b|agents\b|commands\b)")
_RECOMMENDED = re.compile(
    rf"\brecommend(?:ed)?\b\s*:?\s*[`*\"']*({_NAME})[`*\"']*\s*(?:for|:|-)\s+([^\n\"')]+)", re.IGNORECASE
)
_SENT_TO = re.compile(rf"\(\s*(?:use|see)\s+`?({_NAME}-{_NAME})`?(?:\s+(?:pack|plugin))?\s*\)")
_OF_A_SKILL = re.compile(rf"({_NAME}):{_NAME}")
_MOST_PACKS = 40
_LONGEST = 160


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack named by a definition.

    Attributes:
        name: The name as written there.
        what_for: The purpose that the definition states, or empty.
        agents: The agents it provides; none if it is missing.
        skills: The skills it provides, as `pack:skill`.
        commands: The commands it provides.
    """

    name: str
    what_for: str
    agents: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Packs:
    """The packs named by a definition.

    Attributes:
        present: The installed packs, with their contents.
        missing: The packs that are not installed; they are recommended.
    """

    present: tuple[Pack, ...] = ()
    missing: tuple[Pack, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """One line per pack, for users and for an agent's brief."""
        offered = (f"{each.name} is installed{_for(each)}; it offers {_offer(each)}" for each in self.present)
        wanted = (
            f"{each.name} is not installed{_for(each)}; recommended: esper plugins add PATH" for each in self.missing
        )
        return (*offered, *wanted)


def _for(pack: Pack) -> str:
    return f" ({pack.what_for})" if pack.what_for else ""


def _offer(pack: Pack) -> str:
    return (
        ", ".join((*pack.agents, *pack.skills, *(f"esper run {command}" for command in pack.commands))) or "nothing yet"
    )


def packs_of(agent: Agent, plugins: Iterable[Plugin]) -> Packs:
    """Return the packs named in an agent's text and skills, divided into installed and missing ones.

    The text is only read; nothing in it is run.

    Args:
        agent: The agent.
        plugins: The installed plugins.
    """
    known = {plugin.name: plugin for plugin in plugins}
    own = agent.name.rpartition(":")[0]
    named = {name: why for name, why in _named(agent).items() if name != own}
    return Packs(
        tuple(_offered(known[name], why) for name, why in named.items() if name in known),
        tuple(Pack(name, why) for name, why in named.items() if name not in known),
    )


def _named(agent: Agent) -> Mapping[str, str]:
    """Return the stated purpose of the packs, in the order of their appearance."""
    why = {name.lower(): _tidied(said) for name, said in _RECOMMENDED.findall(agent.body)}
    looked_for = [each.lower() for each in _LOOKED_FOR.findall(agent.body)]
    # A recommendation alone may mean a library; the name must also look like a pack's name, or appear in a path
    # pattern.
    recommended = [each for each in why if "-" in each]
    of_skills = [found[1] for skill in agent.skills if (found := _OF_A_SKILL.fullmatch(skill))]
    names = (*looked_for, *recommended, *_SENT_TO.findall(agent.body), *of_skills)
    return {name: why.get(name, "") for name in tuple(dict.fromkeys(names))[:_MOST_PACKS]}


def _tidied(said: str) -> str:
    return " ".join(said.split()).rstrip(" .;,`*")[:_LONGEST]


def _offered(plugin: Plugin, what_for: str) -> Pack:
    names = plugin.names
    why = what_for or plugin.description
    return Pack(plugin.name, why, names[PluginPart.AGENTS], names[PluginPart.SKILLS], names[PluginPart.COMMANDS])
