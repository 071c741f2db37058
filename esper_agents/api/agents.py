"""Agents, skills, plugins and task templates of a project; reading them needs no database."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.api.service import Service
from esper_agents.errors import InputFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from esper_agents.agents.agent_packs import Packs
    from esper_agents.agents.commands import Command, Commands
    from esper_agents.agents.plugin_store import Installed
    from esper_agents.agents.plugins import Plugin
    from esper_agents.agents.registry import Registry
    from esper_agents.agents.skill_library import SkillLibrary
    from esper_agents.agents.skills import SkillFile
    from esper_agents.api.project import OpenProject
    from esper_agents.domain.agent import Agent, DefinitionWarning
    from esper_agents.domain.route import Route
    from esper_agents.domain.task import Task
    from esper_agents.errors import DefinitionError
    from esper_agents.learning.proposals import Proposal
    from esper_agents.reasoning.playbook import Play
    from esper_agents.reasoning.reasoner import ReasonerSource
    from esper_agents.tools.registry import ToolRegistry
    from esper_agents.tools.tool import Tool
    from esper_agents.tools.tool_names import OfferedTools

# The router reads only the start and the end of long code.
_MOST_ROUTED_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class AgentDetails:
    """One agent and what it can use in a project.

    Attributes:
        agent: The agent.
        packs: Packs named by its definition, installed or missing.
        offered: Tools that it may call, and those unavailable with the reasons.
        has_playbook: Whether it works without a model.
    """

    agent: Agent
    packs: Packs
    offered: OfferedTools
    has_playbook: bool


@dataclass(frozen=True, slots=True)
class LintResult:
    """Result of checking definitions or skills.

    Attributes:
        checked: Number of definitions or skills that can be used.
        warnings: Lines that could mislead the router, a user or an agent.
        refused: Errors for files that cannot be used.
    """

    checked: int
    warnings: tuple[DefinitionWarning, ...]
    refused: tuple[DefinitionError, ...]


@dataclass(frozen=True, slots=True)
class MissingTool:
    """A tool that agents of a plugin name and cannot have.

    Attributes:
        name: Name of the tool, as the definitions write it.
        reason: Reason that it is unavailable.
        agents: Agents that name it.
    """

    name: str
    reason: str
    agents: tuple[str, ...]


def load_agents(path: str | Path = ".", *, plugins: Sequence[Path] = ()) -> AgentCatalog:
    """Return the agents and skills of the project that contains a path.

    Args:
        path: A file or folder of the project.
        plugins: Plugin folders in addition to the installed plugins.

    Raises:
        InputFileError: The path does not exist.

    Example:
        from esper_agents.api import load_agents

        for name in load_agents(".").registry.agents:
            print(name)
    """
    from esper_agents.git.find_project import find_project

    found = find_project([Path(path)], Path.cwd())
    return AgentCatalog(Path(found.root), found.key, plugins=plugins)


class AgentCatalog:
    """Agents, skills, plugins, tools and task templates of one project.

    Attributes:
        root: Project directory.
    """

    def __init__(
        self,
        root: Path,
        key: str,
        *,
        plugins: Sequence[Path] = (),
        agents: Sequence[Path] = (),
        tools: Iterable[Tool] = (),
        playbooks: Mapping[str, Play] | None = None,
    ) -> None:
        """Describe the sources; use `load_agents` or `OpenProject.agents`."""
        self.root = root
        self._data_key = key
        self._plugin_folders = tuple(plugins)
        self._agent_paths = tuple(agents)
        self._extra_tools = tuple(tools)
        self._extra_playbooks = playbooks or {}

    @cached_property
    def plugins(self) -> Installed:
        """Installed and additional plugins, and errors for those whose files have changed.

        Raises:
            DefinitionError: An additional plugin folder cannot be used, or two have the same name.
        """
        from esper_agents.agents.plugin_store import plugins_with

        return plugins_with(self._plugin_folders)

    @cached_property
    def registry(self) -> Registry:
        """Agents by name, and errors for definitions and plugins that cannot be used."""
        from esper_agents.agents.registry import load_registry

        found = load_registry(self.root, extra=self._agent_paths, plugins=self.plugins.plugins)
        return replace(found, refused=(*found.refused, *self.plugins.refused))

    @cached_property
    def tools(self) -> ToolRegistry:
        """Tools by name."""
        from esper_agents.tools.registry import load_tools

        return load_tools(self._extra_tools)

    @cached_property
    def playbooks(self) -> Mapping[str, ReasonerSource]:
        """Playbooks by agent name; an agent without one needs a model."""
        from esper_agents.reasoning.playbook import load_playbooks

        return load_playbooks(self._extra_playbooks)

    @property
    def skills(self) -> SkillLibrary:
        """Skills by name, and errors for files and plugins that cannot be used; searched on every access."""
        from esper_agents.agents.skill_folders import skill_folders
        from esper_agents.agents.skill_library import load_skills

        folders = skill_folders(self.plugins.plugins)
        return replace(load_skills(self.root, folders.pairs), unusable=(*self.plugins.refused, *folders.refused))

    def show(self, name: str) -> AgentDetails:
        """Return an agent with its tools and packs.

        Raises:
            NotFoundError: There is no agent of this name.
        """
        from esper_agents.agents.agent_packs import packs_of

        agent = self.registry.get(name)
        packs = packs_of(agent, self.plugins.plugins)
        return AgentDetails(agent, packs, self.tools.offered(agent.tools), name in self.playbooks)

    def lint(self, paths: Sequence[Path] = ()) -> LintResult:
        """Check agent definitions.

        Args:
            paths: Definition files, or folders of them; all agents of the project if empty.

        Raises:
            InputFileError: A path does not exist.
        """
        from esper_agents.agents.lint import lint_agent
        from esper_agents.agents.registry import load_definitions

        checked = load_definitions(_existing(paths)) if paths else self.registry
        names = {*self.registry.agents, *checked.agents}
        warnings: list[DefinitionWarning] = []
        for agent in checked.agents.values():
            offered = self.tools.offered(agent.tools)
            warnings += lint_agent(
                agent, agents=names, tools=self.tools.tools, unknown=offered.unknown, missing=offered.missing
            )
        return LintResult(len(checked.agents), tuple(warnings), checked.refused)

    def lint_skills(self, paths: Sequence[Path] = ()) -> LintResult:
        """Check skill files.

        Args:
            paths: Skill folders, or folders of them; all skills of the project if empty.

        Raises:
            InputFileError: A path does not exist or contains no skill.
        """
        from esper_agents.agents.skill_lint import lint_all

        library = _skills_in(paths) if paths else self.skills
        warnings, unusable = lint_all(library.files, library.skills)
        return LintResult(len(library.skills), tuple(warnings), (*library.refused, *unusable))

    def export(self) -> str:
        """Return all agents as one Markdown document."""
        from esper_agents.agents.export import render_registry

        return render_registry(self.registry)

    def route(self, request: str, files: Sequence[Path] = ()) -> Route:
        """Return the agent that would get a request, with the score of each candidate.

        Of agents that fit almost equally, it prefers one that can act: one with a playbook, or any if the environment
        provides access to a model.

        Args:
            request: The request in plain language.
            files: Files of the request.

        Raises:
            InputFileError: A file cannot be read.
        """
        from esper_agents.agents.router import Router
        from esper_agents.api.models import has_model_key

        code = "\n".join(_read(path) for path in files)
        router = Router(tuple(self.registry.agents.values()))
        able = None if has_model_key() else self.playbooks.keys()
        return router.route(request, code=code, paths=[path.as_posix() for path in files], able=able)

    def templates(self) -> Commands:
        """Return the task templates: the bundled ones and the commands of plugins."""
        from esper_agents.agents.commands import load_commands

        return load_commands(self.plugins.plugins)

    def proposed_skill(self, name: str) -> Proposal:
        """Return a skill that a retrospect has proposed for the project.

        Raises:
            NotFoundError: There is no proposed skill of that name.
        """
        from esper_agents.learning.proposals import find_proposal
        from esper_agents.paths import project_home

        return find_proposal(project_home(self._data_key), name)

    def accept_skill(self, proposal: Proposal) -> Path:
        """Add a proposed skill to the project, as the user has read it, and return its file.

        Raises:
            UsageError: The project has a skill of that name, or its skill folder is outside the project.
            StorageError: The file cannot be written.
        """
        from esper_agents.learning.proposals import accept
        from esper_agents.paths import project_home

        return accept(project_home(self._data_key), self.root, proposal)


class AgentService(AgentCatalog, Service):
    """Agents, skills, plugins and task templates of an open project."""

    def __init__(self, project: OpenProject) -> None:
        """Belong to a project; use `OpenProject.agents`."""
        Service.__init__(self, project)
        additions = self._services.additions
        AgentCatalog.__init__(
            self,
            self._root,
            self._key,
            plugins=additions.plugins,
            agents=additions.agents,
            tools=additions.tools,
            playbooks=additions.playbooks,
        )

    def task_from_template(self, template: Command, arguments: Sequence[str] = ()) -> Task:
        """Return the task that a template creates from its arguments; nothing is stored.

        Tools that write files or use the network are denied unless the template names them; a template never allows a
        tool.

        Args:
            template: One of `templates`.
            arguments: Files, folders and words for the template.

        Raises:
            UsageError: The request is empty or too long.
            NotFoundError: The agent named by the template is not installed.
        """
        from esper_agents.agents.commands import filled

        # A plugin names its own agents without its prefix.
        own = f"{template.name.rpartition(':')[0]}:{template.agent}"
        agent = own if own in self.registry.agents else template.agent
        task = self._project.tasks.create(filled(template, arguments), paths_among(arguments), agent=agent)
        return self._project.tasks.restrict(task, deny=self.denied_tools(template))

    def denied_tools(self, template: Command) -> tuple[str, ...]:
        """Return the tools denied for a template's task: those above low risk that the template does not name."""
        from esper_agents.domain.evidence import Risk

        if template.tools is None:
            return ()
        named = {each.name for each in self.tools.named(template.tools)}
        return tuple(
            tool.name for tool in self.tools.tools.values() if tool.risk is not Risk.LOW and tool.name not in named
        )


