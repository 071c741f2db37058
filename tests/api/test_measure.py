"""Measurements through the public API: the same reports as those of the commands, stored in the project's data."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from esper_agents.api import (
    ComparisonRequest,
    DataOptions,
    Effort,
    LineRange,
    MeasurementInputs,
    ScaffoldOptions,
    open_project,
    open_project_sync,
)
from esper_agents.errors import EvidenceError, IntegrityError, UsageError

pytest.importorskip("torch", reason="no torch: NOTHING was measured")
pytestmark = pytest.mark.anyio

LOADERS = (Path(__file__).parents[1] / "torchlab/data_project/loaders.py").read_text(encoding="utf-8")
MODEL = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x):
        y = self.layer(x)
        if y.abs().sum() > 0:
            y = y * 2
        return y


def log(x):
    return torch.log(x)


def other_log(x):
    return torch.log(x)


def raising(x):
    raise ValueError("no batch of this size")
"""
SCRIPT = "import torch\nfrom model import log\n\nfor number in range(3):\n    log(torch.full((4,), 1.0 - number))\n"
ROWS = MeasurementInputs(inputs=("randn(4,8)",))
POSITIVE = MeasurementInputs(inputs=("rand(64)",))


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def root(make_project):
    return make_project({"model.py": MODEL, "loaders.py": LOADERS, "train.py": SCRIPT})


@pytest.mark.slow
async def test_every_measurement_returns_a_stored_report(root):
    pipeline = DataOptions(step="loaders.py:make_fast_step", effort=Effort.QUICK)
    async with open_project(root) as project:
        measure = project.measure
        made = {
            "explain": await measure.explain("model.py:Net", ROWS),
            "export": await measure.export("model.py:Net", ROWS),
            "memory": await measure.memory("model.py:Net", ROWS, train=True, steps=0),
            "nan": await measure.nan("model.py:log", MeasurementInputs(inputs=("zeros(4)",)), steps=1),
            "watch": await measure.watch("model.py:log", [LineRange("model.py", 18, 18)], POSITIVE, calls=2),
            "data": await measure.data("loaders.py:slow_data", pipeline),
            "scaffold": await measure.scaffold("model.py:log", ScaffoldOptions(seconds=10)),
            "profile": await measure.profile("model.py:Net", ROWS, effort=Effort.QUICK, external_profilers=False),
        }
        for kind, stored in made.items():
            assert (stored.report.kind, stored.folder.parent) == (kind, project.services.home / "torch")
            assert all(each.path.parent == stored.folder for each in stored.report.made)
            assert measure.recheck(stored.folder / "report.json").absent == ()
        assert (root / made["scaffold"].report.result["harness"]).is_file()
        assert made["explain"].report.result["status"] == "breaks"
        assert made["nan"].report.result["status"] == "inf"
        assert made["watch"].report.result["lines"][0]["times"] == 2
        assert made["data"].report.result["status"] == "data"
        assert made["profile"].report.made


async def test_two_targets_are_compared(root, tmp_path):
    async with open_project(root) as project:
        request = ComparisonRequest(effort=Effort.QUICK, has_extras=False, seed=3)
        stored = await project.measure.compare(
            "model.py:log", "model.py:other_log", POSITIVE, request=request, output=tmp_path / "kept"
        )
    assert stored.folder == tmp_path / "kept"
    assert {name: arm["name"] for name, arm in stored.report.body["arms"].items()} == {
        "baseline": "model.py:log",
        "candidate": "model.py:other_log",
    }
    assert stored.report.result["verdict"]["outcome"] in {"not as fast as claimed", "not shown"}


async def test_inputs_are_captured_from_a_script(root):
    async with open_project(root) as project:
        stored = await project.measure.nan("model.py:log", MeasurementInputs(capture="train.py"))
    assert stored.report.result["status"] in {"inf", "nan"}
    assert stored.report.body["captured"]["source"] == "train.py"
    assert (stored.folder / stored.report.body["captured"]["name"]).is_file()


async def test_a_target_that_raises_is_an_error_and_leaves_no_folder(root):
    async with open_project(root) as project:
        with pytest.raises(EvidenceError, match="no batch of this size"):
            await project.measure.explain("model.py:raising", ROWS)
        assert not list((project.services.home / "torch").iterdir())


async def test_two_sources_of_inputs_are_refused(root):
    async with open_project(root) as project:
        with pytest.raises(UsageError, match="mutually exclusive"):
            await project.measure.explain("model.py:Net", MeasurementInputs(inputs=("3",), capture="train.py"))


@pytest.mark.slow
def test_the_synchronous_project_measures_too_and_a_changed_report_is_refused(root):
    with open_project_sync(root) as project:
        stored = project.measure.nan("model.py:log", POSITIVE, steps=1)
        assert stored.report.result["status"] == "clean"
        path = stored.folder / "report.json"
        path.write_text(path.read_text().replace("no NaN", "a NaN"))
        with pytest.raises(IntegrityError):
            project.measure.recheck(path)
        shutil.rmtree(stored.folder)
