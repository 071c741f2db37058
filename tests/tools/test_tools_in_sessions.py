"""What a definition that names Claude Code's tools is offered, and what becomes of the calls, in real sessions."""

from __future__ import annotations

import json

import pytest
from toys import calls

from esper_agents.domain.agent_action import CallTools, Conclude, ToolCall
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.ledger import Refusal
from esper_agents.domain.session import SessionState
from esper_agents.storage.artifacts import Artifacts

pytestmark = pytest.mark.anyio
REPRODUCE = "reproduce-evidence"


def one_by_one(*wanted, seen):
    """Return a playbook that makes calls one after another and keeps what came of each."""

    def play(brief):
        seen.append({tool.name for tool in brief.tools})
        for name, arguments in wanted:
            result = yield CallTools((ToolCall(name, arguments),))
            seen.append(result)
        return Conclude("done")

    return play


def evidence_of(result):
    return result[0].evidence if isinstance(result, tuple) else result.evidence


async def test_an_agent_of_claude_code_is_offered_what_its_tools_come_to_and_no_more(toybox):
    seen = []
    play = one_by_one(("git-log", {}), ("shell", {"command": "ls"}), ("Bash", {"command": "ls"}), seen=seen)
    toybox.agent("stranger", play, tools="Read, Bash(git log:*), WebFetch, mcp__x__y")
    await toybox.run("stranger")
    offered, log, shell, bash = seen
    assert {"read-file", "git-log", "memory", "search-files"} <= offered
    assert not offered & {"shell", "write-file", "edit-file", "run-python", "run-tests", "torch-compare"}
    assert evidence_of(log).output["commits"][0]["subject"] == "first"
    for refused, name in ((shell, "shell"), (bash, "Bash")):
        assert isinstance(refused, Refusal)
        assert refused.reasons[0].startswith(f"stranger has no tool {name!r}")


async def test_our_own_agents_are_offered_what_they_name_and_nothing_else(toybox):
    async with toybox.open() as opened:
        services = opened.services
        for agent in services.agents.agents.values():
            assert [tool.name for tool in services.tools.named(agent.tools)] == sorted(
                agent.tools or services.tools.tools
            )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("write-file", {"path": "new.py", "content": "x = 1\n"}),
        ("edit-file", {"path": "train.py", "old_string": "import torch", "new_string": "import torch as t"}),
        ("shell", {"command": "echo done"}),
    ],
)
async def test_nothing_is_written_and_no_shell_runs_before_a_person_agreed(toybox, name, arguments):
    seen = []
    toybox.agent("writer", one_by_one((name, arguments), seen=seen), tools="Write, Edit, Bash")
    async with toybox.open() as opened:
        outcome = await (await toybox.submit(opened, "writer")).run()
        assert outcome.state is SessionState.WAITING
        assert [question.tool for question in outcome.questions] == [name]
        before = sorted((path.name, path.read_bytes()) for path in toybox.project.glob("*.py"))
        assert dict(before)["train.py"].startswith(b"import torch\n")
        assert "new.py" not in dict(before)
        await (await opened.approvals.answer(outcome.questions[0].id, "approve")).run()
    done = evidence_of(seen[-1])
    assert done.outcome is CallOutcome.COMPLETED
    if name == "shell":
        assert done.output["printed"] == "done\n"
    else:
        assert [each.path for each in done.examined] == [arguments["path"]]
        assert (toybox.project / arguments["path"]).read_bytes() != dict(before).get(arguments["path"])


async def test_a_long_result_can_be_read_to_its_end_in_the_same_session(toybox):
    seen = []

    def play(_brief):
        read = yield calls("read-file", path="long.txt")
        (whole,) = evidence_of(read).artifacts
        seen.append((evidence_of(read), whole))
        page = yield calls("read-artifact", sha256=whole.sha256, find="line 00399")
        seen.append(evidence_of(page))
        return Conclude("read")

    toybox.agent("reader", play)
    (toybox.project / "long.txt").write_text("".join(f"line {number:05} {'x' * 60}\n" for number in range(5_000)))
    async with toybox.open() as opened:
        await (await toybox.submit(opened, "reader")).run()
        folder = opened.services.home / "artifacts"
    (read, whole), page = seen
    assert whole.sha256 == read.output_sha256
    assert json.loads(Artifacts(folder).path(whole.sha256).read_bytes()) == read.output
    assert page.output["text"].startswith("line 00399 xxx")


async def test_what_reads_or_runs_in_the_sandbox_comes_out_again_after_the_code_has_moved_on(toybox, git):
    wanted = (
        ("find-files", {"pattern": "**/*.py"}),
        ("search-files", {"pattern": "^import"}),
        ("git-log", {}),
        ("git-blame", {"path": "train.py"}),
        ("run-python", {"code": "import os\nprint(os.getcwd(), len(open('train.py').read()), {'a', 'b', 'c'})"}),
        ("memory", {"command": "view", "path": "/memories"}),
    )
    seen = []
    toybox.agent("reader", one_by_one(*wanted, seen=seen))
    ran = await toybox.run("reader")
    (toybox.project / "train.py").write_text("x = 1\n")
    (toybox.project / "new.py").write_text("import x\n")
    git(toybox.project, "add", "-A")
    git(toybox.project, "commit", "-qm", "second")
    outcomes = {}
    async with toybox.open() as opened:
        for each in ran.certificate.evidence:
            given = {"certificate": ran.certificate.id, "evidence": each.id}
            found = await opened.services.tools.get(REPRODUCE).run(opened.services.context, given)
            outcomes[each.tool] = (found.output["outcome"], found.output["why"])
    assert {name: outcome for name, (outcome, _) in outcomes.items()} == {
        **{name: "reproduced" for name, _ in wanted},
        "memory": "not run",
    }, outcomes


async def test_our_own_agents_have_every_tool_that_changes_nothing_outside_a_copy(toybox):
    async with toybox.open() as opened:
        tools = opened.services.tools
        changing = {"write-file", "edit-file", "shell"}
        for agent in opened.services.agents.agents.values():
            if agent.tools is not None:
                assert {tool.name for tool in tools.named(agent.tools)} == set(tools.tools) - changing, agent.name
