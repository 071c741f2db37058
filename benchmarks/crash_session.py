"""The session that is killed: two agents, a consult, two approvals, tools of every sort, and named points to die at."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
import traceback
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn

from databases import database_of

from esper_agents.api import open_project
from esper_agents.archive import publishing as publish
from esper_agents.domain.agent_action import Ask, CallTools, Conclude, Consult, HandOff, ToolCall
from esper_agents.domain.evidence import Risk
from esper_agents.domain.session import SessionState
from esper_agents.errors import EvidenceError
from esper_agents.orchestration import tool_calls
from esper_agents.storage import ledger, migrate
from esper_agents.storage.store import Store
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from pathlib import Path

    from esper_agents.api import OpenProject, Session
    from esper_agents.domain.agent_action import Move
    from esper_agents.domain.frame import Brief
    from esper_agents.orchestration.session_run import SessionRun
    from esper_agents.storage.store import Transaction
    from esper_agents.tools.tool import Tool

FIRST, SECOND, ADVISER = "crash-first", "crash-second", "crash-adviser"
ANSWERS = {"crash-apply": "approve", "crash-erase": "deny", "": "go on"}
SOURCE = "import torch\n\n\ndef step(model, batch):\n    return model(batch).mean()\n"
_LONGEST_S = 120

_evidence: ContextVar[str] = ContextVar("evidence", default="")


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of one trial.

    Attributes:
        folder: Everything of the trial lies in it.
        server: The PostgreSQL server that its database is on; empty for SQLite.
    """

    folder: Path
    server: str = ""

    @property
    def project(self) -> Path:
        """The project that the session is about."""
        return self.folder / "project"

    @property
    def home(self) -> Path:
        """What the program writes."""
        return self.folder / "home"

    @property
    def agents(self) -> Path:
        """Definitions of the three agents."""
        return self.folder / "agents"

    @property
    def database(self) -> str:
        """The URL of its database; empty for SQLite, which lies in the home."""
        return database_of(self.server, self.folder)

    @property
    def environment(self) -> dict[str, str]:
        """What the program is told by its environment; an empty URL is none."""
        return {"ESPER_HOME": str(self.home), "ESPER_DATABASE_URL": self.database}

    def lines(self, name: str) -> list[str]:
        """Return the whole lines of one of the trial's own files."""
        file = self.folder / name
        return file.read_text().splitlines() if file.is_file() else []

    def note(self, name: str, line: str) -> None:
        """Append a line to one of the trial's own files; it survives the process."""
        with (self.folder / name).open("ab", buffering=0) as file:
            file.write(f"{line}\n".encode())


class Points:
    """Named points of a session; the process dies at one of them."""

    def __init__(self, place: Place, target: int | None) -> None:
        """Count from 1; with a target of None, all points are passed and their names noted."""
        self._place = place
        self._target = target
        self._passed = 0
        self.writing = ""
        self._opened_at: float | None = None

    def open(self) -> None:
        """Note that the store is open; the next row that is written shows that the session goes on."""
        self._opened_at = time.perf_counter()

    def go_on(self) -> None:
        """Note how long after the opening of the store the session went on, once."""
        if self._opened_at is not None and self.writing != "lease":
            self._place.note("went_on_ms", f"{(time.perf_counter() - self._opened_at) * 1000:.1f}")
            self._opened_at = None

    def reach(self, name: str) -> None:
        """Pass a point, or die at it."""
        if threading.current_thread() is not threading.main_thread() and "esper-store" not in (
            threading.current_thread().name
        ):
            return  # a heartbeat: it comes when the machine is slow, and would shift the count
        self._passed += 1
        if self._target is None:
            self._place.note("points", name)
        elif self._passed == self._target:
            self._place.note("died", name)
            os.kill(os.getpid(), signal.SIGKILL)


def _replace(owner: object, name: str, make: Callable[[Any], Any]) -> None:
    plain = getattr(owner, name)
    setattr(owner, name, wraps(plain)(make(plain)))


def place_points(points: Points) -> None:
    """Put points round every durable write of this process: transactions, migrations, published files, tools."""

    def writing(plain: Any) -> Any:
        @contextmanager
        def counted(self: Store) -> Iterator[Transaction]:
            points.writing = "lease"
            with plain(self) as transaction:
                yield transaction
                points.reach(f"before the commit of {points.writing}")
            points.go_on()
            points.reach(f"after the commit of {points.writing}")

        return counted

    def appending(plain: Any) -> Any:
        def named(
            transaction: Transaction, lease: Any, entries: Sequence[Any], *, beginning: Sequence[Any] = (), **index: Any
        ) -> Any:
            points.writing = "+".join(key.kind for key, _ in (*entries, *beginning))
            return plain(transaction, lease, entries, beginning=beginning, **index)

        return named

    def around(what: str) -> Callable[[Any], Any]:
        def make(plain: Any) -> Any:
            def surrounded(*given: Any) -> Any:
                points.reach(f"before {what}")
                done = plain(*given)
                points.reach(f"after {what}")
                return done

            return surrounded

        return make

    def running(plain: Any) -> Any:
        async def known(run: SessionRun, frame: Any, used: Tool, call: ToolCall, evidence: str) -> Any:
            _evidence.set(evidence)
            return await plain(run, frame, used, call, evidence)

        return known

    _replace(Store, "writing", writing)
    _replace(ledger, "append_within", appending)
    _replace(migrate, "upgrade", around("migrating"))
    _replace(publish, "_write", around("publishing a file"))
    _replace(tool_calls, "_run_tool", running)


