"""From paths to files: what is read, what is left out, what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from esper_agents.errors import InputFileError
from esper_agents.review.discover import discover


def write(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x = 1\n")


def listed(root: Path, *paths: str) -> list[str]:
    return [each.path for each in discover(root, [root / path for path in paths])]


def test_a_directory_is_walked_in_order(tmp_path):
    write(tmp_path, "b/z.py", "b/a.py", "a.py", "b/notes.txt", "c.pyi")
    assert listed(tmp_path, ".") == ["a.py", "b/a.py", "b/z.py"]


@pytest.mark.parametrize(
    "path",
    [
        ".hidden/a.py",
        "venv/a.py",
        ".venv/a.py",
        "build/a.py",
        "node_modules/a.py",
        "__pycache__/a.py",
        "x/site-packages/a.py",
    ],
)
def test_what_is_not_ours_is_left_out(tmp_path, path):
    write(tmp_path, "kept.py", path)
    assert listed(tmp_path, ".") == ["kept.py"]


def test_a_virtual_environment_of_any_name_is_left_out(tmp_path):
    write(tmp_path, "kept.py", "env/lib/a.py", "env/pyvenv.cfg", "envs/a.py")
    assert listed(tmp_path, ".") == ["envs/a.py", "kept.py"]


def test_what_is_left_out_of_a_walk_can_be_named(tmp_path):
    write(tmp_path, "build/a.py")
    assert listed(tmp_path, "build") == ["build/a.py"]
    assert listed(tmp_path, "build/a.py") == ["build/a.py"]


def test_a_file_named_twice_comes_once_and_counts_as_named(tmp_path):
    write(tmp_path, "a.py")
    found = discover(tmp_path, [tmp_path, Path("a.py"), tmp_path / "a.py"])
    assert [(each.path, each.is_explicit) for each in found] == [("a.py", True)]


def test_loops_of_links_end(tmp_path):
    write(tmp_path, "pkg/a.py")
    (tmp_path / "pkg" / "again").symlink_to(tmp_path / "pkg")
    (tmp_path / "pkg" / "self.py").symlink_to("self.py")
    assert listed(tmp_path, ".") == ["pkg/a.py"]


def test_links_that_lead_outside_are_left_out(tmp_path):
    write(tmp_path, "inside/a.py", "outside/secret.py")
    (tmp_path / "inside" / "link.py").symlink_to(tmp_path / "outside" / "secret.py")
    assert [each.path for each in discover(tmp_path / "inside", [tmp_path / "inside"])] == ["a.py"]


def test_pipes_are_not_opened(tmp_path):
    write(tmp_path, "a.py")
    os.mkfifo(tmp_path / "pipe.py")
    assert listed(tmp_path, ".") == ["a.py"]
    with pytest.raises(InputFileError, match="not a regular file"):
        discover(tmp_path, [tmp_path / "pipe.py"])


def test_a_path_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(InputFileError, match=r"no such path: 'nowhere\.py'"):
        discover(tmp_path, [Path("nowhere.py")])


def test_a_directory_without_python_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InputFileError, match="no Python file in this directory"):
        discover(tmp_path, [tmp_path])


def test_a_file_that_is_no_python_is_refused_with_a_way_out(tmp_path):
    (tmp_path / "a.ipynb").write_text("{}")
    with pytest.raises(InputFileError) as refused:
        discover(tmp_path, [tmp_path / "a.ipynb"])
    assert "nbconvert" in refused.value.remedy


def test_notebooks_are_found_where_they_are_wanted(tmp_path):
    write(tmp_path, "a.py", "b/c.ipynb", "b/.ipynb_checkpoints/c-checkpoint.ipynb", "d.txt")
    assert listed(tmp_path, ".") == ["a.py"]
    assert [each.path for each in discover(tmp_path, [tmp_path], notebooks=True)] == ["a.py", "b/c.ipynb"]
    assert [each.path for each in discover(tmp_path, [Path("b/c.ipynb")], notebooks=True)] == ["b/c.ipynb"]


def test_a_path_outside_the_project_is_refused(tmp_path):
    write(tmp_path, "inside/a.py", "outside/a.py")
    with pytest.raises(InputFileError, match="outside the project"):
        discover(tmp_path / "inside", [tmp_path / "outside" / "a.py"])


def test_a_root_behind_a_link_holds_its_files(tmp_path):
    write(tmp_path, "real/a.py")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert [each.path for each in discover(tmp_path / "link", [tmp_path / "real" / "a.py"])] == ["a.py"]
    assert [each.path for each in discover(tmp_path / "real", [tmp_path / "link" / "a.py"])] == ["a.py"]
