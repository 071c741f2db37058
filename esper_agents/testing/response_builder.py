"""Build responses of the Messages API: one JSON document or a stream of events."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from esper_agents.testing.http_server import Response
from esper_agents.testing.prompt_blocks import extended, said_by_assistant, tokens_of
from esper_agents.testing.script import Fail, Hang, RawBytes, Say, Slow, Stop, Think, ToolUseBlock, TruncateResponse
from esper_agents.testing.signing import signature_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.testing.http_server import Step
    from esper_agents.testing.prompt import Prompt
    from esper_agents.testing.script import InputUsage, Part, Request

Headers: TypeAlias = tuple[tuple[str, str], ...]

_to_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
# Characters of a text or of a tool's input per stream event.
_PIECE_CHARACTERS = 64
_ERRORS = {
    400: ("invalid_request_error", "The request is not valid."),
    401: ("authentication_error", "invalid x-api-key"),
    402: ("billing_error", "Your credit balance is too low to access the Anthropic API."),
    403: ("permission_error", "Your API key does not have permission to use the specified resource."),
    404: ("not_found_error", "Not found"),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your organization's rate limit. Please try again later."),
    500: ("api_error", "Internal server error"),
    504: ("timeout_error", "The request timed out."),
    529: ("overloaded_error", "Overloaded"),
}
# Initial content of a block in a stream.
_EMPTY: Mapping[str, JsonObject] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "redacted_thinking": {},
    "tool_use": {"input": {}},
}
_WORTH_ANOTHER_TRY = frozenset({408, 409, 429, 500, 502, 503, 504, 529})


@dataclass(frozen=True, slots=True)
class ResponseContext:
    """Context of a response.

    Attributes:
        request: The request.
        prompt: Its prompt.
        id: Base of the identifiers of the request, the message and its tool calls.
        headers: Headers of every response.
    """

    request: Request
    prompt: Prompt
    id: str
    headers: Headers


def failure(fail: Fail, id_: str, headers: Headers) -> Response:
    """Return an error as a complete response."""
    more = [("x-should-retry", "true" if fail.status in _WORTH_ANOTHER_TRY else "false")]
    if fail.retry_after_s is not None:
        more.append(("retry-after", f"{fail.retry_after_s:g}"))
    return Response(fail.status, (*headers, *more, ("content-type", "application/json")), (_bytes(_error(fail, id_)),))


def answer(parts: Sequence[Part], reply: ResponseContext) -> Response:
    """Return the response for a scripted answer."""
    steps = tuple(_events(parts, reply) if reply.request.is_streamed else _document(parts, reply))
    first = next((step for step in steps if isinstance(step, bytes | Fail)), b"")
    if isinstance(first, Fail):
        failed = failure(first, reply.id, reply.headers)
        waits = steps[: steps.index(first)]
        return _cut(Response(failed.status, failed.headers, (*_sent(waits, reply.id), *failed.steps)), parts)
    kind = "text/event-stream; charset=utf-8" if reply.request.is_streamed else "application/json"
    odd = next((part for part in parts if isinstance(part, RawBytes)), RawBytes(b""))
    headers = (*reply.headers, ("content-type", odd.content_type or kind))
    return _cut(Response(odd.status, headers, tuple(_sent(steps, reply.id))), parts)


def message_of(fail: Fail) -> str:
    """Return the message of an error."""
    return fail.message or _ERRORS.get(fail.status, _ERRORS[500])[1]


def digest_after(parts: Sequence[Part], reply: ResponseContext) -> bytes:
    """Return the digest of the prompt followed by the answer."""
    said = (said_by_assistant(block) for block in _blocks(parts, reply).values())
    return reduce(extended, said, reply.prompt.digests[-1])


def _sent(steps: Sequence[Step | Fail], id_: str) -> Iterator[Step]:
    """Yield data to write and pauses; an error within a stream becomes an event that ends it."""
    for step in steps:
        if isinstance(step, Fail):
            yield b"event: error\ndata: %s\n\n" % _bytes(_error(step, id_))
            return
        yield step


def _cut(response: Response, parts: Sequence[Part]) -> Response:
    cut = next((part for part in parts if isinstance(part, TruncateResponse)), None)
    if cut is None:
        return response
    left, steps = cut.after_bytes, list[Any]()
    for step in response.steps:
        if left <= 0:
            break
        steps.append(step[:left] if isinstance(step, bytes) else step)
        left -= len(step) if isinstance(step, bytes) else 0
    return Response(response.status, response.headers, (*steps, cut))


def _document(parts: Sequence[Part], reply: ResponseContext) -> Iterator[Step | Fail]:
    yield from (part for part in parts if isinstance(part, Slow | Hang | Fail))
    if nonsense := [part.body for part in parts if isinstance(part, RawBytes)]:
        yield from nonsense
        return
    blocks = list(_blocks(parts, reply).values())
    yield _bytes({**_message(reply), "content": blocks, **_stop(parts), "usage": _final_usage(parts, reply)})


def _events(parts: Sequence[Part], reply: ResponseContext) -> Iterator[Step | Fail]:
    blocks = _blocks(parts, reply)
    places = {at: place for place, at in enumerate(blocks)}
    has_message = bool(blocks) or not any(isinstance(part, RawBytes) for part in parts)
    start = _event("message_start", message=_message(reply)) if has_message else b""
    for at, part in enumerate(parts):
        match part:
            case Slow() | Hang() | Fail():
                yield part
            case RawBytes(body=body):
                yield body
            case _ if at in blocks:
                if start:
                    yield start
                    start = b""
                yield from _block_events(places[at], part, blocks[at])
            case _:
                continue
    if has_message:
        if start:
            yield start
        yield _event("message_delta", delta=_stop(parts), usage=_final_usage(parts, reply))
        yield _event("message_stop")


def _block_events(place: int, part: Part, block: JsonObject) -> Iterator[bytes]:
    yield _event("content_block_start", index=place, content_block={**block, **_EMPTY[block["type"]]})
    if place == 0:
        yield _event("ping")
    for delta in _deltas(part, block):
        yield _event("content_block_delta", index=place, delta=delta)
    yield _event("content_block_stop", index=place)


def _deltas(part: Part, block: JsonObject) -> Iterator[JsonObject]:
    match part:
        case Say(text):
            yield from ({"type": "text_delta", "text": piece} for piece in _pieces(text))
        case Think(is_redacted=False):
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"]))
            yield {"type": "signature_delta", "signature": block["signature"]}
        case ToolUseBlock():
            yield from (
                {"type": "input_json_delta", "partial_json": piece} for piece in ("", *_pieces(_input_text(part)))
            )
        case _:
            return


def _pieces(text: str) -> Iterator[str]:
    return (text[at : at + _PIECE_CHARACTERS] for at in range(0, len(text), _PIECE_CHARACTERS))


def _blocks(parts: Sequence[Part], reply: ResponseContext) -> Mapping[int, JsonObject]:
    """Return the blocks of the message by the index of their part; thinking only if the request enables it."""
    digest = reply.prompt.digests[-1]
    found: dict[int, JsonObject] = {}
    asked, model = reply.request.body.get("thinking") or {}, reply.prompt.model
    thinks = asked.get("type", "adaptive" if model.thinks_unasked else "disabled") != "disabled"
    is_shown = asked.get("display", "omitted" if model.omits_thinking else "summarized") == "summarized"
    for at, part in enumerate(parts):
        match part:
            case Say(text):
                found[at] = {"type": "text", "text": text}
            case Think(is_redacted=True) if thinks:
                found[at] = {"type": "redacted_thinking", "data": signature_of("", digest)}
            case Think(text) if thinks:
                shown = text if is_shown else ""
                found[at] = {"type": "thinking", "thinking": shown, "signature": signature_of(shown, digest)}
            case ToolUseBlock(tool):
                id_ = part.id or f"toolu_{reply.id}{at:02d}"
                found[at] = {"type": "tool_use", "id": id_, "name": tool, "input": _input(part)}
                found[at] = {**found[at], "caller": {"type": "direct"}}
            case _:
                continue
        digest = extended(digest, said_by_assistant(found[at]))
    return found


def _input_text(use: ToolUseBlock) -> str:
    return use.arguments if isinstance(use.arguments, str) else _to_json(use.arguments)


def _input(use: ToolUseBlock) -> JsonObject:
    if not isinstance(use.arguments, str):
        return use.arguments
    try:
        read = json.loads(use.arguments)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def _message(reply: ResponseContext) -> JsonObject:
    return {
        "model": reply.prompt.model.name,
        "id": f"msg_{reply.id}",
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "usage": _usage(reply.request.usage, 1),
    }


def _final_usage(parts: Sequence[Part], reply: ResponseContext) -> JsonObject:
    details = {"thinking_tokens": _thinking_tokens(parts)}
    return {**_usage(reply.request.usage, _output_tokens(parts)), "output_tokens_details": details}


def _usage(used: InputUsage, output_tokens: int) -> JsonObject:
    return {
        "input_tokens": used.uncached,
        "cache_creation_input_tokens": used.written,
        "cache_read_input_tokens": used.read,
        "cache_creation": {"ephemeral_5m_input_tokens": used.written_5m, "ephemeral_1h_input_tokens": used.written_1h},
        "output_tokens": output_tokens,
        "service_tier": "standard",
    }


def _stop(parts: Sequence[Part]) -> JsonObject:
    uses = any(isinstance(part, ToolUseBlock) for part in parts)
    stops = [part for part in parts if isinstance(part, Stop)] or [Stop("tool_use" if uses else "end_turn")]
    stop, details = stops[-1], None
    if stop.reason == "refusal":
        details = {"type": "refusal", "category": stop.category, "explanation": stop.explanation}
    return {"stop_reason": stop.reason, "stop_sequence": stop.sequence, "stop_details": details}


def _output_tokens(parts: Sequence[Part]) -> int:
    said = sum(tokens_of(part.text) for part in parts if isinstance(part, Say))
    used = sum(tokens_of(part.tool + _input_text(part)) for part in parts if isinstance(part, ToolUseBlock))
    return max(1, said + used + _thinking_tokens(parts))


def _thinking_tokens(parts: Sequence[Part]) -> int:
    return sum(tokens_of(part.text) for part in parts if isinstance(part, Think))


def _error(fail: Fail, id_: str) -> JsonObject:
    said = {"type": fail.kind or _ERRORS.get(fail.status, _ERRORS[500])[0], "message": message_of(fail)}
    return {"type": "error", "error": said, "request_id": f"req_{id_}"}


def _event(name: str, **more: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), _bytes({"type": name, **more}))


def _bytes(value: JsonObject) -> bytes:
    return _to_json(value).encode("utf-8", "surrogatepass")
