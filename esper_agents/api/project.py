"""An open project: submit tasks, resume sessions, read certificates and memory."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.api.current_user import person
from esper_agents.api.memory import MemoryService
from esper_agents.api.models import ModelService
from esper_agents.api.questions import QuestionService
from esper_agents.api.sessions import superseding
from esper_agents.certificates.policy.question_type import kinds_text
from esper_agents.certificates.redaction import redacted, redaction_count
from esper_agents.certificates.signing.signing_key import take_key_file
from esper_agents.certificates.statement import parse
from esper_agents.domain.certificate import CLAUDE, REASONER
from esper_agents.domain.memory import ACTION, NoteState
from esper_agents.domain.origin import SUBMITTED, OriginKind, SessionOrigin
from esper_agents.domain.relation import Relation, RelationKind
from esper_agents.domain.reproduction import REPRODUCE
from esper_agents.domain.session import Submission
from esper_agents.orchestration.definition_snapshots import keep_policy
from esper_agents.orchestration.environment import environment
from esper_agents.orchestration.permission_rules import describe_default, digest_of_rules
from esper_agents.orchestration.permissions import rules_for
from esper_agents.orchestration.project_services import ProjectServices, ServiceOverrides
from esper_agents.orchestration.routing import route_of
from esper_agents.paths import project_home
from esper_agents.storage import sessions
from esper_agents.storage.engine import database_url
from esper_agents.storage.store import AsyncStore, Store
from esper_agents.tools.git import find_project, revision

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
    from types import ModuleType

    from esper_agents.api.session import Session
    from esper_agents.domain.agent_action import ToolUse
    from esper_agents.domain.memory import MemoryNote, NoteKind
    from esper_agents.domain.origin import PredecessorResult
    from esper_agents.domain.permission_rule import PermissionRule
    from esper_agents.domain.route import Route
    from esper_agents.domain.task import Task
    from esper_agents.reasoning.playbook import Play
    from esper_agents.tools.tool import Tool


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """Plan of a task that has not run.

    Attributes:
        task: The task, as it would be submitted.
        route: The selection of the agent.
        reasoner: The reasoner that would decide the agent's actions.
        tools: The tools that the agent may call.
        neighbours: The agents to which it may hand off the task.
        leave: Description of the permission decision for tools that would not simply run, by tool name.
        rules: The permission rules that would apply.
        ignored: Permissions in the project's settings that are ignored, because only the user's settings may grant
            them.
    """

    task: Task
    route: Route
    reasoner: str
    tools: tuple[ToolUse, ...]
    neighbours: tuple[str, ...]
    leave: dict[str, str] = field(default_factory=dict)
    rules: tuple[PermissionRule, ...] = ()
    ignored: tuple[PermissionRule, ...] = ()


@asynccontextmanager
async def open_project(
    *paths: str | Path,
    tools: Iterable[Tool] = (),
    playbooks: Mapping[str, Play] | None = None,
    agents: Sequence[Path] = (),
    rules: Sequence[ModuleType] = (),
    plugins: Sequence[Path] = (),
    publish: bool = True,
) -> AsyncIterator[OpenProject]:
    """Yield the project that contains all paths; it stays open until the block ends.

    Args:
        paths: Files or folders; the working folder if empty. The project is the git work tree around them, or else the
            folder.
        tools: Additional tools.
        playbooks: Additional playbooks, by agent name.
        agents: Additional agent files or folders of them.
        rules: Modules with additional review rules.
        plugins: Plugin folders in addition to the installed plugins.
        publish: Whether views may be published into the project, if the program owns the files there.

    Raises:
        InputFileError: A path does not exist.
        UsageError: The paths belong to different projects.
        StorageError: The database cannot be used.
    """
    take_key_file()
    found = find_project([_expanded(path) for path in paths], Path.cwd())
    home = project_home(found.key)
    store = AsyncStore(Store(database_url(home / "esper.db")))
    additions = ServiceOverrides(tuple(tools), dict(playbooks or {}), tuple(agents), tuple(rules), tuple(plugins))
    services = ProjectServices(found, home, store, publish, additions)
    try:
        yield OpenProject(services)
    finally:
        await services.close()
        store.close()


class OpenProject(QuestionService, ModelService):
    """An open project with its sessions, certificates and memory."""

    def __init__(self, services: ProjectServices) -> None:
        """Wrap the services of a project; use `open_project`."""
        self.services = services
        self.root = Path(services.project.root)
        self._key = services.project.key
        self._store = services.store

    async def plan(self, task: Task) -> TaskPlan:
        """Return the plan of a task without running it."""
        route = route_of(self.services, task)
        if not route.agent:
            return TaskPlan(task, route, "", (), ())
        agent = self.services.agents.get(route.agent)
        has_playbook = agent.name in self.services.playbooks
        reasoner = "playbook" if has_playbook else "no playbook and no model: the result would be NEEDS_FURTHER_REVIEW"
        if task.options.get(REASONER) == CLAUDE:
            reasoner = f"claude ({self.services.models.resolve(agent.model).name}), after the playbook as guardrail"
        tools = tuple(tool.use for tool in self.services.tools.named(agent.tools))
        rules = rules_for(self.services, task)
        said = ((tool.name, describe_default(rules, tool.name, tool.risk)) for tool in tools)
        leave = {name: words for name, words in said if words}
        return TaskPlan(task, route, reasoner, tools, agent.hands_off_to, leave, rules, self.services.settings.ignored)

    async def submit(self, task: Task, *, continues: PredecessorResult | None = None) -> Session:
        """Create a session for a task and take its lease; `Session.run` executes it.

        Args:
            task: The task.
            continues: Result of the session to continue; see `continuation`.

        Raises:
            UsageError: A model is requested, and its server rejects the key or does not know the model.
            ModelBusyError: A model is requested, and its server is unreachable.
        """
        await self._greet(task)
        begun, origin = await self._submission(task, continues)
        held = await self._store.run(sessions.create, self.services.project, begun, origin=origin)
        return self._session(held)

    async def enqueue(self, task: Task, *, continues: PredecessorResult | None = None) -> str:
        """Create a session for a queue worker to run, and return its identifier; see `submit`."""
        begun, origin = await self._submission(task, continues)
        return await self._store.run(sessions.enqueue, self.services.project, begun, origin=origin)

    async def _submission(self, task: Task, continues: PredecessorResult | None) -> tuple[Submission, SessionOrigin]:
        before = await self.certificate(task.again) if task.again else None
        rests_on = await self._genuine(task.options[REPRODUCE]) if REPRODUCE in task.options else None
        begun = Submission(
            task=task,
            project=self.services.project.name,
            # Evidence is re-run on the certified revision of the code.
            revision=parse(rests_on.data).revision if rests_on else redacted(revision(self.root)).value,
            environment=environment(),
            person=person(),
            relations=tuple(
                Relation(kind, each.id, each.sha256)
                for kind, each in (
                    (RelationKind.SUPERSEDES, before),
                    (RelationKind.DEPENDS_ON, rests_on and rests_on.entry),
                )
                if each
            )
            + await self._superseding(task, continues),
            question_kinds_sha256=sha256(kinds_text().encode()).hexdigest(),
            redactions=redaction_count(task.request),
            policy_sha256=keep_policy(self.services),
            before=continues,
            rules=(rules := rules_for(self.services, task)),
            rules_sha256=digest_of_rules(rules),
        )
        return begun, SessionOrigin(OriginKind.CONTINUED, continues.session) if continues else SUBMITTED

    async def _superseding(self, task: Task, continues: PredecessorResult | None) -> tuple[Relation, ...]:
        if continues is None or not continues.certificate:
            return ()
        entry = await self.certificate(continues.certificate)
        return superseding(task, continues, await self.read(entry.id), entry.sha256)

    async def memory(
        self,
        *,
        agent: str = "",
        kind: NoteKind | None = None,
        states: Collection[NoteState] = tuple(NoteState),
        limit: int = 500,
    ) -> tuple[MemoryNote, ...]:
        """Return the project's memory notes in the given states, newest first."""
        return await self.notebook.list(agent=agent, kind=kind, states=states, limit=limit)

    @cached_property
    def notebook(self) -> MemoryService:
        """All memory operations of the project."""
        return MemoryService(self.services)

    async def from_action(self, wanted: str) -> Task:
        """Return the task of an open follow-up, for the agent that owns it; see `MemoryService.open_action`.

        Raises:
            NotFoundError: There is no such follow-up.
            UsageError: It is not open.
        """
        action = await self.notebook.open_action(wanted)
        named = [each.path for each in action.sources]
        if not named and action.is_vouched_for:
            # A follow-up without files concerns the files of its certificate.
            named = [*(await self.read(action.certificate)).task.paths]
        paths = [path for path in dict.fromkeys(named) if path != "." and (self.root / path).exists()]
        # An agent named in imported text may not exist, or may not be intended.
        agent = action.agent if action.is_vouched_for and action.agent in self.services.agents.agents else ""
        task = self.task(action.text, [self.root / path for path in paths], agent=agent)
        return replace(task, options={**task.options, ACTION: action.id})


def _expanded(path: str | Path) -> Path:
    return Path(path).expanduser()
