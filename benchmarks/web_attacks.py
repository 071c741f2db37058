"""Attacks on `esper serve` over its real socket: whether each is held, and whether the user is still served.

A server serves a project whose file names and requests are hostile texts. Each attack is one that another program of
the machine, a web page in the user's browser, or a colleague's text could try: names of hosts that lead here, foreign
origins, tokens guessed, used again or leaked, paths that lead elsewhere, markup and statements in every text field,
malformed requests, clients that are slow, that do not read, or that open 1,000 streams. After each attack the user's
own browser must get its page. Every attack is printed; the exit code is 1 where one is not held.

    python benchmarks/web_attacks.py
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import httpx

from esper_agents.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = [sys.executable, "-c", "from esper_agents.cli.main import main; main()"]
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>'\"]]>"
FAULTY = (
    "def train(model, data, optimizer):\n    for x in data:\n        model(x).backward()\n        optimizer.step()\n"
)
PATIENCE_S, MOST_WAIT_S = 60.0, 45.0
STREAMS = 1_000
REFUSED = frozenset((400, 401, 403, 404, 405, 413, 414, 421, 431, 501))


@dataclass(slots=True)
class Target:
    """A running server, and a browser that has opened its start URL.

    Attributes:
        port: Port of the server.
        user: Client with the cookie.
        cookie: The cookie, as a header.
        cookie_line: The header that set it.
        used: Start token that the browser used.
        next_start: Start URL that the server printed after that.
    """

    port: int
    user: httpx.Client
    cookie: str
    cookie_line: str
    used: str
    next_start: str

    @property
    def base(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def raw(self, data: bytes, wait_s: float = 20.0) -> bytes:
        """Send bytes, and return what comes back until the server closes or is silent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=wait_s) as connection:
            connection.sendall(data)
            found = b""
            try:
                while part := connection.recv(65536):
                    found += part
                    if b"\r\n\r\n" in found and b" 200 " in found[:20]:
                        break
            except (TimeoutError, ConnectionError):
                pass
            return found

    def request(self, path: str = "/", method: str = "GET", **headers: str) -> httpx.Response:
        """Return the answer to a request of a stranger, with no cookie."""
        with httpx.Client(timeout=PATIENCE_S) as client:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return client.request(method, self.base + path, headers=named)


def is_refused(answer: httpx.Response) -> bool:
    """Return whether an answer refuses, and shows nothing of the project."""
    return answer.status_code in REFUSED and "REQUIRES_REMEDIATION" not in answer.text


def with_host(host: str, target: Target) -> bool:
    """Try a name that a foreign DNS server could point here."""
    return is_refused(target.request(host=host.format(port=target.port), cookie=target.cookie))


def with_headers(target: Target, method: str = "GET", path: str = "/", **headers: str) -> bool:
    """Try a request that a page of another site could cause, with the cookie."""
    return is_refused(target.request(path, method, cookie=target.cookie, **headers))


def raw_is_refused(data: str, target: Target) -> bool:
    """Try bytes that are not one well-formed request of the user's browser."""
    filled = data.format(port=target.port, cookie=target.cookie).encode("latin-1")
    found = target.raw(filled)
    return not found or int(found.split(b" ", 2)[1]) in REFUSED


def guessing(target: Target) -> bool:
    """Guess 1,000 start tokens; the right one must work afterwards."""
    with httpx.Client(base_url=target.base) as client:
        found = [client.get("/start", params={"token": f"guess-{number}"}).status_code for number in range(1_000)]
        return set(found) <= REFUSED and client.get(target.next_start).status_code == 303


def leaked_by_referrer(target: Target) -> bool:
    """Look for a token in any address that a page could send as referrer, and for the policy that forbids it."""
    pages = [target.user.get(path) for path in ("/", "/approvals", "/log", "/sessions/latest")]
    is_silent = all(page.headers["referrer-policy"] in {"same-origin", "no-referrer"} for page in pages)
    return is_silent and all(target.used not in page.text and "token=" not in str(page.url) for page in pages)


def used_start_url(target: Target) -> bool:
    """Open a start URL that was used, as one from a shell history."""
    return is_refused(target.request(f"/start?token={target.used}"))


def cookie_flags(target: Target) -> bool:
    """Look for a cookie that scripts or other sites could send."""
    with httpx.Client(base_url=target.base) as client:
        answer = client.get("/start", params={"token": "wrong"})
    return "set-cookie" not in answer.headers and "HttpOnly" in target.cookie_line and "Strict" in target.cookie_line


def path_elsewhere(path: str, target: Target) -> bool:
    """Ask as the user for a path that leads out of the pages."""
    found = target.raw(
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{target.port}\r\nCookie: {target.cookie}\r\n\r\n".encode()
    )
    return int(found.split(b" ", 2)[1]) in REFUSED and b"root:" not in found


