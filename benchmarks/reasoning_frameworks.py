"""The task of `reasoning.py` by two agent frameworks, each in a process of its own.

Both use the Messages API by the SDK, stream their answers as the others do, offer the same tools, and hand off as their
documentation shows: the next agent gets the history. Neither puts a mark for the cache. What they offer for a handoff
and for a conclusion has shorter schemas than ours.

- pydantic-ai: a handoff and the conclusion are outputs of an agent; the program runs the next one. It keeps nothing.
- langgraph: agents of `create_agent` in a swarm; a handoff is a tool that goes to another node. Its checkpointer keeps
  every step in memory, and nothing on disk.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Awaitable, Callable

REQUIREMENTS = Path(__file__).with_suffix(".txt")
HAND_OFF, CONCLUDE = "hand_off", "conclude"
_SENT_BACK = "go on"
_MOST_STEPS = 1000


@dataclass(frozen=True, slots=True)
class Offer:
    """What a framework is given to do the task with.

    Attributes:
        url: Where the server is.
        model: Which model.
        system: The system prompt.
        tools: All tools, as the Messages API takes them.
        page: What a look at a place returns.
        agents: The agents of the task.
        wrong: What a conclusion says that is sent back.
    """

    url: str
    model: str
    system: str
    tools: list[dict[str, Any]]
    page: str
    agents: list[str]
    wrong: str

    def prompt(self, name: str) -> str:
        """Return the system prompt of an agent; one that gets the history has no name that the script goes by."""
        return f"{self.system}\n\n# You are {name.removeprefix('reasoning-') if name in self.agents else name}"

    @property
    def plain(self) -> list[dict[str, Any]]:
        """The tools that are no move of the task."""
        return [tool for tool in self.tools if tool["name"] not in {HAND_OFF, CONCLUDE}]


@dataclass
class Framework:
    """A framework at work in another process.

    Attributes:
        name: Its name.
        process: Where it runs.
    """

    name: str
    process: subprocess.Popen[str] = field(repr=False)

    def run(self, agent: str) -> float:
        """Run a task, begun by an agent, and return the CPU it took there, in seconds."""
        self.say(agent)
        answered = self.process.stdout.readline() if self.process.stdout else ""
        if not answered:
            raise AssertionError(f"{self.name} ended with {self.process.wait()}")
        return float(answered)

    def close(self) -> None:
        """Let it end."""
        if self.process.stdin:
            self.process.stdin.close()
        self.process.wait()

    def say(self, line: str) -> None:
        """Give it a line to read."""
        if self.process.stdin:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()


def begin(folder: Path, offer: Offer) -> list[Framework]:
    """Start each framework, from an environment in a folder that is made at first use."""
    python = folder / "bin" / "python"
    made = folder / REQUIREMENTS.name
    if not made.is_file() or made.read_text() != REQUIREMENTS.read_text():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = ("-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", str(REQUIREMENTS))
        subprocess.run([str(python), *install], check=True, stdout=sys.stderr)
        made.write_text(REQUIREMENTS.read_text())
    begun = []
    for name in RUNNERS:
        command = [str(python), __file__, name]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        begun.append(Framework(name, process))
        begun[-1].say(json.dumps(asdict(offer)))
    return begun


def pydantic_ai(offer: Offer) -> Callable[[str], Awaitable[None]]:
    """Return what runs the task by pydantic-ai."""
    from pydantic_ai import (  # type: ignore[import-not-found, unused-ignore]
        Agent,
        ModelRetry,
        Tool,
        ToolOutput,
        UsageLimits,
    )
    from pydantic_ai.models.anthropic import AnthropicModel  # type: ignore[import-not-found, unused-ignore]
    from pydantic_ai.providers.anthropic import AnthropicProvider  # type: ignore[import-not-found, unused-ignore]

    async def tool(**_: Any) -> str:
        return json.dumps({"text": offer.page})

    async def hand_off(agent: str, domain: str, reason: str, context: str) -> str:
        del domain, reason, context
        return agent

    async def conclude(summary: str) -> None:
        if offer.wrong in summary:
            raise ModelRetry(_SENT_BACK)

    async def listen(_: Any, events: AsyncIterable[Any]) -> None:
        async for _event in events:
            pass

    described = {each["name"]: each["description"] for each in offer.tools}
    model = AnthropicModel(offer.model, provider=AnthropicProvider(base_url=offer.url, api_key="test"))
    agents = {
        name: Agent(
            model,
            name=name,
            instructions=offer.prompt(name),
            tools=[
                Tool.from_schema(tool, each["name"], each["description"], each["input_schema"]) for each in offer.plain
            ],
            output_type=[
                ToolOutput(hand_off, name=HAND_OFF, description=described[HAND_OFF]),
                ToolOutput(conclude, name=CONCLUDE, description=described[CONCLUDE]),
            ],
            model_settings={"max_tokens": 32_000},
        )
        for name in (*offer.agents, "reasoning-long")
    }

    async def run(name: str) -> None:
        history: list[Any] = []
        asked: str | None = "review this: train.py"
        to: str | None = name
        while to:
            result = await agents[to].run(
                asked,
                message_history=history,
                usage_limits=UsageLimits(request_limit=_MOST_STEPS),
                event_stream_handler=listen,
            )
            history, to, asked = result.all_messages(), result.output, None

    return run


def langgraph(offer: Offer) -> Callable[[str], Awaitable[None]]:
    """Return what runs the task by LangGraph."""
    from langchain.agents import create_agent  # type: ignore[import-not-found, unused-ignore]
    from langchain.messages import ToolMessage  # type: ignore[import-not-found, unused-ignore]
    from langchain.tools import InjectedToolCallId  # type: ignore[import-not-found, unused-ignore]
    from langchain_anthropic import ChatAnthropic  # type: ignore[import-not-found, unused-ignore]
    from langchain_core.tools import StructuredTool
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END
    from langgraph.prebuilt import InjectedState
    from langgraph.types import Command
    from langgraph_swarm import create_swarm  # type: ignore[import-not-found, unused-ignore]

    async def tool(**_: Any) -> str:
        return json.dumps({"text": offer.page})

    def gone(state: Any, call: str, to: str) -> Any:
        told = ToolMessage(content="gone over", name=HAND_OFF, tool_call_id=call)
        return Command(
            goto=to, graph=Command.PARENT, update={"messages": [*state["messages"], told], "active_agent": to}
        )

    async def hand_off(*, agent: str, domain: str, reason: str, context: str, state: Any, call: str) -> Any:
        del domain, reason, context
        return gone(state, call, agent)

    async def conclude(summary: str, state: Any, call: str) -> Any:
        return _SENT_BACK if offer.wrong in summary else gone(state, call, END)

    injected = {"state": Annotated[Any, InjectedState], "call": Annotated[str, InjectedToolCallId]}
    hand_off.__annotations__ = dict.fromkeys(("agent", "domain", "reason", "context"), str) | injected
    conclude.__annotations__ = {"summary": str} | injected
    described = {each["name"]: each["description"] for each in offer.tools}
    tools: list[Any] = [
        StructuredTool(
            name=each["name"], description=each["description"], args_schema=each["input_schema"], coroutine=tool
        )
        for each in offer.plain
    ]
    tools += [
        StructuredTool.from_function(coroutine=made, name=name, description=described[name])
        for name, made in ((HAND_OFF, hand_off), (CONCLUDE, conclude))
    ]
    model = ChatAnthropic(model=offer.model, base_url=offer.url, api_key="test", max_tokens=32_000, streaming=True)
    agents = [
        create_agent(model, tools, system_prompt=offer.prompt(name), name=name)
        for name in (*offer.agents, "reasoning-long")
    ]
    swarm = create_swarm(agents, default_active_agent=offer.agents[0]).compile(checkpointer=InMemorySaver())

    async def run(name: str) -> None:
        begun = {"messages": [{"role": "user", "content": "review this: train.py"}], "active_agent": name}
        config = {"configurable": {"thread_id": str(uuid4())}, "recursion_limit": _MOST_STEPS}
        async for _ in swarm.astream(begun, config, stream_mode="messages"):
            pass

    return run


RUNNERS: dict[str, Callable[[Offer], Callable[[str], Awaitable[None]]]] = {
    "pydantic_ai": pydantic_ai,
    "langgraph": langgraph,
}


async def _serve(name: str) -> None:
    """Run a task for each line, and answer with the CPU it took."""
    run = RUNNERS[name](Offer(**json.loads(sys.stdin.readline())))
    while agent := sys.stdin.readline().strip():
        began = time.process_time()
        await run(agent)
        print(time.process_time() - began, flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
