"""Harnesses made by the lab: found arguments, a file that other measurements take, and the user's edits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from esper_agents.errors import UsageError
from esper_agents.torchlab import report as reports
from esper_agents.torchlab.harness import has_synthetic_inputs
from esper_agents.torchlab.lab import Lab, LabSettings
from esper_agents.torchlab.measurements import scaffold, watch
from esper_agents.torchlab.measurements.scaffold import ScaffoldOptions
from esper_agents.torchlab.measurements.watch import LineRange, WatchOptions
from esper_agents.torchlab.recheck import recheck
from esper_agents.torchlab.target import TargetSpec
from esper_agents.torchlab.worker_failure import WorkerError, WorkerFailureKind

torch = pytest.importorskip("torch", reason="no torch: NO harness was made")

NETS = """import abc
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    width: int


class Net(nn.Module):
    def __init__(self, config: Config, channels):
        super().__init__()
        self.body = nn.Conv2d(channels, config.width, 3)

    def forward(self, images):
        return self.body(images)


class Abstract(nn.Module, abc.ABC):
    @abc.abstractmethod
    def forward(self, x): ...


class Headless(nn.Module):
    pass


def ones():
    return torch.ones(3)


MODEL = nn.Linear(2, 2)
"""
LOSSES = """import torch


def focal(logits, targets, gamma):
    p = torch.softmax(logits, -1).gather(-1, targets[:, None])
    return -((1 - p) ** gamma * p.log()).mean()
"""
CALLS = """import argparse
import sys

sys.path.insert(0, ".")
import torch
from nets import Config, Net


def test_net():
    assert Net(Config(width=6), 2)(torch.rand(3, 2, 5, 5)).shape == (3, 6, 3, 3)


def test_fails_first():
    raise ValueError("no data")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, required=True)
    rows = parser.parse_args().rows
    net = Net(Config(width=4), 2)
    for number in range(2):
        net(torch.full((rows + number, 2, 5, 5), 0.25))
"""
BAD = "import os\nos.kill(os.getpid(), 9)\n\n\ndef lost(x):\n    return x\n"
HOSTILE = """import os
import sys
import urllib.request


def forks(x):
    if os.fork() == 0:
        sys.exit(0)
    return x * 2


def needs_network(x):
    return urllib.request.urlopen("http://example.org").read()


def exits(x):
    sys.exit(3)
"""
ON_IMPORT = """import sys

sys.exit("usage: train.py CONFIG")


def late(x):
    return x
