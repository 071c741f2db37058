from __future__ import annotations

import pytest
from toys import calls

from esper_agents.domain.agent_action import Conclude
from esper_agents.domain.memory import NoteKind
from esper_agents.errors import EvidenceError, UsageError
from esper_agents.tools.memory import memory
from esper_agents.tools.tool import ToolContext

pytestmark = pytest.mark.anyio
FILE = "/memories/shapes.md"


@pytest.fixture
def remembering(toybox):
    """Return what runs memory commands as an agent in a session and returns what was said."""

    async def run(*commands, agent="reviewer"):
        said = []

        def play(brief):
            for command in commands:
                (report,) = yield calls("memory", **command)
                said.append(report.evidence)
            return Conclude("done")

        toybox.agent(agent, play)
        await toybox.run(agent)
        return said

    return run


async def test_every_command_of_the_sdk_s_memory_tool_works(remembering):
    said = await remembering(
        {"command": "create", "path": FILE, "file_text": "batch last\n"},
        {"command": "str_replace", "path": FILE, "old_str": "last", "new_str": "first"},
        {"command": "insert", "path": FILE, "insert_line": 0, "insert_text": "# shapes"},
        {"command": "rename", "old_path": FILE, "new_path": "/memories/b.md"},
        {"command": "view", "path": "/memories"},
        {"command": "view", "path": "/memories/b.md", "view_range": [2, 2]},
        {"command": "delete", "path": "/memories/b.md"},
    )
    assert [str(each.outcome) for each in said] == ["completed"] * 7
    assert said[4].output["said"].splitlines()[1] == "21\t/memories/b.md"
    assert said[5].output["said"].splitlines()[1] == "     2\tbatch first"


async def test_what_an_agent_wrote_down_it_finds_in_a_later_session(toybox, remembering):
    await remembering({"command": "create", "path": FILE, "file_text": "batch first"})
    (said,) = await remembering({"command": "view", "path": FILE})
    assert "batch first" in said.output["said"]
    (other,) = await remembering({"command": "view", "path": FILE}, agent="other")
    assert str(other.outcome) == "failed"
    async with toybox.open() as opened:
        (found,) = [each for each in await opened.memory.list(kind=NoteKind.WORKING) if each.text == "batch first"]
    assert (found.author, found.said_by) == ("reviewer", "reviewer")


async def test_a_secret_is_not_written_down(toybox, remembering, monkeypatch):
    monkeypatch.setenv("DEPLOY_SECRET", "plain-words-of-the-environment-42")
    token = "ghp_" + "Zz9" * 12
    await remembering(
        {"command": "create", "path": FILE, "file_text": f"use {token} and plain-words-of-the-environment-42"}
    )
    async with toybox.open() as opened:
        kept = [each.text for each in await opened.memory.list(kind=NoteKind.WORKING)]
    assert any("struck out" in each for each in kept)
    assert not [each for each in kept if token in each or "plain-words" in each]


async def test_a_refused_command_is_evidence_that_it_failed(remembering):
    said = await remembering(
        {"command": "view", "path": "/memories/nosuch.md"}, {"command": "delete", "path": "/memories"}
    )
    assert [str(each.outcome) for each in said] == ["failed", "failed"]
    assert said[0].output["problem"] == "the path /memories/nosuch.md does not exist"


@pytest.mark.parametrize("arguments", [{"command": "create", "path": FILE}, {"command": "rename", "old_path": FILE}])
async def test_what_a_command_lacks_is_named(project, arguments):
    context = ToolContext(project, memory=object())
    with pytest.raises(UsageError, match="lacks"):
        await memory.run(context, arguments)


@pytest.mark.parametrize("arguments", [{}, {"command": "format"}, {"command": "view", "paths": "x"}])
async def test_commands_that_there_are_not_are_refused(project, arguments):
    with pytest.raises(UsageError):
        await memory.run(ToolContext(project), arguments)


async def test_outside_a_session_nobody_remembers(project):
    with pytest.raises(EvidenceError, match="no memory is available"):
        await memory.run(ToolContext(project), {"command": "view", "path": "/memories"})


def test_its_arguments_are_those_of_the_sdk_s_tool():
    from anthropic.types import beta

    named = {"command"}
    for command in ("View", "Create", "StrReplace", "Insert", "Delete", "Rename"):
        named |= set(getattr(beta, f"BetaMemoryTool20250818{command}Command").model_fields)
    assert set(memory.use.schema["properties"]) == named
    assert memory.use.schema["required"] == ["command"]
