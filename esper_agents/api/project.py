"""An open project: submit tasks, resume sessions, read certificates and memory."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.certificates.signing.signing_key import take_key_file
from esper_agents.git.find_project import find_project
from esper_agents.orchestration.project_services import ServiceOverrides, services_of
from esper_agents.paths import project_home
from esper_agents.storage.database_url import database_url
from esper_agents.storage.store import AsyncStore, Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
    from types import ModuleType

    from esper_agents.api.agents import AgentService
    from esper_agents.api.approvals import ApprovalService
    from esper_agents.api.browsing import BrowsingService
    from esper_agents.api.certificates import CertificateService
    from esper_agents.api.measure import MeasureService
    from esper_agents.api.memory import MemoryService
    from esper_agents.api.models import ModelService
    from esper_agents.api.retrospect import RetrospectService
    from esper_agents.api.review import ReviewService
    from esper_agents.api.sessions import SessionService
    from esper_agents.api.stack_traces import TraceService
    from esper_agents.api.tasks import TaskService
    from esper_agents.orchestration.project_services import ProjectServices
    from esper_agents.reasoning.playbook import Play
    from esper_agents.tools.tool import Tool


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
    store = AsyncStore(Store(database_url(project_home(found.key) / "esper.db")))
    additions = ServiceOverrides(tuple(tools), dict(playbooks or {}), tuple(agents), tuple(rules), tuple(plugins))
    try:
        services = services_of(found, store, additions, publish=publish)
    except BaseException:
        store.close()
        raise
    try:
        yield OpenProject(services)
    finally:
        await services.close()
        store.close()


class OpenProject:
    """An open project: its operations, grouped in services that are loaded on first use."""

    def __init__(self, services: ProjectServices) -> None:
        """Wrap a project; use `open_project`."""
        self.services = services
        self.root = Path(services.project.root)

    @cached_property
    def tasks(self) -> TaskService:
        """Create, plan, submit, enqueue and resume tasks."""
        from esper_agents.api.tasks import TaskService

        return TaskService(self)

    @cached_property
    def sessions(self) -> SessionService:
        """Find, watch, fork, replay and cancel sessions."""
        from esper_agents.api.sessions import SessionService

        return SessionService(self)

    @cached_property
    def approvals(self) -> ApprovalService:
        """List and answer the questions of sessions."""
        from esper_agents.api.approvals import ApprovalService

        return ApprovalService(self)

    @cached_property
    def certificates(self) -> CertificateService:
        """Find, read, verify, revoke, override and export certificates."""
        from esper_agents.api.certificates import CertificateService

        return CertificateService(self)

    @cached_property
    def browsing(self) -> BrowsingService:
        """Bounded reads of the archive for pages: counts, sources, histories, coverage, log."""
        from esper_agents.api.browsing import BrowsingService

        return BrowsingService(self)

    @cached_property
    def measure(self) -> MeasureService:
        """Measure PyTorch code of the project in sandboxed processes."""
        from esper_agents.api.measure import MeasureService

        return MeasureService(self)

    @cached_property
    def memory(self) -> MemoryService:
        """Read and correct the notes of the agents."""
        from esper_agents.api.memory import MemoryService

        return MemoryService(self)

    @cached_property
    def models(self) -> ModelService:
        """Language models: roles, consent, cost."""
        from esper_agents.api.models import ModelService

        return ModelService(self)

    @cached_property
    def retrospect(self) -> RetrospectService:
        """Recurring patterns over sessions, and proposed skills."""
        from esper_agents.api.retrospect import RetrospectService

        return RetrospectService(self)

    @cached_property
    def agents(self) -> AgentService:
        """List, check and route to agents; skills, plugins and task templates."""
        from esper_agents.api.agents import AgentService

        return AgentService(self)

    @cached_property
    def traces(self) -> TraceService:
        """Explain stack traces and error messages."""
        from esper_agents.api.stack_traces import TraceService

        return TraceService(self)

    @cached_property
    def review(self) -> ReviewService:
        """Review files and changes with the lint rules."""
        from esper_agents.api.review import ReviewService

        return ReviewService(self)


def _expanded(path: str | Path) -> Path:
    return Path(path).expanduser()