def _tools(place: Place, points: Points) -> list[Tool]:
    """Return one tool of every sort; each notes that it has started, under the evidence it is for."""

    def named(name: str, *, risk: Risk = Risk.LOW, repeatable: bool = True, fails: bool = False) -> Tool:
        @tool(name, risk=risk, repeatable=repeatable, rerun=lambda _: f"echo {name}")
        async def run(context: ToolContext) -> ToolResult:
            """Note that it has started."""
            place.note("effects", f"{name} {_evidence.get()}")
            points.reach(f"in {name}")
            await asyncio.sleep(0)
            if fails:
                raise EvidenceError("the sensor is cold", remedy="warm it")
            return ToolResult(f"{name} ran", {"project": context.root.name})

        return run

    return [
        named("crash-look"),
        named("crash-write", repeatable=False),
        named("crash-fail", fails=True),
        named("crash-apply", risk=Risk.MEDIUM, repeatable=False),
        named("crash-erase", risk=Risk.MEDIUM, repeatable=False),
    ]


UNREPEATABLE = frozenset(("crash-write", "crash-apply", "crash-erase"))


def _use(*names: str) -> CallTools:
    return CallTools(tuple(ToolCall(name, {}) for name in names))


def _first(brief: Brief) -> Generator[Move, Any, Conclude]:
    yield CallTools((*_use("crash-look", "crash-write").calls, ToolCall("static-review", {"paths": ["train.py"]})))
    yield _use("crash-fail")
    yield _use("crash-apply", "crash-erase")
    yield Ask("go on?")
    answer = yield Consult(ADVISER, "is this the right place?")
    yield HandOff(agent=SECOND, domain="crash", reason="it is next", context=answer.answer)
    return Conclude(f"{brief.agent.name} could not hand off.")


def _second(brief: Brief) -> Generator[Move, Any, Conclude]:
    yield _use("crash-write", "crash-look")
    return Conclude(f"{brief.agent.name} has looked.")


def _adviser(brief: Brief) -> Generator[Move, Any, Conclude]:
    yield _use("crash-look")
    return Conclude(f"{brief.agent.name} says yes.")


PLAYBOOKS = {FIRST: _first, SECOND: _second, ADVISER: _adviser}


def write_agents(folder: Path) -> None:
    """Write the definitions of the agents."""
    folder.mkdir()
    for name in PLAYBOOKS:
        text = f"---\nname: {name}\ndescription: Takes part in the crash trials.\ndomain: crash\n---\nYou take part.\n"
        (folder / f"{name}.md").write_text(text)


def be_worker(place: Place, target: int | None) -> NoReturn:
    """Do the session's work from wherever it is to its end, then exit; or die at a point on the way."""
    code = 1
    try:
        signal.alarm(_LONGEST_S)
        os.environ.update(place.environment)
        points = Points(place, target)
        place_points(points)
        began = time.perf_counter()
        asyncio.run(work(place, points))
        place.note("took_ms", f"{(time.perf_counter() - began) * 1000:.1f}")
        code = 0
    except BaseException:  # noqa: BLE001 - a forked process must not run on into its parent's code
        place.note("trouble", traceback.format_exc())
    finally:
        sys.stdout.flush()
        os._exit(code)


async def work(place: Place, points: Points) -> None:
    """Take the session from wherever it is to its end, answering what it asks."""
    tools = _tools(place, points)
    async with open_project(place.project, tools=tools, playbooks=PLAYBOOKS, agents=[place.agents]) as opened:
        points.open()
        session = await _session(place, opened)
        outcome = await session.run()
        while outcome.state is SessionState.WAITING:
            asked = outcome.questions[0]
            session = await opened.approvals.answer(asked.id, ANSWERS[asked.tool])
            outcome = await session.run()
        if outcome.state is not SessionState.DONE:
            place.note("trouble", f"the session ended {outcome.state}")
        points.writing = "nothing more"
        points.go_on()


async def _session(place: Place, opened: OpenProject) -> Session:
    known = await opened.sessions.list()
    if known:
        return await opened.tasks.resume(known[-1].id)
    task = opened.tasks.create("review this", [place.project / "train.py"], agent=FIRST)
    session = await opened.tasks.submit(task)
    place.note("accepted", session.id)
    return session
