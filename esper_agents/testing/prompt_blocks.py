"""Parsed messages, system prompts and tools; cached, as every request repeats them."""

from __future__ import annotations

import json
import marshal
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from esper_agents.testing.request_schema import blocks_of, problems_of_content, problems_of_message, problems_of_tool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.codec import JsonObject

Kind: TypeAlias = Literal["tools", "system", "messages"]

_to_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
# What says how a block is treated, not what it says.
_ASIDE = frozenset({"cache_control", "caller"})
_BYTES_A_TOKEN = 4
_DIGEST_BYTES = 12
# The first version of the format that writes equal values as equal bytes, whoever else refers to them.
_MARSHAL_VERSION = 2


@dataclass(frozen=True, slots=True)
class PromptBlock:
    """A block, whatever stands before it.

    Attributes:
        role: Whose it is: `tools`, `system`, `user` or `assistant`.
        content: The block itself.
        text: What its words come to; blocks that say the same have the same.
        tokens: How long it is.
        ttl: For how long the prompt up to here is to be cached; empty where it is not.
    """

    role: str
    content: JsonObject
    text: bytes
    tokens: int
    ttl: str


@dataclass(frozen=True, slots=True)
class Portion:
    """A message, a system prompt or a list of tools: what is to be said of it without the rest of the request.

    Attributes:
        problem: The first thing that is wrong with it, behind its place; empty where nothing is.
        blocks: What the model reads of it.
        uses: Identifiers of its tool calls.
        results: Identifiers of the calls that it has results of.
        first_results: Those of them that it has before it says anything else.
    """

    problem: str
    blocks: tuple[PromptBlock, ...] = ()
    uses: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    first_results: tuple[str, ...] = ()


def portion(kind: Kind, value: Any) -> Portion:
    """Return what a part of a request comes to."""
    return _portion(kind, marshal.dumps(value, _MARSHAL_VERSION))


def tokens_of(text: str) -> int:
    """Return how many tokens a text counts here: one for every four bytes that have begun."""
    return _tokens(text.encode("utf-8", "surrogatepass"))


def extended(digest: bytes, block: PromptBlock) -> bytes:
    """Return the digest of a prompt to which a block is added."""
    return sha256(digest + block.text).digest()[:_DIGEST_BYTES]


def said_by_assistant(content: JsonObject) -> PromptBlock:
    """Return the block of an answer as it will stand in the prompt."""
    return _block("assistant", content)


@lru_cache(maxsize=4096)
def _portion(kind: Kind, packed: bytes) -> Portion:
    value = marshal.loads(packed)  # noqa: S302 - written two functions above
    if problem := next(_problems(kind, value), ""):
        return Portion(problem)
    if kind == "tools":
        return Portion("", tuple(_block(kind, each) for each in value))
    role, content = ("system", value) if kind == "system" else (value["role"], value["content"])
    blocks = tuple(_block(role, each) for each in blocks_of(content))
    answers = takewhile(lambda each: each.content["type"] == "tool_result", blocks)
    return Portion(
        "",
        blocks,
        tuple(each.content["id"] for each in blocks if each.content["type"] == "tool_use"),
        tuple(each.content["tool_use_id"] for each in blocks if each.content["type"] == "tool_result"),
        tuple(each.content["tool_use_id"] for each in answers),
    )


def _problems(kind: Kind, value: Any) -> Iterator[str]:
    match kind:
        case "tools":
            for at, tool in enumerate(value):
                yield from problems_of_tool(f".{at}", tool)
        case "system":
            yield from problems_of_content("", value, "system", frozenset({"text"}))
        case "messages":
            yield from problems_of_message(value)


def _block(role: str, content: JsonObject) -> PromptBlock:
    text = _to_json(_plain(content)).encode("utf-8", "surrogatepass")
    return PromptBlock(role, content, sha256(role.encode() + text).digest(), _tokens(text), _ttl(content))


def _tokens(text: bytes) -> int:
    return -(-len(text) // _BYTES_A_TOKEN)


def _plain(block: JsonObject) -> JsonObject:
    kept = {name: block[name] for name in sorted(block) if name not in _ASIDE and block[name] is not None}
    if kept.get("type") == "tool_result" and "content" in kept:
        kept["content"] = [_plain(each) for each in blocks_of(kept["content"])]
    return kept


def _ttl(block: JsonObject) -> str:
    inside = block.get("content") if block.get("type") == "tool_result" else ()
    for each in (block, *reversed(inside if isinstance(inside, list) else ())):
        if mark := each.get("cache_control"):
            return str(mark.get("ttl") or "5m")
    return ""
