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
# Members that configure a block and are not part of its content.
_ASIDE = frozenset({"cache_control", "caller"})
_BYTES_A_TOKEN = 4
_DIGEST_BYTES = 12
# The first version of the format writes equal values as equal bytes, independent of object references.
_MARSHAL_VERSION = 2


@dataclass(frozen=True, slots=True)
class PromptBlock:
    """A block, independent of the preceding blocks.

    Attributes:
        role: Role of the block: `tools`, `system`, `user` or `assistant`.
        content: The block itself.
        text: Normalized text; equal for blocks with equal content.
        tokens: Number of tokens.
        ttl: Cache lifetime of the prompt up to this block; empty if it is not cached.
    """

    role: str
    content: JsonObject
    text: bytes
    tokens: int
    ttl: str


@dataclass(frozen=True, slots=True)
class Portion:
    """A message, a system prompt or a list of tools, checked independently of the rest of the request.

    Attributes:
        problem: Its first problem, to be appended to its path; empty if there is none.
        blocks: The blocks that the model reads.
        uses: Identifiers of its tool calls.
        results: Identifiers of the calls whose results it contains.
        first_results: Identifiers of the calls whose results precede all other content.
    """

    problem: str
    blocks: tuple[PromptBlock, ...] = ()
    uses: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    first_results: tuple[str, ...] = ()


def portion(kind: Kind, value: Any) -> Portion:
    """Return the parsed part of a request."""
    return _portion(kind, marshal.dumps(value, _MARSHAL_VERSION))


def tokens_of(text: str) -> int:
    """Return the token count of a text in this simulation: one token per four bytes, rounded up."""
    return _tokens(text.encode("utf-8", "surrogatepass"))


def extended(digest: bytes, block: PromptBlock) -> bytes:
    """Return the digest of a prompt extended by a block."""
    return sha256(digest + block.text).digest()[:_DIGEST_BYTES]


def said_by_assistant(content: JsonObject) -> PromptBlock:
    """Return the block of a response as it appears in later prompts."""
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
        tuple(block.content["id"] for block in blocks if block.content["type"] == "tool_use"),
        tuple(block.content["tool_use_id"] for block in blocks if block.content["type"] == "tool_result"),
        tuple(answer.content["tool_use_id"] for answer in answers),
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
