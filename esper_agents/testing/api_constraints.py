"""Constraints of the Messages API beyond field types, and its error responses."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from esper_agents.testing.signing import prompt_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from esper_agents.domain.codec import JsonObject
    from esper_agents.testing.models import ModelRules
    from esper_agents.testing.prompt import Prompt
    from esper_agents.testing.prompt_blocks import Portion

_MOST_MARKS = 4
_SMALLEST_BUDGET_TOKENS = 1024
_BINDING_BETA = "thinking-binding-controls-2026-08-01"
# JSON member with the signature of a thinking block.
_SIGNED = {"thinking": "signature", "redacted_thinking": "data"}
_BOUND = (
    "The block is bound to a different conversation. Remove the block, or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block". That setting requires the '
    f"`{_BINDING_BETA}` value in the `anthropic-beta` header."
)


def problems_of_meaning(
    body: JsonObject, prompt: Prompt, headers: Mapping[str, str], paused: AbstractSet[bytes]
) -> Iterator[str]:
    """Yield the problems of a request, in the API's wording.

    Args:
        body: The request.
        prompt: The prompt as the model would read it.
        headers: The request's headers.
        paused: Digests of conversations that the model has paused, which may continue at that point.

    Source:
        The API's pages on errors, tool use, prompt caching, thinking and preserved thinking, and error messages
        reported by users.
    """
    thinking: JsonObject = body.get("thinking") or {}
    yield from _problems_of_tools(body, prompt.model, is_thinking=thinking.get("type", "disabled") != "disabled")
    if thinking:
        yield from _problems_of_thinking(thinking, body, prompt.model, headers)
    yield from _problems_of_turns(body, prompt)
    yield from _problems_of_calls(prompt.messages)
    if any(message.uses for message in prompt.messages) and not body.get("tools"):
        yield "Requests which include `tool_use` or `tool_result` blocks must define tools"
    yield from _problems_of_marks(prompt)
    yield from _problems_of_signatures(prompt, may_drop=_may_drop(thinking))
    if thinking.get("type") == "enabled":
        yield from _problems_of_last_thinking(body, prompt)
    ends = body["messages"][-1]["role"]
    if ends == "assistant" and not prompt.model.takes_prefill and prompt.digests[-1] not in paused:
        yield "This model does not support assistant message prefill. The conversation must end with a user message."


def _problems_of_tools(body: JsonObject, model: ModelRules, *, is_thinking: bool) -> Iterator[str]:
    asked, most = body.get("max_tokens", 0), model.largest_output_tokens
    if asked > most:
        yield f"max_tokens: {asked} > {most}, which is the maximum allowed number of output tokens for {model.name}"
    names = [str(each.get("name")) for each in body.get("tools") or ()]
    if len(set(names)) != len(names):
        yield "tools: Tool names must be unique."
    choice = body.get("tool_choice") or {"type": "auto"}
    kind = str(choice.get("type"))
    if kind not in {"auto", "any", "tool", "none"}:
        yield "tool_choice: Input tag found using 'type' does not match any of the expected tags"
    if kind in {"any", "tool"}:
        if not names:
            yield "tool_choice: tool_choice may only be specified while providing tools."
        if kind == "tool" and choice.get("name") not in names:
            yield f"Tool '{choice.get('name')}' not found in provided tools"
        if model.always_thinks:
            yield f'tool_choice: type "{kind}" is not supported for this model.'
        if is_thinking:
            yield "Thinking may not be enabled when tool_choice forces tool use."


def _problems_of_thinking(
    thinking: JsonObject, body: JsonObject, model: ModelRules, headers: Mapping[str, str]
) -> Iterator[str]:
    kind = str(thinking.get("type"))
    allowed = {
        "enabled": model.takes_thinking_budget,
        "adaptive": model.thinks_adaptively,
        "between_tools": model.thinks_adaptively,
        "disabled": not model.always_thinks,
    }
    if kind not in allowed:
        yield "thinking: Input tag found using 'type' does not match any of the expected tags"
    elif not allowed[kind]:
        yield f'"thinking.type.{kind}" is not supported for this model.'
    if thinking.get("display", "summarized") not in ("summarized", "omitted"):
        yield f"thinking.{kind}.display: Input should be 'summarized' or 'omitted'"
    if "block_binding" in thinking and _BINDING_BETA not in headers.get("anthropic-beta", ""):
        yield f"thinking.{kind}.block_binding: Extra inputs are not permitted"
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
        if not isinstance(budget, int):
            yield "thinking.enabled.budget_tokens: Field required"
        elif budget < _SMALLEST_BUDGET_TOKENS:
            yield f"thinking.enabled.budget_tokens: Input should be greater than or equal to {_SMALLEST_BUDGET_TOKENS}"
        elif body.get("max_tokens", budget + 1) <= budget:
            yield "`max_tokens` must be greater than `thinking.budget_tokens`."


def _problems_of_turns(body: JsonObject, prompt: Prompt) -> Iterator[str]:
    """Yield problems of the order of turns; two consecutive turns of the same role are read as one."""
    roles = [str(each["role"]) for each in body["messages"]]
    if roles[0] != "user":
        yield 'messages: first message must use the "user" role'
    for at, (role, message) in enumerate(zip(roles, prompt.messages, strict=True)):
        if not message.blocks:
            yield f"messages.{at}: all messages must have non-empty content"
        if role == "system":
            if not prompt.model.takes_system_messages:
                yield f"messages.{at}: role 'system' is not supported on this model"
            if roles[at - 1] != "user":
                yield f"messages.{at}: a `system` message must follow a `user` message"
            if any(block.content["type"] != "text" for block in message.blocks):
                yield f"messages.{at}.content: `system` messages can only have text content"


def _problems_of_calls(messages: Sequence[Portion]) -> Iterator[str]:
    """Yield tool calls without a result in the next message, and results without a call."""
    calls = list(chain.from_iterable(each.uses for each in messages))
    if len(set(calls)) != len(calls):
        yield "messages: `tool_use` ids must be unique"
    uses = [(), *(each.uses for each in messages)]
    for at, (called, message) in enumerate(zip(uses, messages, strict=False)):
        if not called and not message.results:
            continue
        for place, block in enumerate(message.blocks):
            if block.content["type"] == "tool_result" and block.content["tool_use_id"] not in called:
                yield (
                    f"messages.{at}.content.{place}: unexpected `tool_use_id` found in `tool_result` blocks: "
                    f"{block.content['tool_use_id']}. Each `tool_result` block must have a corresponding `tool_use` "
                    "block in the previous message."
                )
        if len(set(message.results)) != len(message.results):
            yield f"messages.{at}.content: each tool_use must have a single result. Found multiple `tool_result` blocks"
        yield from _unanswered(at - 1, [id_ for id_ in called if id_ not in message.first_results])
    yield from _unanswered(len(messages) - 1, list(uses[-1]))


def _unanswered(at: int, ids: list[str]) -> Iterator[str]:
    if ids:
        yield (
            f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(ids)}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
            "message."
        )


def _problems_of_last_thinking(body: JsonObject, prompt: Prompt) -> Iterator[str]:
    """Yield a problem if the assistant's last turn calls tools without the preceding thinking block."""
    turns = [at for at, message in enumerate(body["messages"]) if message["role"] == "assistant"]
    last = prompt.messages[turns[-1]] if turns else None
    if last is not None and last.uses and (kind := last.blocks[0].content["type"]) not in _SIGNED:
        yield (
            f"messages.{turns[-1]}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{kind}`. "
            "When `thinking` is enabled, a final `assistant` message must start with a thinking block."
        )


