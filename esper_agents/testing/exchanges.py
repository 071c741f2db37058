"""Recorded API exchanges: JSON lines without secrets, looked up by request digest."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections import defaultdict
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, Self

from esper_agents.certificates.redaction import redacted
from esper_agents.domain.codec import canonical
from esper_agents.errors import UsageError
from esper_agents.testing.http_server import LoopbackServer, Received, Response
from esper_agents.testing.response_builder import failure
from esper_agents.testing.script import Fail, TruncateResponse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

    from esper_agents.domain.codec import JsonObject

# Members whose text may be split over stream events.
_IN_PIECES = ("text", "thinking", "partial_json")


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """One request and its response.

    Attributes:
        path: Path of the request.
        sha256: Digest of the request, used for look-up.
        request: Body of the request.
        status: Status of the response.
        headers: Headers of the response.
        form: Storage format of the response's body.
        response: The body: JSON, the events of a stream, text, or base64 of anything else.
        is_whole: Whether the response is complete.
    """

    path: str
    sha256: str
    request: Any
    status: int
    headers: Mapping[str, str]
    form: Literal["json", "events", "text", "base64"]
    response: Any
    is_whole: bool

    def line(self, secrets: Iterable[str]) -> bytes:
        """Return the exchange as a line of the recording.

        Args:
            secrets: Texts to remove in addition to everything that looks like a secret.
        """
        known = tuple(secrets)
        response = _joined(self.response, known) if self.form == "events" else self.response
        clean: JsonObject = redacted({**asdict(self), "response": response, "sha256": ""}, known=known).value
        line = json.dumps({**clean, "sha256": self.sha256}, ensure_ascii=False)
        return line.encode("utf-8", "backslashreplace") + b"\n"

    @property
    def body(self) -> bytes:
        """Body of the response."""
        match self.form:
            case "json":
                return json.dumps(self.response, ensure_ascii=False).encode("utf-8", "backslashreplace")
            case "events":
                return b"".join(
                    b"event: %s\ndata: %s\n\n" % (each["type"].encode(), json.dumps(each).encode())
                    for each in self.response
                )
            case "text":
                return str(self.response).encode()
            case "base64":
                return b64decode(self.response)


def exchange_of(path: str, request: bytes, response: Response, *, is_whole: bool) -> RecordedExchange:
    """Return an exchange from the transferred bytes."""
    raw = b"".join(step for step in response.steps if isinstance(step, bytes))
    headers = dict(response.headers)
    form, body = _kept(raw, is_stream="event-stream" in headers.get("content-type", ""))
    read = _json(request)
    said = request.decode("utf-8", "backslashreplace") if read is None else read
    return RecordedExchange(path, digest_of(path, request), said, response.status, headers, form, body, is_whole)


def digest_of(path: str, body: bytes) -> str:
    """Return the look-up digest of a request, equal for equivalent JSON."""
    said = _json(body)
    return sha256(path.encode() + b"\n" + (body if said is None else canonical(said))).hexdigest()


def exchanges_in(file: Path) -> list[RecordedExchange]:
    """Return the exchanges in a file.

    Raises:
        UsageError: The file cannot be read, or a line is not an exchange.
    """
    try:
        lines = file.read_bytes().removesuffix(b"\n").split(b"\n")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", remedy="record it first, with Recorder") from error
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(RecordedExchange(**json.loads(line)))
            _ = found[-1].body, found[-1].headers.items()
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise UsageError(f"{file}:{number} is not a recorded exchange", remedy="record it again") from error
    return found


class Replayer:
    """Server that replays the recorded responses; repeated requests get their responses in the recorded order."""

    def __init__(self, file: Path) -> None:
        """Read the recording.

        Raises:
            UsageError: The file is not a recording.
        """
        self._file = file
        self._waiting: dict[str, list[RecordedExchange]] = defaultdict(list)
        for each in exchanges_in(file):
            self._waiting[each.sha256].append(each)
        self._unknown: list[str] = []
        self._server = LoopbackServer(self._respond)

    @property
    def url(self) -> str:
        """URL to set as `base_url` or `ANTHROPIC_BASE_URL`."""
        return self._server.url

    def __enter__(self) -> Self:
        """Start the server."""
        self._server.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close all connections.

        Raises:
            UsageError: A request was not in the recording.
        """
        self._server.stop()
        if kind is None and self._unknown:
            raise UsageError(
                f"{self._file} has no record of {len(self._unknown)} requests, the first to {self._unknown[0]!r}",
                remedy="record them, or find the change in the requests",
            )

    def _respond(self, received: Received) -> Response:
        known = self._waiting.get(digest_of(received.path, received.body))
        if not known:
            self._unknown.append(received.path)
            return failure(Fail(400, "this request is not recorded"), "not_on_record", ())
        # The last response is repeated for all later requests.
        exchange = known.pop(0) if len(known) > 1 else known[0]
        end = () if exchange.is_whole else (TruncateResponse(0),)
        return Response(exchange.status, tuple(exchange.headers.items()), (exchange.body, *end))


def _json(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> None:
    """Reject JSON extensions such as NaN, which have no digest."""
    raise ValueError(constant)


def _kept(raw: bytes, *, is_stream: bool) -> tuple[Literal["json", "events", "text", "base64"], Any]:
    if is_stream and (events := _events(raw)):
        return "events", events
    if (read := _json(raw)) is not None:
        return "json", read
    try:
        return "text", raw.decode()
    except UnicodeDecodeError:
        return "base64", b64encode(raw).decode()


def _events(raw: bytes) -> list[JsonObject]:
    """Return the events of a complete stream; empty if it is not the stream of a message."""
    lines = [line.removeprefix(b"data:") for line in raw.splitlines() if line.startswith(b"data:")]
    if not raw.endswith(b"\n\n"):
        lines = lines[:-1]
    events = [_json(line) for line in lines]
    return events if all(isinstance(event, dict) and "type" in event for event in events) else []


def _joined(events: list[JsonObject], secrets: tuple[str, ...]) -> list[JsonObject]:
    """Return events in which no secret is split: a text that contains one is moved into its first event."""
    pieces: dict[tuple[int, str], list[JsonObject]] = defaultdict(list)
    kept = [
        {**event, "delta": dict(event["delta"])} if "index" in event and "delta" in event else event for event in events
    ]
    for each in kept:
        for name in _IN_PIECES:
            if name in each.get("delta", ()) and "index" in each:
                pieces[each["index"], name].append(each["delta"])
    for (_, name), deltas in pieces.items():
        clean = redacted("".join(str(each[name]) for each in deltas), known=secrets)
        if clean.count:
            for at, delta in enumerate(deltas):
                delta[name] = "" if at else clean.value  # type: ignore[index] # copied above
    return kept
