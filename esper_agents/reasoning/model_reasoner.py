"""Language model reasoner: turns as a conversation, the next message as an action."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from esper_agents.domain.agent_action import CallTools, Conclude
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.budget import Amount, Resource
from esper_agents.domain.program_notice import ProgramNotice
from esper_agents.domain.reasoner_names import CLAUDE, SECOND_OPINION
from esper_agents.domain.status import Stance
from esper_agents.errors import ModelError, OverloadedError
from esper_agents.reasoning.action_schema import ActionContext, move_tools
from esper_agents.reasoning.model_activity import ModelActivity
from esper_agents.reasoning.model_client import CUT, with_new_ids
from esper_agents.reasoning.model_errors import SignatureContextError, TooLongError
from esper_agents.reasoning.models import Usage
from esper_agents.reasoning.prompting import base_instructions, system_of
from esper_agents.reasoning.reasoner import SALVAGED, Decision, ReasonerSource
from esper_agents.reasoning.retry_budget import RetryBudget
from esper_agents.reasoning.salvage import salvage
from esper_agents.reasoning.tool_descriptions import tools_of
from esper_agents.reasoning.transcript import Conversation, ElidedTurns, ParsedTurn, answers_of, read_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.frame import Brief, Turn
    from esper_agents.reasoning.model_client import ModelReply, ModelServer
    from esper_agents.reasoning.models import Model, ModelTable
    from esper_agents.reasoning.reasoner import Reasoner, Say

# With fewer tokens for its answer, thinking included, a model is not asked: it could not even conclude.
_LEAST_OUTPUT = 2_000
# In windows of at least this size, an answer always fits: long conversations are shortened before.
_LARGE = 200_000
# Fraction of the context window; in longer conversations, older results are summarized in a line each.
_FULL = 0.7
_LEFT_WHOLE = 4
# Minimum bytes of JSON per token, used if no server has counted.
_BYTES = 3


@dataclass(frozen=True, slots=True)
class ModelClientConfig:
    """Configuration shared by the model reasoners of a session.

    Attributes:
        server: Client of the model server.
        models: Table of the available models.
        may_send: Raises an error if nothing may be sent.
        kind: Kind of the reasoner in recorded definitions.
        role: Model role; empty for the one of each agent's definition.
    """

    server: ModelServer
    models: ModelTable
    may_send: Callable[[], None]
    kind: str = CLAUDE
    role: str = ""


class ModelReasoner:
    """Reasoner that asks a language model for each action of one frame. Writes nothing and runs no tool."""

    def __init__(self, desk: ModelClientConfig, brief: Brief) -> None:
        """Prepare the conversation; nothing is sent before the first action is requested."""
        self._desk = desk
        self._brief = brief
        self._model = desk.models.resolve(desk.role or brief.agent.model)
        self._settings = desk.models.settings_for(_activity(desk, brief))
        fixed = {"system": system_of(brief), "tools": tools_of(brief)}
        self._fixed = _json(fixed)
        self._conversation = Conversation(brief, fixed)
        self._left: tuple[Amount, ...] = ()

    async def next_move(self, turns: Sequence[Turn], say: Say) -> Decision:
        """Return the model's next action after the given turns.

        Raises:
            ModelError: The server gives no usable answer.
            UsageError: The API key is missing or rejected.
        """
        self._desk.may_send()
        tries = RetryBudget(self._model)
        try:
            model, reply, left_out = await self._answered(turns, self._left_out(turns), tries, say)
        except ModelError as error:
            if tries.usage.tokens:
                error.used = {"model": self._model.name} | _expense(tries, self._model)
            raise
        if model != self._model:
            # The thinking of another model is not usable by this one.
            left_out = ElidedTurns(left_out.results, len(turns) + 1)
        reply = with_new_ids(reply, _used_ids(turns))
        speaker = ActionContext(self._brief.agent.name, self._conversation.names.full)
        said = _moved(reply, speaker)
        record = _record(reply, said, left_out, tries, model) | self._exchanged(reply)
        if (
            isinstance(said.move, CallTools)
            and not said.move.calls
            and (kept := salvage(turns, reply.content, speaker))
        ):
            return Decision(kept.move, record | {SALVAGED: kept.why})
        return Decision(said.move, record)

    async def _answered(
        self, turns: Sequence[Turn], left_out: ElidedTurns, tries: RetryBudget, say: Say
    ) -> tuple[Model, ModelReply, ElidedTurns]:
        """Ask the model, and again with a shorter conversation if the server requires it."""
        try:
            return *await self._asked(turns, left_out, tries, say), left_out
        except (TooLongError, SignatureContextError) as error:
            less = ElidedTurns(len(turns) if isinstance(error, TooLongError) else left_out.results, len(turns))
            if less == left_out:
                raise
            return await self._answered(turns, less, tries, say)

    def within(self, turns: Sequence[Turn], left: Sequence[Amount]) -> Amount | None:
        """Limit the next answer to the remaining budget; return the minimum usage that exceeds it, if any."""
        self._left = tuple(left)
        least = self._prompt(turns, self._left_out(turns)) + Usage(output=_LEAST_OUTPUT)
        takes = {Resource.TOKENS: least.tokens, Resource.MONEY: self._model.cost(least)}
        short = (each.resource for each in left if takes.get(each.resource, 0) > each.amount)
        return next((Amount(each, takes[each]) for each in short), None)

    async def _asked(
        self, turns: Sequence[Turn], left_out: ElidedTurns, tries: RetryBudget, say: Say
    ) -> tuple[Model, ModelReply]:
        """Ask the agent's model, and the fallback if it declines or is overloaded; return the model that answered."""
        tries.model = self._model
        try:
            reply = await self._desk.server.ask(self._request(self._model, turns, left_out, tries), say, tries)
        except OverloadedError as error:
            fallback = self._fallback(turns, left_out, tries)
            if fallback is None:
                raise
            say(ProgramNotice(f"{error.problem}; {fallback.name} is asked instead"))
        else:
            fallback = self._fallback(turns, left_out, tries) if reply.stop == "refusal" else None
            if fallback is None:
                return self._model, reply
        tries.model, left_out = fallback, ElidedTurns(left_out.results, len(turns))
        return fallback, await self._desk.server.ask(self._request(fallback, turns, left_out, tries), say, tries)

    def _fallback(self, turns: Sequence[Turn], left_out: ElidedTurns, tries: RetryBudget) -> Model | None:
        """Return the fallback model; None if there is none or the remaining budget does not allow it."""
        name = self._desk.models.fallback
        fallback = self._desk.models.resolve(name) if name and name != self._model.name else None
        is_afforded = fallback is not None and self._room(fallback, turns, left_out, tries) >= _LEAST_OUTPUT
        return fallback if is_afforded else None

    def _request(self, model: Model, turns: Sequence[Turn], left_out: ElidedTurns, tries: RetryBudget) -> str:
        most = max(_LEAST_OUTPUT, self._room(model, turns, left_out, tries))
        asked = _json({"model": model.name, "max_tokens": most, "stream": True} | self._settings.members(most))
        messages = self._conversation.messages(turns, left_out)
        return f'{asked[:-1]}, {self._fixed[1:-1]}, "messages": {messages}}}'

    def _room(self, model: Model, turns: Sequence[Turn], left_out: ElidedTurns, tries: RetryBudget) -> int:
        """Return the maximum number of tokens of an answer within the model's window and the remaining budget."""
        most = self._settings.most_output(model)
        if not self._left and model.window >= _LARGE:
            return most
        prompt = self._prompt(turns, left_out, is_new=model != self._model)
        if model.window < _LARGE:
            most = min(most, model.window - prompt.tokens)
        for each in self._left:
            if each.resource is Resource.TOKENS:
                most = min(most, each.amount - tries.usage.tokens - prompt.tokens)
            if each.resource is Resource.MONEY and model.output:
                most = min(most, int((each.amount - tries.money - model.cost(prompt)) / model.output))
        return most

    def _prompt(self, turns: Sequence[Turn], left_out: ElidedTurns, *, is_new: bool = False) -> Usage:
        """Estimate the usage of a prompt: counted by the server for the part sent before, by length for the rest.

        The part sent before is assumed to be in the server's cache still.
        """
        asked = [turn for turn in turns if "content" in turn.record]
        if is_new or not asked or left_out != ElidedTurns(**asked[-1].record["left_out"]):
            return Usage(written=_tokens(self._fixed) + _tokens(self._conversation.messages(turns, left_out)))
        last = _counted(asked[-1].record)
        new = last.output + _tokens(_json(answers_of(turns[-1])))
        return Usage(written=new, cached=last.tokens - last.output)

    def _exchanged(self, reply: ModelReply) -> dict[str, str]:
        """Return the members that identify the exchange and the model in a certificate."""
        return {
            "server": self._desk.server.kind,
            "prompt_sha256": self._conversation.sha256,
            "response_sha256": reply.sha256,
        }

    def _left_out(self, turns: Sequence[Turn]) -> ElidedTurns:
        """Return the omitted parts of the conversation; they never shrink, so that the cache stays valid."""
        asked = [turn for turn in turns if "content" in turn.record]
        if not asked:
            return ElidedTurns()
        last = asked[-1].record
        before = ElidedTurns(**last["left_out"])
        known, new = _counted(last).tokens, _tokens(_json(answers_of(turns[-1])))
        is_full = known + new + self._settings.most_output(self._model) > _FULL * self._model.window
        results = max(before.results, len(turns) - _LEFT_WHOLE) if is_full else before.results
        return ElidedTurns(results, len(turns)) if results > before.results else before


