"""Task operations of an open project: create, plan, submit, enqueue, resume."""

from __future__ import annotations

import re
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.api.current_user import person
from esper_agents.api.service import Service
from esper_agents.certificates.policy.question_type import KindOfQuestion, change_asked, kind_of, kinds_text
from esper_agents.domain.codec import carried
from esper_agents.domain.memory import ACTION
from esper_agents.domain.origin import SUBMITTED, OriginKind, SessionOrigin
from esper_agents.domain.reasoner_names import CLAUDE, REASONER
from esper_agents.domain.relation import Relation, RelationKind
from esper_agents.domain.request import Material, ParsedRequest, Wish
from esper_agents.domain.session import SessionState, Submission
from esper_agents.domain.status import QuestionType
from esper_agents.domain.task import Task, is_about
from esper_agents.errors import InputFileError, UsageError
from esper_agents.extras import Extra, require_extra
from esper_agents.git.find_project import refuse_unusable
from esper_agents.orchestration.permission_rules import ALLOW
from esper_agents.review.source import ReviewSource, read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from esper_agents.api.project import OpenProject
    from esper_agents.api.session import Session
    from esper_agents.archive.verified_loading import VerifiedCertificate
    from esper_agents.domain.agent_action import ToolUse
    from esper_agents.domain.budget import Amount
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.change import TaskChange
    from esper_agents.domain.origin import PredecessorResult
    from esper_agents.domain.permission_rule import PermissionRule
    from esper_agents.domain.route import Route
    from esper_agents.orchestration.availability import DeclinedTask

