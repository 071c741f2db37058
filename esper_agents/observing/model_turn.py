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
    """Return the model that a turn was taken by; empty where none was asked."""
    return _text(record.get("model"))


def provider_of(reasoner: str, record: JsonObject) -> str:
    """Return who runs the model, in the words of the conventions."""
    return _SERVERS.get(_text(record.get("server"))) or _REASONERS.get(reasoner, reasoner)


def chat_attributes(reasoner: str, record: JsonObject) -> Iterator[tuple[str, Attribute]]:
    """Yield what is known of a model's turn, content apart.

    Args:
        reasoner: What kind of reasoner decided.
        record: What it wanted on record of the turn; anything may stand in it.
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
    """Yield the tokens; the prompt's are all of them, cached ones included, as the conventions want it."""
    fresh, written, cached, output = (count_of(usage.get(each)) for each in ("fresh", "written", "cached", "output"))
    yield "gen_ai.usage.input_tokens", fresh + written + cached
    yield "gen_ai.usage.output_tokens", output
    yield "gen_ai.usage.cache_read.input_tokens", cached
    yield "gen_ai.usage.cache_write.input_tokens", written


def spent_attributes(record: JsonObject) -> Iterator[tuple[str, Attribute]]:
    """Yield what a turn has used of the session's budget."""
    spent = record.get("spent")
    for name, attribute in (("tokens", "esper.spent.tokens"), ("money", "esper.spent.micro_usd")):
        if isinstance(spent, dict) and name in spent:
            yield attribute, count_of(spent[name])


def messages_of(record: JsonObject) -> list[dict[str, Any]]:
    """Return what a model answered as the one message of `gen_ai.output.messages`, or nothing."""
    blocks = record.get("content")
    if not isinstance(blocks, list):
        return []
    parts = [_part(each) for each in blocks if isinstance(each, dict)]
    return [{"role": "assistant", "parts": parts, "finish_reason": _text(record.get("stop")) or "error"}]


def _part(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return one block of the Messages API as the conventions' schema has it."""
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
    """Return a count that somebody else wrote; what is none counts as nothing."""
    return value if type(value) is int and 0 <= value < 2**63 else 0


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
