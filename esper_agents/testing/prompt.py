"""The prompt as the model reads it, block by block: tools, system, messages."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from typing import TYPE_CHECKING

from esper_agents.testing.prompt_blocks import extended, portion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from esper_agents.domain.codec import JsonObject
    from esper_agents.testing.models import ModelRules
    from esper_agents.testing.prompt_blocks import Portion, PromptBlock


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of a request.

    Attributes:
        model: The model.
        messages: Its messages.
        blocks: The blocks of the tools, the system prompt and the messages.
        digests: Digests of the prompt before each block, and of the whole prompt.
        tokens: Token counts of the prompt before each block, and of the whole prompt.
        read_as: Other settings that affect how a block is read, by role.
    """

    model: ModelRules
    messages: tuple[Portion, ...]
    blocks: tuple[PromptBlock, ...]
    digests: tuple[bytes, ...]
    tokens: tuple[int, ...]
    read_as: Mapping[str, str]

    def place(self, at: int) -> str:
        """Return the path of a message block in the request, such as `messages.1.content.0`."""
        inside = at - len(self.blocks) + sum(len(each.blocks) for each in self.messages)
        for turn, message in enumerate(self.messages):
            if inside < len(message.blocks):
                return f"messages.{turn}.content.{inside}"
            inside -= len(message.blocks)
        raise IndexError(at)


def portions_of(body: JsonObject) -> Iterator[tuple[str, Portion]]:
    """Yield the parts of a request with their paths, in the order in which the model reads them."""
    yield "tools", portion("tools", body.get("tools") or [])
    yield "system", portion("system", body.get("system") or "")
    for at, message in enumerate(body["messages"]):
        yield f"messages.{at}", portion("messages", message)


def read_prompt(body: JsonObject, portions: Mapping[str, Portion], model: ModelRules) -> Prompt:
    """Return the prompt of a request whose parts are valid."""
    blocks = [block for each in portions.values() for block in each.blocks]
    if (mark := body.get("cache_control")) and blocks and not blocks[-1].ttl:
        blocks[-1] = replace(blocks[-1], ttl=str(mark.get("ttl") or "5m"))
    # Tools are read independently of other settings; the system prompt and the messages are not.
    speed = str(body.get("speed"))
    chosen = json.dumps([speed, *(body.get(name) for name in ("tool_choice", "thinking", "output_config"))])
    return Prompt(
        model,
        tuple(islice(portions.values(), 2, None)),
        tuple(blocks),
        tuple(accumulate(blocks, extended, initial=b"")),
        tuple(accumulate((each.tokens for each in blocks), initial=0)),
        {"tools": "", "system": speed, "user": chosen, "assistant": chosen},
    )
