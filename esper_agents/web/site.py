"""State of one server that its pages share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from esper_agents.errors import EsperError
from esper_agents.web.rendering import page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import HTMLResponse

    from esper_agents.api import (
        CertificateSummary,
        GateResult,
        OpenProject,
        PendingQuestion,
        RepositoryState,
        VerificationResult,
    )
    from esper_agents.web.access import Access
    from esper_agents.web.served_project import ServedProject

_FIRST_COVERAGE_S = 2.0
# Signers that a user has trusted since are noticed after this time.
_FRESH_S = 60.0
# Reading the state of the repository starts processes, and listing its files visits all folders.
_REPOSITORY_S = 5.0


@dataclass(frozen=True, slots=True)
class PageExport:
    """Export that pages are written for.

    Attributes:
        at: Time of the export.
        version: Version of this program.
        content_policy: Content security policy of each page.
        scripts: Files with the index of the list.
        certificates: Number of certificates in the index.
        repository: Git state of the project at that time.
        key_names: Owners of keys by fingerprint.
        pending: Questions that waited for an answer at that time.
    """

    at: str
    version: str
    content_policy: str
    scripts: tuple[str, ...]
    certificates: int
    repository: RepositoryState
    key_names: Mapping[str, str]
    pending: tuple[PendingQuestion, ...]


@dataclass(slots=True)
class ArchiveSite:
    """State of one server.

    Attributes:
        served: The project.
        access: Tokens of the server.
        allows_answers: Whether questions of sessions can be answered from pages.
        runs: Sessions that were answered from a page and run in this process.
        streams: Number of open event streams.
        problems: Reasons why sessions did not continue after an answer, by identifier.
        exported: The export that the pages are written for; None for those of a server.
    """

    served: ServedProject
    access: Access
    allows_answers: bool
    runs: set[asyncio.Task[None]] = field(default_factory=set)
    streams: int = 0
    problems: dict[str, str] = field(default_factory=dict)
    exported: PageExport | None = None
    _coverage: GateResult | None = None
    _computing: asyncio.Task[GateResult] | None = None
    _computed_s: float = float("-inf")
    _computed_for: object = None
    _repository: RepositoryState | None = None
    _repository_s: float = float("-inf")
    _files: frozenset[str] = frozenset()
    _files_s: float = float("-inf")

    async def render(
        self, project: OpenProject, template: str, section: str, *, status_code: int = 200, **values: Any
    ) -> HTMLResponse:
        """Return a page with the navigation, in which a section is marked."""
        pending = await self.pending(project)
        shell = {"section": section, "project_name": project.root.name, "project_root": str(project.root)}
        return page(template, status_code=status_code, site=self, pending=pending, **shell, **values)

    async def pending(self, project: OpenProject) -> tuple[PendingQuestion, ...]:
        """Return the questions that wait for an answer."""
        return self.exported.pending if self.exported else await project.approvals.list()

    async def coverage(self, project: OpenProject) -> tuple[GateResult | None, bool]:
        """Return the latest known coverage of all files, and whether it is of the files as they are now.

        It is computed in the background; None until the first result.
        """
        if self.exported and self._coverage is not None:
            return self._coverage, True
        now, state = asyncio.get_running_loop().time(), await project.browsing.coverage_state()
        is_fresh = state == self._computed_for and now - self._computed_s < _FRESH_S
        if self._computing is None and not is_fresh:
            self._computed_for = state
            self._computing = asyncio.create_task(project.browsing.coverage())
        if self._computing is not None:
            await asyncio.wait({self._computing}, timeout=_FIRST_COVERAGE_S)
            if self._computing.done():
                done, self._computing = self._computing, None
                self._coverage, self._computed_s = await done, asyncio.get_running_loop().time()
        return self._coverage, self._computing is None

    def key_names(self, project: OpenProject) -> Mapping[str, str]:
        """Return the owners of keys by fingerprint."""
        return self.exported.key_names if self.exported else project.browsing.key_names()

    async def verify(self, project: OpenProject, entry: CertificateSummary) -> VerificationResult:
        """Return the verification of a certificate."""
        return await project.browsing.verification(entry, await self.repository(project))

    async def repository(self, project: OpenProject) -> RepositoryState:
        """Return the git state of the project, at most a few seconds old; files are compared for each page."""
        if self.exported:
            return self.exported.repository
        now = asyncio.get_running_loop().time()
        if self._repository is None or now - self._repository_s > _REPOSITORY_S:
            self._repository, self._repository_s = await project.browsing.repository(), now
        return self._repository

    async def files(self, project: OpenProject) -> frozenset[str]:
        """Return the Python files and notebooks of the project, at most a few seconds old."""
        now = asyncio.get_running_loop().time()
        if now - self._files_s > _REPOSITORY_S:
            self._files, self._files_s = frozenset(await project.browsing.files()), now
        return self._files

    async def settled_coverage(self, project: OpenProject) -> GateResult:
        """Return the coverage of all files as they are now."""
        coverage, is_current = await self.coverage(project)
        while coverage is None or not is_current:
            coverage, is_current = await self.coverage(project)
        return coverage

    def is_running(self, session_id: str) -> bool:
        """Return whether a session runs in this process, which begins a moment before it has its lease."""
        return any(task.get_name() == session_id for task in self.runs)

    def run(self, project: OpenProject, session_id: str) -> None:
        """Resume a session whose question was answered, in the background."""

        async def resume() -> None:
            # The answer is recorded whatever follows.
            try:
                session = await project.approvals.resume(session_id)
                await session.run()
            except EsperError as error:
                self.problems[session_id] = error.problem

        task = asyncio.create_task(resume(), name=session_id)
        self.runs.add(task)
        task.add_done_callback(self.runs.discard)


def site_of(request: Request) -> ArchiveSite:
    """Return the site that a request is for."""
    found: ArchiveSite = request.app.state.site
    return found
