"""Skill folders of plugins and of other Python packages."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from esper_agents.errors import DefinitionError
from esper_agents.extensions import extension_points, load_extension

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from esper_agents.agents.plugins import Plugin

ENTRY_POINTS = "esper_agents.skills"


@dataclass(frozen=True, slots=True)
class SkillFolders:
    """Additional folders of skills.

    Attributes:
        pairs: The folders with the prefixes of their skills' names.
        providers: Providers of the skills by name prefix; bundled skills have no prefix.
        refused: Errors for entry points that cannot be used; the others remain usable.
    """

    pairs: tuple[tuple[Path, str], ...]
    providers: Mapping[str, str]
    refused: tuple[DefinitionError, ...] = ()


def skill_folders(plugins: Sequence[Plugin] = ()) -> SkillFolders:
    """Return the skill folders of plugins and installed packages.

    A package's skills are `NAME:SKILL`, with the name of its entry point, whose value is a path or a package.
    """
    pairs = [(folder, plugin.name) for plugin in plugins for folder in plugin.skill_folders]
    providers = {"": f"esper-agents {version('esper-agents')}"} | {each.name: each.provider for each in plugins}
    refused: list[DefinitionError] = []
    for point in extension_points(ENTRY_POINTS):
        try:
            found = load_extension(point)
            pairs += [(folder, point.name) for folder in found.folders]
        except DefinitionError as error:
            refused.append(error)
        else:
            providers.setdefault(point.name, found.provider)
    return SkillFolders(tuple(pairs), providers, tuple(refused))
