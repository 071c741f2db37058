"""An open project: submit tasks to it, resume its sessions, read its certificates and memory."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.api.holdings import Holdings
from esper_agents.api.lineage import Lineage, superseding
from esper_agents.api.modelling import Modelling
from esper_agents.api.notebook import Notebook
from esper_agents.api.person import person
from esper_agents.api.session import Session, cancel_held
from esper_agents.certificates.question_kind import kind_of, kinds_text
from esper_agents.certificates.redaction import redacted, struck_out
from esper_agents.certificates.sealing.keys import take_key_file
from esper_agents.certificates.statement import parse
from esper_agents.domain.certificate import CLAUDE, REASONER
from esper_agents.domain.codec import carried
from esper_agents.domain.memory import ACTION, NoteState
from esper_agents.domain.origin import SUBMITTED, Origin, OriginKind
from esper_agents.domain.relation import Relation, RelationKind
from esper_agents.domain.reproduction import EVIDENCE, REPRODUCE
from esper_agents.domain.session import SessionState, Submission
from esper_agents.domain.task import Task
from esper_agents.errors import BusyError, InputFileError, UsageError
from esper_agents.orchestration.answers import asked_by, only_question, record_answer, waiting
from esper_agents.orchestration.environment import environment
from esper_agents.orchestration.genuine import genuine
from esper_agents.orchestration.keeping import keep_policy
from esper_agents.orchestration.permissions import restrict, rules_for
from esper_agents.orchestration.routing import route_of
from esper_agents.orchestration.rules import digest_of_rules, in_general
from esper_agents.orchestration.run import running
from esper_agents.orchestration.workshop import Additions, Workshop
from esper_agents.paths import project_home
from esper_agents.review.discover import discover
from esper_agents.review.source import Source, read
from esper_agents.storage import lease, ledger, sessions
from esper_agents.storage.engine import database_url
from esper_agents.storage.store import AsyncStore, Store
from esper_agents.tools.git import find_project, revision
from esper_agents.tools.projects import refuse_unusable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
    from types import ModuleType

    from esper_agents.domain.budget import Amount
    from esper_agents.domain.ledger import Question, Row
    from esper_agents.domain.memory import Note as MemoryNote
    from esper_agents.domain.memory import NoteKind
    from esper_agents.domain.move import ToolUse
    from esper_agents.domain.origin import Before
    from esper_agents.domain.route import Route
    from esper_agents.domain.rule import Rule
    from esper_agents.domain.session import SessionSummary
    from esper_agents.orchestration.answers import Waiting
    from esper_agents.orchestration.genuine import Genuine
    from esper_agents.orchestration.graph import Graph
    from esper_agents.reasoning.playbook import Play
    from esper_agents.storage.lease import Lease
    from esper_agents.tools.tool import Tool

_FILE = re.compile(r"(?<![\w./~-])\w[\w./-]*\.(?:py|ipynb)(?!\w)")
_LOOKS, _LOOK_S = 20, 0.1
# Who checks the work of others.
_CHECKER = "validation-specialist"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a task would do; nothing of it has run.

    Attributes:
        task: The task as it would be submitted.
        route: Who would be given it, and why.
        reasoner: What would decide that agent's moves.
        tools: What that agent may call.
        neighbours: Whom it may hand the task to.
        leave: For tools that do not simply run, what becomes of a call, in words.
        rules: The rules about tools that would hold.
        ignored: What the project's settings would allow, which only the person's may.
    """

    task: Task
    route: Route
    reasoner: str
    tools: tuple[ToolUse, ...]
    neighbours: tuple[str, ...]
    leave: dict[str, str] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    ignored: tuple[Rule, ...] = ()


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
    """Yield the project that holds all paths, open until the block ends.

    Args:
        paths: Files or folders, none for the working folder; the git work tree around them is the project, else the
            folder.
        tools: Further tools.
        playbooks: Further playbooks, by the name of their agent.
        agents: Further agent files or folders of them.
        rules: Modules with further review rules.
        plugins: Folders of plugins beside those that the person has added.
        publish: Whether views may be written into the project where it is ours to write.

    Raises:
        InputFileError: No such path.
        UsageError: The paths belong to two projects.
        StorageError: The database cannot be used.
    """
    take_key_file()
    found = find_project([_expanded(path) for path in paths], Path.cwd())
    home = project_home(found.key)
    store = AsyncStore(Store(database_url(home / "esper.db")))
    additions = Additions(tuple(tools), dict(playbooks or {}), tuple(agents), tuple(rules), tuple(plugins))
    workshop = Workshop(found, home, store, publish, additions)
    try:
        yield OpenProject(workshop)
    finally:
        await workshop.close()
        store.close()