def _problems_of_marks(prompt: Prompt) -> Iterator[str]:
    ttls = [block.ttl for block in prompt.blocks if block.ttl]
    if len(ttls) > _MOST_MARKS:
        yield f"A maximum of {_MOST_MARKS} blocks with cache_control may be provided. Found {len(ttls)}."
    if "5m" in ttls and "1h" in ttls[ttls.index("5m") :]:
        yield (
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that blocks are "
            "processed in the following order: `tools`, `system`, `messages`."
        )


def _may_drop(thinking: JsonObject) -> bool:
    binding = thinking.get("block_binding")
    return isinstance(binding, dict) and binding.get("prefix_mismatch_behavior") == "drop_block"


def _problems_of_signatures(prompt: Prompt, *, may_drop: bool) -> Iterator[str]:
    """Yield thinking blocks whose signature is invalid, or that follow a different prompt than the signed one."""
    for at, (block, before) in enumerate(zip(prompt.blocks, prompt.digests, strict=False)):
        kind = block.content.get("type")
        if block.role != "assistant" or kind not in _SIGNED:
            continue
        signature = _SIGNED[kind]
        made_on = prompt_of(block.content.get("thinking", ""), block.content[signature])
        problem = f"{prompt.place(at)}: Invalid `{signature}` in `{kind}` block"
        if made_on is None:
            yield problem
        elif made_on != before and prompt.model.binds_thinking and not may_drop:
            yield f"{problem}. {_BOUND}"
