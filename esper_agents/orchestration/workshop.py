"""What the sessions of one project work with: store, tools, agents, playbooks, policy; each found when it is needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.tools.tool import ToolContext

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from esper_agents.agents.registry import Registry
    from esper_agents.agents.router import Router
    from esper_agents.certificates.policy import Policy
    from esper_agents.domain.project import Project
    from esper_agents.orchestration.settings import Settings
    from esper_agents.reasoning.playbook import Play
    from esper_agents.reasoning.reasoner import ReasonerSource
    from esper_agents.review.companion import Companion
    from esper_agents.storage.store import AsyncStore
    from esper_agents.tools.bench import Bench
    from esper_agents.tools.registry import ToolRegistry
    from esper_agents.tools.tool import Tool


@dataclass(frozen=True, slots=True)
class Additions:
    """What a program brings along beside what is installed.

    Attributes:
        tools: Further tools.
        playbooks: Further playbooks, by the name of their agent.
        agents: Further agent files, or folders of them.
        rules: Modules with further review rules.
    """

    tools: tuple[Tool, ...] = ()
    playbooks: Mapping[str, Play] = field(default_factory=dict)
    agents: tuple[Path, ...] = ()
    rules: tuple[ModuleType, ...] = ()


@dataclass(frozen=True)
class Workshop:
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
    additions: Additions

    @cached_property
    def tools(self) -> ToolRegistry:
        """What may be called."""
        from esper_agents.tools.registry import load_tools

        return load_tools(self.additions.tools)

    @cached_property
    def agents(self) -> Registry:
        """Who may be given a task."""
        from esper_agents.agents.registry import load_registry

        return load_registry(Path(self.project.root), extra=self.additions.agents)

    @cached_property
    def playbooks(self) -> Mapping[str, ReasonerSource]:
        """What decides without a model, by agent."""
        from esper_agents.reasoning.playbook import load_playbooks

        return load_playbooks(self.additions.playbooks)

    @cached_property
    def policy(self) -> Policy:
        """What sets the ceiling of every verdict."""
        from esper_agents.certificates.policy import load_policy

        return load_policy()

    @cached_property
    def settings(self) -> Settings:
        """What the person and the project say about tools; read when a tool is first to be called."""
        from esper_agents.orchestration.settings import load_settings
        from esper_agents.paths import home

        return load_settings(home(), Path(self.project.root))

    @cached_property
    def router(self) -> Router:
        """Who is given a task."""
        from esper_agents.agents.router import Router

        return Router(tuple(self.agents.agents.values()))

    @cached_property
    def bench(self) -> Bench:
        """Where the project's code is measured."""
        from esper_agents.tools.bench import Bench

        return Bench(Path(self.project.root))

    @property
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
        )

    def record(self, certificate: str) -> bytes:
        """Return the bytes of a certificate of the project that is what was issued; see `genuine`."""
        from esper_agents.orchestration.genuine import genuine

        return genuine(self.store.store, self.project, self.home, certificate).data

    @cached_property
    def companions(self) -> tuple[Companion, ...]:
        """What the project's skills say of changes that belong together."""
        from esper_agents.agents.companions import declared_companions

        return declared_companions(Path(self.project.root)).companions

    async def close(self) -> None:
        """Leave no process behind; whoever opened the project does this."""
        if "bench" in vars(self):
            await self.bench.close()

    def reasoner(self, agent: str) -> ReasonerSource:
        """Return what decides an agent's moves."""
        from esper_agents.reasoning.playbook import without_playbook

        return self.playbooks.get(agent) or without_playbook()
