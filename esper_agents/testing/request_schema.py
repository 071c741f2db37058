"""Fields of a request and their types; a test compares the names with the SDK's types."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from esper_agents.domain.codec import JsonObject


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """Names of the required and optional fields of an object."""

    required: frozenset[str]
    optional: frozenset[str] = frozenset()


def _fields(required: str, optional: str = "") -> FieldSchema:
    return FieldSchema(frozenset(required.split()), frozenset(optional.split()))


MESSAGES = _fields(
    "model max_tokens messages",
    "cache_control container diagnostics inference_geo metadata output_config service_tier speed stop_sequences stream "
    "system thinking tool_choice tools",
)
COUNTING = _fields("model messages", "cache_control output_config speed system thinking tool_choice tools")
# Fields that require an `anthropic-beta` header.
BETA = _fields(
    "", "billing_policy compaction context_management fallback_credit_token fallbacks mcp_servers thread"
).optional
# Fields accepted by API version 2023 and not by version 2026.
_SAMPLING = frozenset({"temperature", "top_p", "top_k"})
_SAMPLED_BEFORE = "2026-10-21"

BLOCKS: Mapping[str, FieldSchema] = {
    "text": _fields("text", "citations cache_control"),
    "image": _fields("source", "cache_control transformations"),
    "document": _fields("source", "cache_control citations context title"),
    "search_result": _fields("content source title", "cache_control citations"),
    "thinking": _fields("thinking signature"),
    "redacted_thinking": _fields("data"),
    "tool_use": _fields("id input name", "cache_control caller toolset_name"),
    "tool_result": _fields("tool_use_id", "cache_control content is_error toolset_name"),
    "server_tool_use": _fields("id input name", "cache_control caller"),
    "container_upload": _fields("file_id", "cache_control"),
}
# Blocks of the API's own tools; they are sent back unchanged and are not validated.
LEFT_BY_SERVER_TOOLS = frozenset(
    {
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
    }
)
TOOL = _fields(
    "name input_schema",
    "type description cache_control strict input_examples allowed_callers defer_loading eager_input_streaming",
)

_MESSAGE = _fields("role content")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_TOOL_USE_ID = re.compile(r"[a-zA-Z0-9_-]+")
_OF_THE_ASSISTANT = frozenset({"thinking", "redacted_thinking", "tool_use", "server_tool_use"})
_OF_THE_USER = frozenset({"image", "document", "search_result", "tool_result", "container_upload"})
_IN_A_RESULT = frozenset({"text", "image", "document", "search_result", "tool_reference"})
_ANYWHERE = LEFT_BY_SERVER_TOOLS.union(BLOCKS)
_ROLES = ("user", "assistant", "system")
_TEXTS = dict.fromkeys(("text", "thinking", "signature", "data", "id", "name", "tool_use_id"), str)
_TYPES: Mapping[str, type] = {
    "model": str,
    "max_tokens": int,
    "messages": list,
    "tools": list,
    "stream": bool,
    "thinking": dict,
    "tool_choice": dict,
    "metadata": dict,
    "output_config": dict,
}
_WORDS = {str: "string", int: "integer", list: "list", bool: "boolean", dict: "dictionary"}
_TTLS = ("5m", "1h")


def blocks_of(content: Any) -> list[JsonObject]:
    """Return the blocks of a content; a string is one text block, and an empty string is none."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content)


