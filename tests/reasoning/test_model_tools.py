"""Tools in sessions with a model: results in full, calls at the same time, drafted patches on the certificate."""

from __future__ import annotations

import asyncio
import json
import subprocess
from dataclasses import replace

import pytest
from modelling import ask, conclude, finding, opening, served, told
from toys import calling, recording_tool

from esper_agents.certificates.statement import statement
from esper_agents.certificates.views.markdown import render_markdown
from esper_agents.domain.agent_action import Conclude
from esper_agents.domain.evidence import CallOutcome, source_file
from esper_agents.domain.finding import Standing
from esper_agents.testing.script import ToolUseBlock

pytestmark = pytest.mark.anyio
EDIT = {"path": "train.py", "old": "import torch", "new": "import torch  # 2.x"}


@pytest.fixture
def worker(toybox):
    """Return a toybox with an agent that has every tool and a playbook that looks once."""
    toybox.tool("look")
    toybox.agent("worker", calling("look", then=lambda _: Conclude("looked")))
    return toybox


def check_patch(folder, patch):
    subprocess.run(["git", "apply", "--check", "-"], cwd=folder, input=patch.encode(), check=True)


async def test_a_drafted_patch_is_on_the_certificate_and_in_no_file(worker, monkeypatch):
    before = (worker.project / "train.py").read_bytes()

    def script(request):
        if request.number == 1:
            return ToolUseBlock("draft-patch", {"edits": [EDIT]})
        return conclude(findings=[finding(request, patch="e2", line=1)])

    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    (found,) = [each for each in ran.certificate.findings if each.claim.rule == "AGENT"]
    assert "+import torch  # 2.x" in found.patch
    check_patch(worker.project, found.patch)
    assert (worker.project / "train.py").read_bytes() == before
    assert "drafted, not applied" in render_markdown(statement(ran.certificate))


async def test_a_finding_that_names_no_draft_says_so_and_has_no_patch(worker, monkeypatch):
    def script(request):
        if request.number == 1:
            return ToolUseBlock("read-file", {"path": "train.py"})
        return conclude(findings=[finding(request, patch="e2")])

    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    (found,) = [each for each in ran.certificate.findings if each.claim.rule == "AGENT"]
    assert found.patch == ""
    assert "is not a drafted patch of this session" in found.checks[-1]


async def test_an_earlier_call_is_opened_by_its_short_identifier(worker, monkeypatch):
    def script(request):
        if request.number == 1:
            return ToolUseBlock("read-file", {"path": "train.py"})
        return ToolUseBlock("read-artifact", {"evidence": "e2"}) if request.number == 2 else conclude()

    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    (opened,) = [each for each in ran.certificate.evidence if each.tool == "read-artifact"]
    assert opened.outcome is CallOutcome.COMPLETED
    assert "import torch" in opened.output["text"]


async def test_one_bad_call_of_several_refuses_only_itself(worker, monkeypatch):
    good = [ToolUseBlock("read-file", {"path": "train.py", "first_line": line}) for line in (1, 2)]
    bad = [ToolUseBlock("read-file", {"path": 7}), ToolUseBlock("no-such-tool", {})]
    with served([(good[0], *bad, good[1]), conclude()], monkeypatch) as server:
        ran = await ask(worker, server)
    assert [each.tool for each in ran.certificate.evidence].count("read-file") == 2
    answers = ran.requests[1].body["messages"][-1]["content"]
    assert sorted(answer["is_error"] for answer in answers) == [False, False, True, True]


def meeting(name, meet):
    """Return a tool that only reads, and ends once as many calls of it have begun as there are."""

    async def during(_):
        await asyncio.wait_for(meet.wait(), 20)

    return replace(recording_tool(name, during=during), is_concurrent=True)


async def test_calls_that_only_read_run_at_the_same_time_and_are_recorded_in_order(worker, monkeypatch):
    meet = asyncio.Barrier(3)
    worker.tools.append(meeting("meet", meet))
    calls = tuple(ToolUseBlock("meet", {"text": str(number)}) for number in range(3))
    with served([calls, conclude()], monkeypatch) as server:
        ran = await ask(worker, server)
    met = [each for each in ran.certificate.evidence if each.tool == "meet"]
    assert [each.output["text"] for each in met] == ["0", "1", "2"]
    assert {each.outcome for each in met} == {CallOutcome.COMPLETED}


async def test_a_call_that_changes_something_runs_alone_and_in_its_place(worker, monkeypatch):
    worker.tools.append(replace(recording_tool("peek"), is_concurrent=True))
    worker.tool("change", repeatable=False)
    names = ("peek", "peek", "change", "peek", "peek")
    calls = tuple(ToolUseBlock(name, {"text": str(number)}) for number, name in enumerate(names))
    with served([calls, conclude()], monkeypatch) as server:
        await ask(worker, server)
    lines = (worker.project / "effects.log").read_text().split()
    assert lines.index("change") < min(lines.index(each) for each in ("3", "4"))
    assert lines.index("change") > max(lines.index(each) for each in ("0", "1"))


async def test_a_colleagues_answer_has_its_findings_in_full(worker, monkeypatch):
    worker.agent("other")

    def script(request):
        if "Another agent asks you" in opening(request):
            if request.number == 2:
                return ToolUseBlock("read-file", {"path": "train.py"})
            return conclude(findings=[finding(request, message="The seed is not set.", remedy="Set the seed.")])
        return ToolUseBlock("consult", {"agent": "other", "question": "is it?"}) if request.number == 1 else conclude()

    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    answer = told(ran.requests[-1])
    assert "The seed is not set." in answer
    assert "Set the seed." in answer
    assert all(not consult.reported for consult in ran.certificate.consults)


async def test_the_change_of_a_task_is_in_the_first_message(worker, monkeypatch):
    (worker.project / "train.py").write_text("import torch\n\nprint(torch.__version__)\n")
    with served([conclude()], monkeypatch) as server:
        async with worker.open() as opened:
            opened.models.allow(opened.services.server.host)
            task = opened.tasks.create("review this change", [], agent="worker", diff="HEAD")
            session = await opened.tasks.submit(opened.models.with_reasoner(task, "claude"))
            outcome = await session.run()
            certificate = await opened.certificates.read(outcome.certificate.id)
    assert "+print(torch.__version__)" in json.loads(json.dumps(opening(server.requests[0])))
    assert [each.tool for each in certificate.evidence].count("git-show") == 1


async def test_lines_of_a_file_that_changed_since_they_were_read_are_cited_again(worker, monkeypatch):
    train, asked = worker.project / "train.py", []

    def script(request):
        asked.append(told(request))
        match request.number:
            case 1:
                return ToolUseBlock("read-file", {"path": "train.py"})
            case 2:
                train.write_text("import os\n" + train.read_text())
                return conclude(findings=[finding(request, line=2)])
            case 3:
                return ToolUseBlock("read-file", {"path": "train.py"})
            case _:
                return conclude(findings=[finding(request, line=3)])

    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    assert "train.py has changed since it was read: read it again, and cite its present lines" in asked[2]
    (found,) = [each for each in ran.certificate.findings if each.claim.rule == "AGENT"]
    assert (found.standing, found.claim.location.line) == (Standing.LOCATED, 3)
    (again,) = [each for each in ran.certificate.evidence if each.id in found.evidence]
    assert again.examined == (source_file("train.py", train.read_bytes()),)
