"""How long a comparison waits for a candidate, and what it measures after the verdict."""

from __future__ import annotations

import re

import pytest

from esper_agents.torchlab.compare import correctness as correctness_module
from esper_agents.torchlab.compare.compare import ComparisonRequest, compare
from esper_agents.torchlab.compare.correctness import Correctness
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


def waits(x):
    time.sleep(0.001 * x.shape[0])
    return x * 2


def dawdles(x):
    time.sleep(0.2)
    return x * 2


def slow(x):
    for _ in range(40):
        x.abs()
    return x * 2


"""


@pytest.fixture(autouse=True)
def _a_machine_to_itself(monkeypatch):
    monkeypatch.setattr(correctness_module, "contention", lambda _pid: 1.0)


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
        assert float(limit[1]) == 5
    else:
        assert "memory" in reason
        assert reason.endswith("it may use 4.0 GiB, by what A uses")


@pytest.mark.parametrize(
    ("code", "step_s", "run_s"),
    [("", 5.0, 120.0), ("# torch.compile is not used\n", 60.0, 180.0)],
    ids=["plain", "names a compiler"],
)
def test_a_step_and_all_together_may_take_longer_if_the_file_names_a_compiler(tmp_path, code, step_s, run_s):
    (tmp_path / "ops.py").write_text(_OPS + code)
    arms = [Arm(TargetSpec("ops.py:double", ("randn(64,64)",)), tmp_path) for _ in range(2)]
    with Lab(tmp_path) as lab, Correctness(lab, (arms[0], arms[1]), seed=0, train=False, allow=()) as correctness:
        assert all(check.is_passed for check in correctness.checks(lambda *_: None))
        assert (correctness.bounds.step_s, correctness.bounds.run_s) == (step_s, run_s)
        assert correctness.bounds.memory_bytes >= 4 << 30
        assert correctness.arms[1].memory_bytes == correctness.bounds.memory_bytes


def test_limits_are_longer_where_the_baseline_waits_for_a_processor(project, monkeypatch):
    monkeypatch.setattr(correctness_module, "contention", lambda _pid: 3.0)
    arms = [Arm(TargetSpec("ops.py:double", ("randn(64,64)",)), project) for _ in range(2)]
    with Lab(project) as lab, Correctness(lab, (arms[0], arms[1]), seed=0, train=False, allow=()) as correctness:
        correctness.checks(lambda *_: None)
    assert correctness.bounds.step_s == 15


def test_a_candidate_whose_calls_take_too_long_together_is_told_apart_from_a_hang(project):
    arms = [Arm(TargetSpec(f"ops.py:{name}", ("randn(64,64)",)), project) for name in ("double", "dawdles")]
    with (
        Lab(project, LabSettings(timeout_s=4.0)) as lab,
        Correctness(lab, (arms[0], arms[1]), seed=0, train=False, allow=()) as correctness,
    ):
        (failed,) = correctness.checks(lambda *_: None)
    assert failed.detail == "its calls take more than 4 s together; --timeout allows more"


def test_a_candidate_that_cannot_be_imported_in_time_is_said_to_give_no_answer(project):
    (project / "late.py").write_text("import time\n\ntime.sleep(600)\n")
    arms = [Arm(TargetSpec(f"{file}.py:double", ("randn(64,64)",)), project) for file in ("ops", "late")]
    with (
        Lab(project, LabSettings(timeout_s=4.0)) as lab,
        Correctness(lab, (arms[0], arms[1]), seed=0, train=False, allow=()) as correctness,
    ):
        (failed,) = correctness.checks(lambda *_: None)
    assert failed.detail == "late.py:double gave no answer within 4 s"


def test_a_longer_timeout_and_more_memory_lengthen_the_limits(project):
    settings = LabSettings(timeout_s=240, memory_bytes=32 << 30)
    arms = [Arm(TargetSpec("ops.py:double", ("randn(64,64)",)), project) for _ in range(2)]
    with (
        Lab(project, settings) as lab,
        Correctness(lab, (arms[0], arms[1]), seed=0, train=False, allow=()) as correctness,
    ):
        correctness.checks(lambda *_: None)
    assert correctness.bounds.step_s == 10
    assert correctness.bounds.memory_bytes == 8 << 30


def test_of_a_slow_function_edge_cases_have_fewer_rows_and_none_is_missing(project):
    arms = [Arm(TargetSpec("ops.py:waits", ("randn(64,64)",)), project) for _ in range(2)]
    with Lab(project) as lab, Correctness(lab, (arms[0], arms[1]), seed=0, train=False, allow=()) as correctness:
        checks = correctness.checks(lambda *_: None)
    names = {check.variant for check in checks}
    assert {"fewer rows", "leading dimension 1", "leading dimension 0", "NaN in tensor 1", "float64"} <= names
    assert "leading dimension 67" not in names
    assert not [each for each in correctness.notes.missing if each.why == "no time was left"]


@pytest.mark.slow
def test_memory_and_graphs_are_measured_where_a_speedup_is_weighed(project):
    slower = compared(project, "double", "slow")
    assert (slower.verdict.outcome, slower.beside) == ("not as fast as claimed", None)
    faster = compared(project, "slow", "double", claim=1.2)
    assert faster.verdict.outcome == "faster as claimed"
    assert faster.beside is not None
    quick = compared(project, "slow", "double", claim=1.2, effort=Effort.QUICK, has_extras=False)
    assert quick.beside is None
