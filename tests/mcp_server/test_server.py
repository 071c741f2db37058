"""The MCP server as clients see it: a process, the official client, both protocol versions."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from contextlib import asynccontextmanager, suppress

import psutil
import pytest
from fork_server import ESPER
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from places import FAULTY, PATIENCE_S, environment, write

from esper_agents.mcp_server.results import MOST_BYTES
from esper_agents.mcp_server.server import INSTRUCTIONS, build_server
from esper_agents.mcp_server.server_project import ServerProject

pytestmark = pytest.mark.anyio

READ_ONLY = {
    *("review", "suggest_fixes", "explain_rule", "explain_trace", "get_session", "pending_questions"),
    *("search_certificates", "show_certificate", "verify_certificate", "gate"),
}
RUNNING = {
    *("compare", "profile", "explain_compile", "find_memory_growth", "find_nan", "scaffold_harness"),
    *("submit_task", "submit_claim", "answer_question", "cancel_session"),
}
HANGS = "import time\n\ndef hangs():\n    open('/dev/null')\n    time.sleep(600)\n"
TRACE = "RuntimeError: Trying to backward through the graph a second time"


def parameters(project, home, *options):
    arguments = ["mcp", "--project", str(project), *options]
    return StdioServerParameters(command=str(ESPER), args=arguments, env=environment(home))


@asynccontextmanager
async def in_process(project):
    """Yield a client of a server in this process."""
    async with ServerProject(project) as served, Client(build_server(served)) as client:
        yield client


async def ask(client, name, **arguments):
    """Return the structured result of a call, after making sure that its text says the same in few bytes."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content[0].text
    text = result.content[0].text
    assert json.loads(text) == result.structured_content
    assert len(text.encode()) <= MOST_BYTES
    return result.structured_content


async def refusal(client, name, **arguments):
    """Return the problem and the fix of a refused call."""
    result = await client.call_tool(name, arguments)
    assert result.is_error
    text = result.content[0].text
    assert "Traceback" not in text
    return text


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_of_either_protocol_reviews_explains_and_reads_over_a_process(make_project, home, mode):
    project = make_project({"train.py": FAULTY})
    async with Client(parameters(project, home), mode=mode) as client:
        assert client.instructions == INSTRUCTIONS
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {name for name, each in tools.items() if each.annotations.read_only_hint} == READ_ONLY
        assert {name for name, each in tools.items() if not each.annotations.read_only_hint} == RUNNING
        assert not any(tool.annotations.destructive_hint for tool in tools.values())
        assert not [name for name, each in tools.items() if not each.output_schema]
        found = await ask(client, "review", paths=["train.py"])
        assert found["files"] == 1
        assert found["findings"][0]["at"] == "train.py:5"
        explained = await ask(client, "explain_rule", rule=found["findings"][0]["rule"])
        assert explained["code"] == found["findings"][0]["rule"]
        assert "graph" in (await ask(client, "explain_trace", text=TRACE))["answer"] + TRACE
        page = await client.read_resource(f"esper://rule/{explained['code']}")
        assert page.contents[0].text.startswith(f"# {explained['code']}")
        assert "outside the project" in await refusal(client, "review", paths=["../elsewhere"])


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_task_becomes_a_certificate_that_can_be_searched_shown_verified_and_gated(make_project, home, mode):
    project = make_project({"train.py": FAULTY})
    async with Client(parameters(project, home), mode=mode) as client:
        session = await ask(client, "submit_task", request="review this training code", paths=["train.py"], wait_s=120)
        assert (session["state"], session["status"]) == ("done", "REQUIRES_REMEDIATION")
        assert session["because"][0].startswith("train.py:")
        certificate = session["certificate"]
        assert (await ask(client, "get_session", session=session["session"]))["certificate"] == certificate
        listed = await ask(client, "search_certificates", words="training", path="train.py")
        assert [each["id"] for each in listed["certificates"]] == [certificate]
        shown = await ask(client, "show_certificate")
        assert (shown["id"], shown["resource"]) == (certificate, f"esper://certificate/{certificate}")
        whole = await client.read_resource(shown["resource"])
        assert certificate in whole.contents[0].text
        assert (await ask(client, "verify_certificate"))["result"] == "valid"
        gate = await ask(client, "gate", paths=["train.py"])
        assert (gate["is_passed"], gate["files"][0]["state"]) == (False, "against")
        (project / "train.py").write_text(FAULTY + "\n# later\n")
        verified = await ask(client, "verify_certificate", certificate=certificate)
        assert (verified["result"], verified["changed_files"]) == ("not current", ["train.py: stale"])


