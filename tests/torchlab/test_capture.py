"""Inputs as a script makes them: what is recorded, how it is used again, and what is said where nothing is."""

from __future__ import annotations

import textwrap

import pytest

from esper_agents.errors import UsageError
from esper_agents.torchlab.capture import with_captured
from esper_agents.torchlab.lab import Lab, LabSettings
from esper_agents.torchlab.measurements.memory import MemoryOptions, run
from esper_agents.torchlab.target import TargetSpec
from esper_agents.torchlab.worker_failure import WorkerError, WorkerFailureKind

pytest.importorskip("torch")

MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x, *rest, mask=None, **more):
        kept = lambda: x
        return self.layer(kept())

def make_net():
    return Net()

def shift(x, by=3, /, *, scale):
    x.add_(by)
    return x * scale["a"]

def make_step():
    def step(batch):
        return batch.sum()
    return step

class Loss:
    def focal(self, x):
        return x.mean()

def of_config(config):
    return config

def uncalled(x):
    return x
"""
# The target is defined in a module, and in the script itself.
TRAIN = """
import sys
import torch
from model import Loss, make_net, make_step, of_config, shift

def local(x):
    return x * 2

def drive():
    for number in range(3):
        shift(torch.full((2,), float(number)), scale={"a": torch.ones(1)})

def needs(what):
    pass

if __name__ == "__main__":
    net, step = make_net(), make_step()
    for number in range(20):
        rows = torch.full((number + 1, 4), float(number))
        net(rows, 1, mask=None, more=[rows[0]])
        shift(torch.full((2,), float(number)), scale={"a": torch.ones(1)})
        step(rows)
        Loss().focal(rows)
        local(rows)
    of_config(object())
    print("trained")
    sys.exit(0)
"""
# Dynamo takes seconds to import: only where it is needed.
COMPILED = """
import torch

@torch.compile
def compiled(x):
    return x + 1

def drive():
    for number in range(20):
        compiled(torch.ones(number + 1))
"""
FAILING = """
import torch
from model import shift, uncalled
shift(torch.ones(2), scale={"a": 1.0})
raise ValueError("boom")
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """Return an open lab on a project with a script, and the folder that its workers can read."""
    root = tmp_path_factory.mktemp("project")
    shared = tmp_path_factory.mktemp("shared")
    for name, text in {
        "model.py": MODEL,
        "fast.py": COMPILED,
        "train.py": TRAIN,
        "failing.py": FAILING,
        "empty.py": "",
    }.items():
        (root / name).write_text(textwrap.dedent(text))
    with Lab(root, LabSettings(timeout_s=60), roots=[shared], keep=tmp_path_factory.mktemp("kept")) as lab:
        yield lab, shared


@pytest.fixture(scope="module")
def captured(bench):
    """Return what captures the calls of a target."""
    lab, shared = bench

    def captured(name, source="train.py"):
        return with_captured(lab, TargetSpec(name), source, shared)

    return captured


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("model.py:make_net", "train.py"),
        ("model.py:shift", "train.py"),
        ("model.py:make_step", "train.py"),
        ("model.py:Loss.focal", "train.py"),
        ("train.py:local", "train.py"),
        ("fast.py:compiled", "fast.py:drive"),
    ],
)
def test_the_first_calls_of_every_kind_of_target_are_recorded(captured, name, source):
    found = captured(name, source)
    assert (found.calls.calls, found.calls.stopped_early, found.calls.ended) == (8, True, "")
    assert found.calls.nbytes > 0
    assert found.target.captured.endswith("calls.espb")


def test_a_function_of_the_project_can_make_the_calls(captured):
    found = captured("model.py:shift", "train.py:drive")
    assert (found.calls.calls, found.calls.seen, found.calls.stopped_early) == (3, 3, False)


def test_recorded_calls_are_what_later_runs_get(bench, captured):
    lab, _ = bench
    target = captured("model.py:shift").target
    with lab.worker() as worker:
        assert worker.load(target).kind == "function"
        warm = worker.ask("timing", {"phase": "warm", "calls": 3, "train": False, "seed": 0}).result
        assert warm["input_bytes"] == 2 * 4 + 1 * 4


def test_a_record_can_be_used_again(bench, captured):
    lab, shared = bench
    first = captured("model.py:shift")
    again = with_captured(lab, TargetSpec("model.py:shift"), str(first.record.path), shared)
    assert again.described()["sha256"] == first.described()["sha256"]
    with pytest.raises(UsageError, match=r"there is no file 'none\.espb'"):
        with_captured(lab, TargetSpec("model.py:shift"), "none.espb", shared)


def test_what_is_no_record_is_refused_by_the_worker(bench, tmp_path):
    lab, shared = bench
    (tmp_path / "calls.espb").write_bytes(b"nothing of the kind" * 10)
    odd = with_captured(lab, TargetSpec("model.py:shift"), str(tmp_path / "calls.espb"), shared)
    with lab.worker() as worker, pytest.raises(UsageError, match=r"'calls\.espb' holds no captured calls"):
        worker.load(odd.target)


def test_calls_before_a_script_failed_are_kept_and_its_end_is_said(captured):
    found = captured("model.py:shift", "failing.py")
    assert (found.calls.calls, found.calls.ended) == (1, "ValueError: boom")


def test_a_script_that_fails_before_any_call_is_an_outcome(captured):
    with pytest.raises(WorkerError, match="ValueError: boom") as failed:
        captured("model.py:uncalled", "failing.py")
    assert (failed.value.outcome, failed.value.where) == (WorkerFailureKind.RAISED, "failing.py:5")


@pytest.mark.parametrize(
    ("name", "source", "problem"),
    [
        ("model.py:uncalled", "train.py", "'train.py' did not call 'model.py:uncalled'"),
        ("model.py:shift", "empty.py", "'empty.py' did not call 'model.py:shift'"),
        ("model.py:of_config", "train.py", "no call of 'model.py:of_config' in 'train.py' can be kept"),
        ("model.py:shift", "none.py", "there is no file 'none.py'"),
        ("model.py:shift", "train.py:nothing", "'train.py' has no 'nothing'"),
        ("model.py:shift", "train.py:needs", "'train.py:needs' needs arguments"),
        (
            "torch.nn.functional:gelu",
            "train.py",
            "only the calls of a function that is written in Python can be watched",
        ),
    ],
)
def test_where_nothing_can_be_recorded_it_says_why(captured, name, source, problem):
    with pytest.raises(UsageError) as refused:
        captured(name, source)
    assert problem in refused.value.problem
    assert refused.value.remedy


@pytest.mark.slow
def test_recorded_calls_can_be_made_where_tensors_have_no_numbers(bench, captured):
    lab, _ = bench
    report = run(lab, captured("model.py:make_net").target, MemoryOptions(steps=0, estimate_only=True), None)
    assert report.result["estimate"]["split_bytes"]["parameters"] == (4 * 4 + 4) * 4
