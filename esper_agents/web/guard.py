"""Refuse requests that are not from the user's own browser, and add the security headers."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping
    from typing import TypeAlias

    from esper_agents.web.access import Access

    Message: TypeAlias = MutableMapping[str, Any]
    Receive: TypeAlias = Callable[[], Awaitable[Message]]
    Send: TypeAlias = Callable[[Message], Awaitable[None]]
    AsgiApp: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

START = "/start"
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    # Not `no-referrer`: browsers would then send `Origin: null` with forms of our own.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"cache-control", b"no-store"),
)
_POLICY_HEADER = b"content-security-policy"
_MOST_BODY = 16 * 1024
_OPEN_THE_URL = "open the newest URL that `esper serve` printed"
_OWN_FETCHES = frozenset((b"none", b"same-origin"))
_READS = frozenset(("GET", "HEAD"))


@dataclass(frozen=True, slots=True)
class RequestRefusal:
    """Answer to a request that is not served.

    Attributes:
        status: HTTP status.
        problem: What is wrong, as text.
        remedy: What the user can do.
    """

    status: int
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """Values of the `Host` header that this server answers.

    A site that rebinds its name to 127.0.0.1 sends its own name, so that names other than these are refused.

    Attributes:
        names: Host names and addresses.
        port: Port of the server.
        accepts_addresses: Whether every address is accepted, for a server on all interfaces.
    """

    names: frozenset[str]
    port: int
    accepts_addresses: bool = False

    def accepts(self, host: str) -> bool:
        """Return whether a `Host` header is one of this server."""
        name, separator, port = host.lower().rpartition(":")
        if not separator or port != str(self.port):
            return False
        name = name.removeprefix("[").removesuffix("]")
        return name in self.names or (self.accepts_addresses and _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Guard:
    """ASGI application in front of the pages."""

    def __init__(self, app: AsgiApp, access: Access, hosts: AllowedHosts, *, accepts_writes: bool) -> None:
        """Wrap the pages.

        Args:
            app: The pages.
            access: Tokens of the server.
            hosts: Hosts that it answers for.
            accepts_writes: Whether forms may be sent.
        """
        self._app, self._access, self._hosts, self._accepts_writes = app, access, hosts, accepts_writes

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        hardened = _with_headers(send)
        refusal = self._refusal(scope)
        if refusal is None and scope["path"] == START:
            await self._start(scope, hardened)
        elif refusal is None and not self._access.has_cookie(_values(scope, b"cookie")):
            refusal = RequestRefusal(403, "this browser has not opened the start URL", _OPEN_THE_URL)
        if refusal is not None:
            await _refuse(hardened, refusal)
        elif scope["path"] != START:
            await self._app(scope, receive, hardened)

    def _refusal(self, scope: Message) -> RequestRefusal | None:
        """Return the refusal of a request by its headers, whoever sent it; None if there is no reason for one."""
        hosts = _values(scope, b"host")
        if len(hosts) != 1 or not self._hosts.accepts(hosts[0]):
            return RequestRefusal(421, "the request names another host", _OPEN_THE_URL)
        if _values(scope, b"transfer-encoding"):
            # Browsers send forms with a length; a chunked request may mean another one to a program in between.
            return RequestRefusal(400, "the request is sent in chunks", "use the pages of this server")
        if any(value.encode() not in _OWN_FETCHES for value in _values(scope, b"sec-fetch-site")):
            return RequestRefusal(403, "another site sent the request", _OPEN_THE_URL)
        origins = _values(scope, b"origin")
        if any(origin != f"http://{hosts[0].lower()}" for origin in origins):
            return RequestRefusal(403, "the request comes from another origin", _OPEN_THE_URL)
        return None if scope["method"] in _READS else self._refused_write(scope, origins)

    def _refused_write(self, scope: Message, origins: tuple[str, ...]) -> RequestRefusal | None:
        if scope["method"] != "POST" or not self._accepts_writes:
            return RequestRefusal(
                405, "pages are read-only", "start the server with --allow-answers to answer questions"
            )
        if not origins:
            return RequestRefusal(403, "the request has no origin", "use the pages of this server")
        lengths = _values(scope, b"content-length")
        if len(lengths) != 1 or not lengths[0].isdecimal() or int(lengths[0]) > _MOST_BODY:
            return RequestRefusal(413, "the request is too long", "shorten the answer, or use `esper answer`")
        return None

    async def _start(self, scope: Message, send: Send) -> None:
        """Exchange the start token for the cookie, and leave the URL that has it."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])
        cookie = self._access.exchange(given[0]) if len(given) == 1 and scope["method"] == "GET" else ""
        if not cookie and not self._access.has_cookie(_values(scope, b"cookie")):
            refusal = RequestRefusal(
                403, "the token is wrong or was used before", "open the newest URL that `esper serve` printed"
            )
            await _refuse(send, refusal)
            return
        headers = [(b"location", b"/"), *([(b"set-cookie", cookie.encode())] if cookie else [])]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def _values(scope: Message, wanted: bytes) -> tuple[str, ...]:
    return tuple(value.decode("latin-1") for name, value in scope["headers"] if name.lower() == wanted)


def _with_headers(send: Send) -> Send:
    """Return a `send` that adds the security headers; a page may set a stricter content policy itself."""

    async def hardened(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            has_policy = any(name.lower() == _POLICY_HEADER for name, _ in headers)
            policy = () if has_policy else ((_POLICY_HEADER, CONTENT_POLICY.encode()),)
            message = {**message, "headers": [*headers, *_HEADERS, *policy]}
        await send(message)

    return hardened


async def _refuse(send: Send, refusal: RequestRefusal) -> None:
    body = f"esper: {refusal.problem}\n  fix: {refusal.remedy}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