async def test_paths_outside_the_project_are_refused_by_every_tool(make_project, tmp_path):
    project = make_project({"train.py": FAULTY})
    (tmp_path / "other.py").write_text(FAULTY)
    (project / "link.py").symlink_to(tmp_path / "other.py")
    outside = ("../other.py", str(tmp_path / "other.py"), "link.py", "~/other.py/../../../etc/passwd", "a\0b")
    async with in_process(project) as client:
        for path in outside:
            for name, arguments in (
                ("review", {"paths": [path]}),
                ("suggest_fixes", {"paths": [path]}),
                ("explain_trace", {"log": path}),
                ("submit_task", {"request": "review this", "paths": [path]}),
                ("gate", {"paths": [path]}),
                ("search_certificates", {"path": path}),
                ("verify_certificate", {"certificate": path}),
                ("compare", {"baseline": f"{path}:f", "candidate": "train.py:g"}),
                ("compare", {"baseline": "train.py:f", "candidate": "train.py:g", "inputs_from": f"{path}:make"}),
                ("profile", {"target": f"{path}:f"}),
                ("find_memory_growth", {"target": f"{path}:f"}),
                ("find_nan", {"target": f"{path}:f"}),
                ("explain_compile", {"target": f"{path}:f"}),
                ("scaffold_harness", {"target": f"{path}:f"}),
                ("submit_claim", {"kind": "leak", "target": f"{path}:f"}),
            ):
                text = await refusal(client, name, **arguments)
                assert "\nfix: " in text, (name, path, text)


async def test_wrong_arguments_are_refused_with_what_to_do(make_project):
    project = make_project({"train.py": FAULTY})
    async with in_process(project) as client:
        assert "not a revision" in await refusal(client, "review", diff="--output=x")
        assert "not a revision" in await refusal(client, "gate", diff="--help")
        assert "no rule" in await refusal(client, "explain_rule", rule="ESP999")
        assert "names no target" in await refusal(client, "profile", target="train.py:f; rm -rf /")
        assert "names no target" in await refusal(client, "profile", target="train")
        assert "candidate is missing" in await refusal(client, "compare", baseline="train.py:train")
        assert "needs a baseline" in await refusal(client, "submit_claim", kind="speedup", target="train.py:train")
        assert "no session" in await refusal(client, "get_session", session="ses_0000")
        assert "no pending question" in await refusal(client, "answer_question", question="qst_000000")
        assert "1,000,000 characters" in await refusal(client, "explain_trace", text="x" * 1_000_001)
        assert "another call" in await refusal(client, "review", paths=["train.py"], cursor="abc")
        assert "limit" in await refusal(client, "review", limit=0)
        with pytest.raises(MCPError):
            await client.read_resource("esper://report/..%2F..%2Fkeys")


async def test_a_long_result_comes_in_pages_that_together_are_the_whole(make_project):
    project = make_project({f"part_{number:03}.py": FAULTY for number in range(60)})
    async with in_process(project) as client:
        page = await ask(client, "review", limit=100)
        rows, pages = page["findings"], 1
        while cursor := page.get("next_cursor"):
            page = await ask(client, "review", limit=100, cursor=cursor)
            rows += page["findings"]
            pages += 1
        assert pages > 1
        assert len(rows) == page["total"]
        assert len({(row["rule"], row["at"], row["message"]) for row in rows}) == len(rows)
        first = await ask(client, "review", limit=1)
        text = await refusal(client, "review", limit=1, cursor=first["next_cursor"], severity="critical")
        assert "another call" in text


async def test_only_what_a_change_introduces_is_listed_for_a_diff(make_project, git):
    project = make_project({"train.py": FAULTY, "other.py": "x = 1\n"})
    write(project, {"other.py": FAULTY.replace("total += loss", "total += loss.item()")})
    async with in_process(project) as client:
        found = await ask(client, "review", diff="HEAD")
        assert {each["at"].partition(":")[0] for each in found["findings"]} == {"other.py"}


async def test_a_hundred_calls_at_once_are_all_answered(make_project):
    project = make_project({"train.py": FAULTY})
    async with in_process(project) as client:
        calls = [ask(client, "review", paths=["train.py"]) for _ in range(50)]
        calls += [ask(client, "explain_rule", rule="ESP305") for _ in range(50)]
        answers = await asyncio.gather(*calls)
    assert len({json.dumps(answer, sort_keys=True) for answer in answers}) == 2


