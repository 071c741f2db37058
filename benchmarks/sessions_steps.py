"""A project whose sessions take as many steps as are asked for: its agents, their tool and their playbooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esper_agents.api import open_project
from esper_agents.domain.agent_action import CallTools, Conclude, Consult, ToolCall
from esper_agents.domain.evidence import Risk
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from esper_agents.domain.agent_action import Move
    from esper_agents.domain.frame import Brief

# As many turns as an agent that is consulted takes, its conclusion among them.
TURNS = 50
SAID = "measured"
PAYLOAD = {"text": SAID, "numbers": [1, 2, 3]}


@tool("benchmark-look", risk=Risk.LOW, repeatable=True, rerun=lambda _: "esper review .")
async def look(context: ToolContext, number: int) -> ToolResult:  # noqa: ARG001 - as every tool
    """Return a few words.

    Args:
        context: The project.
        number: Which call it is.
    """
    return ToolResult(f"looked {number} times", PAYLOAD)


def chief(steps: int) -> Callable[[Brief], Generator[Move, Any, Conclude]]:
    """Return a playbook that has others take so many steps, and then asks once more what it never gets."""

    def play(_brief: Brief) -> Generator[Move, Any, Conclude]:
        for _ in range(steps // TURNS):
            yield Consult("benchmark-helper", "what is it?")
        return Conclude("done")

    return play


def helper(_brief: Brief) -> Generator[Move, Any, Conclude]:
    """Take one step short of all, and answer with the last."""
    for number in range(TURNS - 1):
        yield CallTools((ToolCall("benchmark-look", {"number": number}),))
    return Conclude("looked")


def made(folder: Path) -> Path:
    """Return a project with the agents that the sessions are run by."""
    for name in ("benchmark-chief", "benchmark-helper"):
        file = folder / "agents" / f"{name}.md"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"---\nname: {name}\ndescription: Takes steps.\ntools: [benchmark-look]\n---\nTake steps.\n")
    root = folder / "project"
    root.mkdir(exist_ok=True)
    (root / "train.py").write_text("import torch\n")
    return root


def opening(folder: Path, steps: int) -> Any:
    """Return the project, to be opened, with what takes so many steps."""
    playbooks = {"benchmark-chief": chief(steps), "benchmark-helper": helper}
    return open_project(made(folder), tools=[look], playbooks=playbooks, agents=[folder / "agents"], publish=False)
