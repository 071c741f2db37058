"""Which interpreter measures a project: that of its user or its own environment, and what is not run for the choice."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from esper_agents.errors import EvidenceError, UsageError
from esper_agents.torchlab import report as reports
from esper_agents.torchlab import sandbox
from esper_agents.torchlab.interpreter import interpreter, project_interpreter
from esper_agents.torchlab.interpreter_choice import modules_of, project_candidates
from esper_agents.torchlab.lab import Lab
from esper_agents.torchlab.measurements.watch import LineRange, WatchOptions, run
from esper_agents.torchlab.target import TargetSpec

SCHEMA = json.loads(Path(reports.__file__).with_name("report.schema.json").read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def _nothing_active(monkeypatch):
    modules_of.cache_clear()
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "m.py").write_text("def double(x):\n    return x * 2\n")
    return tmp_path / "project"


def environment(folder):
    """Create a virtual environment without packages, and return the folder of its packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    return packages


def with_torch(packages, version):
    (packages / "torch").mkdir()
    (packages / "torch" / "version.py").write_text(f"__version__ = '{version}'\n")
    (packages / "torch" / "__init__.py").write_text("raise ImportError('libtorch is missing')\n")


def watched(root):
    with Lab(root) as lab:
        options = WatchOptions((LineRange("m.py", 2, 2),), calls=1)
        return run(lab, TargetSpec("m.py:double", ("ones(2)",)), options, None)


def test_code_of_the_project_s_environment_is_not_run_to_choose_it(root):
    packages = environment(root / ".venv")
    with_torch(packages, "2.6.0")
    (packages / "startup.pth").write_text(f"import pathlib; pathlib.Path({str(root / 'run')!r}).touch()\n")
    (found,) = project_candidates(root)
    assert (found.name, found.modules, found.problem) == (".venv", {"torch": "2.6.0"}, "")
    described = project_interpreter(root)
    assert (described.executable, described.is_projects) == (str(root / ".venv/bin/python"), True)
    assert root / ".venv" in described.places
    assert described.version == sys.version_info[:3]
    assert not (root / "run").exists()


@pytest.mark.parametrize("has_settings", [False, True])
def test_an_environment_whose_program_is_a_file_of_the_project_is_not_used(root, has_settings):
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / "python3").write_text("#!/bin/sh\n")
    (root / ".venv" / "bin" / "python").symlink_to(root / "python3")
    if has_settings:
        (root / ".venv" / "pyvenv.cfg").touch()
    assert project_interpreter(root) is None


def test_an_environment_of_the_project_starts_in_bubblewrap_only(root, tmp_path, monkeypatch):
    environment(root / ".venv")
    monkeypatch.setattr(sandbox.bubblewrap, "find", lambda: None)
    (tmp_path / "scratch").mkdir()
    view = sandbox.SandboxMounts(project_interpreter(root), (root,), tmp_path, tmp_path / "scratch")
    with pytest.raises(EvidenceError, match=r"no sandbox works here for .*\.venv/bin/python"):
        sandbox.choose(view, is_waived=False)
    own = replace(view, interpreter=interpreter(sys.executable))
    assert sandbox.choose(own, is_waived=False).sandbox is sandbox.Sandbox.LANDLOCK


def test_a_setting_that_names_no_program_is_refused_by_name(root, monkeypatch):
    monkeypatch.setenv("ESPER_PYTHON", "/absent/python")
    with pytest.raises(UsageError, match="ESPER_PYTHON names '/absent/python'"):
        list(project_candidates(root))


def test_the_active_environment_measures_with_its_own_torch(root, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="no torch: NOTHING was measured")
    packages = environment(tmp_path / "active")
    (packages / "torch.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    report = watched(root)
    Draft202012Validator(SCHEMA).validate(report.body)
    assert report.body["environment"]["interpreter"] == {"name": "the active environment", "passed_over": []}
    assert report.interpreter.startswith("torch 2.")
    assert report.interpreter.endswith(" of the active environment")


def test_environments_that_cannot_measure_are_named_with_the_reason(root, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="no torch: NOTHING was measured")
    environment(tmp_path / "active")
    with_torch(environment(root / ".venv"), "2.6.0")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    report = watched(root)
    about = report.body["environment"]["interpreter"]
    assert about["name"] == ""
    first, second = about["passed_over"]
    assert first == "the active environment has no torch"
    # Without bubblewrap, an environment of the project does not run at all.
    assert ("libtorch is missing" if shutil.which("bwrap") else "bubblewrap: it is not installed") in second
    assert f"of esper-agents: {first}; " in report.interpreter


def test_an_old_torch_is_passed_over(root):
    with_torch(environment(root / ".venv"), "1.13.1")
    assert [project_candidate.problem for project_candidate in project_candidates(root)] == [
        "torch 1.13.1 of .venv is older than 2.4"
    ]