"""
SCHEMA = json.loads(Path(reports.__file__).with_name("report.schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    root = tmp_path_factory.mktemp("scaffolded")
    (root / "parts").mkdir()
    (root / "nets.py").write_text(NETS)
    (root / "parts" / "losses.py").write_text(LOSSES)
    (root / "bad.py").write_text(BAD)
    (root / "hostile.py").write_text(HOSTILE)
    (root / "on_import.py").write_text(ON_IMPORT)
    (root / "on_import_writes.py").write_text("open(__file__ + '.txt', 'w')\n\n\ndef late(x):\n    return x\n")
    (root / "test_calls.py").write_text(CALLS)
    with Lab(root, LabSettings(timeout_s=60)) as opened:
        yield opened


def run(lab, name, **given):
    return scaffold.run(lab, TargetSpec(name), ScaffoldOptions(**given), None)


@pytest.mark.slow
def test_a_module_gets_a_harness_that_runs_and_is_not_replaced_once_it_is_edited(lab, tmp_path):
    report = run(lab, "nets.py:Net")
    Draft202012Validator(SCHEMA).validate(report.body)
    assert (report.result["status"], report.result["is_synthetic"], report.result["trains"]) == ("runs", True, True)
    assert report.result["runnable"] == ".esper/harness/nets_Net.py:make"
    assert {each["name"]: each["text"] for each in report.result["make"]} == {
        "config": "Config(width=32)",
        "channels": "16",
    }
    (tmp_path / "report.json").write_text(report.text())
    assert recheck(reports.read(tmp_path / "report.json"), tmp_path)
    path = lab.project / ".esper/harness/nets_Net.py"
    edited = path.read_text().replace("(2, 16, 32, 32)", "(5, 16, 8, 8)")
    path.write_text(edited)
    again = run(lab, "nets.py:Net").result
    assert (again["ended"], again["is_synthetic"], again["output"]) == (
        "edited",
        False,
        "Tensor(5, 32, 6, 6) float32",
    )
    assert path.read_text() == edited
    assert run(lab, "nets.py:Net", overwrite=True).result["ended"] == "found"
    assert path.read_text() != edited


@pytest.mark.slow
def test_a_function_gets_a_harness_that_another_measurement_takes_as_its_target(lab):
    result = run(lab, "parts/losses.py:focal").result
    assert (result["status"], result["output"], result["trains"]) == ("runs", "Tensor() float32", False)
    line = LineRange("parts/losses.py", 6, 6)
    report = watch.run(lab, TargetSpec(result["runnable"]), WatchOptions((line,), calls=2), None)
    assert report.result["lines"][0]["times"] == 2


@pytest.mark.slow
def test_bad_targets_are_refused_by_name_and_code_without_arguments_needs_no_harness(lab):
    for name, problem in {
        "nets.py:absent": "has no 'absent'",
        "nets.py:Abstract": "is abstract: it lacks forward",
        "nets.py:Headless": "has no forward method",
        "nets.py:MODEL": "is a module that exists already",
        "nets.py:Config": "objects of 'nets.py:Config' cannot be called",
    }.items():
        with pytest.raises(UsageError, match=problem):
            run(lab, name)
    with pytest.raises(WorkerError) as caught:
        run(lab, "bad.py:lost")
    assert caught.value.outcome is WorkerFailureKind.CRASHED
    result = run(lab, "nets.py:ones").result
    assert (result["ended"], result["runnable"], result["harness"]) == ("direct", "nets.py:ones", "")


@pytest.mark.slow
def test_the_arguments_of_a_script_s_first_call_are_saved_and_are_not_synthetic(lab):
    report = run(lab, "nets.py:Net", capture="test_calls.py --rows 7", overwrite=True)
    Draft202012Validator(SCHEMA).validate(report.body)
    result = report.result
    assert (result["is_synthetic"], result["output"]) == (False, "Tensor(7, 4, 3, 3) float32")
    assert {each["name"]: each["text"] for each in (*result["make"], *result["call"])} == {
        "config": "Config(width=4)",
        "channels": "2",
        "images": 'captured("call_images")',
    }
    assert result["captured"]["shapes"] == ["images (7, 2, 5, 5)", "images (8, 2, 5, 5)"]
    saved = torch.load(lab.project / ".esper/harness/nets_Net.tensors", weights_only=True)
    assert saved["call_images"].unique().tolist() == [0.25]
    assert not has_synthetic_inputs(lab.project, result["runnable"])
    assert run(lab, "nets.py:Net").result["ended"] == "captured"
    shapes = run(lab, "nets.py:Net", capture="test_calls.py --rows 7", shapes_only=True).result
    assert (shapes["is_synthetic"], shapes["call"][0]["text"]) == (True, "torch.randn((7, 2, 5, 5))")
    assert has_synthetic_inputs(lab.project, shapes["runnable"])


@pytest.mark.slow
def test_a_test_of_the_project_gives_the_arguments_and_what_makes_no_call_is_named(lab):
    result = run(lab, "nets.py:Net", capture="test_calls.py::test_net", overwrite=True).result
    assert result["headline"] == "runs with the inputs of a call by test_calls.py::test_net: Tensor(3, 6, 3, 3) float32"
    with pytest.raises(UsageError, match=r"did not call 'nets\.py:Net'; it ended with SystemExit: 2"):
        run(lab, "nets.py:Net", capture="test_calls.py")
    with pytest.raises(UsageError, match=r"pytest ran no test for 'test_calls\.py::test_absent'"):
        run(lab, "nets.py:Net", capture="test_calls.py::test_absent")
    with pytest.raises(WorkerError, match="pytest reports a failure") as caught:
        run(lab, "nets.py:Net", capture="test_calls.py::test_fails_first")
    assert "no data" in caught.value.said


def test_code_that_forks_needs_the_network_or_ends_its_process_ends_a_search_at_once(lab):
    ends = {name: run(lab, f"hostile.py:{name}").result for name in ("forks", "needs_network", "exits")}
    assert {name: (each["ended"], each["number"]) for name, each in ends.items()} == {
        "forks": ("found", 1),
        "needs_network": ("network", 1),
        "exits": ("exit", 1),
    }
    assert (ends["exits"]["headline"], ends["exits"]["error"]) == (
        "no arguments found in 1 run: it ends the process",
        "SystemExit: 3",
    )
    assert all(
        label != "next"
        for section in scaffold.sections(scaffold.MEASUREMENT.parsed(run(lab, "hostile.py:exits")), {})
        for label, _ in section.pairs
    )


@pytest.mark.parametrize(("file", "line", "kind"), [("on_import", 3, "SystemExit"), ("on_import_writes", 1, "OSError")])
def test_an_effect_of_an_import_is_named_with_its_line_and_leaves_nothing(lab, file, line, kind):
    with pytest.raises(WorkerError, match=f"raised {kind}") as caught:
        run(lab, f"{file}.py:late")
    fix = f'put line {line} below `if __name__ == "__main__":`, so that the file can be imported'
    assert (caught.value.where, caught.value.remedy) == (f"{file}.py:{line}", fix)
    assert not list(lab.project.glob("*.txt"))


def test_a_module_whose_package_needs_an_absent_package_is_run_and_every_report_says_so(tmp_path):
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("from .attend import Attend\nimport absent_package\n")
    (package / "attend.py").write_text(
        "from torch import nn\n\n\nclass Attend(nn.Module):\n    def __init__(self, dim):\n        super().__init__()\n"
        "        self.layer = nn.Linear(dim, dim)\n\n    def forward(self, x):\n        return self.layer(x)\n"
    )
    said = ("without running pack/__init__.py, which raised ModuleNotFoundError: No module named 'absent_package'",)
    schema = Draft202012Validator(json.loads(Path(reports.__file__).with_name("report.schema.json").read_text()))
    with Lab(tmp_path, LabSettings(timeout_s=60)) as lab:
        made = scaffold.run(lab, TargetSpec("pack/attend.py:Attend"), ScaffoldOptions(), None)
        assert made.result["status"] == "runs"
        assert made.packages_not_run == said
        schema.validate(made.body)
        recheck(made, tmp_path)
        # The harness imports the package, too.
        lab.begin_measurement()
        harness = TargetSpec(made.result["runnable"])
        again = watch.run(lab, harness, WatchOptions((LineRange("pack/attend.py", 10, 10),), calls=2), None)
        assert again.packages_not_run == said
        (tmp_path / "plain.py").write_text("import torch\n\n\ndef ones():\n    return torch.ones(2)\n")
        lab.begin_measurement()
        assert scaffold.run(lab, TargetSpec("plain.py:ones"), ScaffoldOptions(), None).packages_not_run == ()


STATED = """import torch
from torch import nn


