"""A scripted Messages API on a loopback port, for tests of agents that call Claude.

    import anthropic

    from esper_agents.testing import MessagesServer, Say

    turns = [{"role": "user", "content": "Is the loop right?"}]
    with MessagesServer([Say("It is fine.")]) as server:
        with anthropic.Anthropic(base_url=server.url, api_key="test") as client:
            said = client.messages.create(model="claude-opus-5-5", max_tokens=100, messages=turns)
    print(said.content[0].text)
    assert server.requests[0].last == "Is the loop right?"

It rejects what the API rejects, counts tokens as the API does, and answers with the script.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self

from esper_agents.errors import UsageError
from esper_agents.testing.caching import PromptCache
from esper_agents.testing.http_server import LoopbackServer, Response
from esper_agents.testing.request_validation import RejectedRequest, RequestValidator, judged
from esper_agents.testing.response_builder import ResponseContext, answer, digest_after, failure, message_of
from esper_agents.testing.script import Fail, Part, Request, Stop, TruncateResponse

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from esper_agents.testing.http_server import Received
    from esper_agents.testing.response_builder import Headers
    from esper_agents.testing.script import Script

_COUNTING = "/count_tokens"
_REQUESTS_A_MINUTE = 4000
_TOKENS_A_MINUTE = 2_000_000


class MessagesServer:
    """Server of one script, running while its context is active.

    Attributes:
        requests: All message requests in order of arrival, including rejected ones.
        counted: All requests to count tokens.
    """

    def __init__(
        self,
        script: Script,
        *,
        key: str | None = None,
        window_tokens: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        port: int = 0,
    ) -> None:
        """Prepare the server.

        Args:
            script: The answers in order, as one or more parts; or a function that creates an answer for a request.
            key: The only accepted API key; any if None.
            window_tokens: Maximum prompt length; the model's own if None.
            clock: Clock for the expiry of the prompt cache.
            port: Port number, such as that of an earlier server; 0 lets the system choose.
        """
        self.requests: list[Request] = []
        self.counted: list[Request] = []
        self._script = script
        self._cache = PromptCache(clock)
        self._paused: set[bytes] = set()
        self._door = RequestValidator(key, window_tokens, self._paused)
        self._answers = 0
        self._fault: Exception | None = None
        # Identifiers of tool calls must differ from those of an earlier server in the same conversation.
        self._id = secrets.token_hex(6)
        self._server = LoopbackServer(self._respond, port)

    @property
    def url(self) -> str:
        """URL to set as `base_url` or `ANTHROPIC_BASE_URL`."""
        return self._server.url

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that direct a program to this server."""
        return {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": self._door.key or "test"}

    @property
    def cpu_s(self) -> float:
        """CPU time of the server, in seconds."""
        return self._server.cpu_s

    def __enter__(self) -> Self:
        """Start the server."""
        self._server.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close all connections.

        Raises:
            UsageError: The script had no answer for a request.
            Exception: The script's function raised it.
        """
        self._server.stop()
        if kind is None and self._fault is not None:
            raise self._fault

    def _respond(self, received: Received) -> Response:
        path = received.path.partition("?")[0]
        seen = self.counted if path.endswith(_COUNTING) else self.requests
        id_ = f"{self._id}{len(self.requests) + len(self.counted):06d}"
        headers = self._headers(id_)
        found = judged(received, path, self._door)
        number = len(seen) + 1
        if isinstance(found, RejectedRequest):
            refused = failure(found.fail, id_, headers)
            seen.append(Request(number, received.headers, found.body, message_of(found.fail), path=received.path))
            return (
                refused
                if received.method
                else Response(refused.status, refused.headers, (*refused.steps, TruncateResponse(0)))
            )
        prompt, usage = found.prompt, self._cache.usage(found.prompt)
        request = Request(number, received.headers, found.body, usage=usage, path=received.path)
        seen.append(request)
        if seen is self.counted:
            body = json.dumps({"input_tokens": prompt.tokens[-1]}).encode()
            return Response(200, (*headers, ("content-type", "application/json")), (body,))
        return self._answered(ResponseContext(request, prompt, id_, headers))

    def _answered(self, reply: ResponseContext) -> Response:
        """Return the scripted answer; an exception of the script is raised again when the test leaves the context."""
        try:
            parts = self._parts(reply.request)
            response = answer(parts, reply)
        except Exception as fault:  # noqa: BLE001 - a test's own function may raise anything
            self._fault = self._fault or fault
            return failure(Fail(400, f"the script failed: {fault}"), reply.id, reply.headers)
        if response.status == HTTPStatus.OK:
            self._cache.keep(reply.prompt)
        if any(isinstance(part, Stop) and part.reason == "pause_turn" for part in parts):
            self._paused.add(digest_after(parts, reply))
        return response

    def _parts(self, request: Request) -> Sequence[Part]:
        if request.body["max_tokens"] == 0:
            return (Stop("max_tokens"),)
        self._answers += 1
        if callable(self._script):
            said = self._script(request)
        elif self._answers <= len(self._script):
            said = self._script[self._answers - 1]
        else:
            raise UsageError(
                f"the script has {len(self._script)} answers and received more requests",
                remedy="add an answer, or pass a function that creates one per request",
            )
        parts: Sequence[Any] = said if isinstance(said, Sequence) else (said,)
        if wrong := [part for part in parts if not isinstance(part, Part)]:
            raise UsageError(f"{wrong[0]!r} is not a part of an answer", remedy="use Say, Use, Stop and so on")
        return parts

    def _headers(self, id_: str) -> Headers:
        reset = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        left = max(0, _REQUESTS_A_MINUTE - len(self.requests))
        limits = {"requests": (_REQUESTS_A_MINUTE, left)}
        limits |= dict.fromkeys(("tokens", "input-tokens", "output-tokens"), (_TOKENS_A_MINUTE, _TOKENS_A_MINUTE))
        headers = [("request-id", f"req_{id_}"), ("anthropic-organization-id", "00000000-0000-0000-0000-000000000000")]
        for name, (limit, remaining) in limits.items():
            values = (("limit", limit), ("remaining", remaining), ("reset", reset))
            headers += [(f"anthropic-ratelimit-{name}-{what}", str(value)) for what, value in values]
        return tuple(headers)
