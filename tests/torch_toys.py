"""A small project with something for each torch specialist, and a lab that stays warm for a whole test module."""

from __future__ import annotations

import importlib.util

import pytest

from esper_agents.tools.lab_pool import LabPool

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch: NOTHING was measured")

FILES = {
    "model.py": """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(16, 16)

    def forward(self, x):
        y = self.body(x)
        if y.sum() > 0:
            y = y * 2
        return y.relu()


def get_inputs():
    return (torch.randn(8, 16),)
""",
    "batches.py": """import time

import torch
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 500

    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.full((8,), float(index))


def make_loader():
    return DataLoader(Slow(), batch_size=2)


def step(batch):
    return batch.sum()
""",
    "losses.py": """import torch
from torch import nn


class Loss(nn.Module):
    def forward(self, logits, y):
        p = torch.softmax(logits * 200, dim=-1)
        return -(torch.log(p) * y).sum(-1).mean()


def get_inputs():
    return torch.randn(4, 5), torch.eye(5)[:4]
""",
    "growing.py": """import torch
from torch import nn


def make_step():
    net = nn.Linear(16, 16)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    kept = []

    def step():
        optimizer.zero_grad()
        loss = net(torch.ones(8, 16)).square().mean()
        loss.backward()
        optimizer.step()
        kept.append(loss)

    return step
""",
    "compiled.py": """import torch


@torch.compile(backend="eager")
def work(x):
    y = x @ x
    if y.sum() > 0:
        y = y * 2
    return y.relu()


def make_step():
    x = torch.randn(32, 32)

    def step():
        return work(x)

    return step
""",
    "ops.py": """import torch


def slow(x):
    total = torch.zeros_like(x)
    for _ in range(30):
        total = total + x
    return total


def fast(x):
    return x * 30


def wrong(x):
    return x * 29


def same(x):
    total = torch.zeros_like(x)
    for _ in range(30):
        total = total + x
    return total
""",
}
SIZE = "randn(64,64)"


def write(folder, files=None):
    """Write a project and return its folder."""
    for path, text in (files or FILES).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return folder


@pytest.fixture(scope="module")
def anyio_backend():
    # One event loop for the module: the bench lives in it.
    return "asyncio"


@pytest.fixture(scope="module")
def lab_project(tmp_path_factory):
    """Return the folder of the project."""
    return write(tmp_path_factory.mktemp("lab-project"))


@pytest.fixture(scope="module")
async def bench(lab_project, anyio_backend):
    """Return a bench whose lab stays warm for the module."""
    made = LabPool(lab_project, idle_s=600.0)
    yield made
    await made.close()