def _used_ids(turns: Sequence[Turn]) -> set[str]:
    blocks = (block for turn in turns for block in turn.record.get("content", ()))
    return {block["id"] for block in blocks if block.get("type") == "tool_use"}


def _activity(desk: ModelClientConfig, brief: Brief) -> ModelActivity:
    if desk.kind == SECOND_OPINION:
        return ModelActivity.SECOND_OPINION
    return ModelActivity.CONSULT if brief.question else ModelActivity.REASON


def _json(part: object) -> str:
    return json.dumps(part, ensure_ascii=False)


def _tokens(text: str) -> int:
    """Return the maximum number of tokens of a part of a request."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // _BYTES)


def _moved(reply: ModelReply, speaker: ActionContext) -> ParsedTurn:
    """Return the action of a reply, for every stop reason."""
    match reply.stop:
        case "refusal":
            return ParsedTurn(_declined(speaker.agent, reply.model))
        case "pause_turn":
            return ParsedTurn(CallTools(()), words="go on")
        case stop if stop in CUT:
            cut = "your answer was cut because it grew too long, so nothing of it was done; say less at once"
            uses = [each["id"] for each in reply.content if each.get("type") == "tool_use"]
            return ParsedTurn(CallTools(()), (), dict.fromkeys(uses, cut), cut)
        case _:
            return read_turn(reply.content, speaker, reply.faults)


def _declined(agent: str, model: str) -> Conclude:
    why = f"{model} declined to go on"
    gap = InformationGap(
        f"the judgement of {agent}",
        why,
        "esper submit --rerun latest --reasoner playbook",
        blocks_approval=True,
    )
    return Conclude(f"{agent} came to no judgement: {why}.", stance=Stance.UNDECIDED, below_ceiling=why, gaps=(gap,))


def _counted(record: JsonObject) -> Usage:
    """Return the server's usage count for the answer of a turn, without discarded answers."""
    return Usage(**record.get("answered", record["usage"]))


def _record(
    reply: ModelReply, said: ParsedTurn, left_out: ElidedTurns, tries: RetryBudget, model: Model
) -> dict[str, Any]:
    return {
        "id": reply.id,
        "model": reply.model,
        "content": list(reply.content),
        "stop": reply.stop,
        "uses": list(said.uses),
        "faults": said.faults or {},
        "words": said.words,
        "is_talk": said.is_talk,
        "left_out": asdict(left_out),
        "answered": asdict(reply.usage),
    } | _expense(tries, model)


def _expense(tries: RetryBudget, model: Model) -> dict[str, Any]:
    """Return the total usage of a turn, including discarded answers."""
    return {
        "usage": asdict(tries.usage),
        "is_priced": model.is_listed,
        "spent": {"tokens": tries.usage.tokens, "money": tries.money},
    }


def claude_source(desk: ModelClientConfig) -> ReasonerSource:
    """Return a source of reasoners that ask a language model."""

    def build(brief: Brief) -> Reasoner:
        return ModelReasoner(desk, brief)

    text = "\n".join((base_instructions(), json.dumps(move_tools(), sort_keys=True))).encode()
    return ReasonerSource(desk.kind, sha256(text).hexdigest(), f"anthropic {version('anthropic')}", build, text)
