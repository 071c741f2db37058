"""Toy agents, tools and playbooks: real parts, small enough to see through."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from esper_agents.api import open_project
from esper_agents.domain.agent_action import CallTools, Conclude, ToolCall
from esper_agents.domain.evidence import Risk, source_file
from esper_agents.errors import EvidenceError
from esper_agents.git.find_project import find_project
from esper_agents.paths import project_home
from esper_agents.tools.tool import Tool, ToolContext, ToolResult

EFFECTS = "effects.log"


def recording_tool(name, *, risk=Risk.LOW, repeatable=True, fails=None, output=None, during=None):
    """Return a tool that appends a line to `effects.log` of the project each time it runs.

    Args:
        name: How it is called.
        risk: Its risk.
        repeatable: Whether it may be run again.
        fails: An exception it raises after its effect.
        output: What it returns beside the text.
        during: Called with the context after the effect.
    """

    async def run(context: ToolContext, text: str = "") -> ToolResult:
        """Write a line.

        Args:
            context: The project.
            text: What to write.
        """
        with (context.root / EFFECTS).open("a") as file:
            file.write(f"{name} {text}".rstrip() + "\n")
        if during is not None:
            await during(context)
        if fails is not None:
            raise fails
        examined = [path for path in sorted(context.root.glob("*.py")) if path.is_file()]
        return ToolResult(
            f"{name} wrote {text!r}",
            {"text": text, **(output or {})},
            examined=tuple(source_file(each.name, each.read_bytes()) for each in examined),
        )

    return Tool(name, risk, repeatable, run, lambda arguments: f"echo {arguments.get('text', '')}", "toys 1")


def refusing_tool(name):
    """Return a tool that cannot find out what it was asked."""
    return recording_tool(name, fails=EvidenceError("the sensor is cold", remedy="warm it"))


def effects(project: Path):
    """Return the lines that tools have written, in order."""
    file = project / EFFECTS
    return file.read_text().splitlines() if file.is_file() else []


def agent_file(folder: Path, name, *, tools="", extra="", domain="toys"):
    """Write the definition of an agent and return its file."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = f"tools: [{tools}]\n" if tools is not None else ""
    head = f"name: {name}\ndescription: Knows {name}. Use for {name}.\ndomain: {domain}\n{listed}{extra}"
    file = folder / f"{name}.md"
    file.write_text(f"---\n{head}---\nYou.\n")
    return file


def calls(*names, **arguments):
    """Return the move that calls tools, each with the same arguments."""
    return CallTools(tuple(ToolCall(name, arguments) for name in names))


def calling(*names, then=None):
    """Return a playbook that calls tools in one turn and concludes."""

    def play(brief):
        reports = yield calls(*names)
        return then(reports) if then else Conclude("; ".join(report.evidence.summary for report in reports))

    return play


@dataclass
class Toybox:
    """A project with agents, tools and playbooks of its own.

    Attributes:
        project: The project's folder.
        folder: Where the agents are defined.
        playbooks: By the name of their agent; each agent may use every tool unless it is defined before.
        tools: Tools beside the built-in ones.
        migrated: A database to begin with, so that not every test pays for its migration.
    """

    project: Path
    folder: Path
    migrated: Path
    playbooks: dict = field(default_factory=dict)
    tools: list = field(default_factory=list)

    def agent(self, name, play=None, **fields):
        """Add an agent, with a playbook where one is given."""
        agent_file(self.folder, name, **{"tools": None, **fields})
        if play is not None:
            self.playbooks[name] = play

    def tool(self, name, **options):
        """Add a tool that records its runs."""
        self.tools.append(recording_tool(name, **options))

    def open(self, **options):
        """Open the project with everything in the box."""
        agents = [self.folder] if self.folder.is_dir() else []
        home = project_home(find_project([self.project], self.project).key)
        if not home.exists():
            home.mkdir(parents=True, mode=0o700)
            shutil.copy(self.migrated, home / "esper.db")
        return open_project(self.project, tools=self.tools, playbooks=self.playbooks, agents=agents, **options)

    async def submit(self, opened, agent="", request="review this", paths=("train.py",)):
        """Submit a task to an agent and return the session."""
        return await opened.tasks.submit(
            opened.tasks.create(request, [self.project / path for path in paths], agent=agent)
        )

    async def run(self, agent="", **task):
        """Submit a task, run it as far as it goes, and return its outcome, its certificate and its rows."""
        async with self.open() as opened:
            outcome = await (await self.submit(opened, agent, **task)).run()
            certificate = await opened.certificates.read(outcome.certificate.id) if outcome.certificate else None
            return Ran(outcome, certificate, await opened.sessions.timeline(outcome.session))

    async def cut_off(self, *names):
        """Run a session that ends, as by a signal, in the tool `last`, one of its calls; return its identifier."""

        class KilledError(BaseException):
            pass

        async def die(_context):
            raise KilledError

        self.tool("last", during=die)
        self.agent("killed", calling(*names))
        async with self.open() as opened:
            session = await self.submit(opened, "killed")
            with contextlib.suppress(KilledError):
                await session.run()
        return session.id

    def effects(self):
        """Return the lines that tools have written, in order."""
        return effects(self.project)


@dataclass
class Ran:
    """What became of a session."""

    outcome: object
    certificate: object
    rows: tuple

    def bodies(self, kind):
        """Return what the rows of a kind hold."""
        return [row.body for row in self.rows if row.kind == kind]