def reflected(name: str, target: Target) -> bool:
    """Put markup into one value of each query; it may come back as text only."""
    pages = [target.user.get(path, params={name: MARKUP}) for path in ("/", "/files", "/sessions", "/memory", "/file")]
    return all("<script>alert" not in page.text and "<img src=x" not in page.text for page in pages)


def stored(path: str, target: Target) -> bool:
    """Show a page with hostile names and texts of the project and its certificates."""
    page = target.user.get(path)
    markup = re.findall(r"<(?:script|img)[^>]*>", page.text)
    return page.status_code < 500 and all('src="/static/' in each for each in markup)


def slow(data: bytes, pause_s: float, target: Target) -> bool:
    """Send a request byte by byte, or never end it; the server must close the connection."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", target.port), timeout=MOST_WAIT_S) as connection:
        try:
            for at in range(len(data)):
                connection.sendall(data[at : at + 1])
                if time.monotonic() - began > MOST_WAIT_S:
                    return False
                if pause_s:
                    time.sleep(pause_s)
            while connection.recv(4096):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass
    return time.monotonic() - began < MOST_WAIT_S


def does_not_read(target: Target) -> bool:
    """Ask again and again without reading an answer; the server must stop sending and close."""
    line = (
        f"GET /static/archive.css HTTP/1.1\r\nHost: 127.0.0.1:{target.port}\r\nCookie: {target.cookie}\r\n\r\n".encode()
    )
    with socket.create_connection(("127.0.0.1", target.port), timeout=MOST_WAIT_S) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        began = time.monotonic()
        try:
            while time.monotonic() - began < MOST_WAIT_S:
                connection.sendall(line * 100)
                time.sleep(0.05)
        except OSError:
            return True
    return False


@contextmanager
def opened(target: Target, path: str, count: int) -> Iterator[int]:
    """Open connections that ask for a page and stay; yield how many could be opened."""
    line = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{target.port}\r\nCookie: {target.cookie}\r\n\r\n".encode()
    with ExitStack() as stack:
        done = 0
        for _ in range(count):
            try:
                connection = stack.enter_context(socket.create_connection(("127.0.0.1", target.port), timeout=5))
                connection.sendall(line)
                done += 1
            except OSError:
                break
        yield done


def many(path: str, target: Target) -> bool:
    """Open 1,000 connections to a page; the user must be served while or right after they are open."""
    with opened(target, path, STREAMS):
        pass
    deadline = time.monotonic() + MOST_WAIT_S
    while time.monotonic() < deadline:
        try:
            with httpx.Client(timeout=5) as fresh:
                if fresh.get(target.base + "/", headers={"cookie": target.cookie}).status_code == 200:
                    return True
        except httpx.HTTPError:
            time.sleep(0.5)
    return False


REQUEST = "GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\n"
HOSTS = (
    *("evil.example:{port}", "localhost.evil.example:{port}", "127.0.0.1.nip.io:{port}", "127.0.0.1", "0.0.0.0:{port}"),
    *("127.1:{port}", "[::ffff:127.0.0.1]:{port}", "127.0.0.1:{port}@evil.example"),
)
PATHS = (
    *("/static/../pyproject.toml", "/static/%2e%2e/%2e%2e/etc/passwd", "/static/..%5c..%5cetc%5cpasswd"),
    *("/certificates/..%2f..%2fetc%2fpasswd/record", "/file?path=../../../../etc/passwd", "/file?path=/etc/passwd"),
    *("/certificates/%00", "/agents/..%2f..%2fsecret", "/trends/'%20OR%201=1--", "/?before=%27%20OR%201%3D1--"),
)


def attacks(file: str) -> dict[str, Callable[[Target], bool]]:
    """Return the attacks that take a moment each, by name."""
    origin = "http://evil.example"
    found: dict[str, Callable[[Target], bool]] = {f"rebinding: Host {host}": partial(with_host, host) for host in HOSTS}
    found |= {
        "rebinding: two Host headers": partial(raw_is_refused, REQUEST + "Host: evil.example\r\n\r\n"),
        "foreign origin": partial(with_headers, origin=origin),
        "origin null": partial(with_headers, origin="null"),
        "origin of another port": partial(with_headers, origin="http://127.0.0.1:1"),
        "caused by another site": partial(with_headers, sec_fetch_site="cross-site"),
        "form of another site": partial(with_headers, method="POST", path="/approvals/qst_1", origin=origin),
        "form without an origin": partial(with_headers, method="POST", path="/approvals/qst_1"),
        **{
            f"method {name}": partial(with_headers, method=name)
            for name in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")
        },
        "web socket": partial(
            raw_is_refused, REQUEST + "Upgrade: websocket\r\nConnection: Upgrade\r\nOrigin: x\r\n\r\n"
        ),
        "no cookie": lambda target: is_refused(target.request()),
        "guessed cookie": lambda target: is_refused(target.request(cookie=f"esper-{target.port}=guess")),
        "cookie of another port": lambda target: is_refused(
            target.request(cookie=target.cookie.replace("esper-", "esper-1"))
        ),
        "used start URL": used_start_url,
        "two start tokens": lambda target: is_refused(target.request("/start?token=a&token=b")),
        "1,000 guessed start tokens": guessing,
        "token leaked by referrer": leaked_by_referrer,
        "cookie for scripts or other sites": cookie_flags,
        **{f"path {path}": partial(path_elsewhere, path) for path in PATHS},
        **{
            f"markup in the query: {name}": partial(reflected, name)
            for name in ("q", "file", "agent", "path", "rule", "state")
        },
        "markup in a file name and a request": partial(stored, "/certificates/latest"),
        "markup in the page of a file": partial(stored, "/file?path=" + quote(file)),
        "markup in sessions and memory": lambda target: all(
            stored(path, target) for path in ("/sessions/latest", "/memory")
        ),
        "header in an address": lambda target: "x-evil" not in target.user.get("/?q=a%0d%0aX-Evil:%201").headers,
        "two lengths of one request": partial(
            raw_is_refused, REQUEST + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"
        ),
        "length and chunks": partial(
            raw_is_refused,
            REQUEST + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        "head of 1 MB": partial(raw_is_refused, REQUEST + "X-Long: " + "a" * 1_000_000 + "\r\n\r\n"),
        "bytes that are no request": partial(raw_is_refused, "\x16\x03\x01" + "\xff" * 500 + "\r\n\r\n"),
        "1,000 connections": partial(many, "/"),
        "1,000 event streams": partial(many, "/sessions/latest/events"),
    }
    return found


SLOW: dict[str, Callable[[Target], bool]] = {
    "request that never ends": partial(slow, b"GET / HTTP/1.1\r\nHost: x\r\n", 0.0),
    "request byte by byte": partial(slow, b"GET / HTTP/1.1\r\nX: " + b"a" * 1000, 0.5),
    "silent client": partial(slow, b"", 0.0),
    "client that does not read": does_not_read,
}


@contextmanager
def served(folder: Path, file: str) -> Iterator[Target]:
    """Yield a server of a project with hostile texts, with a browser that opened it."""
    root = folder / "toy"
    root.mkdir()
    (root / file).write_text(FAULTY)
    request = f"review this training code {MARKUP}"
    submit = [*PROGRAM, "submit", request, file, "--agent", "pytorch-code-reviewer"]
    done = subprocess.run(submit, cwd=root, check=False, capture_output=True, text=True)
    if done.returncode != ExitCode.AGAINST:
        sys.exit(done.stderr)
    process = subprocess.Popen([*PROGRAM, "serve", "--port", "0", "--allow-answers"], cwd=root, stderr=-1, text=True)
    try:
        assert process.stderr is not None
        start = process.stderr.readline().split()[-1]
        base = start.partition("/start")[0]
        with httpx.Client(base_url=base, timeout=PATIENCE_S) as user:
            line = user.get(start).headers["set-cookie"]
            following = process.stderr.readline().split()[-1]
            port = int(base.rpartition(":")[2])
            yield Target(port, user, line.partition(";")[0], line, start.rpartition("=")[2], following)
    finally:
        process.terminate()
        process.communicate()


def main() -> None:
    """Try all attacks, print each, and exit with 1 where one is not held or the user is not served."""
    file = "a<img src=x onerror=alert(1)>b.py"
    with tempfile.TemporaryDirectory(prefix="esper-attacks-") as name:
        os.environ["ESPER_HOME"] = str(Path(name, "home"))
        with served(Path(name), file) as target, ThreadPoolExecutor(len(SLOW)) as threads:
            slow_ones = {each: threads.submit(attack, target) for each, attack in SLOW.items()}
            held = {}
            for each, attack in attacks(file).items():
                held[each] = attack(target) and target.user.get("/").status_code == 200
                print(f"{'held' if held[each] else 'NOT HELD':10}{each}", flush=True)
            for each, future in slow_ones.items():
                held[each] = future.result() and target.user.get("/").status_code == 200
                print(f"{'held' if held[each] else 'NOT HELD':10}{each}", flush=True)
    print(f"{sum(held.values())} of {len(held)} attacks held")
    sys.exit(not all(held.values()))


if __name__ == "__main__":
    main()
