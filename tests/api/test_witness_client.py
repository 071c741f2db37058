"""A witness over HTTP: its cosignature is stored, and an answer that is none, late, long or elsewhere is refused."""

from __future__ import annotations

import asyncio
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseRequestHandler, ThreadingTCPServer

import pytest
from judged import judge

from esper_agents.api import export_key, publish_log, request_cosignature, verify_certificate, witness_client
from esper_agents.certificates.log import witness_memory
from esper_agents.certificates.log.cosignature import cosigned
from esper_agents.certificates.log.note import signature_line
from esper_agents.certificates.log.witness_request import read_request
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.domain.key_format import KeyFormat
from esper_agents.errors import EvidenceError, ExitCode, IntegrityError, UsageError


class Witness(ThreadingHTTPServer):
    """A witness with a data directory of its own, and what it answers in place of a cosignature."""

    daemon_threads = True

    def __init__(self, home, log_keys):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.home, self.log_keys, self.asked, self.answer = home, log_keys, [], None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/w"

    def cosign(self, data):
        request = read_request(data)
        old = witness_memory.remembered(self.home, request.checkpoint.origin)
        size = old.size if old else 0
        if request.old != size:
            return 409, f"{size}\n".encode(), {}
        done = witness_memory.cosign(self.home, request, signing_key(self.home), self.log_keys, lambda: 1_800_000_000)
        return 200, done.note.splitlines(keepends=True)[-1].encode(), {}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        data = self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append((self.path, data))
        status, body, headers = (self.server.answer or self.server.cosign)(data)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        for part in [body] if isinstance(body, bytes) else body:
            self.wfile.write(part)
            self.wfile.flush()

    def log_message(self, *_):
        pass


@pytest.fixture
def witness(judged_project, home, tmp_path, monkeypatch):
    with Witness(tmp_path / "witness", [signing_key(home).public_key]) as server:
        monkeypatch.setenv("ESPER_HOME", str(tmp_path / "witness"))
        server.key = export_key(KeyFormat.WITNESS)
        monkeypatch.setenv("ESPER_HOME", str(home))
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def asked_of(witness, judged, key=None):
    return asyncio.run(request_cosignature(witness.url, [key or witness.key], judged.root))


def exit_code(judged, witness):
    return asyncio.run(verify_certificate(judged.id, judged.root, witnesses=[witness.key])).exit_code


def test_a_cosignature_over_http_satisfies_a_demand_for_the_witness(witness, judged_project):
    asyncio.run(publish_log(judged_project.root))
    assert exit_code(judged_project, witness) is ExitCode.UNDECIDED
    done = asked_of(witness, judged_project)
    assert [path for path, _ in witness.asked] == ["/w/add-checkpoint"]
    assert done.cosigned[0].checkpoint.size == 1
    assert exit_code(judged_project, witness) is ExitCode.DONE


def test_a_witness_that_has_seen_another_size_gets_the_proof_from_there(witness, judged_project):
    done = asked_of(witness, judged_project)
    judge(judged_project.root)
    for path in done.folder.glob("*.checkpoint"):
        path.unlink()
    done = asked_of(witness, judged_project)
    assert [data.partition(b"\n")[0] for _, data in witness.asked] == [b"old 0", b"old 0", b"old 1"]
    assert done.cosigned[0].checkpoint.size == 2
    assert exit_code(judged_project, witness) is ExitCode.DONE


def dripping():
    for _ in range(100):
        yield b"x"
        time.sleep(0.05)


ANSWERS = {
    "a redirect": (307, b"", {"location": "http://127.0.0.1:1/elsewhere"}, EvidenceError, "HTTP status 307"),
    "no cosignature": (200, b"hello\n", {}, EvidenceError, "is not a cosignature"),
    "nothing": (200, b"", {}, EvidenceError, "is not a cosignature"),
    "not UTF-8": (200, b"\xff\n", {}, EvidenceError, "is not a cosignature"),
    "a flood": (200, b"x" * 2**20, {}, EvidenceError, "more than 65536 bytes"),
    "a large error": (500, b"x" * 2**20, {}, EvidenceError, "more than 65536 bytes"),
    "an unknown log": (404, b"", {}, EvidenceError, "it does not know the log"),
    "a refused proof": (422, b"", {}, EvidenceError, "it refuses the consistency proof"),
    "a size that is none": (409, b"many\n", {}, EvidenceError, "without the size"),
    "more entries than there are": (409, b"99\n", {}, IntegrityError, "has seen 99 entries of the log, which has 1"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_is_no_cosignature_is_refused_and_nothing_is_stored(witness, judged_project, name):
    status, body, headers, error, problem = ANSWERS[name]
    witness.answer = lambda _: (status, body, headers)
    with pytest.raises(error, match=problem):
        asked_of(witness, judged_project)
    assert not list(judged_project.root.rglob("*.checkpoint"))


def test_the_cosignature_of_another_key_is_refused(witness, judged_project, home, tmp_path, monkeypatch):
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "other"))
    other = export_key(KeyFormat.WITNESS)
    monkeypatch.setenv("ESPER_HOME", str(home))
    with pytest.raises(EvidenceError, match="no demanded witness signed"):
        asyncio.run(request_cosignature(witness.url, [other], judged_project.root))