# Name of the agent that verifies evidence.
_CHECKER = "validation-specialist"
# Question of a request that is a trace or code alone.
_ABOUT_ERROR = "what does this mean?"
# With a stack trace, these words of an approval ask for the cause of the error.
_ASKS_FOR_CAUSE = re.compile(r"\b(?:wrong|broken|work|amiss|missing|right|correct|fine|okay|ok)\b", re.IGNORECASE)
_UNFINISHED = frozenset((SessionState.OPEN, SessionState.WAITING))


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
        request: Content of the request, as the program understands it.
        declined: Reason why the task would be declined, with the way to serve it; None if it would run.
    """

    task: Task
    route: Route
    reasoner: str
    tools: tuple[ToolUse, ...]
    neighbours: tuple[str, ...]
    leave: dict[str, str] = field(default_factory=dict)
    rules: tuple[PermissionRule, ...] = ()
    ignored: tuple[PermissionRule, ...] = ()
    request: ParsedRequest = field(default_factory=ParsedRequest)
    declined: DeclinedTask | None = None


class TaskService(Service):
    """Task operations of an open project; a task is stored when it is submitted."""

    def __init__(self, project: OpenProject) -> None:
        """Belong to a project; use `OpenProject.tasks`."""
        super().__init__(project)
        self._parsed: dict[str, ParsedRequest] = {}

    def create(
        self,
        request: str,
        paths: Sequence[str | Path] = (),
        *,
        agent: str = "",
        again: str = "",
        options: Mapping[str, str] | None = None,
        budget: Sequence[Amount] = (),
        diff: str = "",
        is_branch: bool = False,
    ) -> Task:
        """Return a validated task; nothing is stored.

        Args:
            request: The user's request. The error in a log that it names (`crash.log`) becomes a part of it.
            paths: Its files and folders; if empty, the files that the request names, else those of the definitions that
                it names, else the whole project if it is under git. A log among them is read as one in the request.
            agent: Name of the agent; if empty, the router selects one.
            again: The certificate whose request is repeated.
            options: Additional options.
            budget: Budget of the session; see `domain.budget.read_budget`.
            diff: The change that the request is about: a revision, `A..B`, `A...B`, or `--staged`. If omitted, a
                request about a merge or a change is about the current branch, as far as that is known.
            is_branch: Whether the request is about the current branch: its merge base with the default branch.

        Raises:
            UsageError: The request is empty, or the change cannot be determined.
            InputFileError: A path cannot be reviewed.
            NotFoundError: There is no agent of that name.
        """
        from esper_agents.api.trace_logs import with_named_logs
        from esper_agents.certificates.redaction import redacted
        from esper_agents.requests.parsing import prose_of

        if not request.strip():
            raise UsageError("the request is empty", remedy='write a request: esper submit "review this" train.py')
        request, paths = with_named_logs(request, paths, self._root)
        request = redacted(carried(request)).value
        # Words in a pasted trace or in code are not the question.
        asked = kind_of(prose_of(request).strip() or _ABOUT_ERROR)
        if asked.kind is QuestionType.APPROVAL and self._has_trace(request) and _ASKS_FOR_CAUSE.search(asked.because):
            asked = kind_of(_ABOUT_ERROR)
        parsed = self.parse(request)
        is_other = asked.kind is QuestionType.RECOMMENDATION or (
            asked.kind is QuestionType.APPROVAL and Material.TRACE in parsed.materials
        )
        if is_other and parsed.wish is Wish.FIND_CAUSE:
            # "Slower than before, why?" asks for no choice, and "I checked the ids, what is going on" for no approval.
            asked = KindOfQuestion(QuestionType.ADVICE, parsed.wish_because)
        if parsed.usages and not diff and not is_branch:
            # "Is `ignore_index` right?" asks about an option, and not for an approval of the file.
            asked = KindOfQuestion(QuestionType.ADVICE, f"a question about {parsed.usages[0].words}")
        elif words := _behaviour_asked(parsed, asked, diff or is_branch):
            asked = KindOfQuestion(QuestionType.ADVICE, f"a question about {words}")
        name = self._services.agents.get(agent).name if agent else ""
        inside = tuple(dict.fromkeys(self._inside(Path(path)) for path in paths))
        if not diff:
            _refuse_unreadable(self._root, inside)
        from esper_agents.review.task_change import change_in_request, change_named, change_of_branch

        if diff or is_branch:
            change = change_named(self._root, diff) if diff else change_of_branch(self._root)
            if change.is_checked_out:
                _refuse_unreadable(self._root, inside)
            inside, options = self._changed(change, inside), {**(options or {}), **change.options}
        elif (
            self._services.project.is_git
            and not (asked.kind is QuestionType.ADVICE and self._has_trace(request))
            and (change_asked(request) or (asked.kind is QuestionType.GO and not inside))
        ):
            # The request is about a change; without a base, or if none of its files changed, the files are judged.
            named = change_in_request(self._root, request)
            with nullcontext() if named else suppress(UsageError):
                change = named or change_of_branch(self._root)
                inside, options = self._changed(change, inside), {**(options or {}), **change.options}
        inside = self._subject(request, asked.kind, inside)
        everything = (".",) if self._services.project.is_git and not inside else ()
        return Task(
            request, inside or everything, asked.kind, asked.because, name, again, dict(options or {}), tuple(budget)
        )

    def _subject(self, request: str, kind: QuestionType, inside: tuple[str, ...]) -> tuple[str, ...]:
        """Return the files of a task: the named paths, else those that its words mean.

        For the cause of a problem of a definition, a named folder that contains it stands for the code that it uses.
        """
        parsed = self.parse(request)
        is_folder = bool(inside) and all((self._root / each).is_dir() for each in inside)
        is_inside = all(is_about(inside, symbol.path) for symbol in parsed.symbols)
        if kind is QuestionType.ADVICE and parsed.related and is_folder and is_inside:
            return parsed.paths or inside
        return inside or parsed.paths

    def _has_trace(self, request: str) -> bool:
        """Return whether a request contains a stack trace; words such as `since I added` do not make a change of it."""
        return Material.TRACE in self.parse(request).materials

    def parse(self, request: str) -> ParsedRequest:
        """Return the content of a request, with the files and definitions of the project that it names.

        Args:
            request: Text of the request; secrets in it are not returned.
        """
        from esper_agents.certificates.redaction import redacted
        from esper_agents.requests.parsing import parse_request

        text = redacted(carried(request)).value
        if text not in self._parsed:
            self._parsed.clear()
            self._parsed[text] = parse_request(text, self._root)
        return self._parsed[text]

    def _changed(self, change: TaskChange, inside: Sequence[str]) -> tuple[str, ...]:
        """Return the changed files that the request is about, limited to the named paths if there are any.

        Raises:
            UsageError: None of the named paths changed, or no changed file is in the work tree.
        """
        here = [path for path in change.paths if is_about(inside, path)]
        here = [path for path in here if not change.is_checked_out or (self._root / path).is_file()]
        if not here:
            named = f"in {', '.join(inside)} " if inside else ""
            problem = f"no Python source {named}that this work tree has changed in {change.asked!r}"
            raise UsageError(problem, remedy="name other paths, or another change: git diff --stat " + change.since)
        return tuple(here)

    def restrict(
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
        from esper_agents.orchestration.permissions import restrict

        return restrict(self._services, task, ask=ask, deny=deny, allow=allow)

    def _inside(self, path: Path) -> str:
        target = Path.cwd() / path.expanduser()
        refuse_unusable(target, Path.cwd())
        real = target.resolve()
        if not real.is_relative_to(self._root):
            raise UsageError(
                f"{str(path)!r} is not in the project {str(self._root)!r}",
                remedy="use paths inside it, or submit a separate task for the other project",
            )
        return real.relative_to(self._root).as_posix()

    async def repeat(self, certificate_id: str) -> Task:
        """Return the task of a certificate, to be repeated on the current code by the same agent.

        Raises:
            NotFoundError: The project has no such certificate; EvidenceError: its key is not trusted.
            InputFileError: One of its paths no longer exists.
        """
        before = await self._project.certificates.read_trusted(certificate_id)
        if not (before.task.change and not before.task.change.is_checked_out):
            _refuse_unreadable(self._root, before.task.paths)
        agent = self._services.agents.get(before.route.agent).name
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
        from esper_agents.certificates.statement import parse
        from esper_agents.domain.reproduction import EVIDENCE, REPRODUCE

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
        from esper_agents.archive.store import CertificateOrigin
        from esper_agents.archive.verified_loading import VerifiedCertificate, load_verified

        entry = await self._project.certificates.get_trusted(certificate_id)
        if entry.origin is CertificateOrigin.PUBLISHED:
            return VerifiedCertificate(entry, await self._project.certificates.record(entry.id))
        return await self._store.run(load_verified, self._services.project, self._services.home, entry.id)

    def route(self, task: Task) -> Route:
        """Return the route of a task, as its session will record it.

        Raises:
            MissingExtraError: The extra `agents` is not installed.
            NotFoundError: The user named an unknown agent.
        """
        from esper_agents.orchestration.routing import route_of

        require_extra(Extra.AGENTS)
        return route_of(self._services, task)

    async def plan(self, task: Task) -> TaskPlan:
        """Return the plan of a task without running it.

        Raises:
            MissingExtraError: The extra `agents` is not installed.
        """
        from esper_agents.orchestration.availability import can_act, declined
        from esper_agents.orchestration.permission_rules import describe_default
        from esper_agents.orchestration.permissions import rules_for

        route, request = self.route(task), self.parse(task.request)
        if not route.agent:
            return TaskPlan(task, route, "", (), (), request=request)
        agent = self._services.agents.get(route.agent)
        reasoner = "playbook" if can_act(self._services, agent.name) else "no playbook and no model"
        if task.options.get(REASONER) == CLAUDE:
            reasoner = f"claude ({self._services.models.resolve(agent.model).name}), after the playbook as guardrail"
        tools = tuple(tool.use for tool in self._services.tools.named(agent.tools))
        rules = rules_for(self._services, task)
        said = ((tool.name, describe_default(rules, tool.name, tool.risk)) for tool in tools)
        leave = {name: words for name, words in said if words}
        return TaskPlan(
            task,
            route,
            reasoner,
            tools,
            agent.hands_off_to,
            leave,
            rules,
            self._services.settings.ignored,
            request,
            declined(self._services, task, route, request),
        )

    async def submit(self, task: Task, *, continues: PredecessorResult | None = None) -> Session:
        """Create a session for a task and take its lease; `Session.run` executes it.

        Args:
            task: The task.
            continues: Result of the session to continue; see `continuation`.

        Raises:
            UsageError: The agent of the task cannot act on it with what is available, or a model is requested and its
                server rejects the key or does not know the model.
            ModelBusyError: A model is requested, and its server is unreachable.
            MissingExtraError: The extra `agents` is not installed.
        """
        from esper_agents.storage import sessions

        require_extra(Extra.AGENTS)
        self._refuse_declined(task)
        await self._project.models.greet(task)
        begun, origin = await self._submission(task, continues)
        self._project.sessions.load_graph()
        held = await self._store.run(sessions.create, self._services.project, begun, origin=origin)
        return await self._project.sessions.open_held(held)

    async def enqueue(self, task: Task, *, continues: PredecessorResult | None = None, snapshot: bool = False) -> str:
        """Create a session for a queue worker to run, and return its identifier; see `submit`.

        Args:
            task: The task.
            continues: Result of the session to continue; see `continuation`.
            snapshot: Whether the session reads a snapshot of the project, so that it runs on any machine.

        Raises:
            UsageError: The agent of the task cannot act on it with what is available, or the project cannot travel.
        """
        from esper_agents.storage import sessions

        self._refuse_declined(task)
        begun, origin = await self._submission(task, continues)
        if snapshot:
            from esper_agents.orchestration.snapshot_sessions import with_snapshot

            begun = await with_snapshot(self._services, begun)
        return await self._store.run(sessions.enqueue, self._services.project, begun, origin=origin)

    def _refuse_declined(self, task: Task) -> None:
        """Raise an error before a session starts that no agent can serve."""
        from esper_agents.orchestration.availability import declined
        from esper_agents.orchestration.routing import route_of

        reason = declined(self._services, task, route_of(self._services, task), self.parse(task.request))
        if reason is not None:
            raise UsageError(reason.problem, remedy=reason.remedy)

    async def _submission(self, task: Task, continues: PredecessorResult | None) -> tuple[Submission, SessionOrigin]:
        from esper_agents.certificates.redaction import redacted, redaction_count
        from esper_agents.certificates.statement import parse
        from esper_agents.domain.reproduction import REPRODUCE
        from esper_agents.orchestration.commit_tree import revision_of
        from esper_agents.orchestration.definition_snapshots import keep_policy
        from esper_agents.orchestration.environment import environment
        from esper_agents.orchestration.permission_rules import digest_of_rules
        from esper_agents.orchestration.permissions import rules_for

        before = await self._project.certificates.get(task.again) if task.again else None
        rests_on = await self._genuine(task.options[REPRODUCE]) if REPRODUCE in task.options else None
        begun = Submission(
            task=task,
            project=self._services.project.name,
            # Evidence is re-run on the certified revision of the code.
            revision=parse(rests_on.data).revision if rests_on else redacted(revision_of(self._root, task)).value,
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
            policy_sha256=keep_policy(self._services),
            before=continues,
            rules=(rules := rules_for(self._services, task)),
            rules_sha256=digest_of_rules(rules),
            request=self.parse(task.request),
        )
        return begun, SessionOrigin(OriginKind.CONTINUED, continues.session) if continues else SUBMITTED

    async def _superseding(self, task: Task, continues: PredecessorResult | None) -> tuple[Relation, ...]:
        if continues is None or not continues.certificate:
            return ()
        entry = await self._project.certificates.get(continues.certificate)
        return _superseding(task, continues, await self._project.certificates.read(entry.id), entry.sha256)

    async def resume(self, session_id: str, *, accept: bool = False, pinned: bool = False) -> Session:
        """Take the lease of a session again; `Session.run` continues at the first step without a result.

        Args:
            session_id: The session.
            accept: Continue with the current agents, playbooks, skills and policy; the change is recorded.
            pinned: Continue with the recorded definitions.

        Raises:
            NotFoundError: The project has no such session.
            BusyError: Another process works on it.
            ChangedError: Definitions have changed, and neither option is given.
            MissingExtraError: The extra `agents` is not installed.
        """
        from esper_agents.storage import lease

        require_extra(Extra.AGENTS)
        found = await self._project.sessions.get(session_id)
        history = await self._project.sessions.history(found.id)
        if history.begun.snapshot and history.certified is None:
            problem = f"session {found.id} reads a snapshot of the project, not these files"
            raise UsageError(problem, remedy="let a worker run it: esper worker --once")
        definitions = self._project.sessions.definitions_for(
            history, f"esper resume {found.id}", accept=accept, pinned=pinned
        )
        self._project.sessions.load_graph()
        held = await self._store.run(lease.claim, found.id)
        return await self._project.sessions.open_held(held, definitions)

    async def continuation(
        self, session_id: str, message: str, paths: Sequence[str | Path] = (), *, agent: str = ""
    ) -> tuple[Task, PredecessorResult]:
        """Return the task of a follow-up session, and the result of its predecessor.

        Args:
            session_id: The session, which must have ended.
            message: The new request.
            paths: Its paths; if omitted, the files named in the message, else the paths of the session.
            agent: The agent for it; if omitted, the agent that concluded the session.

        Raises:
            NotFoundError: The project has no such session, or that agent is not installed.
            UsageError: The session has not ended.
            InputFileError: A path cannot be reviewed.
        """
        from esper_agents.orchestration import session_branches

        found = await self._project.sessions.get(session_id)
        history = await self._project.sessions.history(found.id)
        if history.state in _UNFINISHED:
            raise UsageError(
                f"session {found.id} has not ended; wait for it or cancel it",
                remedy=f"resume it: esper resume {found.id}",
            )
        issued = await self._project.certificates.read(found.certificate) if found.certificate else None
        before = session_branches.predecessor_result(history, issued)
        named = [reference.path for reference in self.parse(message).files]
        about = paths or [self._root / each for each in named or history.begun.task.paths]
        task = self.create(message, about, agent=agent or before.agent)
        return session_branches.continued(task, before), before

    async def follow_up(self, wanted: str) -> Task:
        """Return the task of an open follow-up, for the agent that owns it; see `MemoryService.open_action`.

        Raises:
            NotFoundError: There is no such follow-up.
            UsageError: It is not open.
        """
        action = await self._project.memory.open_action(wanted)
        named = [source.path for source in action.sources]
        if not named and action.is_vouched_for:
            # A follow-up without files concerns the files of its certificate.
            named = [*(await self._project.certificates.read(action.certificate)).task.paths]
        paths = [path for path in dict.fromkeys(named) if path != "." and (self._root / path).exists()]
        # An agent named in imported text may not exist, or may not be intended.
        agent = action.agent if action.is_vouched_for and action.agent in self._services.agents.agents else ""
        task = self.create(action.text, [self._root / path for path in paths], agent=agent)
        return replace(task, options={**task.options, ACTION: action.id})


def _superseding(task: Task, before: PredecessorResult, issued: Certificate, sha256: str) -> tuple[Relation, ...]:
    """Return the relation of a continuation's certificate to its predecessor: it supersedes one for the same paths."""
    from esper_agents.orchestration import session_branches

    same = session_branches.is_about_the_same(task, issued.task)
    return (Relation(RelationKind.SUPERSEDES, before.certificate, sha256),) if same else ()


