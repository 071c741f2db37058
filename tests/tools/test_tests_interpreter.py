"""Which Python runs a project's tests."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from esper_agents.tools.tests_interpreter import python_for_tests
from esper_agents.torchlab.interpreter_choice import modules_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    modules_of.cache_clear()
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)


def _python(folder: Path, modules: str) -> str:
    """Return a program that answers as an interpreter with some modules."""
    folder.mkdir(parents=True)
    file = folder / "python"
    file.write_text(f"#!/bin/sh\necho {modules}\n")
    file.chmod(0o755)
    return str(file)


def test_an_interpreter_without_torch_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _python(tmp_path / "system", "pytest")
    monkeypatch.setenv("PATH", str(tmp_path / "system"))

    assert python_for_tests(tmp_path) == sys.executable


def test_the_active_environment_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    active = _python(tmp_path / "venv" / "bin", "pytest torch")
    _python(tmp_path / "system", "pytest torch")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    monkeypatch.setenv("PATH", str(tmp_path / "system"))

    assert python_for_tests(tmp_path) == active


def test_one_that_does_not_run_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "system" / "python"
    _python(tmp_path / "system", "pytest torch")
    broken.write_text("#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("PATH", str(tmp_path / "system"))

    assert python_for_tests(tmp_path) == sys.executable


def test_a_program_that_the_project_brings_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brought = tmp_path / ".venv"
    _python(brought / "bin", f"pytest torch; touch {tmp_path / 'run'}")
    (brought / "pyvenv.cfg").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")

    assert python_for_tests(tmp_path) == sys.executable
    assert not (tmp_path / "run").exists()
