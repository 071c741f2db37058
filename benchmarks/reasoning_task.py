"""The task of `reasoning.py`: project, agents, their tool, and the scripted model, on a server in its own process."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.api import Risk, ToolContext, ToolResult, tool
from esper_agents.reasoning.models import Usage

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    from esper_agents.testing.script import Answer, Request

AGENTS = ("reasoning-first", "reasoning-second", "reasoning-third")
SOURCE = "import torch\n\n\ndef step(model, batch):\n    return model(batch).mean()\n"
# How many turns an agent looks in, and how often in each: 200 calls, and twenty turns with the last one.
ROUNDS = {"reasoning-long": (50, 4), "reasoning-twenty": (19, 1)}
# With the time at which the server says it.
LOOKED = "I look at it at "
PAGE = "def layer(x):\n    return x * 2  # a line of a file that was read\n" * 40


def _answers() -> tuple[Answer, ...]:
    """Return the twelve answers of the task, in order."""
    from esper_agents.testing.script import Say, ToolUseBlock

    def looks(first: int, calls: int) -> list[Answer]:
        return [
            [Say(f"{LOOKED}{time.monotonic_ns()}."), ToolUseBlock("look-at", {"at": at})]
            for at in range(first, first + calls)
        ]

    def hop(to: str) -> Answer:
        return ToolUseBlock(
            "hand_off", {"agent": to, "domain": "benchmark", "reason": "it is theirs", "context": "it was seen"}
        )

    ends = [ToolUseBlock("conclude", {"summary": said}) for said in ("It is 7.31x faster.", "It is as it should be.")]
    return (*looks(0, 3), hop(AGENTS[1]), *looks(3, 3), hop(AGENTS[2]), *looks(6, 2), *ends)


def scripted(request: Request) -> Answer:
    """Return what the model says: it follows from how far the conversation has come, and whose it is."""
    from esper_agents.testing.script import ToolUseBlock

    turns = sum(each["role"] == "assistant" for each in request.body["messages"])
    system = json.dumps(request.body["system"])
    for name, (wanted, at_once) in ROUNDS.items():
        if f"You are {name}" in system:
            uses = tuple(ToolUseBlock("look-at", {"at": at_once * turns + each}) for each in range(at_once))
            return uses if turns < wanted else ToolUseBlock("conclude", {"summary": "All of it was seen."})
    begun = next((4 * number for number, name in enumerate(AGENTS) if f"You are {name}" in system), 0)
    answer: Answer = _answers()[begun + turns]
    return answer


def serve(pipe: Connection) -> None:
    """Serve the script until the other end hangs up."""
    from esper_agents.testing.messages import MessagesServer

    with MessagesServer(scripted) as server:
        pipe.send(server.url)
        while (asked := pipe.recv()) is not None:
            seen = server.requests
            pipe.send([(each.usage.uncached, each.usage.written, each.usage.read) for each in seen[asked:]])
        pipe.send(None)


@dataclass
class Server:
    """The scripted model's server, in another process.

    Attributes:
        pipe: To it.
        url: Where it listens.
        seen: How many requests were looked at.
    """

    pipe: Connection
    url: str
    seen: int = 0

    def usage(self) -> list[Usage]:
        """Return what the requests since the last look used."""
        self.pipe.send(self.seen)
        found = [Usage(fresh, written, cached) for fresh, written, cached in self.pipe.recv()]
        self.seen += len(found)
        return found


@tool(
    "look-at",
    risk=Risk.LOW,
    repeatable=True,
    concurrent=True,
    rerun=lambda arguments: f"sed -n {arguments.get('at', 1)}p train.py",
)
async def look_at(context: ToolContext, at: int) -> ToolResult:
    """Look at one place of the project and return what stands there.

    Args:
        context: The project.
        at: Which place.
    """
    return ToolResult(f"looked at {at}", {"at": at, "project": context.root.name, "text": PAGE})


def make_project(folder: Path) -> Path:
    """Make the project and the agents."""
    project, agents = folder / "project", folder / "agents"
    project.mkdir()
    agents.mkdir()
    (project / "train.py").write_text(SOURCE)
    for name in (*AGENTS, *ROUNDS):
        text = f"---\nname: {name}\ndescription: Takes part.\ndomain: benchmark\ntools: [look-at]\n---\nYou do.\n"
        (agents / f"{name}.md").write_text(text)
    author = ("-c", "user.name=Bench", "-c", "user.email=bench@example.org")
    for arguments in (("init", "-q", "--template="), ("add", "-A"), (*author, "commit", "-q", "-m", "first")):
        subprocess.run(["git", "-C", str(project), *arguments], check=True)
    return project