def _refuse_unreadable(root: Path, paths: Sequence[str]) -> None:
    """Reject a path without readable content before a session is created."""
    # Show the full path if it is outside the project of the working folder.
    from esper_agents.review.discover import discover

    base = Path() if Path.cwd().is_relative_to(root) else root
    for candidate in discover(root, [base / path for path in paths], notebooks=True):
        if candidate.is_explicit:
            found = read(candidate.file, candidate.path)
            shown = str(base / candidate.path)
            if not isinstance(found, ReviewSource):
                raise InputFileError(shown, found.problem, remedy=found.remedy)
            if not found.text.strip():
                raise InputFileError(shown, "the file is empty", remedy="name a file with code in it")


def _behaviour_asked(parsed: ParsedRequest, asked: KindOfQuestion, is_change: object) -> str:
    """Return the words of a question about what code does, which asks for no approval and no choice; else empty.

    "Is it ok to save the state and go on?" is about the code that saves and loads. A question with one word for a
    judgement and none for what is judged stays one for an approval.
    """
    if is_change or asked.kind not in {QuestionType.APPROVAL, QuestionType.RECOMMENDATION}:
        return ""
    names = [each for each in parsed.grounded if each.path]
    has_concept = len(names) < len(parsed.grounded)
    is_measured = parsed.wish in {Wish.COMPARE, Wish.MEASURE}
    is_choice = asked.kind is QuestionType.RECOMMENDATION and (is_measured or len(parsed.symbols) > 1)
    return names[0].words if names and has_concept and not is_choice else ""
