"""Script of a simulated model: the parts of its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject

StopReason: TypeAlias = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "model_context_window_exceeded"
]


@dataclass(frozen=True, slots=True)
class Say:
    """A text block."""

    text: str


@dataclass(frozen=True, slots=True)
class Think:
    """A thinking block with its signature; its text is omitted if the request or the model requires that.

    Attributes:
        text: Text of the thinking.
        is_redacted: Whether it is sent as a `redacted_thinking` block, without text.
    """

    text: str
    is_redacted: bool = False


@dataclass(frozen=True, slots=True)
class ToolUseBlock:
    """A tool call.

    Attributes:
        tool: The tool's name; it need not exist.
        arguments: Its arguments, or JSON text that is streamed unchanged, valid or not.
        id: Its identifier; generated if empty.
    """

    tool: str
    arguments: JsonObject | str = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop reason of the answer; by default `tool_use` after a tool call and `end_turn` otherwise.

    Attributes:
        reason: The `stop_reason`.
        sequence: The `stop_sequence`.
        category: The category of a refusal.
        explanation: Explanation of a refusal for users.
    """

    reason: StopReason
    sequence: str | None = None
    category: str | None = None
    explanation: str | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """An error: an HTTP status as the first part of an answer, an `error` event in a stream that has begun.

    Attributes:
        status: 400 to 529.
        message: Error message; the API's own message for the status if empty.
        kind: Type of the error; derived from the status if empty.
        retry_after_s: Value of the `retry-after` header, if any.
    """

    status: int
    message: str = ""
    kind: str = ""
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Slow:
    """A pause at this point of the answer."""

    seconds: float


@dataclass(frozen=True, slots=True)
class TruncateResponse:
    """Closed connection after a number of bytes of the answer's body; 0 is before the first byte of its head."""

    after_bytes: int


@dataclass(frozen=True, slots=True)
class Hang:
    """An open connection without further data."""


@dataclass(frozen=True, slots=True)
class RawBytes:
    """Raw bytes in the body; as the only part, they are the whole body.

    Attributes:
        body: The bytes.
        status: HTTP status.
        content_type: Content type; the one requested by the client if empty.
    """

    body: bytes
    status: int = 200
    content_type: str = ""


Part: TypeAlias = Say | Think | ToolUseBlock | Stop | Fail | Slow | TruncateResponse | Hang | RawBytes
Answer: TypeAlias = Part | Sequence[Part]


@dataclass(frozen=True, slots=True)
class InputUsage:
    """Billing of the input of a request.

    Attributes:
        uncached: Tokens at the full price.
        written_5m: Tokens written to the cache for five minutes.
        written_1h: Tokens written to the cache for an hour.
        read: Tokens read from the cache.
    """

    uncached: int = 0
    written_5m: int = 0
    written_1h: int = 0
    read: int = 0

    @property
    def written(self) -> int:
        """Number of tokens written to the cache."""
        return self.written_5m + self.written_1h

    @property
    def total(self) -> int:
        """Number of all prompt tokens."""
        return self.uncached + self.written + self.read


@dataclass(frozen=True, slots=True)
class Request:
    """A request as received.

    Attributes:
        number: Number among all message requests, from 1.
        headers: Its headers, names in lower case.
        body: The body; empty if it was not a JSON object.
        refusal: The error for an invalid request; empty if it was valid. Scripted errors are not included.
        usage: Billing of its input.
        path: Path of the request.
    """

    number: int
    headers: Mapping[str, str]
    body: JsonObject
    refusal: str = ""
    usage: InputUsage = InputUsage()
    path: str = "/v1/messages"

    @property
    def is_streamed(self) -> bool:
        """Whether the request asks for a stream."""
        return bool(self.body.get("stream"))

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the offered tools."""
        return tuple(str(each.get("name", "")) for each in self.body.get("tools", ()))

    @property
    def system(self) -> str:
        """The system prompt as text."""
        return text_of(self.body.get("system", ""))

    @property
    def last(self) -> str:
        """All text of the last message, including tool results."""
        return text_of(self.body["messages"][-1]["content"]) if self.body.get("messages") else ""


Script: TypeAlias = Sequence[Answer] | Callable[[Request], Answer]


def text_of(content: Any) -> str:
    """Return the text of a content: a string, or blocks, including the content of tool results."""
    if isinstance(content, str):
        return content
    return "\n".join(str(each.get("text", "")) or text_of(each.get("content", "")) for each in content or ())
