"""Whether tasks that go round in a circle are stopped, and those that get somewhere are not.

A trail says who hands the task to whom, and who measures something new before. Toy agents walk each trail through the
real graph, on real ledgers. A loop must end without one of its agents being asked for a move after the hop that is
refused, other than the one that was refused it; a legal trail must be walked to its end. Loops are all shapes of two to
five agents that are named below, then random ones; so are legal trails. Everything follows from `--seed`.

    python benchmarks/loops.py [--trails 100] [--seed 6] [--json]

It exits with 1 if a loop was not stopped or a legal trail was.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.api import Risk, open_project, read_budget
from esper_agents.domain.agent_action import CallTools, Conclude, HandOff, ToolCall
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from esper_agents.api import OpenProject
    from esper_agents.domain.agent_action import Move
    from esper_agents.domain.frame import Brief

AGENTS = "abcde"
# The most hops that a trail may take, so that it is the circle that ends a loop and not the budget.
_HOPS = 40
_TIMES_ROUND = 4


@dataclass(frozen=True, slots=True)
class Trail:
    """Who has the task, one after another.

    Attributes:
        agents: A letter for each.
        progress: At which places of it something new is measured.
        is_loop: Whether it goes round in a circle without end.
    """

    agents: str
    progress: frozenset[int] = frozenset()
    is_loop: bool = True

    @property
    def name(self) -> str:
        """The trail in letters; capitals measure something new."""
        return "".join(each.upper() if n in self.progress else each for n, each in enumerate(self.agents))


def is_walk(trail: str) -> bool:
    """Return whether each agent of a trail hands to another one."""
    return all(one != other for one, other in pairwise(trail))


def loops(count: int, seed: int) -> list[Trail]:
    """Return loops: what comes round again, after a way into it, with what was measured before it began."""
    drawn = random.Random(f"loops {seed}")  # noqa: S311 - trails, no keys
    rounds = ["ab", "abc", "acb", "abcd", "abcde", "abac", "abcb", "abcbd", "abacad", "abcacb", "abcdcb", "abcabd"]
    found = [Trail(each * _TIMES_ROUND, frozenset(before)) for each in rounds for before in ((), (0,), (0, 1))]
    while len(found) < count:
        way = "".join(drawn.choices(AGENTS, k=drawn.randint(0, 3)))
        round_ = "".join(drawn.choices(AGENTS, k=drawn.randint(2, 7)))
        progress = frozenset(n for n in range(len(way) + 1) if drawn.random() < 1 / 2)
        trail = Trail((way + round_ * _TIMES_ROUND)[:_HOPS], progress)
        if is_walk(trail.agents) and trail not in found:
            found.append(trail)
    return found[:count]


def legal(count: int, seed: int) -> list[Trail]:
    """Return trails that get somewhere: those that hand back, and those on which something new is measured in time."""
    drawn = random.Random(f"legal {seed}")  # noqa: S311 - trails, no keys
    known = ["ab", "aba", "abcba", "abcdcba", "abcdedcba", "abacada", "abcbdba", "abacadaea", "abcdc", "abcdcecba"]
    found = [Trail(each, is_loop=False) for each in known]
    for each in ("ab", "abc", "abcd", "abac", "abcb"):
        whole = each * _TIMES_ROUND
        found.append(Trail(whole, frozenset(range(len(whole))), is_loop=False))
        found.append(Trail(whole, frozenset(range(0, len(whole), len(each))), is_loop=False))
        found.append(Trail(whole, frozenset(range(1, len(whole), len(each))), is_loop=False))
    while len(found) < count:
        if drawn.random() < 1 / 3:
            found.append(Trail(handing_back(drawn), is_loop=False))
            continue
        # Whoever gets the task measures something new, but for one in a while, who hands it back or passes it on.
        trail, progress, size = [drawn.choice(AGENTS)], {0}, drawn.randint(4, 24)
        while len(trail) < size:
            trail.append(drawn.choice([agent for agent in AGENTS if agent != trail[-1]]))
            if len(trail) - 2 not in progress or drawn.random() < 3 / 4:
                progress.add(len(trail) - 1)
        found.append(Trail("".join(trail), frozenset(progress), is_loop=False))
    return found[:count]


def handing_back(drawn: random.Random) -> str:
    """Return a trail on which nobody measures anything: each asks others one by one, and they hand back."""
    free = list(AGENTS)
    drawn.shuffle(free)
    trail = [free.pop()]
    givers: list[str] = []
    while free or givers:
        if free and (not givers or drawn.random() < 1 / 2):
            givers.append(trail[-1])
            trail.append(free.pop())
        else:
            trail.append(givers.pop())
    return "".join(trail)


@tool("loops-look", risk=Risk.LOW, repeatable=True, rerun=lambda arguments: f"echo {arguments['text']}")
async def look(context: ToolContext, text: str) -> ToolResult:
    """Measure something.

    Args:
        context: The project.
        text: What.
    """
    return ToolResult(f"looked at {text}", {"text": text, "root": context.root.name})


class Walk:
    """One task on its trail."""

    def __init__(self) -> None:
        """Begin with no trail; `trail` is set for each task."""
        self.trail = Trail("")
        self.asked: list[str] = []
        self.refused = ""

    def play(self, brief: Brief) -> Generator[Move, Any, Conclude]:
        """Measure where the trail says so, and hand the task to the next of it."""
        place = len(brief.chain)
        self.asked.append(brief.agent.name)
        if place in self.trail.progress:
            yield CallTools((ToolCall("loops-look", {"text": f"{self.trail.name} {place}"}),))
        if place + 1 < len(self.trail.agents):
            refused = yield HandOff(self.trail.agents[place + 1], "toys", "it knows", "nothing")
            self.refused = refused.reasons[0]
        return Conclude("the end of the trail")


async def walk(project: OpenProject, walked: Walk, trail: Trail) -> dict[str, Any]:
    """Let a task go along a trail, and return how far it came and who was asked for a move."""
    walked.trail, walked.asked, walked.refused = trail, [], ""
    task = project.tasks.create(
        "review this", [project.root / "train.py"], agent=trail.agents[0], budget=read_budget(f"hops={_HOPS}")
    )
    outcome = await (await project.tasks.submit(task)).run()
    rows = await project.sessions.timeline(outcome.session)
    refused = next((n for n, row in enumerate(rows) if row.kind == "move-refused"), len(rows))
    frame = rows[refused].frame if refused < len(rows) else 0
    came = 1 + sum(row.kind == "handed-off" for row in rows)
    by_circle = "nothing new was found or measured since" in walked.refused
    asked_after = sum(row.kind == "deciding" and row.frame != frame for row in rows[refused:])
    return {
        "trail": trail.name,
        "came": came,
        "is_right": (by_circle and not asked_after and came < len(trail.agents))
        if trail.is_loop
        else came == len(trail.agents),
        "asked_after": asked_after,
        "has_only_asked_its_owners": walked.asked == list(trail.agents[:came]),
        "status": outcome.certificate.status if outcome.certificate else "",
    }


async def measure(folder: Path, trails: Sequence[Trail]) -> list[dict[str, Any]]:
    """Walk all trails in one project."""
    root = folder / "project"
    root.mkdir()
    (root / "train.py").write_text("import torch\n")
    agents = folder / "agents"
    agents.mkdir()
    for name in AGENTS:
        text = f"---\nname: {name}\ndescription: Knows {name}.\ndomain: toys\n---\nYou.\n"
        (agents / f"{name}.md").write_text(text)
    walked = Walk()
    playbooks = dict.fromkeys(AGENTS, walked.play)
    async with open_project(root, tools=[look], playbooks=playbooks, agents=[agents], publish=False) as project:
        return [await walk(project, walked, trail) for trail in trails]


def main() -> int:
    """Walk the trails and print what came of them; 1 where one came to another end than it should."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--trails", type=int, default=100, help="how many loops, and how many legal trails")
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--json", action="store_true", help="print every trail")
    given = parser.parse_args()
    trails = [*loops(given.trails, given.seed), *legal(given.trails, given.seed)]
    with tempfile.TemporaryDirectory(prefix="esper-loops-") as name:
        os.environ["ESPER_HOME"] = str(Path(name) / "home")
        os.environ.pop("ESPER_DATABASE_URL", None)
        seen = asyncio.run(measure(Path(name), trails))
    right = [each["is_right"] and each["has_only_asked_its_owners"] for each in seen]
    stopped, went = sum(right[: given.trails]), sum(right[given.trails :])
    if given.json:
        print(json.dumps(seen, indent=2))
    for each, trail, is_right in zip(seen, trails, right, strict=True):
        if not is_right:
            print(f"  {'loop' if trail.is_loop else 'legal'} {trail.name}: came to {each['came']}, {each}")
    judged_better = sum(
        each["status"] != "NEEDS_FURTHER_REVIEW" for each, trail in zip(seen, trails, strict=True) if trail.is_loop
    )
    spent = sum(each["asked_after"] for each in seen[: given.trails])
    met = stopped == went == given.trails and not judged_better and not spent
    print(f"loops stopped: {stopped} of {given.trails}, aim all")
    print(f"legal trails walked to their end: {went} of {given.trails}, aim all")
    print(f"moves asked of anybody else after a refused hop: {spent}, aim 0")
    print(f"loops that ended with more than NEEDS_FURTHER_REVIEW: {judged_better}, aim 0")
    print("met" if met else "MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
