from __future__ import annotations

import socket
import threading
from contextlib import closing, contextmanager
from http.client import HTTPConnection, RemoteDisconnected

import pytest

from esper_agents.testing import Hang, MessagesServer, Say, Slow, TruncateResponse
from esper_agents.testing.http_server import LoopbackServer, Response

PLAIN = (("content-type", "text/plain"),)


@contextmanager
def serving(respond):
    server = LoopbackServer(respond)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def connected(server):
    host, port = server.url.removeprefix("http://").split(":")
    with closing(socket.create_connection((host, int(port)), timeout=5)) as connection:
        yield connection


def echo(received):
    return Response(200, PLAIN, (received.path.encode(), b"", received.body))


def test_a_connection_serves_one_request_after_another():
    with serving(echo) as server, closing(HTTPConnection(server.url.removeprefix("http://"))) as connection:
        for at in range(3):
            connection.request("POST", f"/{at}", b"x" * at)
            answered = connection.getresponse()
            assert (answered.status, answered.read()) == (200, f"/{at}".encode() + b"x" * at)


def test_requests_that_come_at_once_are_answered_in_their_order():
    def slowly(received):
        return Response(200, PLAIN, (Slow(0.02 if received.path == "/1" else 0), received.path.encode()))

    with serving(slowly) as server, connected(server) as connection:
        connection.sendall(b"".join(b"GET /%d HTTP/1.1\r\n\r\n" % at for at in (1, 2)))
        taken = b""
        while taken.count(b"\r\n0\r\n\r\n") < 2:
            taken += connection.recv(65536)
    assert taken.index(b"/1") < taken.index(b"/2")


def test_a_request_may_come_byte_by_byte():
    sent = b"POST /slowly HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"
    with serving(echo) as server, connected(server) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(sent)):
            connection.sendall(sent[at : at + 1])
        assert connection.recv(65536).endswith(b"\r\n5\r\nhello\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x16\x03\x01\x02\x00\r\n\r\n",
        b"hello\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: many\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"x" * 70_000,
    ],
)
def test_what_is_no_http_is_told_so_and_let_go(nonsense):
    with MessagesServer([]) as server, connected(server) as connection:
        connection.sendall(nonsense)
        taken = b""
        while piece := connection.recv(65536):
            taken += piece
    assert taken.startswith(b"HTTP/1.1 400 ")
    assert b"The request is not valid HTTP." in taken


def test_a_cut_ends_the_connection_at_once():
    def respond(received):
        return Response(
            200, PLAIN, (b"half", TruncateResponse(0)) if received.path == "/half" else (TruncateResponse(0),)
        )

    with serving(respond) as server, connected(server) as connection:
        connection.sendall(b"GET /half HTTP/1.1\r\n\r\n")
        taken = b""
        while piece := connection.recv(65536):
            taken += piece
        assert taken.endswith(b"\r\n\r\n4\r\nhalf\r\n")
        with closing(HTTPConnection(server.url.removeprefix("http://"))) as another:
            another.request("GET", "/nothing")
            with pytest.raises(RemoteDisconnected):
                another.getresponse()


def test_a_server_ends_while_answers_hang():
    before = threading.active_count()
    with MessagesServer([Hang()] * 3) as server:
        waiting = [HTTPConnection(server.url.removeprefix("http://")) for _ in range(3)]
        for each in waiting:
            each.request("POST", "/v1/messages", body(), {"x-api-key": "k", "anthropic-version": "2026-10-21"})
        while len(server.requests) < 3:
            pass
    assert threading.active_count() == before
    for each in waiting:
        with pytest.raises((ConnectionResetError, RemoteDisconnected)):
            each.getresponse()
        each.close()


def body():
    return b'{"model": "claude-opus-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}'


def test_a_client_that_leaves_in_the_middle_leaves_the_others_alone():
    with MessagesServer(lambda _: [Say("half"), Slow(0.02), Say("whole")]) as server:
        for leaves in (True, False):
            connection = HTTPConnection(server.url.removeprefix("http://"))
            connection.request("POST", "/v1/messages", body(), {"x-api-key": "k", "anthropic-version": "2026-10-21"})
            if not leaves:
                assert b"whole" in connection.getresponse().read()
            connection.close()


def test_the_server_knows_how_much_cpu_it_has_used():
    with serving(echo) as server:
        began = server.cpu_s
        with closing(HTTPConnection(server.url.removeprefix("http://"))) as connection:
            for _ in range(20):
                connection.request("GET", "/")
                connection.getresponse().read()
        assert server.cpu_s > began
    assert server.cpu_s > began
