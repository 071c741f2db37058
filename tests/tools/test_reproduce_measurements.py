"""Measurements that are made again: by a lab of their own, on the recorded commit, in the sandbox."""

from __future__ import annotations

import tempfile

import pytest
from torch_toys import FILES, SIZE, needs_torch
from toys import agent_file

from esper_agents.api import open_project
from esper_agents.domain.agent_action import CallTools, Conclude, ToolCall
from esper_agents.domain.reproduction import ReproductionOutcome
from esper_agents.domain.status import Status

pytestmark = [pytest.mark.anyio, pytest.mark.slow, needs_torch]
CALLS = (
    ToolCall("torch-explain", {"target": "model.py:Net"}),
    ToolCall("torch-nan", {"target": "losses.py:Loss"}),
    ToolCall("torch-memory", {"target": "growing.py:make_step", "steps": 6}),
    ToolCall("torch-compare", {"baseline": "ops.py:slow", "candidate": "ops.py:wrong", "inputs": [SIZE]}),
    ToolCall(
        "torch-confirm", {"target": "compiled.py:make_step", "paths": ["compiled.py"], "lines": ["compiled.py:7"]}
    ),
)


def play(_brief):
    reports = yield CallTools(CALLS)
    return Conclude("; ".join(report.evidence.summary for report in reports))


async def test_what_was_measured_comes_out_again_from_the_commit(make_project, tmp_path, monkeypatch):
    root = make_project(FILES)
    scratch = tmp_path / "temporary"
    scratch.mkdir()
    agent = agent_file(tmp_path / "agents", "measurer", tools=None)
    async with open_project(root, playbooks={"measurer": play}, agents=[agent]) as project:
        task = project.tasks.create("review this", [root], agent="measurer")
        first = (await (await project.tasks.submit(task)).run()).certificate
        for path in root.glob("*.py"):
            path.write_text("raise SystemExit\n")
        monkeypatch.setattr(tempfile, "tempdir", str(scratch))
        outcome = await (await project.tasks.submit(await project.tasks.reproduction(first.id))).run()
        issued = await project.certificates.read(outcome.certificate.id)
    found = {each.output["tool"]: each.output["outcome"] for each in issued.evidence}
    assert found == {call.tool: ReproductionOutcome.REPRODUCED for call in CALLS}, [
        each.summary for each in issued.evidence
    ]
    assert issued.verdict.status is Status.CONDITIONALLY_APPROVED
    assert issued.findings == ()
    assert not list(scratch.glob("esper-reproduce-*"))
    kept = {artifact.name for each in issued.evidence for artifact in each.artifacts}
    assert {"explain.json", "nan.json", "memory.json", "compare.json"} <= kept
