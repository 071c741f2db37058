"""Tests of `esper_agents.traces.locate`: frames of other machines and versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from esper_agents.domain.stack_trace import StackTrace, TraceFrame
from esper_agents.traces.locate import ProjectSources, is_installed, locate_frame, locate_trace

NET = "import torch\n\ndef forward(x):\n    y = x * 2\n    return y.view(3)\n\ndef other(x):\n    return x + 1\n"


@pytest.fixture
def sources(tmp_path: Path) -> ProjectSources:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "net.py").write_text(NET)
    (tmp_path / "train.py").write_text("from pkg.net import forward\n\nforward(1)\n")
    return ProjectSources(tmp_path)


def located(sources: ProjectSources, *frame: object) -> str:
    found = locate_frame(TraceFrame(*frame), sources)
    return f"{found.location}{' moved' if found.moved else ''}" if found else ""


def test_a_frame_of_another_machine_is_found_by_its_path_and_text(sources: ProjectSources) -> None:
    assert located(sources, "/home/lee/proj/pkg/net.py", 5, "forward", "return y.view(3)") == "pkg/net.py:5"
    assert located(sources, r"C:\work\pkg\net.py", 5, "forward", "return y.view(3)") == "pkg/net.py:5"


def test_a_line_that_moved_is_found_by_its_text(sources: ProjectSources) -> None:
    assert located(sources, "/x/pkg/net.py", 41, "forward", "return y.view(3)") == "pkg/net.py:5 moved"


def test_a_line_whose_text_is_gone_or_not_unique_is_not_located(sources: ProjectSources) -> None:
    assert located(sources, "/x/pkg/net.py", 5, "forward", "return y.reshape(3)") == ""
    (sources.root / "pkg" / "net.py").write_text("a = 1\nb = 2\na = 1\n")
    assert located(ProjectSources(sources.root), "/x/pkg/net.py", 9, "<module>", "a = 1") == ""


def test_a_frame_without_text_needs_its_function_around_the_line(sources: ProjectSources) -> None:
    assert located(sources, "/x/pkg/net.py", 5, "forward") == "pkg/net.py:5"
    assert located(sources, "/x/pkg/net.py", 8, "forward") == ""


def test_frames_of_another_project_and_of_packages_are_counted(sources: ProjectSources) -> None:
    frames = (
        TraceFrame("/x/train.py", 3, "<module>", "forward(1)"),
        TraceFrame("/x/pkg/net.py", 4, "forward", "y = x * 2"),
        TraceFrame("/x/unknown.py", 4, "f", "y = 1"),
        TraceFrame("/opt/conda/lib/python3.10/site-packages/torch/x.py", 1, "g", "z"),
    )
    found = locate_trace(StackTrace("ValueError", "", frames), sources)
    assert [str(frame.location) for frame in found.frames] == ["pkg/net.py:4", "train.py:3"]
    assert (found.installed, [frame.path for frame in found.unlocated]) == (1, ["/x/unknown.py"])


def test_a_project_inside_an_environment_is_not_an_installed_package(tmp_path: Path) -> None:
    assert is_installed("/v/lib/python3.11/site-packages/torch/a.py", tmp_path)
    assert not is_installed(f"{tmp_path}/site-packages/net.py", tmp_path)
