from __future__ import annotations

from dataclasses import replace

import pytest

from esper_agents.errors import EvidenceError
from esper_agents.tools import project_files as module
from esper_agents.tools.project_files import project_files
from esper_agents.tools.tool import ToolContext


def test_under_git_the_files_are_those_that_git_knows_or_would_take(context, git):
    root = context.root
    (root / ".gitignore").write_text("data/\n")
    (root / "data").mkdir()
    (root / "data" / "t.csv").write_text("1")
    (root / "new.py").write_text("")
    (root / "ünï code.py").write_text("")
    (root / "gone.py").write_text("")
    git(root, "add", "gone.py")
    (root / "gone.py").unlink()
    assert project_files(context) == (".gitignore", "new.py", "train.py", "ünï code.py")
    with pytest.raises(EvidenceError, match="git ignores it"):
        project_files(context, "data", ignored=True)
    assert project_files(replace(context, named=("data",)), "data", ignored=True) == ("data/t.csv",)


def test_secrets_links_and_what_lies_behind_links_are_left_out(context, git):
    root = context.root
    (root / ".env").write_text("seekret")
    (root / "sub").mkdir()
    (root / "sub" / "a.py").write_text("")
    git(root, "add", "-A", "-f")
    (root / "link.py").symlink_to("train.py")
    (root / "sub" / "a.py").unlink()
    (root / "sub").rmdir()
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("seekret")
    (root / "sub").symlink_to(outside)
    assert project_files(context) == ("train.py",)


def test_without_git_hidden_folders_and_environments_are_left_out(make_project):
    files = {"a/train.py": "", ".hidden/x.py": "", "venv/x.py": "", "env/pyvenv.cfg": "", "env/x.py": "", ".env": "s"}
    context = ToolContext(make_project(files, under_git=False))
    assert project_files(context) == ("a/train.py",)


def test_a_folder_with_too_many_files_is_refused(context, monkeypatch):
    monkeypatch.setattr(module, "MOST_FILES", 3)
    for number in range(4):
        (context.root / f"f{number}.py").write_text("")
    with pytest.raises(EvidenceError, match="holds over 3 files"):
        project_files(context)


def test_a_file_stands_for_itself(context):
    assert project_files(context, "train.py") == ("train.py",)
