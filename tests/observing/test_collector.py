"""Spans on their way to a collector that understands the protocol, and to some that do not take them."""

from __future__ import annotations

import socket
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from span_samples import CHAT, ROOT

from esper_agents.errors import EsperError, UsageError
from esper_agents.observing.collector import address_of, host_of, send


class Collector(ThreadingHTTPServer):
    """Keeps every request it gets, and answers each with the same status."""

    def __init__(self, status, answer):
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = status
        self.answer = answer
        self.got = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def spans(self):
        """Return the spans of every request, as the protocol has them."""
        found = []
        for _, _, body in self.got:
            request = ExportTraceServiceRequest.FromString(body)
            found += [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
        return found


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((self.path, dict(self.headers), body))
        self.send_response(self.server.status)
        self.send_header("content-length", str(len(self.server.answer)))
        self.send_header("location", self.server.url + "/elsewhere")
        self.end_headers()
        self.wfile.write(self.server.answer)

    def log_message(self, *_):
        pass


@pytest.fixture
def start():
    """Return what starts a collector that answers with a status."""
    started = []

    def start_one(status=200, answer=b""):
        server = Collector(status, answer)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        started.append((server, thread))
        return server

    yield start_one
    for server, thread in started:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_collector_gets_the_spans_as_they_are(start):
    server = start()
    send([ROOT, CHAT], address_of(server.url))
    ((path, headers, _),) = server.got
    assert (path, headers["content-type"]) == ("/v1/traces", "application/x-protobuf")
    root, chat = server.spans
    assert (root.trace_id.hex(), root.span_id.hex(), root.parent_span_id) == (ROOT.trace, ROOT.id, b"")
    assert (root.start_time_unix_nano, root.end_time_unix_nano) == (ROOT.start_ns, ROOT.end_ns)
    assert (root.kind, root.status.code, chat.kind, chat.status.code) == (1, 0, 3, 2)
    (event,) = root.events
    assert (event.name, event.time_unix_nano) == ("esper.routed", ROOT.events[0].at_ns)
    (link,) = root.links
    assert (link.trace_id.hex(), link.span_id.hex()) == (ROOT.links[0].trace, ROOT.links[0].span)
    assert chat.parent_span_id == root.span_id
    told = {attribute.key: attribute.value for attribute in chat.attributes}
    assert told["gen_ai.usage.input_tokens"].int_value == 2**40
    assert [value.string_value for value in told["gen_ai.response.finish_reasons"].array_value.values] == ["end_turn"]


def test_who_made_the_spans_and_by_which_conventions_is_said(start):
    server = start()
    send([ROOT], address_of(server.url))
    (found,) = ExportTraceServiceRequest.FromString(server.got[0][2]).resource_spans
    assert {attribute.key for attribute in found.resource.attributes} == {"service.name", "service.version"}
    (scope,) = found.scope_spans
    assert (scope.scope.name, scope.schema_url) == (
        "esper-agents",
        "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev",
    )


def test_many_spans_go_in_several_requests_and_lines(start):
    server = start()
    many = [replace(CHAT, id=f"{number:016x}") for number in range(1, 1_301)]
    send(many, address_of(server.url))
    assert [span.span_id.hex() for span in server.spans] == [each.id for each in many]
    assert len(server.got) == 3


def test_what_authenticates_comes_from_the_environment(start, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=abc,x-team=torch")
    # Where to is what the person said now.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://192.0.2.1:4318")
    server = start()
    send([ROOT], address_of(server.url))
    ((_, headers, _),) = server.got
    assert (headers["x-api-key"], headers["x-team"]) == ("abc", "torch")


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (401, "401 Unauthorized"),
        (400, "400 Bad Request"),
        (503, "503 Service Unavailable"),
        (307, "307 Temporary Redirect"),
    ],
)
def test_a_collector_that_refuses_is_told_of_in_its_words(start, monkeypatch, capfd, status, why):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
    server = start(status)
    with pytest.raises(EsperError) as told:
        send([ROOT], address_of(server.url))
    assert told.value.problem == f"127.0.0.1:{server.server_port} did not accept the spans: {why}"
    assert capfd.readouterr().err == ""


def test_that_nobody_listens_is_told(monkeypatch, capfd):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        with pytest.raises(EsperError) as told:
            send([ROOT], address_of(f"http://name:password@127.0.0.1:{port}"))
    assert told.value.problem == f"127.0.0.1:{port} did not accept the spans: Connection refused"
    assert capfd.readouterr().err == ""


def test_a_collector_that_leaves_spans_out_is_told_of(start):
    left = ExportTraceServiceResponse(partial_success={"rejected_spans": 1, "error_message": "too old"})
    server = start(answer=left.SerializeToString())
    with pytest.raises(EsperError, match="did not accept the spans: 1 were rejected: too old"):
        send([ROOT, CHAT], address_of(server.url))


@pytest.mark.parametrize(
    ("status", "answer"),
    [(200, b""), (200, b"{}"), (202, b"thank you"), (200, ExportTraceServiceResponse().SerializeToString())],
)
def test_whatever_else_a_collector_says_when_it_took_them_is_no_matter(start, status, answer):
    server = start(status, answer)
    send([ROOT, CHAT], address_of(server.url))
    assert len(server.spans) == 2


def test_what_is_too_large_to_be_sent_is_told(start):
    server = start()
    huge = replace(CHAT, attributes={"text": "x" * 70_000_000})
    with pytest.raises(EsperError, match="did not accept the spans: nothing was sent"):
        send([*[CHAT] * 512, huge], address_of(server.url))
    assert len(server.spans) == 512


def test_long_content_goes_in_requests_that_collectors_take(start):
    server = start()
    long = [replace(CHAT, id=f"{number:016x}", attributes={"text": "x" * 900_000}) for number in range(1, 8)]
    send(long, address_of(server.url))
    assert len(server.spans) == 7
    assert max(len(body) for _, _, body in server.got) < 6_000_000


@pytest.mark.parametrize(
    ("name", "text"),
    [("OTEL_EXPORTER_OTLP_COMPRESSION", "brotli"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")],
)
def test_an_environment_that_cannot_be_is_refused(monkeypatch, name, text):
    monkeypatch.setenv(name, text)
    with pytest.raises(UsageError, match=text):
        send([ROOT], "http://127.0.0.1:9/v1/traces")


def test_a_certificate_that_is_not_there_is_told(monkeypatch, tmp_path):
    for each in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(tmp_path / "none.pem"))
    with pytest.raises(EsperError, match=r"did not accept the spans: .*none\.pem"):
        send([ROOT], "https://127.0.0.1:9/v1/traces")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("http://localhost:4318", "http://localhost:4318/v1/traces"),
        ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
        ("https://api.example.org/otlp/v1/traces", "https://api.example.org/otlp/v1/traces"),
        ("http://[::1]:4318?tenant=a", "http://[::1]:4318/v1/traces?tenant=a"),
    ],
)
def test_an_address_without_a_path_means_the_usual_one(given, meant):
    assert address_of(given) == meant


@pytest.mark.parametrize(
    "given",
    ["localhost:4318", "grpc://localhost:4317", "http://", "http://host:99999", "http://[", " http://a", "http://a\nb"],
)
def test_what_is_no_address_is_refused(given):
    with pytest.raises(UsageError, match="is not a collector URL"):
        address_of(given)


def test_a_name_and_password_are_not_shown():
    assert host_of("http://name:password@host:4318/v1/traces") == "host:4318"
