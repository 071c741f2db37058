"""Suggested commands become calls of the server's tools, as far as a tool does all of it."""

from __future__ import annotations

import inspect
import pathlib
import re

import pytest
from mcp import Client
from places import FAULTY

from esper_agents.mcp_server.server import _TOOLS, build_server
from esper_agents.mcp_server.server_project import ServerProject
from esper_agents.mcp_server.suggested_calls import _COMMANDS, SuggestedCall, call_of, for_tools

SERVED = {
    "esper submit 'is it right?' a.py b.py --agent nan-debugger": SuggestedCall(
        "submit_task", {"request": "is it right?", "paths": ["a.py", "b.py"], "agent": "nan-debugger"}
    ),
    "esper submit 'safe to merge?' --pr": SuggestedCall("submit_task", {"request": "safe to merge?", "diff": "branch"}),
    "esper submit --rerun crt_12 # after the fix": SuggestedCall("submit_task", {"rerun": "crt_12"}, "after the fix"),
    "esper review a.py --diff main --rule ESP305": SuggestedCall(
        "review", {"paths": ["a.py"], "diff": "main", "rules": ["ESP305"]}
    ),
    "esper torch compare a.py:f a.py:g --input 'randn(3)' --input 4 --claim 1.3": SuggestedCall(
        "compare", {"baseline": "a.py:f", "candidate": "a.py:g", "inputs": ["randn(3)", "4"], "claim": 1.3}
    ),
    "esper torch profile a.py:f --train": SuggestedCall("profile", {"target": "a.py:f", "train": True}),
    "esper certificates verify crt_12 --rev main": SuggestedCall(
        "verify_certificate", {"certificate": "crt_12", "rev": "main"}
    ),
    "esper gate --diff main..fix": SuggestedCall("gate", {"diff": "main..fix"}),
}


@pytest.mark.parametrize("command", SERVED)
def test_a_command_becomes_the_call_that_does_the_same(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call_of(command, tmp_path) == SERVED[command]


@pytest.mark.parametrize(
    "command",
    [
        "esper submit 'does it work?' --allow run-tests",
        "esper torch memory a.py:f --capture train.py",
        "esper review a.py --fix",
        "esper resume ses_12",
        "git fetch",
        "esper submit 'unclosed",
        "",
    ],
)
def test_a_command_that_no_tool_does_in_full_becomes_no_call(command, tmp_path):
    assert call_of(command, tmp_path) is None


def test_tests_that_the_user_allowed_need_no_option(tmp_path):
    found = call_of("esper submit 'does it work?' --allow run-tests", tmp_path, ("run-tests",))
    assert found == SuggestedCall("submit_task", {"request": "does it work?"})


def test_paths_of_a_call_are_relative_to_the_project(tmp_path, monkeypatch):
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    assert call_of("esper review a.py", tmp_path) == SuggestedCall("review", {"paths": ["src/a.py"]})


def test_every_call_has_a_tool_with_these_arguments():
    parameters = {function.__name__: set(inspect.signature(function).parameters) for function, _ in _TOOLS}
    for served in _COMMANDS.values():
        used = {*served.arguments, *served.options.values(), *(name for name, _ in served.flags.values())}
        assert used <= parameters[served.tool]


def test_an_advice_names_calls_and_arguments_instead_of_commands_and_options(tmp_path):
    assert for_tools("run `esper certificates list`", tmp_path) == "call search_certificates"
    assert for_tools("list them: esper rule ESP305", tmp_path) == 'list them: call explain_rule with {"rule": "ESP305"}'
    assert for_tools("name two targets, or one and --base REVISION", tmp_path).endswith("one and `base` REVISION")
    longer = for_tools("give it smaller inputs, or more time with --timeout", tmp_path)
    assert longer.endswith("--timeout (an option of the command, for the user)")


@pytest.mark.anyio
async def test_what_comes_next_is_a_call_that_works(make_project):
    project = make_project({"train.py": FAULTY})
    async with ServerProject(project) as served, Client(build_server(served)) as client:

        async def ask(name, **arguments):
            result = await client.call_tool(name, arguments)
            assert not result.is_error, result.content[0].text
            return result.structured_content

        gate = await ask("gate")
        session = await ask(gate["next"]["tool"], **gate["next"]["arguments"], wait_s=120)
        assert session["state"] == "done"
        (project / "train.py").write_text(FAULTY + "\n# later\n")
        stale = await ask("verify_certificate")
        again = await ask(stale["next"]["tool"], **stale["next"]["arguments"], wait_s=120)
        assert again["state"] == "done"
        assert (await ask("verify_certificate"))["result"] == "valid"


@pytest.mark.anyio
async def test_every_code_of_a_result_can_be_explained(make_project):
    source = (pathlib.Path(__file__).parents[2] / "esper_agents").rglob("*.py")
    codes = {code for file in source for code in re.findall(r'"((?:LAB|ESP)\d{3})"', file.read_text(encoding="utf-8"))}
    assert len(codes) > 70
    async with ServerProject(make_project({"train.py": FAULTY})) as served, Client(build_server(served)) as client:
        for code in sorted(codes):
            found = await client.call_tool("explain_rule", {"rule": code})
            assert found.structured_content["code"] == code, found.content[0].text
