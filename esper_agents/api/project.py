"""An open project: submit tasks to it, resume its sessions, read its certificates and memory."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.api.session import Session, cancel_held, event_of
from esper_agents.certificates import archive, trends
from esper_agents.certificates.exporting import export
from esper_agents.certificates.filters import Filter
from esper_agents.certificates.question_kind import kind_of, kinds_text
from esper_agents.certificates.redaction import redacted, struck_out
from esper_agents.certificates.render import render_markdown
from esper_agents.certificates.sealing.keys import take_key_file
from esper_agents.certificates.sealing.trust import trusted
from esper_agents.certificates.search import search
from esper_agents.certificates.statement import parse
from esper_agents.domain.codec import carried
from esper_agents.domain.memory import NoteState
from esper_agents.domain.relation import Relation, RelationKind
from esper_agents.domain.reproduction import EVIDENCE, REPRODUCE
from esper_agents.domain.session import SessionState, Submission
from esper_agents.domain.task import Task
from esper_agents.errors import BusyError, InputFileError, NotFoundError, UsageError
from esper_agents.memory import notes
from esper_agents.orchestration.answers import record_answer
from esper_agents.orchestration.environment import environment
from esper_agents.orchestration.genuine import genuine
from esper_agents.orchestration.history import History
from esper_agents.orchestration.holding import audited, held
from esper_agents.orchestration.publish import publish, publish_page, record_path, view_path
from esper_agents.orchestration.repair import repair
from esper_agents.orchestration.revoking import revoke
from esper_agents.orchestration.routing import route_of
from esper_agents.orchestration.run import running
from esper_agents.orchestration.workshop import Additions, Workshop
from esper_agents.paths import home, project_home
from esper_agents.review.discover import discover
from esper_agents.review.source import Source, read
from esper_agents.storage import lease, ledger, sessions
from esper_agents.storage.engine import database_url
from esper_agents.storage.store import AsyncStore, Store
from esper_agents.tools.git import find_project, revision

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
    from types import ModuleType

    from esper_agents.certificates.archive import Entry
    from esper_agents.certificates.authenticity import Keyring
    from esper_agents.certificates.exporting import Exported
    from esper_agents.certificates.log.audit_log import Audit
    from esper_agents.certificates.log.note import Note
    from esper_agents.certificates.search import Hit
    from esper_agents.certificates.trends import Point
    from esper_agents.domain.budget import Amount
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.ledger import Question, Row
    from esper_agents.domain.memory import Note as MemoryNote
    from esper_agents.domain.memory import NoteKind
    from esper_agents.domain.move import ToolUse
    from esper_agents.domain.notice import Notice
    from esper_agents.domain.route import Route
    from esper_agents.domain.session import Event, SessionSummary
    from esper_agents.orchestration.genuine import Genuine
    from esper_agents.orchestration.graph import Graph
    from esper_agents.orchestration.holding import Held
    from esper_agents.orchestration.repair import Repaired
    from esper_agents.reasoning.playbook import Play
    from esper_agents.storage.lease import Lease
    from esper_agents.tools.tool import Tool

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
    """

    task: Task
    route: Route
    reasoner: str
    tools: tuple[ToolUse, ...]
    neighbours: tuple[str, ...]


