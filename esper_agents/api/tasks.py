"""Build tasks from a request, files and earlier certificates."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.api.certificates import CertificateService
from esper_agents.certificates.policy.question_type import kind_of
from esper_agents.certificates.redaction import redacted
from esper_agents.certificates.statement import parse
from esper_agents.domain.codec import carried
from esper_agents.domain.reproduction import EVIDENCE, REPRODUCE
from esper_agents.domain.task import Task
from esper_agents.errors import InputFileError, UsageError
from esper_agents.orchestration.genuine import load_verified
from esper_agents.orchestration.permission_rules import ALLOW
from esper_agents.orchestration.permissions import restrict
from esper_agents.review.discover import discover
from esper_agents.review.source import ReviewSource, read
from esper_agents.tools.projects import refuse_unusable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from esper_agents.domain.budget import Amount
    from esper_agents.orchestration.genuine import VerifiedCertificate

_FILE = re.compile(r"(?<![\w./~-])\w[\w./-]*\.(?:py|ipynb)(?!\w)")
# Name of the agent that verifies evidence.
_CHECKER = "validation-specialist"


class TaskService(CertificateService):
    """Task construction for an open project; it stores nothing."""

    def task(
        self,
        request: str,
        paths: Sequence[str | Path] = (),
        *,
        agent: str = "",
        again: str = "",
        options: Mapping[str, str] | None = None,
        budget: Sequence[Amount] = (),
    ) -> Task:
        """Return a validated task; nothing is stored.

        Args:
            request: The user's request.
            paths: Its files and folders; if empty, the files named in the request, else the whole project if it is
                under git.
            agent: Name of the agent; if empty, the router selects one.
            again: The certificate whose request is repeated.
            options: Additional options.
            budget: Budget of the session; see `domain.budget.read_budget`.

        Raises:
            UsageError: The request is empty.
            InputFileError: A path cannot be reviewed.
            NotFoundError: There is no agent of that name.
        """
        if not request.strip():
            raise UsageError("the request is empty", remedy='write a request: esper submit "review this" train.py')
        request = redacted(carried(request)).value
        asked = kind_of(request)
        name = self.services.agents.get(agent).name if agent else ""
        inside = tuple(dict.fromkeys(self._inside(Path(path)) for path in paths))
        _refuse_unreadable(self.root, inside)
        inside = inside or files_named_in(self.root, request)
        everything = (".",) if self.services.project.is_git and not inside else ()
        return Task(
            request, inside or everything, asked.kind, asked.because, name, again, dict(options or {}), tuple(budget)
        )

    def restricted(
        self, task: Task, *, ask: Sequence[str] = (), deny: Sequence[str] = (), allow: Sequence[str] = ()
    ) -> Task:
        """Return a task with additional permission rules, which also apply to consulted agents.

        Args:
            task: The task.
            ask: Tools that need approval; `*` is a wildcard.
            deny: Tools that are never called.
            allow: Tools that need no approval in this session, and exceptions such as `run-tests:network`; ask and deny
                rules still apply. Only the user may grant these: never read them from a file of the project.

        Raises:
            NotFoundError: There is no such tool.
            UsageError: There is no such exception.
        """
        return restrict(self.services, task, ask=ask, deny=deny, allow=allow)

    def _inside(self, path: Path) -> str:
        target = Path.cwd() / path.expanduser()
        refuse_unusable(target, Path.cwd())
        real = target.resolve()
        if not real.is_relative_to(self.root):
            raise UsageError(
                f"{str(path)!r} is not in the project {str(self.root)!r}",
                remedy="use paths inside it, or submit a separate task for the other project",
            )
        return real.relative_to(self.root).as_posix()

    async def again(self, certificate_id: str) -> Task:
        """Return the task of a certificate, to be repeated on the current code by the same agent.

        Raises:
            NotFoundError: The project has no such certificate.
            InputFileError: One of its paths no longer exists.
        """
        before = await self.read(certificate_id)
        _refuse_unreadable(self.root, before.task.paths)
        agent = self.services.agents.get(before.route.agent).name
        # Permissions were granted for that session only.
        options = {name: said for name, said in before.task.options.items() if name != ALLOW}
        return replace(before.task, again=before.id, agent=agent, budget=(), options=options)

    async def reproduction(self, certificate_id: str) -> Task:
        """Return the task of re-running a certificate's evidence, for the verifying agent.

        Raises:
            NotFoundError: The project has no such certificate.
            IntegrityError: The certificate was modified.
            EvidenceError: The certificate is not signed by a trusted key.
            UsageError: The certificate has no evidence.
        """
        found = await self._genuine(certificate_id)
        before = parse(found.data)
        if not before.evidence:
            problem = f"certificate {before.id} has no evidence that can be re-run"
            raise UsageError(problem, remedy=f"read it: esper certificates show {before.id}")
        request = f"verify the evidence of {before.id} by running it again"
        asked = kind_of(request)
        options = {REPRODUCE: before.id, EVIDENCE: " ".join(each.id for each in before.evidence)}
        return Task(request, before.task.paths, asked.kind, asked.because, _CHECKER, options=options)

    async def _genuine(self, certificate_id: str) -> VerifiedCertificate:
        return await self._store.run(load_verified, self.services.project, self.services.home, certificate_id)


def files_named_in(root: Path, request: str) -> tuple[str, ...]:
    """Return the files of the project that a request mentions."""
    found = dict.fromkeys(_FILE.findall(request))
    here = root.resolve()
    return tuple(each for each in found if (at := (root / each).resolve()).is_file() and at.is_relative_to(here))


def _refuse_unreadable(root: Path, paths: Sequence[str]) -> None:
    """Reject a path without readable content before a session is created."""
    # Show the full path if it is outside the project of the working folder.
    base = Path() if Path.cwd().is_relative_to(root) else root
    for candidate in discover(root, [base / path for path in paths], notebooks=True):
        if candidate.is_explicit:
            found = read(candidate.file, candidate.path)
            shown = str(base / candidate.path)
            if not isinstance(found, ReviewSource):
                raise InputFileError(shown, found.problem, remedy=found.remedy)
            if not found.text.strip():
                raise InputFileError(shown, "the file is empty", remedy="name a file with code in it")
