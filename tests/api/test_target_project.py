"""Which project a target belongs to, and what it is called there."""

from __future__ import annotations

import pytest

from esper_agents.api.target_project import find_target_project
from esper_agents.errors import InputFileError, UsageError


@pytest.fixture
def root(make_project):
    return make_project({"model.py": "", "pkg/__init__.py": "", "pkg/net.py": "", "sub/own.py": "", "train.py": ""})


@pytest.mark.parametrize(
    ("asked", "at", "named"),
    [
        ("model.py:make", ".", "model.py:make"),
        ("own.py:make", "sub", "sub/own.py:make"),
        ("../model.py:Net.forward", "sub", "model.py:Net.forward"),
        ("pkg.net:make", ".", "pkg/net.py:make"),
        ("pkg:make", ".", "pkg/__init__.py:make"),
        ("own:make", "sub", "sub/own.py:make"),
        ("torch.nn.functional:gelu", ".", "torch.nn.functional:gelu"),
    ],
)
def test_a_target_is_named_from_the_root_of_its_project(root, asked, at, named):
    place = find_target_project(asked, root / at)
    assert (place.root, place.target) == (root, named)


def test_files_beside_the_target_are_named_from_the_root_too(root):
    place = find_target_project("own.py:make", root / "sub")
    assert place.inside("../train.py") == "train.py"
    assert place.inside("../train.py:main") == "train.py:main"


def test_what_belongs_to_a_project_is_kept_under_its_key(root, home):
    assert find_target_project("model.py:make", root).home.parent == home / "projects"


@pytest.mark.parametrize("name", ["model.py", "model.py:", ":make", ""])
def test_a_name_without_file_or_function_is_no_target(root, name):
    with pytest.raises(UsageError, match="names no target"):
        find_target_project(name, root)


def test_a_file_that_is_not_there_is_refused(root):
    with pytest.raises(InputFileError, match=r"no such file or folder: .nosuch\.py."):
        find_target_project("nosuch.py:make", root)
    with pytest.raises(InputFileError, match=r"no such file: .nosuch\.py."):
        find_target_project("model.py:make", root).inside("nosuch.py:inputs")


def test_files_of_another_project_are_refused(root, tmp_path):
    (tmp_path / "other.py").write_text("")
    with pytest.raises(UsageError, match="is not in the project"):
        find_target_project("model.py:make", root).inside("../other.py")
