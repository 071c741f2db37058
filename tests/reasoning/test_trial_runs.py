"""Tests of trial runs: a question whether named code is right is not answered from reading alone."""

from __future__ import annotations

import pytest

from esper_agents.api import open_project

pytestmark = pytest.mark.anyio

NETS = """\
from torch import nn


class Good(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return self.fc(x)


class Broken(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.out = nn.Linear(width + 1, 2)

    def forward(self, x):
        return self.out(self.fc(x))
"""


async def test_what_is_named_is_run_and_what_does_not_run_is_said(tmp_path):
    (tmp_path / "nets.py").write_text(NETS, encoding="utf-8")
    async with open_project(tmp_path) as project:
        task = project.tasks.create("are the Good and the Broken class right?", [tmp_path / "nets.py"])
        await (await project.tasks.submit(task)).run()
        answer = await project.certificates.answer()
        certificate = await project.certificates.read("latest")
    (ran,) = answer.measured
    assert ran.startswith("nets.py:Good: runs with synthetic arguments")
    (gap,) = [each for each in certificate.gaps if "whether nets.py:Broken runs" in each.what]
    assert "cannot be multiplied" in gap.what
    assert gap.command == "esper torch scaffold nets.py:Broken"


async def test_advice_on_named_code_runs_nothing_if_the_request_says_so(tmp_path):
    (tmp_path / "nets.py").write_text(NETS, encoding="utf-8")
    async with open_project(tmp_path) as project:
        task = project.tasks.create("what does the Good class do? don't run it", [tmp_path / "nets.py"])
        await (await project.tasks.submit(task)).run()
        certificate = await project.certificates.read("latest")
    assert "torch-scaffold" not in {each.tool for each in certificate.evidence}