class Picky(nn.Module):
    def __init__(self, width=8, depth=1):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(width, width) for _ in range(depth)))

    def forward(self, x, lens=None):
        if lens is not None and x.shape[-1] == 12:
            raise ValueError("lens and 12")
        return self.layers(x)
"""


@pytest.fixture
def picky(tmp_path):
    (tmp_path / "picky.py").write_text(STATED)
    with Lab(tmp_path, LabSettings(timeout_s=60)) as opened:
        yield lambda **given: scaffold.MEASUREMENT.parsed(run(opened, "picky.py:Picky", **given))


def test_stated_arguments_and_a_stated_shape_are_used_as_they_are(picky):
    found = picky(make="width=12, depth=3", shape="4,12")
    assert found.output == "Tensor(4, 12) float32"
    assert {each.name: each.text for each in found.make} == {"width": "12", "depth": "3"}


def test_an_argument_left_open_is_chosen_and_an_error_with_stated_arguments_is_the_result(picky):
    found = picky(make="12", call="..., lens=...", shape="4,12")
    assert found.status == "none"
    assert found.runs[0].error == "ValueError: lens and 12"
    assert "lens=torch.randint(1, 17, (4,))" in found.runs[0].call


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"make": "width="}, "is no list of arguments"),
        ({"make": "width=open('x')"}, "is no list of arguments"),
        ({"make": "height=3"}, "it has no parameter 'height'"),
        ({"make": "1, 2, 3"}, "it takes 2 arguments"),
    ],
)
def test_stated_arguments_that_cannot_be_used_are_refused(picky, given, problem):
    with pytest.raises((UsageError, WorkerError), match=problem):
        picky(**given)
