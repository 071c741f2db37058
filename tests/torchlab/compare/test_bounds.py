"""How long a comparison waits for a candidate, and what it measures after the verdict."""

from __future__ import annotations

import re

import pytest

from esper_agents.torchlab.compare.compare import ComparisonRequest, compare
from esper_agents.torchlab.compare.measure import Arm
from esper_agents.torchlab.effort import Effort
from esper_agents.torchlab.lab import Lab, LabSettings
from esper_agents.torchlab.measurements.compare import MEASUREMENT
from esper_agents.torchlab.target import TargetSpec

pytestmark = pytest.mark.torch
_OPS = """
import time
import torch


def double(x):
    return x * 2


def hang(x):
    time.sleep(600)


def fill(x):
    kept = []
    while True:
        kept.append(torch.ones(64, 1024, 1024))


def slow(x):
    for _ in range(40):
        x.abs()
    return x * 2


"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    root = tmp_path_factory.mktemp("bounds")
    (root / "ops.py").write_text(_OPS)
    return root


def compared(project, baseline, candidate, **question):
    """Return the parsed result."""
    arms = [Arm(TargetSpec(f"ops.py:{name}", ("randn(64,64)",), seed=3), project) for name in (baseline, candidate)]
    with Lab(project) as lab:
        return MEASUREMENT.parsed(compare(lab, *arms, ComparisonRequest(**question)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hang", "fill"])
def test_a_candidate_that_does_not_end_is_given_up_at_a_limit_that_follows_from_the_baseline(project, name):
    result = compared(project, "double", name)
    assert result.verdict.outcome == "wrong"
    (reason,) = result.verdict.because
    assert reason.startswith("runs on plain 1: ")
    if limit := re.search(r"gave no answer within ([\d.]+) s", reason):
        assert float(limit[1]) < LabSettings().timeout_s
    else:
        assert "memory" in reason


@pytest.mark.slow
def test_memory_and_graphs_are_measured_where_a_speedup_is_weighed(project):
    slower = compared(project, "double", "slow")
    assert (slower.verdict.outcome, slower.beside) == ("not as fast as claimed", None)
    faster = compared(project, "slow", "double", claim=1.2)
    assert faster.verdict.outcome == "faster as claimed"
    assert faster.beside is not None
    quick = compared(project, "slow", "double", claim=1.2, effort=Effort.QUICK, has_extras=False)
    assert quick.beside is None
