"""Services of one project for its sessions, loaded on first use."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.domain.certificate import CLAUDE, PLAYBOOK, SECOND_OPINION
from esper_agents.tools.tool import ToolContext

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from esper_agents.agents.plugins import Plugin
    from esper_agents.agents.registry import Registry
    from esper_agents.agents.router import Router
    from esper_agents.agents.skill_folders import SkillFolders
    from esper_agents.agents.skill_library import SkillLibrary
    from esper_agents.certificates.policy.verdict_ceiling import Policy
    from esper_agents.domain.frame import ContextDocument
    from esper_agents.domain.project import Project
    from esper_agents.domain.skill import SkillText
    from esper_agents.domain.status import QuestionType
    from esper_agents.orchestration.settings import PermissionSettings
    from esper_agents.reasoning.model_client import ModelServer
    from esper_agents.reasoning.models import ModelTable
    from esper_agents.reasoning.playbook import Play
    from esper_agents.reasoning.reasoner import ReasonerSource
    from esper_agents.review.companion import CompanionRule
    from esper_agents.storage.store import AsyncStore
    from esper_agents.tools.lab_pool import LabPool
    from esper_agents.tools.registry import ToolRegistry
    from esper_agents.tools.tool import Tool


_MODELS = frozenset((CLAUDE, SECOND_OPINION))
_SECOND_ROLE = "second_opinion"


@dataclass(frozen=True, slots=True)
class ServiceOverrides:
    """What a program brings along beside what is installed.

    Attributes:
        tools: Further tools.
        playbooks: Further playbooks, by the name of their agent.
        agents: Further agent files, or folders of them.
        rules: Modules with further review rules.
        plugins: Folders of plugins beside those that the person has added.
    """

    tools: tuple[Tool, ...] = ()
    playbooks: Mapping[str, Play] = field(default_factory=dict)
    agents: tuple[Path, ...] = ()
    rules: tuple[ModuleType, ...] = ()
    plugins: tuple[Path, ...] = ()


@dataclass(frozen=True)
class ProjectServices:
    """What the sessions of one project work with.

    Attributes:
        project: Whose sessions.
        home: The folder the program keeps the project's things in.
        store: Where the rows live.
        publish: Whether views may be written into the project.
        additions: What the program brings along.
    """

    project: Project
    home: Path
    store: AsyncStore
    publish: bool
    additions: ServiceOverrides

    @cached_property
    def tools(self) -> ToolRegistry:
        """What may be called."""
        from esper_agents.tools.registry import load_tools

        return load_tools(self.additions.tools)

    @cached_property
    def agents(self) -> Registry:
        """Who may be given a task."""
        from esper_agents.agents.registry import load_registry

        return load_registry(Path(self.project.root), extra=self.additions.agents, plugins=self.plugins)

    @cached_property
    def plugins(self) -> tuple[Plugin, ...]:
        """Which plugins bring agents, commands and skills."""
        from esper_agents.agents.plugin_store import plugins_with

        return plugins_with(self.additions.plugins).plugins

    @cached_property
    def skill_folders(self) -> SkillFolders:
        """Where skills are beside ours and the project's."""
        from esper_agents.agents.skill_folders import skill_folders

        return skill_folders(self.plugins)

    @cached_property
    def playbooks(self) -> Mapping[str, ReasonerSource]:
        """What decides without a model, by agent."""
        from esper_agents.reasoning.playbook import load_playbooks

        return load_playbooks(self.additions.playbooks)

    @cached_property
    def policy(self) -> Policy:
        """What sets the ceiling of every verdict."""
        from esper_agents.certificates.policy.verdict_ceiling import load_policy

        return load_policy()

    @cached_property
    def settings(self) -> PermissionSettings:
        """What the person and the project say about tools; read when a tool is first to be called."""
        from esper_agents.orchestration.settings import load_settings
        from esper_agents.paths import home

        return load_settings(home(), Path(self.project.root))

    @cached_property
    def published_types(self) -> frozenset[QuestionType]:
        """Question types whose certificates the user wants published into projects."""
        from esper_agents.orchestration.settings import load_published
        from esper_agents.paths import home

        return load_published(home())

    @cached_property
    def router(self) -> Router:
        """Who is given a task."""
        from esper_agents.agents.router import Router

        return Router(tuple(self.agents.agents.values()))

    @cached_property
    def bench(self) -> LabPool:
        """Where the project's code is measured."""
        from esper_agents.tools.lab_pool import LabPool

        return LabPool(Path(self.project.root))

    @cached_property
    def context(self) -> ToolContext:
        """What tools may touch."""
        root = Path(self.project.root)
        return ToolContext(
            root,
            self.additions.rules,
            self.home,
            self.bench,
            self.companions,
            records=self.record,
            tools=self.tools.tools,
            skills=self._skill_text,
        )

    def record(self, certificate: str) -> bytes:
        """Return the bytes of a certificate of the project that is what was issued; see `genuine`."""
        from esper_agents.orchestration.genuine import load_verified

        return load_verified(self.store.store, self.project, self.home, certificate).data

    @cached_property
    def companions(self) -> tuple[CompanionRule, ...]:
        """What the project's skills say of changes that belong together."""
        from esper_agents.agents.companions import declared_companions

        return declared_companions(Path(self.project.root)).companions

    @property
    def skills(self) -> SkillLibrary:
        """What agents may load; looked for each time, as a person may write one meanwhile."""
        from esper_agents.agents.skill_library import load_skills

        return load_skills(Path(self.project.root), self.skill_folders.pairs)

    def _skill_text(self, skill: str, sheet: str) -> SkillText:
        return self.skills.load(skill, sheet)

    @cached_property
    def models(self) -> ModelTable:
        """The language models that agents may reason with, in the roles that the person gives them."""
        from esper_agents.reasoning.models import load_models

        return load_models().changed(self.settings.roles, self.settings.fallback)

    @cached_property
    def server(self) -> ModelServer:
        """The language models' server; nothing is sent before a reasoner asks."""
        from esper_agents.reasoning.model_client import server_of

        return server_of(os.environ)

    @cached_property
    def documents(self) -> tuple[ContextDocument, ...]:
        """What the project says of itself to agents: data, which permits nothing."""
        from esper_agents.agents.project_context import project_context

        return project_context(Path(self.project.root))

    @cached_property
    def second_server(self) -> ModelServer:
        """Where second opinions come from."""
        from esper_agents.reasoning.model_client import server_of

        return server_of(os.environ, second=True)

    @cached_property
    def _by_model(self) -> Mapping[str, ReasonerSource]:
        from esper_agents.reasoning.model_reasoner import ModelClientConfig, claude_source
        from esper_agents.tools.file_access import line_of

        lines = partial(line_of, self.context)
        desks = (
            ModelClientConfig(self.server, self.models, lines, partial(self._may_send, self.server)),
            ModelClientConfig(
                *(self.second_server, self.models, lines, partial(self._may_send, self.second_server)),
                *(SECOND_OPINION, _SECOND_ROLE),
            ),
        )
        return {each.kind: claude_source(each) for each in desks}

    def _may_send(self, server: ModelServer) -> None:
        """Refuse to send anything of the project anywhere that nobody has agreed to."""
        from esper_agents.orchestration.consent import ConsentError, is_agreed

        if not is_agreed(self.home, server.host):
            raise ConsentError(server.host)

    async def close(self) -> None:
        """Leave no process and no connection behind; whoever opened the project does this."""
        if "bench" in vars(self):
            await self.bench.close()
        for name in ("server", "second_server"):
            if name in vars(self):
                await vars(self)[name].close()

    def reasoner(self, agent: str, kind: str = PLAYBOOK) -> ReasonerSource:
        """Return what decides an agent's moves.

        Args:
            agent: Its name.
            kind: `claude` or `second-opinion` for a language model; for anything else its playbook, or what stands in
                for one.
        """
        from esper_agents.reasoning.playbook import without_playbook

        if kind in _MODELS:
            return self._by_model[kind]
        return self.playbooks.get(agent) or without_playbook()
