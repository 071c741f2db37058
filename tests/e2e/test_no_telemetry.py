"""Nothing is told to anybody of what the program does, whatever the environment asks for."""

from __future__ import annotations

import subprocess
import sys
from urllib.parse import urlsplit

import pytest
from places import PATIENCE_S, SOUND, environment

from esper_agents.testing import MessagesServer, ToolUseBlock

# Nobody's address: what is sent there is lost, and every attempt is noted.
ELSEWHERE = "http://192.0.2.1:4318"
# What makes programs that trace themselves do so: OpenTelemetry, LangSmith, LangChain and the anthropic SDK.
ASKING = {
    "OTEL_EXPORTER_OTLP_ENDPOINT": ELSEWHERE,
    "OTEL_TRACES_EXPORTER": "otlp",
    "OTEL_METRICS_EXPORTER": "otlp",
    "OTEL_LOGS_EXPORTER": "otlp",
    "OTEL_PYTHON_TRACER_PROVIDER": "sdk_tracer_provider",
    "LANGSMITH_TRACING": "true",
    "LANGSMITH_TRACING_V2": "true",
    "LANGSMITH_ENDPOINT": ELSEWHERE,
    "LANGSMITH_API_KEY": "key",
    "LANGSMITH_OTEL_ENABLED": "true",
    "LANGCHAIN_TRACING": "true",
    "LANGCHAIN_TRACING_V2": "true",
    "LANGCHAIN_ENDPOINT": ELSEWHERE,
    "LANGCHAIN_API_KEY": "key",
    "ANTHROPIC_OPEN_TELEMETRY": "true",
    "ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE": "content",
    "ANTHROPIC_OPEN_TELEMETRY_PROPAGATION": "true",
}
# Runs at the start of every Python process of the command, before anything else of it.
WATCH = """
import os
import sys

NAMES = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}
SENDING = {"socket.connect", "socket.sendto", "socket.sendmsg"}
allowed = os.environ["ALLOWED"]


def watch(event, arguments):
    if event in SENDING:
        where = arguments[1]
        # Anything but a host and a port stays on this machine.
        said = ":".join(map(str, where[:2])) if isinstance(where, tuple) and isinstance(where[0], str) else ""
    elif event in NAMES:
        said = ":".join(map(str, arguments[:2])) if event == "socket.getaddrinfo" else str(arguments[0])
    else:
        return
    if said and said != allowed:
        with open(os.environ["NOTED"], "a") as file:
            file.write(said + "\\n")
        raise ConnectionRefusedError(said)


sys.addaudithook(watch)
"""


@pytest.fixture
def watched(tmp_path):
    """Return the environment in which everything asks for telemetry and nothing but one address may be reached."""
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch/sitecustomize.py").write_text(WATCH)
    (tmp_path / "noted").touch()
    return {**ASKING, "PYTHONPATH": tmp_path / "watch", "NOTED": tmp_path / "noted", "ALLOWED": ""}


def noted(watched):
    return watched["NOTED"].read_text().splitlines()


@pytest.mark.parametrize(
    "trying",
    [
        "import urllib.request; urllib.request.urlopen('http://192.0.2.1:4318')",
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 4318))",
        "import requests; requests.post('http://192.0.2.1:4318')",
    ],
)
def test_an_attempt_to_reach_somebody_would_be_noticed(watched, tmp_path, trying):
    command = [sys.executable, "-c", trying]
    done = subprocess.run(
        command, env=environment(tmp_path, **watched), capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode
    assert noted(watched) == ["192.0.2.1:4318"]


def test_a_whole_session_reaches_nobody(place, watched):
    made = place({"train.py": SOUND})
    made.esper("submit", "review this training code", "train.py", env=watched, code=0)
    made.esper("sessions", "show", "latest", env=watched, code=0)
    made.esper("trace", "latest", env=watched, code=0)
    assert made.rows("SELECT state FROM session") == [("done",)]
    assert noted(watched) == []


@pytest.mark.slow
def test_a_session_that_asks_a_model_reaches_the_server_of_that_model_alone(place, watched):
    made = place({"train.py": SOUND})
    with MessagesServer(lambda _: ToolUseBlock("conclude", {"summary": "It is fine."})) as server:
        host = urlsplit(server.url).netloc
        asking = {**watched, **server.environment, "ALLOWED": host}
        made.esper("models", "agree", host, env=asking, code=0)
        done = made.esper("submit", "--reasoner", "claude", "review this training code", "train.py", env=asking)
    assert (done.code, noted(watched)) == (0, []), done.stderr
    assert server.requests
    # The SDK would make spans of its own, and name them to the server.
    assert not [request for request in server.requests if "traceparent" in request.headers]
    (line,) = made.esper("trace", "latest", env=watched, code=0).stdout.splitlines()
    assert '"name":"chat ' in line


@pytest.mark.slow
def test_the_same_request_made_by_the_sdk_as_it_comes_would_name_its_spans(watched, tmp_path):
    asking = (
        "import anthropic; anthropic.Anthropic().messages.create("
        "model='claude-opus-4-8', max_tokens=9, messages=[{'role': 'user', 'content': 'hello'}])"
    )
    with MessagesServer(lambda _: ToolUseBlock("conclude", {})) as server:
        env = environment(tmp_path, **{**watched, **server.environment, "ALLOWED": urlsplit(server.url).netloc})
        subprocess.run([sys.executable, "-c", asking], env=env, timeout=PATIENCE_S, check=True)
    assert [request for request in server.requests if "traceparent" in request.headers]


@pytest.mark.slow
def test_only_the_command_that_makes_spans_loads_what_makes_them(known):
    shown = {"PYTHONPROFILEIMPORTTIME": "1"}
    for words, is_needed in ((("submit", "review this training code", "sound.py"), False), (("trace",), True)):
        done = known.esper(*words, env=shown, code=0)
        loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        assert ("google.protobuf" in loaded) is is_needed
        assert ("opentelemetry.exporter" in loaded) is is_needed
