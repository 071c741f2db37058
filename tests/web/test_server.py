"""The server as a process: its address, its limits, its end."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest
from fork_server import ESPER
from places import PATIENCE_S, environment
from web_samples import served

START = "import esper_agents.web.bounded_connections as limits; limits.REQUEST_S = limits.READER_S = 1.0; "
RUN = "import sys; from esper_agents.cli.main import main; sys.argv[0] = 'esper'; main()"


@pytest.fixture
def server(judged_project, home):
    with served(judged_project.root, home) as found:
        yield found


@pytest.fixture
def impatient(judged_project, home):
    """A server that waits one second for a client, where it otherwise waits ten and thirty."""
    with served(judged_project.root, home, program=(sys.executable, "-c", START + RUN)) as found:
        yield found


def ended(command, home):
    return subprocess.run(
        command, env=environment(home), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def address_of(url):
    host, _, port = url.split("/")[2].rpartition(":")
    return host, int(port)


def cookie_of(client, url):
    """Open the start URL and return the `Cookie` header of the browser."""
    answer = client.get(url)
    assert answer.status_code == 303
    return answer.headers["set-cookie"].partition(";")[0]


def test_the_start_url_opens_the_pages_once_and_a_signal_ends_the_server(server):
    process, url = server
    host, port = address_of(url)
    assert host == "127.0.0.1"
    with httpx.Client(timeout=PATIENCE_S) as client:
        cookie = cookie_of(client, url)
        page = client.get(f"http://{host}:{port}/", headers={"cookie": cookie})
        assert "review this training code" in page.text
        client.cookies.clear()
        assert client.get(url).status_code == 403
    following = process.stderr.readline()
    assert following.startswith("another browser")
    assert following.split()[-1] != url
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    assert process.communicate()[1] == ""


def test_no_interface_but_the_loopback_is_listened_on(server):
    _, port = address_of(server[1])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        own = probe.getsockname()[0]
    if own.startswith("127."):
        pytest.skip("this machine has no other interface")
    with socket.socket() as client:
        client.settimeout(2)
        assert client.connect_ex((own, port)) != 0


def test_two_servers_on_one_port_are_an_error_with_a_remedy(server, judged_project, home):
    _, port = address_of(server[1])
    command = [ESPER, "serve", "--project", judged_project.root, "--port", str(port)]
    done = subprocess.run(
        command, env=environment(home), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"esper: port {port} of 127.0.0.1 cannot be used: address already in use",
        "  fix: use another port: esper serve --port 0",
    ]


@pytest.mark.parametrize(
    ("options", "problem", "remedy"),
    [
        (["--host", "0.0.0.0"], "other machines can reach 0.0.0.0", "--allow-remote"),  # noqa: S104
        (["--host", "example.org"], "'example.org' is not an address of an interface", "--host 127.0.0.1"),
        (["--project", "/nowhere"], "", ""),
    ],
)
def test_an_address_that_others_can_reach_is_refused_with_what_it_means(make_project, home, options, problem, remedy):
    command = [ESPER, "serve", "--project", make_project(), "--port", "0", *options]
    done = subprocess.run(
        command, env=environment(home), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    first, second = done.stderr.splitlines()
    assert done.returncode == 2
    assert problem in first
    assert remedy in second


def test_a_browser_that_leaves_in_the_middle_changes_nothing_for_others(server):
    _, url = server
    with httpx.Client(timeout=PATIENCE_S) as client:
        cookie = cookie_of(client, url)
        request = f"GET /certificates/latest HTTP/1.1\r\nHost: {url.split('/')[2]}\r\nCookie: {cookie}\r\n\r\n"
        for _ in range(20):
            with socket.create_connection(address_of(url)) as leaving:
                leaving.sendall(request.encode())
        page = client.get(f"http://{url.split('/')[2]}/", headers={"cookie": cookie})
        assert page.status_code == 200


def test_a_client_that_never_finishes_its_request_is_disconnected(impatient):
    with socket.create_connection(address_of(impatient[1]), PATIENCE_S) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        assert slow.recv(100) == b""
    with socket.create_connection(address_of(impatient[1]), PATIENCE_S) as silent:
        assert silent.recv(100) == b""


def test_a_client_that_drips_its_request_is_disconnected(impatient):
    with socket.create_connection(address_of(impatient[1]), PATIENCE_S) as slow, contextlib.suppress(OSError):
        for _ in range(100):
            slow.sendall(b"G")
            time.sleep(0.1)
        raise AssertionError("the server waited for ten seconds")


def test_a_client_that_does_not_read_is_disconnected(impatient):
    _, url = impatient
    with httpx.Client(timeout=PATIENCE_S) as client:
        cookie = cookie_of(client, url)
    request = f"GET /static/certificate.css HTTP/1.1\r\nHost: {url.split('/')[2]}\r\nCookie: {cookie}\r\n\r\n"
    with socket.socket() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        lazy.settimeout(PATIENCE_S)
        lazy.connect(address_of(url))
        with contextlib.suppress(ConnectionError):
            for _ in range(100_000):
                lazy.sendall(request.encode())
            raise AssertionError("the server took every request")


def test_a_thousand_connections_are_bounded_and_the_server_goes_on(impatient):
    _, url = impatient
    with httpx.Client(timeout=PATIENCE_S) as client:
        cookie = cookie_of(client, url)
    session_page = f"GET /sessions/latest/events HTTP/1.1\r\nHost: {url.split('/')[2]}\r\nCookie: {cookie}\r\n\r\n"
    opened = []
    try:
        for _ in range(1000):
            with contextlib.suppress(OSError):
                opened.append(socket.create_connection(address_of(url), 5))
                opened[-1].sendall(session_page.encode()[:40])
    finally:
        for each in opened:
            each.close()
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.HTTPError), httpx.Client(timeout=PATIENCE_S) as client:
            page = client.get(f"http://{url.split('/')[2]}/", headers={"cookie": cookie})
            if page.status_code == 200:
                return
        time.sleep(0.2)
    raise AssertionError("the server does not answer any more")


def test_a_locked_database_is_an_error_of_the_page_and_not_of_the_server(judged_project, home):
    import sqlite3

    short = "import esper_agents.storage.engine as engine; engine._BUSY_TIMEOUT_S = 0; "
    with served(judged_project.root, home, program=(sys.executable, "-c", short + RUN)) as (_, url):
        (database,) = home.glob("projects/*/esper.db")
        base = f"http://{url.split('/')[2]}"
        with httpx.Client(timeout=PATIENCE_S) as client:
            client.headers["cookie"] = cookie_of(client, url)
            with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as holder:
                holder.execute("PRAGMA locking_mode=EXCLUSIVE")
                with contextlib.suppress(sqlite3.OperationalError):
                    holder.execute("BEGIN EXCLUSIVE")
                answer = client.get(base)
                assert answer.status_code in {200, 503}
                assert "Traceback" not in answer.text
            assert client.get(base).status_code == 200
