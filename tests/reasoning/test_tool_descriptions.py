"""Tools as a model sees them, and the general tool that calls those with one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from briefs import LOOK, agent, brief
from modelling import ask, conclude, served

from esper_agents.domain.agent_action import CallTools, ToolCall, ToolUse
from esper_agents.domain.evidence import Risk
from esper_agents.reasoning.action_schema import MOVES, ActionContext
from esper_agents.reasoning.tool_descriptions import CALL_TOOL, called_tool, tool_line, tools_of
from esper_agents.reasoning.transcript import read_turn
from esper_agents.testing.script import ToolUseBlock
from esper_agents.tools.registry import load_tools

SPEAKER = ActionContext("worker")
LARGE = {"type": "object", "properties": {f"part_{n}": {"type": "string", "default": ""} for n in range(200)}}
FIRST_REQUEST = Path(__file__).parents[2] / "benchmarks" / "first_request.py"


def use(name, schema=None, description="Do it. And more.", risk=Risk.LOW):
    return ToolUse(name, description, schema or {"type": "object"}, risk, is_repeatable=True)


def names_of(tools):
    return [tool["name"] for tool in tools]


def test_tools_beyond_the_room_have_one_line_and_are_called_by_the_general_tool():
    tools = tools_of(brief(agent=agent(tools=("look", "big")), tools=(use("big", LARGE), LOOK, use("other"))))
    assert names_of(tools) == ["look", "other", CALL_TOOL, *sorted(MOVES)]
    (general,) = [tool for tool in tools if tool["name"] == CALL_TOOL]
    assert general["description"].splitlines()[1].startswith("- big([part_0")


def test_the_tools_that_a_definition_names_first_are_described_first():
    many = tuple(
        use(f"tool-{n}", {**LARGE, "properties": dict(list(LARGE["properties"].items())[:25])}) for n in range(4)
    )
    tools = tools_of(brief(agent=agent(tools=("tool-3", "tool-1")), tools=many))
    assert names_of(tools)[0] == "tool-3"
    assert CALL_TOOL in names_of(tools)


def test_every_callable_tool_of_the_program_is_described_or_has_a_line():
    known = load_tools().named(None)
    tools = tools_of(brief(agent=agent(tools=None), tools=known))
    text = json.dumps(tools)
    assert all(f'"name": "{each.name}"' in text or f"- {each.name}(" in text for each in known)
    assert len(text) < 4 * 4_500


def test_a_line_has_the_arguments_the_optional_ones_in_brackets_and_the_risk():
    schema = {
        "properties": {
            "path": {"type": "string"},
            "lines": {"type": "array"},
            "steps": {"type": "integer", "default": 8},
            "inputs": {"default": None},
        },
        "required": ["path", "lines"],
    }
    line = tool_line(use("look", schema, "Look\nat it. Never twice.", Risk.HIGH))
    assert line == "- look(path, lines: list, [steps=8, inputs]): Look at it (risk high)"


@pytest.mark.parametrize("arguments", [{"text": "a"}, '{"text": "a"}'])
def test_a_call_of_the_general_tool_is_a_call_of_the_named_one(arguments):
    uses = [
        {"type": "tool_use", "id": "1", "name": CALL_TOOL, "input": {"name": "look", "arguments": arguments}},
        {"type": "tool_use", "id": "2", "name": "look", "input": {}},
    ]
    said = read_turn(uses, SPEAKER)
    assert said.move == CallTools((ToolCall("look", {"text": "a"}), ToolCall("look", {})))
    assert (said.uses, said.faults) == (("1", "2"), {})


@pytest.mark.parametrize(
    "given", [{}, {"name": "look"}, {"name": 1, "arguments": {}}, {"name": "look", "arguments": "x"}]
)
def test_a_malformed_call_of_the_general_tool_is_answered_and_the_others_run(given):
    uses = [
        {"type": "tool_use", "id": "1", "name": CALL_TOOL, "input": given},
        {"type": "tool_use", "id": "2", "name": "look", "input": {}},
    ]
    said = read_turn(uses, SPEAKER)
    assert said.move == CallTools((ToolCall("look", {}),))
    assert said.uses == ("2",)
    assert "needs `name`, the name of a tool" in said.faults["1"]


def test_the_general_tool_cannot_call_itself():
    assert called_tool(CALL_TOOL, {"name": CALL_TOOL, "arguments": {"name": "look", "arguments": {}}})[0] == CALL_TOOL


@pytest.mark.anyio
async def test_a_call_by_the_general_tool_is_checked_and_approved_as_any_other(toybox, monkeypatch):
    toybox.tool("look")
    toybox.tool("write", risk=Risk.MEDIUM, repeatable=False)
    toybox.tool("hidden")
    toybox.agent("worker", tools="look, write")
    turn = [
        ToolUseBlock(CALL_TOOL, {"name": "look", "arguments": {"text": "a"}}),
        ToolUseBlock(CALL_TOOL, {"name": "hidden", "arguments": {}}),
        ToolUseBlock(CALL_TOOL, {"name": "look", "arguments": {"size": 1}}),
        ToolUseBlock(CALL_TOOL, {"name": "write", "arguments": {"text": "b"}}),
    ]
    with served([turn, conclude()], monkeypatch) as server:
        made = await ask(toybox, server)
    assert [question.tool for question in made.outcome.questions] == ["write"]
    assert toybox.effects() == ["look a"]
    (moved,) = [body for body in made.bodies("moved") if body["move"]["move"] == "use-tools" and body["record"]]
    faults = list(moved["record"]["faults"].values())
    assert "worker has no tool 'hidden'" in faults[0]
    assert "size" in faults[1]


@pytest.mark.slow
def test_the_first_request_of_every_agent_is_small():
    done = subprocess.run([sys.executable, str(FIRST_REQUEST), "--json"], capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    assert found["largest"] <= found["most"] == 6_500
    assert len(found["agents"]) >= 19
    assert done.returncode == 0
