"""Tests of what fact queries do not say: code that looks like a fault and is none."""

from __future__ import annotations

import pytest

from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import inspect_sources

FALLBACK = """\
import torch


class Momentum(torch.optim.Optimizer):
    def step(self):
        for group in self.param_groups:
            if group["foreach"]:
                torch._foreach_mul_(group["params"], 0.99)
                continue
            for p in group["params"]:
                m = self.state[p]
                m.mul_(0.9).add_(p.grad)
                p.mul_(0.99).add_(m)
"""
EXAMPLE = """\
import torch


def build(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


if __name__ == "__main__":
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in [torch.zeros(2)] * 3:
        model(x).sum().backward()
        optimizer.step()
"""
POLICY = """\
def update(memory, policy, optimizer):
    for states, returns in memory.sample_all(4):
        optimizer.zero_grad()
        loss = (policy(states) - returns).pow(2).mean()
        loss.backward()
        optimizer.step()
"""
ARGUMENTS = """\
from torch import nn


class Net(nn.Module):
    def forward(self, x, *args, **kwargs):
        return self.inner(x, *args, **kwargs)
"""
SCHEDULE = """\
import torch
from torch import nn


class Diffusion(nn.Module):
    def __init__(self, variance):
        super().__init__()
        self.register_buffer("log", torch.log(variance.clamp(min=1e-20)))
"""
COUNTED = "def check(names):\n    found = list(set(names))\n    return len(found) == 1\n"
LIBRARY = "import random\n\n\ndef jitter(x):\n    return x + random.random()\n"
TEMPORARY = """\
import tempfile

import torch


def fit(model, loader, optimizer):
    for x in loader:
        model(x).backward()
        optimizer.step()
    torch.save(model.state_dict(), tempfile.NamedTemporaryFile().name)
"""
ERRORS = """\
class NegativeRateError(ValueError):
    def __init__(self, rate):
        text = str(rate)
        super().__init__(text)
"""


@pytest.mark.parametrize(
    ("query", "topic", "source", "stated"),
    [
        ("parameter-updates", "speed", FALLBACK, ()),
        ("wrapped-model", "distributed training", EXAMPLE, (Assessment.SHOULD_CHECK,)),
        ("gradient-accumulation", "gradient accumulation", POLICY, ()),
        ("export-blockers", "export", ARGUMENTS, ()),
        ("half-values", "mixed precision", SCHEDULE, ()),
        ("unordered-data", "reproducibility", COUNTED, ()),
        ("random-sources", "reproducibility", LIBRARY, (Assessment.SHOULD_CHECK,)),
        ("rank-output", "distributed training", TEMPORARY, ()),
        ("test-cases", "tests", ERRORS, ()),
    ],
)
def test_code_that_only_looks_like_a_fault_is_not_reported(query, topic, source, stated):
    done = inspect_sources({"net.py": source}, InspectionSubject((topic,)), names=[query])
    weighty = {Assessment.MUST_CHANGE, Assessment.SHOULD_CHECK}
    assert tuple(each.assessment for each in done.results[0].facts if each.assessment in weighty) == stated


@pytest.mark.parametrize(
    "body",
    [
        "return x[self.valid_mask].sum()",
        "return x[x > 0].sum()",
        "x.requires_grad = True\n        return x",
        "return torch.sparse_coo_tensor(x, x)",
    ],
)
def test_code_that_breaks_the_graph_by_its_data_is_not_called_ready(body):
    source = f"import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        {body}\n"
    done = inspect_sources({"net.py": source}, InspectionSubject(("torch.compile",)), names=["compile-readiness"])
    assert [each.assessment for each in done.results[0].facts] == [Assessment.OPEN]


def test_whether_one_rank_writes_is_open_where_only_its_caller_can_know():
    source = TEMPORARY.replace("tempfile.NamedTemporaryFile().name", "'model.pt'").replace(
        "    torch.save", "    if not is_wrapped(model):\n        return\n    torch.save"
    )
    done = inspect_sources({"net.py": source}, InspectionSubject(("distributed training",)), names=["rank-output"])
    assert Assessment.FINE not in {each.assessment for each in done.results[0].facts}


MEMORY = """\
import torch
from torch import nn


class Memory(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.register_buffer("rows", torch.zeros(size, 2))
        self.register_buffer("is_ready", torch.tensor(False))
        self.at = 0
        self.is_full = False
        self.log = None

    def forward(self, x):
        if self.is_ready:
            self.rows[self.at] = x
        self.at = (self.at + 1) % self.size
        if not self.is_full and self.at == 0:
            self.is_full = True
        self.log = x
        return self.rows
"""


def facts(source, topic, query):
    done = inspect_sources({"net.py": source}, InspectionSubject((topic,)), names=[query])
    return [(each.assessment, each.line) for each in done.results[0].facts]


def test_numbers_and_flags_beside_buffers_are_not_saved():
    should = Assessment.SHOULD_CHECK
    assert facts(MEMORY, "checkpoints", "unsaved-state") == [(should, 18), (should, 20)]
    own = MEMORY + "\n    def get_extra_state(self):\n        return self.at\n"
    assert facts(own, "checkpoints", "unsaved-state") == []


def test_a_branch_on_a_buffer_waits_for_the_device():
    assert (Assessment.SHOULD_CHECK, 16) in facts(MEMORY, "speed", "step-costs")
    assert (Assessment.OPEN, 16) in facts(MEMORY, "torch.compile", "compile-readiness")


def test_a_collective_whose_result_is_discarded_does_nothing():
    source = (
        "import torch.distributed.nn as dist_nn\n\n\ndef mean(t, n):\n    dist_nn.all_reduce(t)\n"
        "    t = dist_nn.all_reduce(t)\n    return t / n\n"
    )
    assert facts(source, "distributed training", "rank-collectives") == [(Assessment.MUST_CHANGE, 5)]
