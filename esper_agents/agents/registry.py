"""The agent registry: bundled, project, package and extra-folder definitions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib.metadata import version
from types import MappingProxyType
from typing import TYPE_CHECKING

from esper_agents.agents.definition import load_definition
from esper_agents.agents.plugins import NO_DEFINITIONS, PluginPart
from esper_agents.errors import DefinitionError, NotFoundError
from esper_agents.extensions import extension_points, load_extension
from esper_agents.paths import data_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.metadata import EntryPoint
    from pathlib import Path

    from esper_agents.agents.plugins import Plugin
    from esper_agents.domain.agent import Agent

ENTRY_POINTS = "esper_agents.agents"
PROJECT = "project"
PROJECT_FOLDERS = (".esper/agents", ".claude/agents")

_MOST_FILES = 500


@dataclass(frozen=True, slots=True)
class Registry:
    """The agents that can receive a task.

    Attributes:
        agents: Agents by name, in the order bundled, project, packages, plugins, additional folders; by file within
            each.
        refused: Errors for files that cannot be used; the others remain usable.
    """

    agents: Mapping[str, Agent]
    refused: tuple[DefinitionError, ...]

    def get(self, name: str) -> Agent:
        """Return an agent by its name.

        Raises:
            NotFoundError: There is no agent of this name.
        """
        try:
            return self.agents[name]
        except KeyError:
            raise NotFoundError("agent", name, self.agents, listing="esper agents list") from None

    def known_as(self, name: str) -> tuple[str, ...]:
        """Return the names under which an agent may have worked: its own, and that with or without `project:`.

        A definition of the project that was given by its path had its short name. Two agents that are both here are
        different ones.
        """
        short = name.removeprefix(f"{PROJECT}:")
        other = f"{PROJECT}:{short}" if name == short else short
        return (name,) if {name, other} <= self.agents.keys() else (name, other)

    def neighbours(self, name: str) -> tuple[str, ...]:
        """Return the handoff targets named in an agent's definition, known here or not.

        Raises:
            NotFoundError: There is no agent `name`.
        """
        return self.get(name).hands_off_to

    def neighbours_known(self, name: str) -> tuple[str, ...]:
        """Return the neighbours of an agent that exist in this registry, by their names here.

        A bundled agent takes precedence over a project's or a plugin's agent of the same name; only an agent of the
        same project or plugin reaches those by their short names.

        Raises:
            NotFoundError: There is no agent `name`.
        """
        space = "".join(name.rpartition(":")[:2])
        found = (
            neighbour if neighbour in self.agents else f"{space}{neighbour}" for neighbour in self.neighbours(name)
        )
        return tuple(dict.fromkeys(each for each in found if each in self.agents and each != name))


def load_registry(project_root: Path | None, *, extra: Sequence[Path] = (), plugins: Sequence[Plugin] = ()) -> Registry:
    """Return the registry of all agents that can be found.

    An agent never replaces one found earlier: the later file is rejected.

    Args:
        project_root: The project whose `.esper/agents` and `.claude/agents` are read as `project:NAME`; None for no
            project.
        extra: Additional definitions, or folders of them, such as the user's own.
        plugins: Plugins whose agents are `plugin:NAME`.
    """
    gathering = _Gathering()
    gathering.take_folder(data_folder("prompts") / "agents", provider=f"esper-agents {version('esper-agents')}")
    if project_root is not None:
        for folder in PROJECT_FOLDERS:
            gathering.take_folder(project_root / folder, boundary=project_root, namespace=PROJECT)
    for point in extension_points(ENTRY_POINTS):
        gathering.take_entry_point(point)
    for plugin in plugins:
        for path in plugin.paths(PluginPart.AGENTS):
            gathering.take(path, namespace=plugin.name, provider=plugin.provider)
    gathering.take_all(extra)
    return gathering.registry()


def load_definitions(paths: Sequence[Path]) -> Registry:
    """Return a registry of only these files and folders, as `esper agents lint PATH` checks them."""
    gathering = _Gathering()
    gathering.take_all(paths)
    return gathering.registry()


@dataclass
class _Gathering:
    agents: dict[str, Agent] = field(default_factory=dict)
    refused: list[DefinitionError] = field(default_factory=list)

    def registry(self) -> Registry:
        """Return the registry of the collected agents."""
        return Registry(MappingProxyType(self.agents), tuple(self.refused))

    def take_all(self, paths: Sequence[Path], *, provider: str = "") -> None:
        """Add files, and every definition in folders."""
        for path in paths:
            if path.is_dir():
                self.take_folder(path, provider=provider)
            else:
                self.take(path, provider=provider)

    def take_folder(
        self, folder: Path, *, boundary: Path | None = None, namespace: str = "", provider: str = ""
    ) -> None:
        """Add every definition in a folder, except links to files outside it.

        Args:
            folder: The folder; it may be missing.
            boundary: Folder that must contain the resolved folder; None for no restriction.
            namespace: Prefix of the names.
            provider: Provider of the definitions.
        """
        try:
            if not folder.is_dir():
                return
            within = folder.resolve()
            if boundary is not None and not within.is_relative_to(boundary.resolve()):
                self._refuse_link(folder)
                return
            for path in self._definitions(folder):
                if path.resolve().is_relative_to(within):
                    self.take(path, namespace=namespace, provider=provider)
                else:
                    self._refuse_link(path)
        except OSError as error:
            self._refuse(folder, (error.strerror or "cannot be read").lower(), "make the folder readable")

    def _definitions(self, folder: Path) -> list[Path]:
        markdown = (path for path in folder.iterdir() if path.suffix.lower() == ".md")
        paths = sorted(path for path in markdown if path.name.lower() not in NO_DEFINITIONS)
        if len(paths) > _MOST_FILES:
            self._refuse(folder, f"contains more than {_MOST_FILES} definitions", "move some of them elsewhere")
        return paths[:_MOST_FILES]

    def take(self, path: Path, *, namespace: str = "", provider: str = "") -> None:
        """Add one definition, unless it cannot be used or its name is already used."""
        if not path.is_file():
            self._refuse(path, "is not a file", "name a Markdown file")
            return
        try:
            agent = load_definition(path, namespace=namespace)
        except DefinitionError as error:
            self.refused.append(error)
            return
        if agent.name in self.agents:
            owner = self.agents[agent.name].path
            self._refuse(path, f"the name {agent.name!r} is already used by {owner}", "give it another `name:`")
        else:
            self.agents[agent.name] = replace(agent, provider=provider)

    def take_entry_point(self, point: EntryPoint) -> None:
        """Add another package's definitions: its entry point is a path, or a package whose folder contains them."""
        try:
            found = load_extension(point)
            self.take_all(found.folders, provider=found.provider)
        except DefinitionError as error:
            self.refused.append(error)

    def _refuse_link(self, path: Path) -> None:
        # A link could point to a file with secrets, and the text of a definition is sent to a model.
        self._refuse(path, "is a link to a file outside its folder", "replace it with a copy")

    def _refuse(self, path: Path, problem: str, remedy: str) -> None:
        self.refused.append(DefinitionError(str(path), problem, remedy=remedy))
