"""Assemble a model's message from the events of its stream, which are untrusted JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esper_agents.reasoning.models import Usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.codec import JsonObject

# Text of the arguments of a tool call, which becomes its `input`.
_ARGUMENTS = "arguments"
# Members of a block that grow, by the kind of the piece, with the member of the piece.
_GROWING = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": (_ARGUMENTS, "partial_json"),
}
# Members that every block of a kind must have; all are texts.
_REQUIRED = {"text": ("text",), "thinking": ("thinking",), "tool_use": ("id", "name")}
_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


class MessageAssembler:
    """A message in progress.

    The SDK's helper builds four objects for each event and copies the message at its end. This class keeps the
    JSON as it was received: a turn takes two thirds of the CPU.

    Attributes:
        id: Identifier of the message; empty until its first event.
        model: Full name of the model, as reported by the server.
        stop: Stop reason; empty until it is known.
        is_ended: Whether its last event was received.
        usage: Token usage as far as it is known; None before the first event.
    """

    def __init__(self) -> None:
        """Start without any event."""
        self.id, self.model, self.stop = "", "", ""
        self.is_ended = False
        self.usage: Usage | None = None
        self._blocks: dict[int, dict[str, Any]] = {}
        # Pieces of each member that grows, joined once.
        self._pieces: dict[int, dict[str, list[str]]] = {}

    def add(self, event: object) -> str:
        """Add an event of the stream; return the text that it adds to the answer, if any. Unknown kinds are ignored.

        Raises:
            ValueError: The event is malformed, or contradicts earlier ones.
        """
        members = _members(event, "event")
        match members.get("type"):
            case "content_block_delta":
                return self._grow(_index(members), _members(members.get("delta"), "delta"))
            case "content_block_start":
                self._open(_index(members), _members(members.get("content_block"), "content block"))
            case "message_delta":
                self._count(members.get("usage"))
                self.stop = _text(_members(members.get("delta"), "delta").get("stop_reason") or "", "stop reason")
            case "message_start":
                self._start(_members(members.get("message"), "message"))
            case "message_stop":
                self.is_ended = True
            case _:
                pass
        return ""

    def blocks(self) -> Iterator[tuple[dict[str, Any], str]]:
        """Yield the content blocks in the order of their indexes, each with its streamed tool arguments as text."""
        for index, block in sorted(self._blocks.items()):
            grown = {member: "".join(pieces) for member, pieces in self._pieces[index].items()}
            arguments = grown.pop(_ARGUMENTS, "")
            yield block | grown, arguments

    def _start(self, message: JsonObject) -> None:
        if self.usage is not None:
            raise ValueError("a second message begins within the first")
        self.id, self.model = _text(message.get("id"), "id"), _text(message.get("model"), "model")
        self.usage = Usage()
        self._count(message.get("usage"))
        for index, block in enumerate(message.get("content") or ()):
            self._open(index, _members(block, "content block"))

    def _open(self, index: int, block: JsonObject) -> None:
        if self.usage is None or index in self._blocks:
            raise ValueError(f"content block {index} begins {'twice' if self.usage else 'before its message'}")
        kind = _text(block.get("type"), "kind of a content block")
        for member in _REQUIRED.get(kind, ()):
            _text(block.get(member), f"{member} of a {kind} block")
        self._blocks[index], self._pieces[index] = dict(block), {}

    def _grow(self, index: int, piece: JsonObject) -> str:
        block, kind = self._blocks.get(index), piece.get("type")
        if block is None:
            raise ValueError(f"a piece of content block {index}, which has not begun")
        if kind == "signature_delta":
            block["signature"] = _text(piece.get("signature"), "signature")
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), piece.get("citation")]
        elif kind in _GROWING:
            member, source = _GROWING[kind]
            text = _text(piece.get(source), kind)
            pieces = self._pieces[index]
            if member not in pieces:
                start = "" if member == _ARGUMENTS else block.get(member)
                pieces[member] = [_text(start, f"what a {kind} continues")]
            pieces[member].append(text)
            return text if member == "text" else ""
        return ""

    def _count(self, usage: object) -> None:
        """Overwrite the counts that an event has; those of later events are totals."""
        found, known = _members(usage or {}, "usage"), self.usage or Usage()
        counts = []
        for name, before in zip(_COUNTS, (known.fresh, known.written, known.cached, known.output), strict=True):
            count = found.get(name)
            if count is not None and (type(count) is not int or count < 0):
                raise ValueError(f"{name} is not a number of tokens")
            counts.append(before if count is None else count)
        self.usage = Usage(*counts)


def _members(value: object, name: str) -> JsonObject:
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not an object")  # noqa: TRY004 - data of a server
    return value


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a text")  # noqa: TRY004 - data of a server
    return value


def _index(event: JsonObject) -> int:
    index = event.get("index")
    if type(index) is not int or index < 0:
        raise ValueError("the index of a content block is not a number")
    return index
