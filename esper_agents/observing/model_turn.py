"""Attributes of a language model turn, in the GenAI conventions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from esper_agents.domain.codec import JsonObject
    from esper_agents.observing.span import Attribute

_ANTHROPIC = "anthropic"
_REASONERS = {"claude": _ANTHROPIC}
_SERVERS = {"anthropic": _ANTHROPIC, "bedrock": "aws.bedrock", "vertex": "gcp.vertex_ai"}


def model_of(record: JsonObject) -> str:
    """Return the model of a turn; empty if no model was called."""
    return _text(record.get("model"))


def provider_of(reasoner: str, record: JsonObject) -> str:
    """Return the provider of the model, in the terms of the conventions."""
    return _SERVERS.get(_text(record.get("server"))) or _REASONERS.get(reasoner, reasoner)


def chat_attributes(reasoner: str, record: JsonObject) -> Iterator[tuple[str, Attribute]]:
    """Yield the attributes of a model's turn, without content.

    Args:
        reasoner: Kind of the reasoner.
        record: The turn's record by the reasoner; its content is not validated.
    """
    model = model_of(record)
    yield "gen_ai.operation.name", "chat"
    yield "gen_ai.provider.name", provider_of(reasoner, record)
    yield "gen_ai.request.model", model
    yield "gen_ai.response.model", model
    if answer := _text(record.get("id")):
        yield "gen_ai.response.id", answer
    if stop := _text(record.get("stop")):
        yield "gen_ai.response.finish_reasons", (stop,)
    usage = record.get("usage")
    if isinstance(usage, dict):
        yield from _usage(usage)


def _usage(usage: Mapping[str, Any]) -> Iterator[tuple[str, Attribute]]:
    """Yield the token counts; prompt tokens include cached ones, as the conventions require."""
    fresh, written, cached, output = (count_of(usage.get(each)) for each in ("fresh", "written", "cached", "output"))
    yield "gen_ai.usage.input_tokens", fresh + written + cached
    yield "gen_ai.usage.output_tokens", output
    yield "gen_ai.usage.cache_read.input_tokens", cached
    yield "gen_ai.usage.cache_write.input_tokens", written


def spent_attributes(record: JsonObject) -> Iterator[tuple[str, Attribute]]:
    """Yield the usage of the session's budget by a turn."""
    spent = record.get("spent")
    for name, attribute in (("tokens", "esper.spent.tokens"), ("money", "esper.spent.micro_usd")):
        if isinstance(spent, dict) and name in spent:
            yield attribute, count_of(spent[name])


def messages_of(record: JsonObject) -> list[dict[str, Any]]:
    """Return a model's response as the single message of `gen_ai.output.messages`, or an empty list."""
    blocks = record.get("content")
    if not isinstance(blocks, list):
        return []
    parts = [_part(block) for block in blocks if isinstance(block, dict)]
    return [{"role": "assistant", "parts": parts, "finish_reason": _text(record.get("stop")) or "error"}]


def _part(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return one block of the Messages API in the schema of the conventions."""
    match block.get("type"):
        case "text":
            return {"type": "text", "content": _text(block.get("text"))}
        case "thinking":
            return {"type": "reasoning", "content": _text(block.get("thinking"))}
        case "tool_use":
            called = {"id": _text(block.get("id")), "name": _text(block.get("name"))}
            return {"type": "tool_call", **called, "arguments": block.get("input")}
        case other:
            return {"type": _text(other) or "unknown"}


def count_of(value: object) -> int:
    """Return an unvalidated count; an invalid one is 0."""
    return value if type(value) is int and 0 <= value < 2**63 else 0


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
