"""Measured code cannot read what git ignores, is told so by name, and can read it if the user asked for it."""

from __future__ import annotations

import asyncio
import subprocess

import pytest

from esper_agents.api import TargetSpec
from esper_agents.api.target_project import current_project
from esper_agents.cli.torch.options import MeasurementOptions
from esper_agents.cli.torch.run import opened
from esper_agents.errors import UsageError
from esper_agents.tools.lab_pool import LabPool
from esper_agents.torchlab import bubblewrap
from esper_agents.torchlab.worker_failure import WorkerError, WorkerFailureKind

pytest.importorskip("torch", reason="no torch: NOTHING of the lab was run")

TARGET = """
def data(x):
    open("%(root)s/data/train.bin").read()
    return x


def wrapped(x):
    try:
        return data(x)
    except OSError:
        raise ValueError("no data")


def added(x):
    import added_later
    return x


def outside(x):
    open("%(root)s-outside/weights.bin").read()
    return x
"""


@pytest.fixture(params=["bubblewrap", "landlock"])
def project(request, tmp_path, monkeypatch):
    if request.param == "landlock":
        monkeypatch.setattr(bubblewrap, "find", lambda: None)
    elif bubblewrap.find() is None:
        pytest.skip("bubblewrap is not installed and was NOT tested")
    root = tmp_path / "project"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / ".gitignore").write_text("data/\n")
    (root / "model.py").write_text(TARGET % {"root": root})
    for folder in (root / "data", tmp_path / "project-outside"):
        folder.mkdir()
    (root / "data" / "train.bin").write_text("x")
    (tmp_path / "project-outside" / "weights.bin").write_text("x")
    monkeypatch.chdir(root)
    return root


def _ran(lab, name):
    with lab.worker() as worker:
        worker.load(TargetSpec(f"model.py:{name}", ("randn(4)",)))
        return worker.ask("timing", {"phase": "warm", "calls": 1, "train": False, "seed": 0}).result


@pytest.mark.sample(1)
def test_a_command_reads_ignored_files_only_if_asked(project):
    place = current_project(project)
    with opened(place, MeasurementOptions(), keep=None) as bench:
        for name in ("data", "wrapped"):
            with pytest.raises(WorkerError, match="git ignores it") as caught:
                _ran(bench.measuring.lab, name)
            assert caught.value.outcome is WorkerFailureKind.RAISED
            assert f"--read {project / 'data'}" in caught.value.remedy
    with opened(
        place, MeasurementOptions(read=[project / "data", project.parent / "project-outside"]), keep=None
    ) as bench:
        assert _ran(bench.measuring.lab, "data")
        assert _ran(bench.measuring.lab, "outside")
        (project / "added_later.py").write_text("")
        bench.measuring.lab.begin_measurement()
        assert _ran(bench.measuring.lab, "added")


@pytest.mark.slow
def test_a_tool_reads_ignored_files_only_if_the_user_named_them(project):
    async def measured():
        bench = LabPool(project)
        try:
            with pytest.raises(WorkerError, match="git ignores it"):
                await bench.measure(lambda lab: _ran(lab, "data"))
            assert await bench.measure(lambda lab: _ran(lab, "data"), asked=[project / "data"])
            with pytest.raises(WorkerError, match="git ignores it"):
                await bench.measure(lambda lab: _ran(lab, "data"))
        finally:
            await bench.close()

    asyncio.run(measured())


def test_asking_for_what_does_not_exist_is_refused(project):
    with pytest.raises(UsageError, match="does not exist"):
        MeasurementOptions(read=[project / "nowhere"]).readable()
