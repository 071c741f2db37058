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
    """A thinking block with its signature; its text is left out where the request or the model has it so.

    Attributes:
        text: What is thought.
        is_redacted: Whether it comes as a `redacted_thinking` block, which says nothing.
    """

    text: str
    is_redacted: bool = False


@dataclass(frozen=True, slots=True)
class ToolUseBlock:
    """A tool call.

    Attributes:
        tool: The tool's name; it need not exist.
        arguments: What it is called with, or JSON text that is streamed as it stands, valid or not.
        id: Its identifier; made up where empty.
    """

    tool: str
    arguments: JsonObject | str = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the answer ends; without one it is `tool_use` after a tool call and `end_turn` otherwise.

    Attributes:
        reason: The `stop_reason`.
        sequence: The `stop_sequence`.
        category: The category of a refusal.
        explanation: What a refusal says for people.
    """

    reason: StopReason
    sequence: str | None = None
    category: str | None = None
    explanation: str | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """An error: a status of HTTP where it stands first, an `error` event in a stream that has begun.

    Attributes:
        status: 400 to 529.
        message: What it says; the API's own words for the status where empty.
        kind: Type of the error; follows from the status where empty.
        retry_after_s: Value of `retry-after`, where there is to be one.
    """

    status: int
    message: str = ""
    kind: str = ""
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Slow:
    """A pause at this place of the answer."""

    seconds: float


@dataclass(frozen=True, slots=True)
class TruncateResponse:
    """The connection ends after so many bytes of the answer's body; 0 is before the first byte of its head."""

    after_bytes: int


@dataclass(frozen=True, slots=True)
class Hang:
    """Nothing more comes, and the connection stays open."""


@dataclass(frozen=True, slots=True)
class RawBytes:
    """Bytes that are put into the body as they stand; alone they are the whole body.

    Attributes:
        body: The bytes.
        status: The status of HTTP that they come with.
        content_type: What they are said to be; what the client asked for where empty.
    """

    body: bytes
    status: int = 200
    content_type: str = ""


Part: TypeAlias = Say | Think | ToolUseBlock | Stop | Fail | Slow | TruncateResponse | Hang | RawBytes
Answer: TypeAlias = Part | Sequence[Part]


@dataclass(frozen=True, slots=True)
class InputUsage:
    """How the input of a request is billed.

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
        """Tokens written to the cache."""
        return self.written_5m + self.written_1h

    @property
    def total(self) -> int:
        """All tokens of the prompt."""
        return self.uncached + self.written + self.read


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it arrived.

    Attributes:
        number: Its place among all requests for messages, from 1.
        headers: Its headers, names in lower case.
        body: What it says; empty where that was no JSON object.
        refusal: The error it was answered with by rule, not by script; empty where it was in order.
        usage: How its input is billed.
        path: What it asked for.
    """

    number: int
    headers: Mapping[str, str]
    body: JsonObject
    refusal: str = ""
    usage: InputUsage = InputUsage()
    path: str = "/v1/messages"

    @property
    def is_streamed(self) -> bool:
        """Whether it asks for a stream."""
        return bool(self.body.get("stream"))

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the tools it offers."""
        return tuple(str(each.get("name", "")) for each in self.body.get("tools", ()))

    @property
    def system(self) -> str:
        """Its system prompt as text."""
        return text_of(self.body.get("system", ""))

    @property
    def last(self) -> str:
        """All text of its last message, results of tools included."""
        return text_of(self.body["messages"][-1]["content"]) if self.body.get("messages") else ""


Script: TypeAlias = Sequence[Answer] | Callable[[Request], Answer]


def text_of(content: Any) -> str:
    """Return the text of a content: a string, or blocks, with what stands inside results of tools."""
    if isinstance(content, str):
        return content
    return "\n".join(str(each.get("text", "")) or text_of(each.get("content", "")) for each in content or ())