@asynccontextmanager
async def open_project(
    *paths: str | Path,
    tools: Iterable[Tool] = (),
    playbooks: Mapping[str, Play] | None = None,
    agents: Sequence[Path] = (),
    rules: Sequence[ModuleType] = (),
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
    additions = Additions(tuple(tools), dict(playbooks or {}), tuple(agents), tuple(rules))
    workshop = Workshop(found, home, store, publish, additions)
    try:
        yield OpenProject(workshop)
    finally:
        await workshop.close()
        store.close()


class OpenProject:
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
            paths: What it is about; where empty, the whole project if it is under git.
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
        everything = (".",) if self.workshop.project.is_git and not inside else ()
        return Task(request, inside or everything, asked.kind, asked.because, name, again, dict(options or {}), tuple(budget))

    def _inside(self, path: Path) -> str:
        target = Path.cwd() / path.expanduser()
        if find_project([target], Path.cwd()).key != self._key and not target.resolve().is_relative_to(self.root):
            raise UsageError(
                f"{str(path)!r} is not in the project {str(self.root)!r}", remedy="submit one task for each project"
            )
        return target.resolve().relative_to(self.root).as_posix()

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
        tools = tuple(tool.use for tool in self.workshop.tools.named(agent.tools))
        return Plan(task, route, reasoner, tools, agent.hands_off_to)

    async def submit(self, task: Task) -> Session:
        """Make a session of a task and hold it; `Session.run` does the work."""
        before = await self.certificate(task.again) if task.again else None
        rests_on = await self._genuine(task.options[REPRODUCE]) if REPRODUCE in task.options else None
        begun = Submission(
            task=task,
            project=self.workshop.project.name,
            # What is run again is the code as it was.
            revision=parse(rests_on.data).revision if rests_on else redacted(revision(self.root)).value,
            environment=environment(),
            person=_person(),
            relations=tuple(
                Relation(kind, each.id, each.sha256)
                for kind, each in (
                    (RelationKind.SUPERSEDES, before),
                    (RelationKind.DEPENDS_ON, rests_on and rests_on.entry),
                )
                if each
            ),
            question_kinds_sha256=sha256(kinds_text().encode()).hexdigest(),
            redactions=struck_out(task.request),
        )
        held = await self._store.run(sessions.create, self.workshop.project, begun)
        return self._session(held)

    async def resume(self, session_id: str) -> Session:
        """Hold a session again; `Session.run` goes on at the first step without a result.

        Raises:
            NotFoundError: The project has no such session.
            BusyError: Another process works on it.
        """
        found = await self.session(session_id)
        return self._session(await self._store.run(lease.claim, found.id))

    def _session(self, held: Lease) -> Session:
        return Session(self.workshop, self._graph, held)

    async def answer(self, question_id: str, text: str) -> Session:
        """Answer a question, and hold its session so that it can go on.

        Args:
            question_id: `qst_` identifier or the end of one, or the identifier of a session that asks just one.
            text: `approve` or `deny` for an approval, else the answer.

        Raises:
            NotFoundError: Nobody asked that.
            UsageError: It was answered before, or the answer is not one of the options.
            BusyError: Another process works on the session.
        """
        session_id, question = await self._asked(question_id)
        held = await self._store.run(lease.claim, session_id)
        async with running(self.workshop, held, lambda _: None) as run:
            await record_answer(run, question, carried(text), _person())
        return self._session(await self._store.run(lease.claim, session_id))

    async def _asked(self, wanted: str) -> tuple[str, str]:
        if wanted.startswith("ses_") or wanted == "latest":
            found = await self.session(wanted)
            asked = (await self.history(found.id)).questions
            if len(asked) != 1:
                problem = f"session {found.id} asks {len(asked)} questions"
                raise UsageError(problem, remedy=f"name one of them: run `esper sessions show {found.id}`")
            return found.id, asked[0].id
        known: list[str] = []
        for each in await self.sessions(limit=1000):
            rows = await self._store.run(_rows, each.id)
            asked_here = [event.body["id"] for event in map(event_of, rows) if event.kind == "asked"]
            known.extend(asked_here)
            matches = [name for name in asked_here if name.endswith(wanted.removeprefix("qst_"))]
            if len(matches) == 1:
                return each.id, matches[0]
        raise NotFoundError("question", wanted, known, listing="esper sessions list")

    async def questions(self) -> tuple[tuple[str, Question], ...]:
        """Return every question that waits for an answer, with its session."""
        waiting = [each for each in await self.sessions(limit=1000) if each.state is SessionState.WAITING]
        return tuple([(each.id, asked) for each in waiting for asked in (await self.history(each.id)).questions])

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
            await cancel_held(self.workshop, held, _person())
        return await self.session(found.id)

    async def sessions(self, *, limit: int = 50) -> tuple[SessionSummary, ...]:
        """Return the project's sessions, newest first."""
        return await self._store.run(sessions.listing, self._key, limit=limit)

    async def session(self, session_id: str) -> SessionSummary:
        """Return one session, by identifier, an unmistakable part of it, or `latest`.

        Raises:
            NotFoundError: The project has no such session.
        """
        return await self._store.run(sessions.find, self._key, session_id)

    async def history(self, session_id: str) -> History:
        """Return what a session's ledger says."""
        return History(session_id, await self._store.run(_rows, session_id))

    async def timeline(self, session_id: str) -> tuple[Event, ...]:
        """Return a session's rows, in order."""
        return tuple(event_of(row) for row in await self._store.run(_rows, session_id))

    async def certificates(
        self, *, agent: str = "", wanted: Filter | None = None, before: str = "", limit: int = 50
    ) -> tuple[Entry, ...]:
        """Return the project's certificates, newest first.

        Args:
            agent: Only what this agent concluded.
            wanted: Only what this filter lets through.
            before: Only those that stand after this one.
            limit: At most so many.
        """
        asked = wanted or Filter()
        asked = replace(asked, agent=agent) if agent else asked
        return await self._store.run(archive.listing, self._key, wanted=asked, before=before, limit=limit)

    async def search(self, wanted: Filter, *, before: str = "", limit: int = 20) -> tuple[Hit, ...]:
        """Return the project's certificates that say all the words of a filter, newest first, each with where."""
        return await self._store.run(search, self._key, wanted, before=before, limit=limit)

    async def metrics(self) -> tuple[str, ...]:
        """Return the names of all numbers that the project's certificates have on record."""
        return await self._store.run(trends.names, self._key)

    async def trend(self, metric: str, wanted: Filter | None = None, *, limit: int = 50) -> tuple[Point, ...]:
        """Return the newest amounts of a metric over the project's certificates, oldest first.

        Raises:
            NotFoundError: No certificate has that metric, or the name may mean several.
        """
        return await self._store.run(trends.trend, self._key, metric, wanted or Filter(), limit=limit)

    async def export(self, wanted: Filter, to: Path) -> Exported:
        """Write certificates with what somebody else needs to check them to a `.tar` file or a new folder.

        Raises:
            UsageError: It is there already.
        """
        public_key = trusted(home(), self.root, self._key).public_key
        return await self._store.run(export, self._key, wanted, to, public_key)

    async def certificate(self, certificate_id: str) -> Entry:
        """Return one certificate's entry, by identifier, the end of it, or `latest`.

        Raises:
            NotFoundError: The project has none of that name.
        """
        return await self._store.run(archive.find, self._key, certificate_id)

    async def held(self, certificate_id: str) -> tuple[Held, Keyring]:
        """Return what the archive has of a certificate beside its bytes, and whose signatures count.

        Raises:
            NotFoundError: The project has none of that name.
        """
        return await self._store.run(held, self.workshop.project, self.workshop.home, certificate_id)

    async def every_certificate(self) -> tuple[Entry, ...]:
        """Return all of the project's certificates, newest first."""
        return await self._store.run(archive.everything, self._key)

    async def audit_log(self, published: Sequence[tuple[str, Note]] = ()) -> Audit:
        """Return what is wrong with the log that the project's certificates stand in.

        Args:
            published: Checkpoints from elsewhere, each with where it was found.
        """
        return await self._store.run(audited, self.workshop.project, published)

    async def repair(self, *, accept_rollback: bool = False) -> Repaired:
        """Make again whatever can be made from the log; see `orchestration.repair`.

        Raises:
            IntegrityError: The log contradicts what was last seen of it, and that is not accepted.
        """
        run = self._store.run
        return await run(repair, self.workshop, accept_rollback=accept_rollback, by=_person())

    async def revoke(self, certificate_id: str, reason: str) -> Notice:
        """Say in the log that a certificate does not count any more, and publish that beside its view.

        Raises:
            NotFoundError: The project has none of that name.
            UsageError: No reason is given.
        """
        return await self._store.run(revoke, self.workshop, certificate_id, reason, _person())

    async def record(self, certificate_id: str) -> bytes:
        """Return a certificate's bytes, an in-toto Statement.

        Raises:
            IntegrityError: They are not the bytes that were issued.
        """
        return await self._store.run(archive.read, (await self.certificate(certificate_id)).id)

    async def read(self, certificate_id: str) -> Certificate:
        """Return a certificate as typed data; see `record`."""
        return parse(await self.record(certificate_id))

    async def markdown(self, certificate_id: str) -> str:
        """Return a certificate's Markdown view, rendered anew."""
        return render_markdown(await self.record(certificate_id))

    async def view(self, certificate_id: str) -> Path:
        """Return where a certificate's Markdown view is published, written anew if it or its record is gone."""
        entry = await self.certificate(certificate_id)
        target = view_path(self.workshop, entry)
        if not (target.is_file() and record_path(target).is_file()):
            await self._store.run(publish, self.workshop, entry.id, [entry.agent])
        return target

    async def page(self, certificate_id: str) -> Path:
        """Write a certificate's HTML page as this version lays it out, and return where it is."""
        entry = await self.certificate(certificate_id)
        return await self._store.run(publish_page, self.workshop, entry.id)

    async def memory(
        self,
        *,
        agent: str = "",
        kind: NoteKind | None = None,
        states: Collection[NoteState] = tuple(NoteState),
        limit: int = 500,
    ) -> tuple[MemoryNote, ...]:
        """Return what agents remember of the project, newest first, in the states that are named."""
        return await self._store.run(notes.listing, self._key, agent=agent, kind=kind, states=states, limit=limit)


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


def _person() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
