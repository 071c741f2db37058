"""Export diagnosis in real workers."""

import importlib.util

import pytest
from printed_reports import printed

from esper_agents.torchlab.lab import Lab
from esper_agents.torchlab.measurements.export import ExportOptions, change_for, run
from esper_agents.torchlab.target import TargetSpec
from esper_agents.torchlab.worker.export.result import ExportAttempt
from esper_agents.torchlab.worker_failure import WorkerError

MODEL = """\
import torch
from torch import nn

class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.last(self.drop(self.norm(self.first(x)).relu()))

class Mean(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x):
        self.mean.mul_(0.9).add_(x.mean(0))
        return x - self.mean

class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, x):
        self.count += 1
        return x * self.count

def branch(x):
    if x.sum() > 0:
        return x + 1
    return x - 1

def fixed(x):
    y = x.view(4, 8) if x.shape[0] == 4 else x.view(x.shape[0], 8)
    return y * 2

def parity(x):
    if x.shape[0] % 2 == 0:
        return x * 2
    return x + 1

def raises(x):
    return x @ x
"""


def line(text):
    return next(number for number, each in enumerate(MODEL.splitlines(), 1) if text in each)


@pytest.fixture(scope="module")
def diagnose(tmp_path_factory):
    project = tmp_path_factory.mktemp("project")
    (project / "model.py").write_text(MODEL)
    told = {}
    with Lab(project) as lab:

        def diagnosed(name):
            if name not in told:
                told[name] = run(lab, TargetSpec(f"model.py:{name}", inputs=("randn(4,8)",)), ExportOptions(), None)
            return told[name]

        yield diagnosed


def outcomes(report):
    attempts = report.result["attempts"].items()
    return {name: each["outcome"] for name, each in attempts if name != "onnx"}


ALL = ("strict", "non-strict", "draft", "dynamic-batch")


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["Mlp", "Mean"])
def test_a_module_with_dropout_or_buffers_exports_and_gives_the_numbers_of_eager(diagnose, name):
    report = diagnose(name)
    assert outcomes(report) == dict.fromkeys(ALL, "exports")
    assert [each["compared"] for each in report.result["attempts"].values()][:4] == [3, 3, 3, 5]
    assert report.result["status"] == "exports"


def test_a_program_that_froze_a_counter_is_no_success(diagnose):
    report = diagnose("Counter")
    assert outcomes(report) == dict.fromkeys(ALL, "differs")
    assert report.result["status"] == "fails"
    assert "registered buffer" in report.result["attempts"]["strict"]["change"]


def test_a_branch_on_values_fails_at_its_line_and_a_draft_raises_on_other_values(diagnose):
    report = diagnose("branch")
    assert outcomes(report) == {"strict": "fails", "non-strict": "fails", "draft": "raises", "dynamic-batch": "fails"}
    assert {each["place"]["line"] for each in report.result["attempts"].values()} == {line("x.sum() > 0")}
    assert all("torch.where" in each["change"] for each in report.result["attempts"].values())


def test_code_for_one_batch_size_exports_but_not_with_a_dynamic_one_and_the_line_is_named(diagnose):
    report = diagnose("fixed")
    assert outcomes(report) == {**dict.fromkeys(ALL, "exports"), "dynamic-batch": "fails"}
    assert report.result["attempts"]["dynamic-batch"]["place"]["line"] == line("x.view(4, 8)")
    assert report.result["status"] == "partly"


def test_a_dynamic_batch_is_tried_on_sizes_that_break_the_pattern_of_the_first(diagnose):
    tried = diagnose("parity").result["attempts"]["dynamic-batch"]
    assert (tried["outcome"], tried["inputs"]) == ("raises", "leading dimension 5")


def test_an_exception_of_the_user_s_code_is_his_own(diagnose):
    with pytest.raises(WorkerError) as caught:
        diagnose("raises")
    assert caught.value.where == f"model.py:{line('x @ x')}"


def test_onnx_is_missing_rather_than_failed_where_it_is_not_installed(diagnose):
    if importlib.util.find_spec("onnx") is not None:
        pytest.skip("onnx is installed")
    result = diagnose("Mlp").result
    assert "onnx" not in result["attempts"]
    assert any(each["what"] == "ONNX" for each in result["missing"])


@pytest.mark.parametrize("name", ["Mlp", "branch", "fixed"])
def test_the_screen_shows_each_attempt_with_its_line_and_what_to_change(diagnose, name):
    report = diagnose(name)
    said = printed(report)
    assert said.startswith(report.result["status"])
    assert all(each in said for each in ALL)
    for each in report.result["attempts"].values():
        if each["outcome"] != "exports":
            assert each["place"]["source"] in said


def test_what_cannot_be_recognized_still_gets_something_to_change():
    assert "draft" in change_for(ExportAttempt(outcome="fails", message="something new"))
    assert ".eval()" in change_for(ExportAttempt(outcome="differs", is_training=True, difference="x"))
