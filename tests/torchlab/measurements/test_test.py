"""Drafted tests: what they assert is what the calls showed, they pass under pytest, and the user's files stay."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from esper_agents.torchlab import report as reports
from esper_agents.torchlab.lab import Lab, LabSettings
from esper_agents.torchlab.measurements import test as drafting
from esper_agents.torchlab.measurements.test import DraftOptions
from esper_agents.torchlab.recheck import recheck
from esper_agents.torchlab.target import TargetSpec

torch = pytest.importorskip("torch", reason="no torch: NO test was drafted")

NETS = """import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(8, width)
        self.drop = nn.Dropout(0.5)
        self.unused = nn.Linear(3, 3)

    def forward(self, x):
        return self.drop(self.fc(x))


class Trainer:
    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer):
        self.model, self.optimizer = model, optimizer

    def step(self, x, y):
        loss = F.mse_loss(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def noisy(x):
    x += torch.rand(()).item() * 0 + 1
    return {"sum": x.sum(), "count": x.numel()}


def broken(x):
    raise RuntimeError("never")
"""
SCHEMA = json.loads(Path(reports.__file__).with_name("report.schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    root = tmp_path_factory.mktemp("drafted")
    (root / "nets.py").write_text(NETS)
    (root / "checks").mkdir()
    (root / "checks" / "test_net.py").write_text("def test_of_the_user():\n    assert True\n")
    with Lab(root, LabSettings(timeout_s=60)) as opened:
        yield opened


def run(lab, name):
    return drafting.run(lab, TargetSpec(name), DraftOptions(), None)


def test_a_drafted_test_of_a_module_asserts_what_held_and_passes_under_pytest(lab, tmp_path):
    report = run(lab, "nets.py:Net")
    Draft202012Validator(SCHEMA).validate(report.body)
    result = report.result
    assert (result["status"], result["is_synthetic"]) == ("passed", True)
    assert [each["name"].removeprefix("test_") for each in result["runs"]] == [
        "net_returns_what_is_expected",
        "net_is_repeatable_from_a_seed",
        "a_gradient_reaches_the_parameters_of_net",
        "net_is_random_in_training_and_not_in_evaluation",
        "net_does_not_change_its_arguments",
    ]
    assert result["unasserted"] == ["no gradient reaches unused.weight, unused.bias"]
    (tmp_path / "report.json").write_text(report.text())
    assert recheck(reports.read(tmp_path / "report.json"), tmp_path)
    # The user's own test of that name stays.
    assert result["copy_command"] == "cp .esper/tests/test_net.py checks/test_net_draft.py"
    copied = lab.project / "checks" / "test_net_draft.py"
    copied.write_text((lab.project / result["draft"]).read_text())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(copied)]
    done = subprocess.run(command, cwd=lab.project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    copied.unlink()


@pytest.mark.slow
def test_a_training_step_changes_the_parameters_of_the_model_whose_optimizer_it_has(lab):
    result = run(lab, "nets.py:Trainer.step").result
    assert "a call changes the parameters of `model`" in result["asserted"]
    assert "optimizer=torch.optim.SGD(model.parameters(), lr=0.1)" in result["text"]
    assert result["status"] == "passed"


def test_what_the_calls_showed_is_told_and_an_edited_draft_is_run_as_it_is(lab):
    result = run(lab, "nets.py:noisy").result
    assert "a call changes its arguments at positions 0" in result["unasserted"]
    path = lab.project / result["draft"]
    edited = path.read_text() + "\n\ndef test_mine():\n    assert run()['count'] == 0, 'mine'\n"
    path.write_text(edited)
    again = run(lab, "nets.py:noisy").result
    assert (again["status"], again["is_edited"], again["runs"][-1]) == (
        "failed",
        True,
        {"name": "test_mine", "error": "AssertionError: mine"},
    )
    assert path.read_text() == edited


def test_a_target_without_inputs_gets_no_test(lab):
    result = run(lab, "nets.py:broken").result
    assert (result["status"], result.get("draft", "")) == ("none", "")
    assert "never" in result["error"]
    assert not (lab.project / ".esper/tests/test_broken.py").exists()