class OpenProject(Holdings, Lineage, Modelling):
    """A project whose sessions, certificates and memory can be worked with."""

    def __init__(self, workshop: Workshop) -> None:
        """Wrap what sessions work with; `open_project` makes these."""
        self.workshop = workshop
        self.root = Path(workshop.project.root)
        self._key = workshop.project.key
        self._store = workshop.store

    @cached_property
    def _graph(self) -> Graph:
        from esper_agents.orchestration.graph import build_graph

        return build_graph()

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
        """Return a task that has been checked; nothing is stored.

        Args:
            request: What is asked, in words.
            paths: What it is about; where empty, the files that the request names, else the whole project if it is
                under git.
            agent: Who is to be given it; empty lets the router choose.
            again: The certificate whose question is asked again.
            options: Further options.
            budget: How much the session may use; see `domain.budget.read_budget`.

        Raises:
            UsageError: The request is empty.
            InputFileError: A path cannot be reviewed.
            NotFoundError: No agent of that name.
        """
        if not request.strip():
            raise UsageError("the request is empty", remedy='say what you ask: esper submit "review this" train.py')
        request = redacted(carried(request)).value
        asked = kind_of(request)
        name = self.workshop.agents.get(agent).name if agent else ""
        inside = tuple(dict.fromkeys(self._inside(Path(path)) for path in paths))
        _refuse_unreadable(self.root, inside)
        inside = inside or _named(self.root, request)
        everything = (".",) if self.workshop.project.is_git and not inside else ()
        return Task(
            request, inside or everything, asked.kind, asked.because, name, again, dict(options or {}), tuple(budget)
        )

    def restricted(self, task: Task, *, ask: Sequence[str] = (), deny: Sequence[str] = ()) -> Task:
        """Return a task whose agents, consulted ones too, ask before they call some tools and never call others.

        Raises:
            NotFoundError: There is no such tool.
        """
        return restrict(self.workshop, task, ask=ask, deny=deny)

    def _inside(self, path: Path) -> str:
        target = Path.cwd() / path.expanduser()
        refuse_unusable(target, Path.cwd())
        real = target.resolve()
        if not real.is_relative_to(self.root):
            raise UsageError(
                f"{str(path)!r} is not in the project {str(self.root)!r}", remedy="submit one task for each project"
            )
        return real.relative_to(self.root).as_posix()

    async def again(self, certificate_id: str) -> Task:
        """Return the task of a certificate, to be asked again of the code as it is now, of the same agent.

        Raises:
            NotFoundError: The project has no such certificate.
            InputFileError: A path of it is gone.
        """
        before = await self.read(certificate_id)
        _refuse_unreadable(self.root, before.task.paths)
        agent = self.workshop.agents.get(before.route.agent).name
        return replace(before.task, again=before.id, agent=agent, budget=())

    async def reproduction(self, certificate_id: str) -> Task:
        """Return the task of running the evidence of a certificate again, for who checks the work of others.

        Raises:
            NotFoundError: The project has no such certificate.
            IntegrityError: It is not what was issued.
            EvidenceError: Nobody who is trusted here signed it.
            UsageError: There is no evidence in it.
        """
        found = await self._genuine(certificate_id)
        before = parse(found.data)
        if not before.evidence:
            problem = f"certificate {before.id} rests on no evidence that could be run again"
            raise UsageError(problem, remedy=f"see what it says: esper certificates show {before.id}")
        request = f"verify the evidence of {before.id} by running it again"
        asked = kind_of(request)
        options = {REPRODUCE: before.id, EVIDENCE: " ".join(each.id for each in before.evidence)}
        return Task(request, before.task.paths, asked.kind, asked.because, _CHECKER, options=options)

    async def _genuine(self, certificate_id: str) -> Genuine:
        return await self._store.run(genuine, self.workshop.project, self.workshop.home, certificate_id)

    async def plan(self, task: Task) -> Plan:
        """Return what a task would do, and run nothing."""
        route = route_of(self.workshop, task)
        if not route.agent:
            return Plan(task, route, "", (), ())
        agent = self.workshop.agents.get(route.agent)
        has_playbook = agent.name in self.workshop.playbooks
        reasoner = "playbook" if has_playbook else "no playbook and no model: it would end undecided"
        if task.options.get(REASONER) == CLAUDE:
            reasoner = f"claude ({self.workshop.models.resolve(agent.model).name}), after a playbook has had its say"
        tools = tuple(tool.use for tool in self.workshop.tools.named(agent.tools))
        rules = rules_for(self.workshop, task)
        said = ((tool.name, in_general(rules, tool.name, tool.risk)) for tool in tools)
        leave = {name: words for name, words in said if words}
        return Plan(task, route, reasoner, tools, agent.hands_off_to, leave, rules, self.workshop.settings.ignored)

    async def submit(self, task: Task, *, continues: Before | None = None) -> Session:
        """Make a session of a task and hold it; `Session.run` does the work.

        Args:
            task: The task.
            continues: What the session came to that this one continues; see `continuation`.
        """
        begun, origin = await self._submission(task, continues)
        held = await self._store.run(sessions.create, self.workshop.project, begun, origin=origin)
        return self._session(held)

    async def enqueue(self, task: Task, *, continues: Before | None = None) -> str:
        """Make a session of a task that a worker is to take, and return its identifier; see `submit`."""
        begun, origin = await self._submission(task, continues)
        return await self._store.run(sessions.enqueue, self.workshop.project, begun, origin=origin)

    async def _submission(self, task: Task, continues: Before | None) -> tuple[Submission, Origin]:
        before = await self.certificate(task.again) if task.again else None
        rests_on = await self._genuine(task.options[REPRODUCE]) if REPRODUCE in task.options else None
        begun = Submission(
            task=task,
            project=self.workshop.project.name,
            # What is run again is the code as it was.
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
            redactions=struck_out(task.request),
            policy_sha256=keep_policy(self.workshop),
            before=continues,
            rules=(rules := rules_for(self.workshop, task)),
            rules_sha256=digest_of_rules(rules),
        )
        return begun, Origin(OriginKind.CONTINUED, continues.session) if continues else SUBMITTED

    async def _superseding(self, task: Task, continues: Before | None) -> tuple[Relation, ...]:
        if continues is None or not continues.certificate:
            return ()
        entry = await self.certificate(continues.certificate)
        return superseding(task, continues, await self.read(entry.id), entry.sha256)

    def _session(self, held: Lease, workshop: Workshop | None = None) -> Session:
        return Session(workshop or self.workshop, self._graph, held)

    async def answer(self, question_id: str, text: str, *, is_decision: bool = False) -> Session:
        """Answer a question, and hold its session so that it can go on.

        Args:
            question_id: `qst_` identifier or the end of one, or the identifier of a session that asks just one.
            text: `approve` or `deny` for an approval, else the answer.
            is_decision: Whether it is an agreement or a refusal, which a question that wants words does not take.

        Raises:
            NotFoundError: Nobody asked that.
            UsageError: It was answered before, nobody waits for it any more, or the answer is not one it can have.
            BusyError: Another process works on the session.
            ChangedError: The answer is on record, but what the session goes by has changed; `resume` it.
        """
        session_id, question = await self._asked(question_id)
        held = await self._store.run(lease.claim, session_id)
        async with running(self.workshop, held, lambda _: None) as run:
            await record_answer(run, question, carried(text), person(), is_decision=is_decision)
        # Who answered the same question later looks at the session for a moment, and is refused.
        for _ in range(_LOOKS):
            with suppress(BusyError):
                return await self.resume(session_id)
            await asyncio.sleep(_LOOK_S)
        return await self.resume(session_id)

    async def _asked(self, wanted: str) -> tuple[str, str]:
        if wanted.startswith("ses_") or wanted == "latest":
            found = await self.session(wanted)
            return found.id, only_question(await self.history(found.id), found)
        asked = await self._store.run(asked_by, self._key, wanted)
        return asked.session, asked.question

    async def approvals(self) -> tuple[Waiting, ...]:
        """Return every question of the project's sessions that waits for an answer, the oldest first."""
        return await self._store.run(waiting, self._key)

    async def questions(self) -> tuple[tuple[str, Question], ...]:
        """Return every question that waits for an answer, with its session."""
        return tuple((each.session, each.question) for each in await self.approvals())

    async def cancel(self, session_id: str) -> SessionSummary:
        """End a session without a verdict; one that runs elsewhere stops at its next step boundary.

        Raises:
            NotFoundError: The project has no such session.
            UsageError: It is over already.
        """
        found = await self.session(session_id)
        if found.state not in {SessionState.OPEN, SessionState.WAITING}:
            raise UsageError(f"session {found.id} is {found.state} already", remedy="nothing is left to cancel")
        try:
            held = await self._store.run(lease.claim, found.id)
        except BusyError:
            await self._store.run(sessions.request_cancel, found.id)
        else:
            await cancel_held(self.workshop, held, person())
        return await self.session(found.id)

    async def memory(
        self,
        *,
        agent: str = "",
        kind: NoteKind | None = None,
        states: Collection[NoteState] = tuple(NoteState),
        limit: int = 500,
    ) -> tuple[MemoryNote, ...]:
        """Return what agents remember of the project, newest first, in the states that are named."""
        return await self.notebook.list(agent=agent, kind=kind, states=states, limit=limit)

    @cached_property
    def notebook(self) -> Notebook:
        """All that can be done with what agents remember."""
        return Notebook(self.workshop)

    async def from_action(self, wanted: str) -> Task:
        """Return the task of doing an open action, given to the agent that keeps it; see `Notebook.open_action`.

        Raises:
            NotFoundError: There is no such action.
            UsageError: It is not open.
        """
        action = await self.notebook.open_action(wanted)
        named = [each.path for each in action.sources]
        if not named and action.is_vouched_for:
            # What is to be found out is about what the certificate was about.
            named = [*(await self.read(action.certificate)).task.paths]
        paths = [path for path in dict.fromkeys(named) if path != "." and (self.root / path).exists()]
        # Who is named in what somebody brought along may not exist, or not be meant.
        agent = action.agent if action.is_vouched_for and action.agent in self.workshop.agents.agents else ""
        task = self.task(action.text, [self.root / path for path in paths], agent=agent)
        return replace(task, options={**task.options, ACTION: action.id})


def _named(root: Path, request: str) -> tuple[str, ...]:
    """Return the files of the project that a request names in its words."""
    found = dict.fromkeys(_FILE.findall(request))
    here = root.resolve()
    return tuple(each for each in found if (at := (root / each).resolve()).is_file() and at.is_relative_to(here))


def _refuse_unreadable(root: Path, paths: Sequence[str]) -> None:
    """Refuse a named path that holds nothing to read, before a session is made of it."""
    for candidate in discover(root, [Path(path) for path in paths], notebooks=True):
        if candidate.is_explicit:
            found = read(candidate.file, candidate.path)
            if not isinstance(found, Source):
                raise InputFileError(found.path, found.problem, remedy=found.remedy)
            if not found.text.strip():
                raise InputFileError(candidate.path, "the file is empty", remedy="name a file with code in it")


def _rows(store: Store, session_id: str) -> tuple[Row, ...]:
    with store.reading() as connection:
        return ledger.rows(connection, session_id)


def _expanded(path: str | Path) -> Path:
    return Path(path).expanduser()
