"""Tests of the playbooks that only read code: real sessions of agents without measurements."""

from __future__ import annotations

import pytest

from esper_agents.api import open_project

pytestmark = pytest.mark.anyio

OPS = """\
import pickle

import torch


def load(path):
    with open(path, "rb") as file:
        return pickle.load(file)


def train(model, loader, optimizer, criterion):
    for x, y in loader:
        loss = criterion(model(x).softmax(-1), y)
        loss.backward()
        optimizer.step()
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("agent", "request_text", "part"),
    [
        ("security-architect", "is it safe to load what users upload?", "pickle.load"),
        ("test-engineer", "what is untested here?", "no test in this project uses"),
        ("algorithm-specialist", "why does it not converge?", "gradients"),
    ],
)
async def test_an_agent_that_reads_answers_offline(tmp_path, agent, request_text, part):
    (tmp_path / "ops.py").write_text(OPS, encoding="utf-8")
    async with open_project(tmp_path) as project:
        task = project.tasks.create(request_text, [tmp_path / "ops.py"], agent=agent)
        assert (await project.tasks.plan(task)).declined is None
        session = await project.tasks.submit(task)
        await session.run()
        answer = await project.certificates.answer()
    assert answer.kind is task.kind
    assert any(part in each.text for each in (*answer.because, *answer.also))


COMPILED = """\
import torch


@torch.compile
def step(x):
    print(x.sum().item())
    return x * 2


class Net(torch.nn.Module):
    def forward(self, x):
        return step(x)
"""


async def test_who_is_handed_a_part_answers_that_part_and_no_topic_of_its_own(tmp_path):
    (tmp_path / "net.py").write_text(COMPILED, encoding="utf-8")
    async with open_project(tmp_path) as project:
        session = await project.tasks.submit(project.tasks.create("is net.py right?", [tmp_path / "net.py"]))
        await session.run()
        certificate = await project.certificates.read("latest")
        answer = await project.certificates.answer()
    assert certificate.handoffs[0].receiver == "pytorch-expert"
    assert any("step" in each.text or "print" in each.text for each in answer.because)
    assert answer.facts == ()
    assert "inspect-code" not in {each.tool for each in certificate.evidence}
