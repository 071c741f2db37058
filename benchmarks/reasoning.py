"""What it costs to have agents reason with a model through esper-agents, beside the plain SDK loop.

A scripted model on a server in a process of its own answers at once. The task: three agents, two handoffs, eight tool
calls and one conclusion that is sent back, twelve model calls. All runs speak to the same server with the real SDK.

- cpu: of this process, for a task; the plain loop keeps nothing, ours every step; then with the certificate too.
- cost: of input tokens as the server counts them, at the prices of `prompts/models.toml`. The plain loop carries the
  transcript from agent to agent and marks nothing for the cache; ours begins each agent on a brief.
- long: CPU of a step at 200 tool calls of one agent, beside the plain loop's.
- cache: share of the input that is read from the cache over twenty turns.
- many: 64 sessions at once.
- first token: how much later it reaches whoever shows it than the server said it.

- frameworks: the same task by two agent frameworks, see `reasoning_frameworks.py`; left out without `--frameworks`.

    python benchmarks/reasoning.py [--repeat 10] [--frameworks DIR] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from decimal import Decimal
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anthropic import AsyncAnthropic
from reasoning_frameworks import Offer, begin
from reasoning_task import AGENTS, LOOKED, PAGE, ROUNDS, Server, look_at, make_project, serve

from esper_agents.api import Conclude, open_project
from esper_agents.domain.session import SessionState
from esper_agents.orchestration import certify, graph
from esper_agents.reasoning.models import Usage, load_models

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from reasoning_frameworks import Framework

    from esper_agents.api import Brief, OpenProject
    from esper_agents.domain.agent_action import Move
    from esper_agents.orchestration.session_run import SessionRun

MODEL = "claude-sonnet-5-5"
MANY = 64
AIMS = {
    "cpu_durable_ratio": 1.5,
    "cpu_certified_ratio": 2.0,
    "input_cost_ratio": 0.334,
    "long_step_ratio": 1.2,
    "first_token_ms": 50.0,
}
AT_LEAST = {"cached_share": 0.85, "many_done": float(MANY)}


def _nothing(_: Brief) -> Generator[Move, Any, Conclude]:
    yield from ()
    return Conclude("nothing to say")


async def plain_loop(client: AsyncAnthropic, tools: list[dict[str, Any]], system: str, name: str) -> int:
    """Run a task by the SDK alone, the transcript carried from agent to agent; return how many requests were made."""
    asked = 0
    messages: list[Any] = [{"role": "user", "content": "review this: train.py"}]
    begun = [{"type": "text", "text": f"{system}\n\n# You are {name}"}]
    while True:
        request: dict[str, Any] = {"model": MODEL, "max_tokens": 32_000, "system": begun, "tools": tools}
        async with client.messages.stream(**request, messages=messages) as stream:
            message = await stream.get_final_message()
        asked += 1
        messages.append({"role": "assistant", "content": [each.to_dict() for each in message.content]})
        answers: list[dict[str, Any]] = []
        for block in message.content:
            if block.type == "tool_use":
                if block.name == "conclude" and "7.31x" not in str(block.input["summary"]):
                    return asked
                text = json.dumps({"text": PAGE}) if block.name == "look-at" else "go on"
                answers.append({"type": "tool_result", "tool_use_id": block.id, "content": text})
        messages.append({"role": "user", "content": answers})


@dataclass
class Bench:
    """What is measured, in one open project.

    Attributes:
        server: Who answers.
        client: The SDK's client, for the plain loop: made once, as ours is.
        opened: The project.
        tools: What is offered, for the plain loop.
        system: The system prompt, for the plain loop.
        frameworks: What else does the task.
        certifying: CPU in certify of the last session, in seconds.
    """

    server: Server
    client: AsyncAnthropic
    opened: OpenProject
    tools: list[dict[str, Any]]
    system: str
    frameworks: list[Framework]
    certifying: float = 0.0

    async def ours(self, agent: str) -> tuple[float, float]:
        """Run a task; return CPU with every step durable and CPU with the certificate, in seconds."""
        self.certifying = 0.0
        began = time.process_time()
        task = self.opened.tasks.create("review this", [self.opened.root / "train.py"], agent=agent)
        session = await self.opened.tasks.submit(self.opened.models.with_reasoner(task, "claude"))
        outcome = await session.run()
        took = time.process_time() - began
        if outcome.state is not SessionState.DONE:
            raise AssertionError(f"the session ended {outcome.state}")
        return took - self.certifying, took

    async def plain(self, name: str) -> tuple[float, int]:
        """Run it by the SDK alone; return CPU in seconds and how many requests were made."""
        began = time.process_time()
        asked = await plain_loop(self.client, self.tools, self.system, name)
        return time.process_time() - began, asked

    async def end(self, run: SessionRun) -> None:
        """Certify, with what it takes counted."""
        began = time.process_time()
        await certify.certify(run)
        self.certifying += time.process_time() - began


def cost(used: list[Usage]) -> Decimal:
    """Return what input costs, in millionths of a US dollar."""
    model = load_models().resolve(MODEL)
    return Decimal(sum(model.cost(each) for each in used))


async def _late_ms(bench: Bench) -> float:
    """Return how much later a person can see the first words than the server said them; they tell when."""
    heard: list[tuple[int, str]] = []
    task = bench.opened.tasks.create("review this", [bench.opened.root / "train.py"], agent=AGENTS[0])
    session = await bench.opened.tasks.submit(bench.opened.models.with_reasoner(task, "claude"))
    await session.run(lambda words: heard.append((time.monotonic_ns(), words)))
    said = "".join(words for _, words in heard)
    return (heard[0][0] - int(said.removeprefix(LOOKED).partition(".")[0])) / 1_000_000


async def measure(project: Path, server: Server, repeat: int, frameworks: Path | None) -> dict[str, float]:
    """Run everything and return the figures."""
    playbooks = dict.fromkeys((*AGENTS, *ROUNDS), _nothing)
    async with (
        AsyncAnthropic(base_url=server.url, api_key="test") as client,
        open_project(project, tools=[look_at], playbooks=playbooks, agents=[project.parent / "agents"]) as opened,
    ):
        opened.models.allow(opened.services.server.host)
        tools, system = _offered(opened)
        offer = Offer(server.url, MODEL, system, tools, PAGE, list(AGENTS), "7.31x")
        bench = Bench(server, client, opened, tools, system, begin(frameworks, offer) if frameworks else [])
        vars(opened.sessions)["_graph"] = graph.build_graph(end=bench.end)
        for name in AGENTS[:1]:
            await bench.ours(name)
            await bench.plain("plain")
            for framework in bench.frameworks:
                framework.run(name)
        server.usage()
        found = await _task(bench, repeat)
        found |= await _long(bench)
        await bench.ours("reasoning-twenty")
        used = server.usage()
        found["cached_share"] = sum(each.cached for each in used) / sum(each.tokens for each in used)
        began = time.perf_counter()
        done = await asyncio.gather(*(bench.ours(AGENTS[0]) for _ in range(MANY)), return_exceptions=True)
        found["many_done"] = float(sum(not isinstance(each, BaseException) for each in done))
        found["many_s"] = time.perf_counter() - began
        found["first_token_ms"] = statistics.median([await _late_ms(bench) for _ in range(5)])
        for framework in bench.frameworks:
            framework.close()
    return found


async def _task(bench: Bench, repeat: int) -> dict[str, float]:
    """Run the task both ways in turn."""
    durable, certified, plain, ours_cost, plain_cost = [], [], [], [], []
    others: dict[str, list[tuple[float, list[Usage]]]] = {framework.name: [] for framework in bench.frameworks}
    calls = 0
    for _ in range(repeat):
        took, asked = await bench.plain("plain")
        plain.append(took)
        plain_cost.append(cost([Usage(fresh=each.tokens) for each in bench.server.usage()]))
        without, whole = await bench.ours(AGENTS[0])
        durable.append(without)
        certified.append(whole)
        used = bench.server.usage()
        calls = len(used)
        ours_cost.append(cost(used))
        if asked != calls:
            raise AssertionError(f"{asked} requests by the plain loop, {calls} by ours")
        for framework in bench.frameworks:
            others[framework.name].append((framework.run(AGENTS[0]), bench.server.usage()))
    base = statistics.median(plain)
    return {
        "model_calls": float(calls),
        "cpu_plain_ms": 1000 * base,
        "cpu_durable_ms": 1000 * statistics.median(durable),
        "cpu_certified_ms": 1000 * statistics.median(certified),
        "cpu_durable_ratio": statistics.median(durable) / base,
        "cpu_certified_ratio": statistics.median(certified) / base,
        "input_cost_ratio": float(statistics.median(ours_cost) / statistics.median(plain_cost)),
    } | {
        f"{name}_{what}": figure
        for name, runs in others.items()
        for what, figure in (
            ("model_calls", float(len(runs[-1][1]))),
            ("cpu_ms", 1000 * statistics.median(took for took, _ in runs)),
            ("cpu_ratio", statistics.median(took for took, _ in runs) / base),
            ("input_cost_ratio", float(cost(runs[-1][1]) / statistics.median(plain_cost))),
        )
    }


async def _long(bench: Bench) -> dict[str, float]:
    """Run a long task both ways."""
    plain = [(await bench.plain("reasoning-long"))[0] for _ in range(3)]
    ours = [(await bench.ours("reasoning-long"))[0] for _ in range(3)]
    calls = ROUNDS["reasoning-long"][0]
    others = {framework.name: framework.run("reasoning-long") for framework in bench.frameworks}
    bench.server.usage()
    return {
        "long_plain_step_ms": 1000 * statistics.median(plain) / calls,
        "long_step_ms": 1000 * statistics.median(ours) / calls,
        "long_step_ratio": statistics.median(ours) / statistics.median(plain),
    } | {f"{name}_long_step_ratio": took / statistics.median(plain) for name, took in others.items()}


def _offered(opened: OpenProject) -> tuple[list[dict[str, Any]], str]:
    """Return the tools and the system prompt that ours sends, so that the plain loop sends as much."""
    from esper_agents.reasoning.action_schema import move_tools
    from esper_agents.reasoning.prompting import base_instructions

    uses = [each.use for each in opened.services.tools.named(None)]
    tools = [{"name": use.name, "description": use.description, "input_schema": dict(use.schema)} for use in uses]
    return [*tools, *(dict(move_tool) for move_tool in move_tools())], base_instructions()


def judged(found: dict[str, float]) -> Iterator[tuple[str, float, str, bool]]:
    """Yield each figure with its aim in words and whether it misses."""
    for name, value in found.items():
        if name in AIMS:
            yield name, value, f"at most {AIMS[name]:g}", value > AIMS[name]
        elif name in AT_LEAST:
            yield name, value, f"at least {AT_LEAST[name]:g}", value < AT_LEAST[name]
        else:
            yield name, value, "", False


def main() -> None:
    """Read the command line, measure, print, and exit with 1 where a figure is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=10, metavar="N")
    parser.add_argument("--frameworks", type=Path, metavar="DIR", help="where the frameworks are, or are put")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    if given.frameworks is None:
        print("agent frameworks are left out; --frameworks DIR measures them too", file=sys.stderr)
    folder = Path(tempfile.mkdtemp(prefix="esper-reasoning-"))
    here, there = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    process.start()
    try:
        server = Server(here, here.recv())
        key = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "test", "ESPER_HOME": str(folder / "home")}
        os.environ.update(key)
        found = asyncio.run(measure(make_project(folder), server, given.repeat, given.frameworks))
        here.send(None)
        here.recv()
    finally:
        process.terminate()
        shutil.rmtree(folder, ignore_errors=True)
    rows = list(judged(found))
    if given.json:
        print(json.dumps(found | {"missed": [name for name, _, _, is_missed in rows if is_missed]}))
    else:
        for name, value, aim, is_missed in rows:
            print(f"{name:29} {value:10.3f}" + (f"  ({aim}: {'MISSED' if is_missed else 'met'})" if aim else ""))
    sys.exit(any(is_missed for *_, is_missed in rows))


if __name__ == "__main__":
    main()
