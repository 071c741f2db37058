"""The reasoner that is a language model: a frame's turns as a conversation, and its next message as a move."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.budget import Amount, Resource
from esper_agents.domain.certificate import CLAUDE
from esper_agents.domain.codec import canonical
from esper_agents.domain.move import Conclude, UseTools
from esper_agents.domain.status import Stance
from esper_agents.reasoning.exchange import BoundError, TooLongError
from esper_agents.reasoning.models import Usage
from esper_agents.reasoning.prompting import house, system_of, tools_of
from esper_agents.reasoning.reasoner import Decision, ReasonerSource
from esper_agents.reasoning.said import Lines, Speaker, move_tools
from esper_agents.reasoning.transcript import Conversation, LeftOut, Said, answers_of, read_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from esper_agents.domain.frame import Brief, Turn
    from esper_agents.reasoning.exchange import ModelServer, Reply
    from esper_agents.reasoning.models import Model, ModelTable
    from esper_agents.reasoning.reasoner import Reasoner, Say

_MOST_OUTPUT = 32_000
# Of the window; what is longer has older results told in a line each.
_FULL = 0.7
_LEFT_WHOLE = 4
# How many characters of JSON a token stands for: at least, and at most.
_CHARACTERS, _MOST_CHARACTERS = 3, 6


@dataclass(frozen=True, slots=True)
class ModelDesk:
    """What the agents of a session that reason with a model share.

    Attributes:
        server: Who is asked.
        models: What there is to ask.
        lines: Returns a line of a file of the project.
        may_send: Refuses, by an error, that anything is sent.
        kind: What a definition calls those who reason here.
        role: Which model they reason with; empty for the one of each agent's definition.
    """

    server: ModelServer
    models: ModelTable
    lines: Lines
    may_send: Callable[[], None]
    kind: str = CLAUDE
    role: str = ""


class ClaudeReasoner:
    """Asks a language model for each move of one frame. Writes nothing and runs no tool."""

    def __init__(self, desk: ModelDesk, brief: Brief) -> None:
        """Prepare to ask; nothing is sent before the first move is wanted."""
        self._desk = desk
        self._brief = brief
        self._model = desk.models.resolve(desk.role or brief.agent.model)
        fixed = {"system": system_of(brief), "tools": tools_of(brief)}
        self._fixed = _json(fixed)
        self._conversation = Conversation(brief, fixed)

    async def next_move(self, turns: Sequence[Turn], say: Say) -> Decision:
        """Return the move that the model makes after the turns so far.

        Raises:
            ModelError: The server gives no answer that can be used.
            UsageError: There is no key, or it is not taken.
        """
        self._desk.may_send()
        model, reply, spent, left_out = await self._answered(turns, self._left_out(turns), say)
        if model != self._model:
            # What another model thought is no use to this one.
            left_out = LeftOut(left_out.results, len(turns) + 1)
        said = _moved(reply, Speaker(self._brief.agent.name, self._desk.lines))
        return Decision(said.move, _record(reply, said, left_out, spent, model) | self._exchanged(reply))

    async def _answered(self, turns: Sequence[Turn], left_out: LeftOut, say: Say) -> tuple[Model, Reply, int, LeftOut]:
        """Ask, and once more with less where that is what the server wants."""
        try:
            return *await self._asked(turns, left_out, say), left_out
        except (TooLongError, BoundError) as error:
            less = LeftOut(len(turns) if isinstance(error, TooLongError) else left_out.results, len(turns))
            if less == left_out:
                raise
            return await self._answered(turns, less, say)

    def least(self, turns: Sequence[Turn]) -> tuple[Amount, ...]:
        """Return what the next prompt takes at least: what may have been sent before is read from the cache."""
        asked = [turn for turn in turns if "content" in turn.record]
        if asked and self._left_out(turns).results > asked[-1].record["left_out"]["results"]:
            # It becomes shorter, and nobody knows how much.
            return ()
        before = Usage(**asked[-1].record["usage"]) if asked else Usage()
        known = before.fresh + before.written + before.cached if asked else _tokens(self._fixed)
        new = _tokens(_json(answers_of(turns[-1])) if asked else self._conversation.messages(turns))
        used = Usage(fresh=new, cached=known)
        return Amount(Resource.TOKENS, used.tokens), Amount(Resource.MONEY, self._model.cost(used))

    async def _asked(self, turns: Sequence[Turn], left_out: LeftOut, say: Say) -> tuple[Model, Reply, int]:
        """Ask the agent's model and, where it declines, the fallback; return who answered, what, and its whole cost."""
        reply = await self._desk.server.ask(self._request(self._model, turns, left_out), say)
        cost = self._model.cost(reply.usage)
        other = self._desk.models.fallback
        if reply.stop != "refusal" or not other or other == self._model.name:
            return self._model, reply, cost
        fallback = self._desk.models.resolve(other)
        left_out = LeftOut(left_out.results, len(turns))
        again = await self._desk.server.ask(self._request(fallback, turns, left_out), say)
        return fallback, again, cost + fallback.cost(again.usage)

    def _request(self, model: Model, turns: Sequence[Turn], left_out: LeftOut) -> str:
        asked = _json({"model": model.name, "max_tokens": min(_MOST_OUTPUT, model.most_output), "stream": True})
        messages = self._conversation.messages(turns, left_out)
        return f'{asked[:-1]}, {self._fixed[1:-1]}, "messages": {messages}}}'

    def _exchanged(self, reply: Reply) -> dict[str, str]:
        """Return what a certificate names the exchange by, and who was asked."""
        return {
            "server": self._desk.server.kind,
            "prompt_sha256": self._conversation.sha256,
            "response_sha256": sha256(canonical(reply.content)).hexdigest(),
        }

    def _left_out(self, turns: Sequence[Turn]) -> LeftOut:
        """Return what is not told any more; it never falls, so that the cache holds."""
        asked = [turn for turn in turns if "content" in turn.record]
        if not asked:
            return LeftOut()
        last = asked[-1].record
        before = LeftOut(**last["left_out"])
        known = Usage(**last["usage"]).tokens
        new = len(json.dumps(answers_of(turns[-1]))) // _CHARACTERS
        is_full = known + new + _MOST_OUTPUT > _FULL * self._model.window
        results = max(before.results, len(turns) - _LEFT_WHOLE) if is_full else before.results
        return LeftOut(results, len(turns)) if results > before.results else before


