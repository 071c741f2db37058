"""The hooks that other repositories take from here, run by pre-commit itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

MANIFEST = Path(__file__).parents[2] / ".pre-commit-hooks.yaml"
HOOKS = {each["id"]: each for each in yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))}
FAULTY = 'import torch\n\nstate = torch.load("a.pt", weights_only=False)\n'


def pre_commit(*arguments, cwd, **more):
    command = [sys.executable, "-m", "pre_commit", *arguments]
    environment = {**os.environ, "PRE_COMMIT_HOME": str(cwd / ".cache"), "PRE_COMMIT_COLOR": "never"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, **more)


@pytest.fixture
def repository(make_project):
    """Return a repository that runs the hooks with the program that is installed here."""
    here = f"{sys.executable} -m esper_agents.cli.main"
    hooks = [
        {**hook, "language": "system", "entry": hook["entry"].replace("esper ", f"{here} ", 1)}
        for hook in HOOKS.values()
    ]
    config = yaml.safe_dump({"repos": [{"repo": "local", "hooks": hooks}]})
    return make_project(
        {".pre-commit-config.yaml": config, ".gitignore": ".cache\n", "old.py": FAULTY, "a.py": "x = 1\n"}
    )


def test_the_manifest_is_one_that_pre_commit_takes(tmp_path):
    done = pre_commit("validate-manifest", str(MANIFEST), cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_the_files_of_a_commit_are_reviewed(repository, git):
    (repository / "a.py").write_text(FAULTY)
    git(repository, "add", "-A")
    done = pre_commit("run", "esper-review", cwd=repository)
    assert done.returncode == 1, done.stdout
    assert "a.py:3:9: warning ESP901" in done.stdout
    assert "old.py" not in done.stdout
    (repository / "a.py").write_text("x = 2\n")
    git(repository, "add", "-A")
    assert pre_commit("run", "esper-review", cwd=repository).returncode == 0


@pytest.mark.slow
def test_a_commit_is_judged_by_what_it_brings_even_by_commit_all(repository, git, tmp_path):
    done = pre_commit("install", cwd=repository)
    assert done.returncode == 0, done.stdout + done.stderr
    environment = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "cache"), "SKIP": "esper-review"}
    commit = ["git", "-C", str(repository), "commit", "-qam", "second"]

    (repository / "old.py").write_text(FAULTY + "x = 1\n")
    done = subprocess.run(commit, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    (repository / "a.py").write_text(FAULTY)
    done = subprocess.run(commit, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "a.py:3:9: warning ESP901" in done.stdout + done.stderr
    assert git(repository, "log", "--oneline").count("\n") == 1
