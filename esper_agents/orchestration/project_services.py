"""Services of one project for its sessions, loaded on first use."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.archive.project_place import ProjectPlace
from esper_agents.domain.reasoner_names import CLAUDE, PLAYBOOK, SECOND_OPINION

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from esper_agents.agents.plugins import Plugin
    from esper_agents.agents.registry import Registry
    from esper_agents.agents.router import Router
    from esper_agents.agents.skill_folders import SkillFolders
    from esper_agents.agents.skill_library import SkillLibrary
    from esper_agents.archive.published.combined import CombinedArchive
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
    from esper_agents.storage.shared_artifacts import SharedArtifacts
    from esper_agents.storage.store import AsyncStore
    from esper_agents.tools.lab_pool import LabPool
    from esper_agents.tools.registry import ToolRegistry
    from esper_agents.tools.tool import Tool, ToolContext


_MODELS = frozenset((CLAUDE, SECOND_OPINION))
_SECOND_ROLE = "second_opinion"


@dataclass(frozen=True, slots=True)
class ServiceOverrides:
    """Services that a program adds to the installed ones.

    Attributes:
        tools: Additional tools.
        playbooks: Additional playbooks, by agent name.
        agents: Additional agent files, or folders of them.
        rules: Modules with additional lint rules.
        plugins: Plugin folders in addition to those that the user installed.
    """

    tools: tuple[Tool, ...] = ()
    playbooks: Mapping[str, Play] = field(default_factory=dict)
    agents: tuple[Path, ...] = ()
    rules: tuple[ModuleType, ...] = ()
    plugins: tuple[Path, ...] = ()


def services_of(project: Project, store: AsyncStore, additions: ServiceOverrides, *, publish: bool) -> ProjectServices:
    """Return the services of a project in a database.

    Args:
        project: The project.
        store: Database of its ledgers and certificates.
        additions: Services added by the calling program.
        publish: Whether views may be written into the project.
    """
    from esper_agents.paths import project_home

    # Read once: a repair publishes every certificate.
    place = ProjectPlace(project, project_home(project.key), store, publish, cache(_published_types))
    shared = None
    if store.store.is_shared:
        from esper_agents.storage.artifacts import connect
        from esper_agents.storage.shared_artifacts import SharedArtifacts

        shared = SharedArtifacts(store.store, project.key)
        connect(place.artifacts, shared)
    return ProjectServices(place, additions, shared)


def _published_types() -> frozenset[QuestionType]:
    from esper_agents.orchestration.settings import load_published
    from esper_agents.paths import home

    return load_published(home())


@dataclass(frozen=True)
class ProjectServices:
    """Services of one project.

    Attributes:
        place: Project with its data folder and database.
        additions: Services added by the calling program.
        shared: Artifacts that other machines can read; None if the database is on this machine only.
        checkout: Folder of the project where its snapshot was made; None if this is the checkout.
    """

    place: ProjectPlace
    additions: ServiceOverrides
    shared: SharedArtifacts | None = None
    checkout: Path | None = None

    @property
    def project(self) -> Project:
        """Project of the sessions."""
        return self.place.project

    @property
    def home(self) -> Path:
        """Folder of the project in the data directory."""
        return self.place.home

    @property
    def store(self) -> AsyncStore:
        """Database of the ledgers."""
        return self.place.store

    @cached_property
    def tools(self) -> ToolRegistry:
        """Available tools."""
        from esper_agents.tools.registry import load_tools

        return load_tools(self.additions.tools)

    @cached_property
    def agents(self) -> Registry:
        """Available agents."""
        from esper_agents.agents.registry import load_registry

        return load_registry(Path(self.project.root), extra=self.additions.agents, plugins=self.plugins)

    @cached_property
    def plugins(self) -> tuple[Plugin, ...]:
        """Plugins that provide agents, commands and skills."""
        from esper_agents.agents.plugin_store import plugins_with

        return plugins_with(self.additions.plugins).plugins

    @cached_property
    def skill_folders(self) -> SkillFolders:
        """Skill folders in addition to the built-in ones and the project's."""
        from esper_agents.agents.skill_folders import skill_folders

        return skill_folders(self.plugins)

    @cached_property
    def playbooks(self) -> Mapping[str, ReasonerSource]:
        """Playbooks by agent."""
        from esper_agents.reasoning.playbook import load_playbooks

        return load_playbooks(self.additions.playbooks)

    @cached_property
    def policy(self) -> Policy:
        """Policy that sets the ceiling of every verdict."""
        from esper_agents.certificates.policy.verdict_ceiling import load_policy

        return load_policy()

    @cached_property
    def settings(self) -> PermissionSettings:
        """Settings of the user and the project for tools, read before the first tool call."""
        from esper_agents.orchestration.settings import load_settings
        from esper_agents.paths import home

        return load_settings(home(), Path(self.project.root))

    @cached_property
    def router(self) -> Router:
        """Router that selects the agent of a task."""
        from esper_agents.agents.router import Router

        return Router(tuple(self.agents.agents.values()))

    @cached_property
    def bench(self) -> LabPool:
        """Lab that measures the project's code."""
        from esper_agents.tools.lab_pool import LabPool

        return LabPool(Path(self.project.root), store=self.store.store, project_key=self.project.key)

    @cached_property
    def context(self) -> ToolContext:
        """Resources that tools may access."""
        from esper_agents.tools.tool import ToolContext

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
            checkout=self.checkout,
        )

    def record(self, certificate: str) -> bytes:
        """Return the bytes of an authentic certificate of the project, local or published; see `load_verified`."""
        from esper_agents.archive.verified_loading import load_verified
        from esper_agents.errors import NotFoundError

        try:
            return load_verified(self.store.store, self.project, self.home, certificate).data
        except NotFoundError as missing:
            entry = self.certificates.find(self.store.store, certificate, missing)
            if not entry.is_trusted:
                raise
            return self.certificates.read(self.store.store, entry)

    @cached_property
    def companions(self) -> tuple[CompanionRule, ...]:
        """Companion change rules of the project's skills."""
        from esper_agents.agents.companions import declared_companions

        return declared_companions(Path(self.project.root)).companions

    @property
    def skills(self) -> SkillLibrary:
        """Skills that agents may load; searched on every access, because a user may add one at any time."""
        from esper_agents.agents.skill_library import load_skills

        return load_skills(Path(self.project.root), self.skill_folders.pairs)

    def _skill_text(self, skill: str, sheet: str) -> SkillText:
        return self.skills.load(skill, sheet)

    @cached_property
    def models(self) -> ModelTable:
        """Language models by role, with the user's settings applied."""
        from esper_agents.reasoning.models import load_models

        return load_models().changed(self.settings.models)

    @cached_property
    def server(self) -> ModelServer:
        """Client of the language model server; nothing is sent before the first request of a reasoner."""
        from esper_agents.reasoning.model_client import server_of

        return server_of(os.environ)

    @cached_property
    def documents(self) -> tuple[ContextDocument, ...]:
        """Context documents of the project for agents: data that grants no permissions."""
        from esper_agents.agents.project_context import project_context

        return project_context(Path(self.project.root))

    @cached_property
    def second_server(self) -> ModelServer:
        """Model server for second opinions."""
        from esper_agents.reasoning.model_client import server_of

        return server_of(os.environ, second=True)

    @cached_property
    def _by_model(self) -> Mapping[str, ReasonerSource]:
        from esper_agents.reasoning.model_reasoner import ModelClientConfig, claude_source

        desks = (
            ModelClientConfig(self.server, self.models, partial(self._may_send, self.server)),
            ModelClientConfig(
                *(self.second_server, self.models, partial(self._may_send, self.second_server)),
                *(SECOND_OPINION, _SECOND_ROLE),
            ),
        )
        return {desk.kind: claude_source(desk) for desk in desks}

    def _may_send(self, server: ModelServer) -> None:
        """Raise unless the user consented to sending the project's source to the server."""
        from esper_agents.orchestration.consent import ConsentError, is_agreed

        if not is_agreed(self.home, server.host):
            raise ConsentError(server.host)

    @cached_property
    def certificates(self) -> CombinedArchive:
        """Archive together with the published certificates of the project."""
        from esper_agents.archive.published.combined import CombinedArchive

        return CombinedArchive(self.place)

    async def close(self) -> None:
        """Close all processes and connections; the opener of the project calls this."""
        if self.shared is not None:
            from esper_agents.storage.artifacts import disconnect

            disconnect(self.place.artifacts, self.shared)
        if "certificates" in vars(self):
            self.certificates.close()
        if "bench" in vars(self):
            await self.bench.close()
        for name in ("server", "second_server"):
            if name in vars(self):
                await vars(self)[name].close()

    def reasoner(self, agent: str, kind: str = PLAYBOOK) -> ReasonerSource:
        """Return the reasoner factory of an agent.

        Args:
            agent: Name of the agent.
            kind: `claude` or `second-opinion` for a language model; for anything else its playbook or the replacement
                for a missing one.
        """
        from esper_agents.reasoning.playbook import without_playbook

        if kind in _MODELS:
            return self._by_model[kind]
        return self.playbooks.get(agent) or without_playbook()
