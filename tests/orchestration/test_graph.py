from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from langgraph.graph import END, START

from esper_agents.orchestration import graph
from esper_agents.orchestration.graph import build_graph, drive
from esper_agents.orchestration.next_node import GraphNode
from esper_agents.orchestration.session_projection import SessionProjection


def edges():
    return [(edge.source, edge.target) for edge in build_graph().get_graph().edges]


def reachable(start):
    seen, waiting = set(), [start]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting.extend(target for source, target in edges() if source == node)
    return seen


def test_every_path_to_the_end_passes_certify():
    assert {source for source, target in edges() if target == END} == {GraphNode.CERTIFY}


def test_certify_leads_nowhere_but_to_the_end():
    assert [target for source, target in edges() if source == GraphNode.CERTIFY] == [END]


def test_every_node_can_be_reached_and_every_node_reaches_the_end():
    nodes = set(build_graph().get_graph().nodes)
    assert nodes == {START, END, *map(str, GraphNode)}
    assert reachable(START) == nodes
    assert all(END in reachable(node) for node in nodes)


def test_a_run_may_enter_at_any_place_so_that_a_resumed_one_is_the_same_run():
    assert {target for source, target in edges() if source == START} == set(map(str, GraphNode))


TRACED = """
import asyncio, http.server, os, sys, threading

asked = []

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked.append(self.path)
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(202)
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ["LANGSMITH_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"
os.environ["LANGSMITH_TRACING"] = os.environ["LANGCHAIN_TRACING_V2"] = "true"
os.environ["LANGSMITH_API_KEY"] = "key"

from esper_agents.api import open_project
from langchain_core.tracers.langchain import wait_for_all_tracers

async def main():
    async with open_project(sys.argv[1]) as project:
        task = project.tasks.create("review this", [sys.argv[1] + "/train.py"])
        outcome = await (await project.tasks.submit(task)).run()
        print(outcome.state)

asyncio.run(main())
wait_for_all_tracers()
print(asked)
"""


# tests/e2e/test_no_telemetry.py states it of the command, whatever is asked to trace.
@pytest.mark.slow
def test_nothing_of_a_session_is_traced_to_anywhere_even_when_the_environment_asks_for_it(project):
    command = [sys.executable, "-c", TRACED, str(project)]
    assert subprocess.check_output(command, text=True).splitlines() == ["done", "[]"]


@pytest.mark.anyio
async def test_an_edge_to_a_name_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.setattr(graph, "where", lambda _history: "elsewhere")
    run = SimpleNamespace(session="ses_1", history=SessionProjection("ses_1"), lease=SimpleNamespace(attempt=1))
    with pytest.raises(KeyError, match="elsewhere"):
        await drive(build_graph(), run)
