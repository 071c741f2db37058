"""Forward requests to a real endpoint and record the responses without secrets.

`Recorder("https://api.anthropic.com", file)` is used once, with a key, and `Replayer(file)` from then on, without one;
`docs/testing.md` has an example.
"""

from __future__ import annotations

import os
import threading
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from esper_agents.certificates.redaction import secrets_of
from esper_agents.testing.exchanges import exchange_of
from esper_agents.testing.http_server import Response
from esper_agents.testing.response_builder import failure
from esper_agents.testing.script import Fail

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from esper_agents.testing.response_builder import Headers

_TIMEOUT_S = 600.0
_PIECE_BYTES = 65_536
# Response headers that depend on the response, not on the client or the connection.
_TOLD = frozenset({"content-type", "request-id", "retry-after", "retry-after-ms", "x-should-retry"})
_TOLD_FAMILY = "anthropic-ratelimit-"
_OF_THE_WAY = frozenset({"host", "connection", "content-length", "transfer-encoding", "accept-encoding"})
_KEYS = ("x-api-key", "authorization")


class Recorder:
    """Proxy that forwards requests and responses and records them."""

    def __init__(self, upstream: str, file: Path) -> None:
        """Prepare the recorder.

        Args:
            upstream: URL of the endpoint, such as `https://api.anthropic.com`.
            file: File to which exchanges are appended; only its owner may read it.
        """
        self.upstream = urlsplit(upstream)
        self._file = file
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"recorder": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """URL to set as `base_url` or `ANTHROPIC_BASE_URL`."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        """Start recording."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop recording."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def connect(self) -> HTTPConnection:
        """Return a connection to the endpoint."""
        kind = HTTPSConnection if self.upstream.scheme == "https" else HTTPConnection
        return kind(self.upstream.hostname or "", self.upstream.port, timeout=_TIMEOUT_S)

    def keep(self, line: bytes) -> None:
        """Append an exchange to the file."""
        with self._lock, os.fdopen(os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as file:
            file.write(line)


class _Handler(BaseHTTPRequestHandler):
    recorder: Recorder
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Forward one request."""
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        with closing(self.recorder.connect()) as connection:
            try:
                answered = self._asked(connection, body)
            except (OSError, HTTPException) as error:
                said = Fail(502, f"{self.recorder.upstream.netloc} cannot be reached: {error}", "api_error")
                self._tell(failure(said, "none", ()))
            else:
                self._pass_on(answered, body)

    do_GET = do_POST  # noqa: N815 - as http.server calls it

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server calls it
        """Suppress logging: standard error belongs to the client."""

    def _asked(self, connection: HTTPConnection, body: bytes) -> HTTPResponse:
        told = {name: text for name, text in self.headers.items() if name.lower() not in _OF_THE_WAY}
        path = self.recorder.upstream.path.rstrip("/") + self.path
        connection.request(self.command, path, body, {**told, "accept-encoding": "identity"})
        return connection.getresponse()

    def _pass_on(self, answered: HTTPResponse, body: bytes) -> None:
        given = ((name.lower(), text) for name, text in answered.getheaders())
        headers = tuple((name, text) for name, text in given if name in _TOLD or name.startswith(_TOLD_FAMILY))
        self._begin(answered.status, headers)
        pieces, is_whole = [], False
        with suppress(HTTPException, ConnectionResetError):
            while piece := answered.read1(_PIECE_BYTES):
                pieces.append(piece)
                self._write(piece)
            is_whole = not answered.length
        exchange = exchange_of(self.path, body, Response(answered.status, headers, tuple(pieces)), is_whole=is_whole)
        keys = (self.headers.get(name, "").removeprefix("Bearer ") for name in _KEYS)
        self.recorder.keep(exchange.line((*keys, *secrets_of(os.environ))))
        if is_whole:
            self._write(b"")
        else:
            self.close_connection = True

    def _tell(self, response: Response) -> None:
        self._begin(response.status, response.headers)
        for step in (*response.steps, b""):
            if isinstance(step, bytes):
                self._write(step)

    def _begin(self, status: int, headers: Headers) -> None:
        self.send_response_only(status)
        for name, text in (*headers, ("transfer-encoding", "chunked")):
            self.send_header(name, text)
        self.end_headers()

    def _write(self, piece: bytes) -> None:
        """Write a chunk of the body; an empty chunk ends it."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
