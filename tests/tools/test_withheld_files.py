"""Which files of a project measured code cannot read, and what the lab makes of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from esper_agents.tools import withheld_files as module
from esper_agents.tools.withheld_files import withheld_files
from esper_agents.torchlab import sandbox

FILES = {
    "model.py": True,
    "package/weights.json": True,
    "package/__pycache__/model.cpython-311.pyc": True,
    "package/_version.py": True,
    "build/lib/extension.so": True,
    "build/lib/package.dist-info/METADATA": True,
    "build/lib/data.json": False,
    "build/.env": False,
    "data/train.bin": False,
    "data/deep/more.bin": False,
    "package/run.log": False,
    "kept.log": True,
    ".env": False,
    "package/id_rsa": False,
    "package/prod.KEY": False,
    ".ssh/known_hosts": False,
    ".git/config": False,
    "nested/.git/config": False,
    "nested/code.py": True,
    "nested/out.txt": False,
    "venv/pyvenv.cfg": False,
    "venv/lib/site.py": False,
}


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "the project"
    for each in (root, root / "nested"):
        subprocess.run(["git", "init", "-q", str(each)], check=True)
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if not (root / name).exists():
            (root / name).write_text("x")
    (root / ".gitignore").write_text("build/\ndata/\n*.log\n__pycache__/\n_version.py\nvenv/\n")
    (root / "nested" / ".gitignore").write_text("out.txt\n")
    subprocess.run(["git", "-C", str(root), "add", "-f", "kept.log"], check=True)
    return root


def _shown(root, withheld):
    return {
        name: not any((root / name) == each or each in (root / name).parents for each in withheld) for name in FILES
    }


def test_secrets_and_ignored_files_are_withheld_and_code_is_not(project):
    assert _shown(project, withheld_files(project)) == FILES


def test_a_folder_with_nothing_to_read_is_withheld_whole(project):
    assert project / "data" in withheld_files(project)


def test_the_environment_of_the_interpreter_is_not_withheld(project):
    shown = _shown(project, withheld_files(project, environments=[project / "venv"]))
    assert shown == FILES | {"venv/pyvenv.cfg": True, "venv/lib/site.py": True}


def test_what_the_user_asked_for_is_not_withheld_but_its_secrets_are(project):
    (project / "data" / "credentials.json").write_text("{}")
    withheld = withheld_files(project, asked=[project / "data", project / "package" / "run.log"])
    shown = FILES | {"data/train.bin": True, "data/deep/more.bin": True, "package/run.log": True}
    assert _shown(project, withheld) == shown
    assert project / "data" / "credentials.json" in withheld
    assert project / ".env" not in withheld_files(project, asked=[project / ".env"])


def test_without_git_only_the_names_of_secrets_count(tmp_path):
    for name in (".env", "run.log", "data/train.bin"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / ".gitignore").write_text("*\n")
    assert withheld_files(tmp_path) == (tmp_path / ".env",)


def test_a_repository_around_a_project_that_ignores_all_of_it_says_nothing(project):
    inner = project / "data" / "project"
    inner.mkdir()
    (inner / "train.bin").write_text("x")
    assert withheld_files(inner) == ()


def test_the_repository_of_another_user_counts(project):
    if os.geteuid() != 0:
        pytest.skip("only root can give a repository to another user")
    for path in [project, *project.rglob("*")]:
        os.chown(path, 65534, 65534)
    assert _shown(project, withheld_files(project)) == FILES


def test_what_a_link_with_the_name_of_a_secret_leads_to_is_withheld(project):
    (project / "package" / ".env").symlink_to("weights.json")
    assert project / "package" / "weights.json" in withheld_files(project)


def test_what_is_too_much_to_look_into_is_withheld_unless_asked_for(project, monkeypatch):
    monkeypatch.setattr(module, "_MOST_LATE_ENTRIES", 0)
    assert project / "build" in withheld_files(project)
    assert project / "data" not in withheld_files(project, asked=[project / "data"])
    monkeypatch.setattr(module, "_MOST_ENTRIES", 1)
    assert project / "package" in withheld_files(project)


@pytest.mark.parametrize("has_landlock", [True, False])
def test_bubblewrap_covers_what_is_withheld_if_the_kernel_has_no_landlock(project, tmp_path, monkeypatch, has_landlock):
    if not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed and was NOT tested")
    worker = Path(sandbox.__file__).parent / "worker"
    (tmp_path / "scratch").mkdir()
    view = sandbox.SandboxMounts(
        sandbox.interpreter(sys.executable),
        (project,),
        worker,
        (tmp_path / "scratch").resolve(),
        withheld=withheld_files(project),
    )
    monkeypatch.setattr(sandbox.landlock, "version", lambda: int(has_landlock))
    choice = sandbox.choose(view, is_waived=False)
    if choice.sandbox is not sandbox.Sandbox.BUBBLEWRAP:
        pytest.skip(f"bubblewrap was NOT tested: {choice.why_not}")
    code = (
        "import json\n"
        "def is_readable(path):\n"
        "    try:\n        return bool(open(path).read())\n    except OSError:\n        return False\n"
        f"root, names = {str(project)!r}, {list(FILES)!r}\n"
        "print(json.dumps({each: is_readable(f'{root}/{each}') for each in names}))"
    )
    done = subprocess.run(
        sandbox.command(choice, view, ["-I", "-c", code]),
        env=sandbox.environment(view.scratch),
        capture_output=True,
        check=True,
    )
    # With Landlock each worker gives up these files itself.
    assert json.loads(done.stdout) == (dict.fromkeys(FILES, True) if has_landlock else FILES)