def _json(part: object) -> str:
    return json.dumps(part, ensure_ascii=False)


def _tokens(text: str) -> int:
    """Return how many tokens a part of a request has at least."""
    return len(text) // _MOST_CHARACTERS


def _moved(reply: Reply, speaker: Speaker) -> Said:
    """Return what an answer comes to, whatever it stopped for."""
    match reply.stop:
        case "refusal":
            return Said(_declined(speaker.agent, reply.model))
        case "pause_turn":
            return Said(UseTools(()), words="go on")
        case "max_tokens" | "model_context_window_exceeded":
            cut = "your answer was cut because it grew too long, so nothing of it was done; say less at once"
            uses = [each["id"] for each in reply.content if each.get("type") == "tool_use"]
            return Said(UseTools(()), (), dict.fromkeys(uses, cut), cut)
        case _:
            return read_turn(reply.content, speaker)


def _declined(agent: str, model: str) -> Conclude:
    why = f"{model} declined to go on"
    gap = InformationGap(
        f"the judgement of {agent}",
        why,
        "esper submit --reasoner playbook, naming the same paths",
        blocks_approval=True,
    )
    return Conclude(f"{agent} came to no judgement: {why}.", stance=Stance.UNDECIDED, below_ceiling=why, gaps=(gap,))


def _record(reply: Reply, said: Said, left_out: LeftOut, money: int, model: Model) -> dict[str, Any]:
    return {
        "id": reply.id,
        "model": reply.model,
        "content": list(reply.content),
        "stop": reply.stop,
        "uses": list(said.uses),
        "faults": said.faults or {},
        "words": said.words,
        "left_out": asdict(left_out),
        "usage": asdict(reply.usage),
        "is_priced": model.is_listed,
        "spent": {"tokens": reply.usage.tokens, "money": money},
    }


def claude_source(desk: ModelDesk) -> ReasonerSource:
    """Return what builds reasoners that ask a language model."""

    def build(brief: Brief) -> Reasoner:
        return ClaudeReasoner(desk, brief)

    text = "\n".join((house(), json.dumps(move_tools(), sort_keys=True))).encode()
    return ReasonerSource(desk.kind, sha256(text).hexdigest(), f"anthropic {version('anthropic')}", build, text)