def test_a_witness_that_answers_byte_by_byte_is_left_in_time(witness, judged_project, monkeypatch):
    monkeypatch.setattr(witness_client, "_PATIENCE_S", 0.2)
    witness.answer = lambda _: (200, dripping(), {})
    with pytest.raises(EvidenceError, match="too slowly"):
        asked_of(witness, judged_project)


@pytest.fixture
def stalling():
    """A server that sends what it is told, byte by byte or again and again, and never ends its answer."""
    done = threading.Event()
    parts = []

    class Stalling(BaseRequestHandler):
        def handle(self):
            self.request.recv(2**16)
            try:
                self.request.sendall(parts[0])
                while not done.wait(0.05):
                    self.request.sendall(parts[1])
            except OSError:
                pass

    with ThreadingTCPServer(("127.0.0.1", 0), Stalling) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", parts
        done.set()
        server.shutdown()


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "answer",
    [
        (b"HTTP/1.1 200 OK\r\nX: ", b"a"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 409 Conflict\r\nContent-Length: 100\r\n\r\n5", b""),
    ],
)
def test_a_witness_that_never_ends_its_answer_is_left_in_time(witness, judged_project, stalling, monkeypatch, answer):
    monkeypatch.setattr(witness_client, "_PATIENCE_S", 0.5)
    url, parts = stalling
    parts += answer
    with pytest.raises(EvidenceError, match="too slowly"):
        asyncio.run(request_cosignature(url, [witness.key], judged_project.root))


def test_an_error_whose_body_stalls_is_an_error_with_a_remedy(witness, judged_project, stalling, monkeypatch):
    monkeypatch.setattr(witness_client, "_TIMEOUT_S", 0.2)
    url, parts = stalling
    parts += [b"HTTP/1.1 409 Conflict\r\nContent-Length: 100\r\n\r\n5", b""]
    with pytest.raises(EvidenceError, match="does not answer"):
        asyncio.run(request_cosignature(url, [witness.key], judged_project.root))


def test_a_name_that_is_no_host_is_an_error_with_a_remedy(witness, judged_project):
    with pytest.raises(EvidenceError, match="does not answer"):
        asyncio.run(request_cosignature(f"https://{'a' * 70}.invalid", [witness.key], judged_project.root))


def test_a_cosignature_of_a_longer_text_is_refused(witness, judged_project):
    def longer(data):
        note = read_request(data).signed
        text = f"{note.text}\nmore\n"
        signed = cosigned(f"{text}\n{signature_line(note.signatures[0])}", signing_key(witness.home), 1_800_000_000)
        return 200, signed.removeprefix(f"{note.text}\n").encode(), {}

    witness.answer = longer
    with pytest.raises(EvidenceError, match="is not a cosignature"):
        asked_of(witness, judged_project)
    assert not list(judged_project.root.rglob("*.checkpoint"))


def test_a_witness_that_is_not_there_is_an_error_with_a_remedy(judged_project, witness):
    with pytest.raises(EvidenceError, match="does not answer"):
        asyncio.run(request_cosignature("http://127.0.0.1:9/", [witness.key], judged_project.root))


@pytest.mark.parametrize(
    "url",
    [
        *("http://example.org", "file:///etc/passwd", "ftp://example.org", "https://", "x", "", "https://u:p@host/"),
        *(
            "https://host/?a=b",
            "https://host/#x",
            "http://127.0.0.1.nip.io/",
            "https://host:port/",
            "http://localhost/\u00e9",
        ),
    ],
)
def test_an_address_that_is_not_of_a_witness_is_refused(judged_project, witness, url):
    with pytest.raises(UsageError, match="is not the URL of a witness"):
        asyncio.run(request_cosignature(url, [witness.key], judged_project.root))


def test_without_a_key_nothing_is_asked(witness, judged_project):
    with pytest.raises(UsageError, match="no key of a witness"):
        asyncio.run(request_cosignature(witness.url, [], judged_project.root))
    assert witness.asked == []