def missing_tools(plugin: Plugin) -> tuple[MissingTool, ...]:
    """Return the tools that the agents of a plugin name and cannot have, with the reasons."""
    from esper_agents.agents.registry import load_registry
    from esper_agents.tools.registry import load_tools

    tools, agents = load_tools(), dict[tuple[str, str], list[str]]()
    for agent in load_registry(None, plugins=[plugin]).agents.values():
        if agent.name.startswith(f"{plugin.name}:"):
            for name, reason in tools.offered(agent.tools).missing:
                agents.setdefault((name, reason), []).append(agent.name)
    return tuple(MissingTool(name, reason, tuple(names)) for (name, reason), names in agents.items())


def paths_among(arguments: Sequence[str]) -> tuple[Path, ...]:
    """Return the arguments that are files or folders."""
    return tuple(Path(argument) for argument in arguments if argument and Path(argument).expanduser().exists())


def commands_of(project: OpenProject) -> Commands:
    """Return the task templates of a project; `project.agents.templates()` replaces this function."""
    return project.agents.templates()


def task_of(project: OpenProject, command: Command, arguments: Sequence[str]) -> Task:
    """Return the task of a template; `project.agents.task_from_template` replaces this function."""
    return project.agents.task_from_template(command, arguments)


def _existing(paths: Sequence[Path]) -> Sequence[Path]:
    for path in paths:
        if not path.exists():
            raise InputFileError(str(path), "no such file or folder", remedy="correct the path")
    return paths


def _skills_in(paths: Sequence[Path]) -> SkillLibrary:
    from esper_agents.agents.skill_library import SkillLibrary
    from esper_agents.agents.skills import skills_in

    found: list[SkillFile] = []
    for path in _existing(paths):
        if not (here := tuple(skills_in(path))):
            raise InputFileError(str(path), "holds no `SKILL.md`", remedy="name a skill's folder, or a folder of them")
        found += here
    return SkillLibrary(tuple(found))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(_MOST_ROUTED_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise InputFileError(str(path), "cannot be read", remedy="correct the path") from error
