"""What the sessions of one project work with: store, tools, agents, playbooks, policy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.certificates.policy import Policy, load_policy
from esper_agents.reasoning.playbook import without_playbook
from esper_agents.tools.tool import ToolContext

if TYPE_CHECKING:
    from collections.abc import Mapping

    from esper_agents.agents.registry import Registry
    from esper_agents.agents.router import Router
    from esper_agents.domain.project import Project
    from esper_agents.reasoning.reasoner import ReasonerSource
    from esper_agents.storage.store import AsyncStore
    from esper_agents.tools.registry import ToolRegistry


@dataclass(frozen=True)
class Workshop:
    """What the sessions of one project work with.

    Attributes:
        project: Whose sessions.
        home: The folder the program keeps the project's things in.
        store: Where the rows live.
        tools: What may be called.
        agents: Who may be given a task.
        playbooks: What decides without a model, by agent.
        publish: Whether views may be written into the project.
    """

    project: Project
    home: Path
    store: AsyncStore
    tools: ToolRegistry
    agents: Registry
    playbooks: Mapping[str, ReasonerSource]
    publish: bool

    @cached_property
    def policy(self) -> Policy:
        """What sets the ceiling of every verdict."""
        return load_policy()

    @cached_property
    def router(self) -> Router:
        """Who is given a task."""
        from esper_agents.agents.router import Router

        return Router(tuple(self.agents.agents.values()))

    @property
    def context(self) -> ToolContext:
        """What tools may touch."""
        return ToolContext(Path(self.project.root))

    def reasoner(self, agent: str) -> ReasonerSource:
        """Return what decides an agent's moves."""
        return self.playbooks.get(agent) or without_playbook()