def problems_of_request(body: JsonObject, fields: FieldSchema, headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the problems of a request outside messages, system prompt and tools, in the API's wording."""
    known = fields.optional | (BETA if headers.get("anthropic-beta") else frozenset())
    if headers.get("anthropic-version", "") < _SAMPLED_BEFORE:
        known |= _SAMPLING
    yield from _named("", body, FieldSchema(fields.required, known))
    yield from _of_type("", body, _TYPES)
    if "max_tokens" in fields.required and body["max_tokens"] < 0:
        yield "max_tokens: Input should be greater than or equal to 0"
    if not body["messages"]:
        yield "messages: at least one message is required"
    yield from _mark("", body)


def problems_of_message(message: Any) -> Iterator[str]:
    """Yield the problems of a message; a text with a leading dot or colon is appended to the message's path."""
    if not isinstance(message, dict):
        yield ": Input should be an object"
        return
    yield from _named(".", message, _MESSAGE)
    if message["role"] not in _ROLES:
        yield ".role: Input should be 'user', 'assistant' or 'system'"
    yield from problems_of_content(".content", message["content"], message["role"])


def problems_of_content(place: str, content: Any, role: str, kinds: frozenset[str] = _ANYWHERE) -> Iterator[str]:
    """Yield the problems of a content.

    Args:
        place: Path of the content.
        content: A string, or blocks.
        role: Role of the message.
        kinds: Accepted types of blocks.
    """
    if not isinstance(content, str | list):
        yield f"{place}: Input should be a valid string or list"
        return
    for at, block in enumerate(blocks_of(content)):
        yield from _problems_of_block(f"{place}.{at}", block, role, kinds)


def problems_of_tool(place: str, tool: Any) -> Iterator[str]:
    """Yield the problems of a tool; the API's own tools are not validated."""
    if not isinstance(tool, dict):
        yield f"{place}: Input should be an object"
        return
    if tool.get("type") not in ("custom", None):
        return
    yield from _named(f"{place}.custom.", tool, TOOL)
    yield from _matching(f"{place}.custom.name", tool["name"], _TOOL_NAME)
    yield from _mark(f"{place}.custom.", tool)
    schema = tool["input_schema"]
    if not isinstance(schema, dict) or schema.get("type") != "object":
        yield f"{place}.custom.input_schema.type: Input should be 'object'"


def _problems_of_block(place: str, block: Any, role: str, kinds: frozenset[str]) -> Iterator[str]:
    if not isinstance(block, dict):
        yield f"{place}: Input should be an object"
        return
    kind = block.get("type")
    if not isinstance(kind, str) or kind not in kinds:
        tags = ", ".join(f"'{each}'" for each in sorted(kinds))
        yield f"{place}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}"
        return
    if kind in _OF_THE_ASSISTANT and role != "assistant":
        yield f"{place}: `{kind}` blocks can only be in `assistant` messages"
    if kind in _OF_THE_USER and role != "user":
        yield f"{place}: `{kind}` blocks can only be in `user` messages"
    if kind in BLOCKS:
        yield from _named(f"{place}.{kind}.", block, BLOCKS[kind], "type")
        yield from _of_type(f"{place}.{kind}.", block, _TEXTS)
        yield from _mark(f"{place}.{kind}.", block)
        yield from _problems_of_kind(place, kind, block)


def _problems_of_kind(place: str, kind: str, block: JsonObject) -> Iterator[str]:
    match kind:
        case "text" if not block["text"]:
            yield "messages: text content blocks must be non-empty"
        case "tool_use":
            yield from _matching(f"{place}.tool_use.id", block["id"], _TOOL_USE_ID)
            yield from _matching(f"{place}.tool_use.name", block["name"], _TOOL_NAME)
            if not isinstance(block["input"], dict):
                yield f"{place}.tool_use.input: Input should be an object"
        case "tool_result" if block.get("content") is not None:
            yield from problems_of_content(f"{place}.tool_result.content", block["content"], "user", _IN_A_RESULT)
        case _:
            return


def _named(place: str, given: JsonObject, fields: FieldSchema, *more: str) -> Iterator[str]:
    for name in sorted(fields.required - given.keys()):
        yield f"{place}{name}: Field required"
    for name in given:
        if name not in fields.required and name not in fields.optional and name not in more:
            yield f"{place}{name}: Extra inputs are not permitted"


def _of_type(place: str, given: JsonObject, types: Mapping[str, type]) -> Iterator[str]:
    for name in given.keys() & types.keys():
        wanted, value = types[name], given[name]
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            yield f"{place}{name}: Input should be a valid {_WORDS[wanted]}"


def _matching(place: str, value: Any, pattern: re.Pattern[str]) -> Iterator[str]:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        yield f"{place}: String should match pattern '^{pattern.pattern}$'"


def _mark(place: str, given: JsonObject) -> Iterator[str]:
    mark = given.get("cache_control")
    if mark is None:
        return
    if not isinstance(mark, dict) or mark.get("type") != "ephemeral":
        yield f"{place}cache_control: Input tag found using 'type' does not match any of the expected tags: 'ephemeral'"
    elif mark.get("ttl", "5m") not in _TTLS:
        yield f"{place}cache_control.ephemeral.ttl: Input should be '5m' or '1h'"
    if not given.get("text", True):
        yield f"{place}cache_control: cache_control cannot be set for empty text blocks"
