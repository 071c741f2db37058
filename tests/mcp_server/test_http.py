"""The server over HTTP: only the holder of the token, on this machine, from no web page."""

from __future__ import annotations

import signal
import subprocess

import httpx2
import pytest
from fork_server import ESPER
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from places import FAULTY, PATIENCE_S, environment

pytestmark = pytest.mark.anyio
TOKEN = "chosen-by-the-user"  # noqa: S105 - of the test
ASK = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


@pytest.fixture
def server(make_project, home):
    project = make_project({"train.py": FAULTY})
    command = [ESPER, "mcp", "--project", project, "--http"]
    process = subprocess.Popen(command, env=environment(home), stdin=-3, stdout=-1, stderr=-1, text=True)
    try:
        url = process.stderr.readline().removeprefix("serving ").strip()
        token = process.stderr.readline().removeprefix("token ").strip()
        yield process, url, token
    finally:
        process.kill()
        process.communicate()


def with_token(token, **more):
    return {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream", **more}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_with_the_token_is_served(server, mode):
    _, url, token = server
    assert url.startswith("http://127.0.0.1:")
    assert len(token) >= 32
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        found = await client.call_tool("review", {"paths": ["train.py"]})
        assert found.structured_content["files"] == 1
        # Short results pass the limit of an event.
        assert len(found.content[0].text) < 20_000


def test_others_are_refused_and_a_signal_ends_the_server(server):
    process, url, token = server
    with httpx2.Client(timeout=PATIENCE_S) as http:
        wrong = [{}, {"Authorization": token}, with_token("x"), with_token(token[:-1]), with_token(token + "é")]
        for headers in wrong:
            raw = [(name, text.encode("utf-8")) for name, text in headers.items()]
            refused = http.post(url, json=ASK, headers=raw)
            assert (refused.status_code, token in refused.text) == (401, False)
        both = [("Authorization", b"Bearer x"), ("Authorization", f"Bearer {token}".encode())]
        assert http.post(url, json=ASK, headers=both).status_code == 401
        assert http.post(url, json=ASK, headers=with_token(token, Host="evil.example")).status_code == 421
        assert http.post(url, json=ASK, headers=with_token(token, Origin="http://evil.example")).status_code == 403
        large = http.post(url, content=b"x" * 10_000_000, headers=with_token(token))
        assert large.status_code == 413
        assert http.get(url.removesuffix("/mcp"), headers=with_token(token)).status_code == 404
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 0
    assert "Traceback" not in process.stderr.read()


def test_the_token_can_be_chosen_and_a_port_that_is_taken_is_an_error(server, home, make_project):
    _, url, _ = server
    port = url.rpartition(":")[2].removesuffix("/mcp")
    project = make_project({"train.py": FAULTY}, name="other")
    command = [ESPER, "mcp", "--project", project, "--http", "--port", port]
    given = environment(home, ESPER_MCP_TOKEN=TOKEN)
    taken = subprocess.run(command, env=given, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert taken.returncode == 2
    problem, fix = taken.stderr.splitlines()
    assert problem == f"esper: port {port} cannot be used: Address already in use"
    assert fix == "  fix: esper mcp --http --port 0"
    process = subprocess.Popen([*command[:-2]], env=given, stdin=-3, stdout=-1, stderr=-1, text=True)
    process.stderr.readline()
    assert process.stderr.readline() == f"token {TOKEN}\n"
    process.kill()
    process.communicate()