class Pipe:
    """A server process and its pipes, without a client of the SDK."""

    def __init__(self, project, home):
        given = parameters(project, home)
        command = [given.command, *given.args]
        self.process = subprocess.Popen(command, env=given.env, stdin=-1, stdout=-1, stderr=-1)
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        self.send(id=0, method="initialize", params=about)
        assert self.answer()["id"] == 0
        self.send(method="notifications/initialized")

    def send(self, **message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def call(self, identifier, name, **arguments):
        self.send(id=identifier, method="tools/call", params={"name": name, "arguments": arguments})

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def children(self):
        return psutil.Process(self.process.pid).children(recursive=True)

    def until_it_measures(self):
        """Return the processes of a measurement once they run."""
        end = time.monotonic() + PATIENCE_S
        while not (found := self.children()):
            assert time.monotonic() < end, "nothing was started"
            assert self.process.poll() is None, self.process.stderr.read()
            time.sleep(0.05)
        time.sleep(1)
        return [*found, *self.children()]

    def close(self):
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with suppress(BrokenPipeError):
                stream.close()


@pytest.fixture
def pipe(make_project, home):
    opened = Pipe(make_project({"train.py": FAULTY, "slow.py": HANGS}), home)
    yield opened
    opened.close()


def is_gone(processes):
    _, alive = psutil.wait_procs(processes, timeout=30)
    return not [each for each in alive if each.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.torch
def test_a_cancelled_measurement_leaves_no_process_and_the_server_goes_on(pipe):
    pipe.call(1, "profile", target="slow.py:hangs")
    started = pipe.until_it_measures()
    pipe.send(method="notifications/cancelled", params={"requestId": 1})
    assert is_gone(started)
    pipe.call(2, "explain_rule", rule="ESP305")
    while (answer := pipe.answer()).get("id") != 2:
        assert answer.get("id") in {None, 1}
    assert not answer["result"]["isError"]


@pytest.mark.torch
@pytest.mark.parametrize("ends", [pytest.param("closes", marks=pytest.mark.slow), "terminates"])
def test_a_client_that_goes_away_ends_the_server_and_its_processes(pipe, ends):
    pipe.call(1, "profile", target="slow.py:hangs")
    started = pipe.until_it_measures()
    if ends == "closes":
        pipe.process.stdin.close()
        pipe.process.stdout.close()
    else:
        pipe.process.send_signal(signal.SIGTERM)
    assert pipe.process.wait(PATIENCE_S) == 0
    assert is_gone(started)
    assert "Traceback" not in pipe.process.stderr.read().decode()


def test_messages_that_are_no_requests_do_not_end_the_server(pipe):
    pipe.process.stdin.write(b"not json\n\xff\xfe\n[]\n{}\n" + b"x" * 10_000_000 + b"\n")
    pipe.call(1, "explain_trace", text="x" * 10_000_000)
    pipe.call(2, "explain_rule", rule="ESP305")
    pipe.call(2, "explain_rule", rule="ESP101")
    pipe.call(3, "no_such_tool")
    pipe.call(4, "explain_rule", rule="ESP305")
    answers = {}
    while 4 not in answers or 3 not in answers or 1 not in answers:
        found = pipe.answer()
        answers[found.get("id")] = found
    assert answers[1]["result"]["isError"]
    assert answers[3]["error" if "error" in answers[3] else "result"]
    assert not answers[4]["result"]["isError"]
    pipe.process.stdin.close()
    assert pipe.process.wait(PATIENCE_S) == 0


def test_a_flood_that_is_never_read_is_bounded_and_its_server_ends_with_the_client(pipe):
    server = psutil.Process(pipe.process.pid)
    before = server.memory_info().rss
    os.set_blocking(pipe.process.stdin.fileno(), False)
    ask = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/list"}).encode() + b"\n"
    sent, end = 0, time.monotonic() + 10
    while sent < 20_000 and time.monotonic() < end:
        try:
            sent += os.write(pipe.process.stdin.fileno(), ask) > 0
        except BlockingIOError:
            time.sleep(0.01)
    assert sent > 500
    assert server.memory_info().rss - before < 100_000_000
    pipe.process.stdin.close()
    pipe.process.stdout.close()
    assert pipe.process.wait(PATIENCE_S) == 0
    assert "Traceback" not in pipe.process.stderr.read().decode()


@pytest.mark.slow
@pytest.mark.torch
def test_two_calls_in_progress_with_one_id_leave_no_process_behind(pipe):
    pipe.call(1, "profile", target="slow.py:hangs")
    pipe.call(1, "profile", target="slow.py:hangs")
    started = pipe.until_it_measures()
    pipe.call(2, "explain_rule", rule="ESP305")
    while (answer := pipe.answer()).get("id") != 2:
        pass
    assert not answer["result"]["isError"]
    pipe.process.stdin.close()
    pipe.process.stdout.close()
    assert pipe.process.wait(PATIENCE_S) == 0
    assert is_gone(started)


def test_a_folder_without_a_project_is_refused_before_the_server_starts(tmp_path, home):
    given = parameters(tmp_path, home)
    ran = subprocess.run(
        [given.command, *given.args],
        env=given.env,
        capture_output=True,
        text=True,
        stdin=-3,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 2
    problem, fix = ran.stderr.splitlines()
    assert "is no project" in problem
    assert fix.startswith("  fix: name one: esper mcp --project")
    assert not ran.stdout


def test_secrets_in_the_environment_do_not_reach_the_client(make_project, monkeypatch):
    from esper_agents.mcp_server.calls import answered
    from esper_agents.mcp_server.results import TraceAnswer

    monkeypatch.setenv("SERVICE_TOKEN", "correct-horse-battery-staple-9")
    found = "found correct-horse-battery-staple-9"
    result = answered(TraceAnswer(found, "", "", "", is_cause_certain=False, family=""))
    assert "correct-horse" not in result.content[0].text + json.dumps(result.structured_content)
