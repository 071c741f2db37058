"""A project as it was, in a folder of its own: from git's objects, and from the project where the commit has it not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from esper_agents.domain.evidence import source_file
from esper_agents.domain.project import GitRevision
from esper_agents.git.project_state import revision
from esper_agents.tools.certified_tree import scratch_tree

NO_COMMIT = GitRevision("", "", "", "", is_git=False, dirty=())
HOLD = """
import sys
from pathlib import Path
from esper_agents.domain.project import GitRevision
from esper_agents.tools.certified_tree import scratch_tree

with scratch_tree(Path(sys.argv[1]), GitRevision("", "", "", "", is_git=False, dirty=()), ()) as tree:
    print(tree.root, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """Give every test, and the processes that it starts, a place for scratch folders of its own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def test_it_holds_the_commit_whatever_the_work_tree_holds_now(project, git):
    then, text = revision(project), (project / "train.py").read_text()
    (project / "train.py").write_text("other")
    git(project, "commit", "-qam", "second")
    with scratch_tree(project, then, ()) as tree:
        assert (tree.root / "train.py").read_text() == text
        assert (tree.missing, tree.unknown) == (frozenset(), "")
        found = revision(tree.root)
        assert (found.commit, found.tree, found.branch, found.dirty) == (then.commit, then.tree, "main", ())


def test_earlier_commits_are_at_hand_and_nothing_of_the_projects_configuration(project, git):
    first = git(project, "rev-parse", "HEAD")
    git(project, "commit", "-q", "--allow-empty", "-m", "second")
    git(project, "config", "alias.trap", "!false")
    with scratch_tree(project, revision(project), ()) as tree:
        assert git(tree.root, "rev-parse", "HEAD~1") == first
        assert "alias" not in git(tree.root, "config", "--list")


@pytest.mark.parametrize("branch", ["", "../../escaped", "a b", "a..b", "main.lock"])
def test_a_branch_that_is_none_leaves_the_commit_alone(project, branch, git):
    then = replace(revision(project), branch=branch)
    with scratch_tree(project, then, ()) as tree:
        assert git(tree.root, "rev-parse", "HEAD") == then.commit
        assert revision(tree.root).branch == ""


@pytest.mark.parametrize("commit", ["f" * 40, "--help", "HEAD", "main", "$(touch x)"])
def test_a_commit_that_is_not_here_leaves_what_lay_beside_unknown(project, commit):
    file = source_file("train.py", (project / "train.py").read_bytes())
    with scratch_tree(project, replace(revision(project), commit=commit), (file,)) as tree:
        assert sorted(path.name for path in tree.root.iterdir()) == ["train.py"]
        assert tree.missing == frozenset()
        assert tree.unknown.startswith("commit ")


def test_files_are_taken_from_the_project_only_as_they_were_read(project):
    then = revision(project)
    (project / "new.py").write_text("new")
    (project / "deep").mkdir()
    (project / "deep" / "old.py").write_text("changed since")
    files = (source_file("new.py", b"new"), source_file("deep/old.py", b"as it was"))
    with scratch_tree(project, replace(then, dirty=("deep/old.py", "new.py")), files) as tree:
        assert (tree.root / "new.py").read_text() == "new"
        assert tree.missing == {"deep/old.py"}
        assert tree.unknown == "'deep/old.py' differed from the commit, and the difference is not recorded"


@pytest.mark.parametrize(
    "path", ["../outside.py", "/etc/hostname", ".git/config", "sub/.GIT/hooks/x", "a\0b", "x" * 5000]
)
def test_a_record_cannot_name_a_file_outside(project, path):
    (project.parent / "outside.py").write_text("outside")
    (project / "sub").mkdir()
    with scratch_tree(project, NO_COMMIT, (source_file(path, b"outside"),)) as tree:
        assert tree.missing == {path}
        assert list(tree.root.iterdir()) == []


def test_nothing_is_written_or_read_through_a_link_of_the_commit(make_project, git, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    root = make_project({"train.py": "x"})
    (root / "way").symlink_to(outside)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "a link")
    then = revision(root)
    (root / "way").unlink()
    (root / "way").mkdir()
    (root / "way" / "in.py").write_text("in")
    (outside / "out.py").write_text("out")
    files = (source_file("way/in.py", b"in"), source_file("way/out.py", b"out"))
    with scratch_tree(root, then, files) as tree:
        assert tree.missing == {"way/in.py", "way/out.py"}
    assert [path.name for path in outside.iterdir()] == ["out.py"]


def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(project):
    os.mkfifo(project / "pipe.py")
    with scratch_tree(project, NO_COMMIT, (source_file("pipe.py", b""),)) as tree:
        assert tree.missing == {"pipe.py"}


def test_what_a_killed_process_left_goes_and_what_a_living_one_uses_stays(project, temporary):
    command = [sys.executable, "-c", HOLD, str(project)]
    killed, living = (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    )
    with killed, living:
        roots = [Path(each.stdout.readline().strip()) for each in (killed, living)]
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert all(root.is_dir() for root in roots)
        with scratch_tree(project, NO_COMMIT, ()):
            assert [root.is_dir() for root in roots] == [False, True]
        living.stdin.close()
        living.wait()
    assert list(temporary.iterdir()) == []


def test_a_folder_of_that_name_that_is_a_link_is_let_alone(project, temporary, tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (temporary / "esper-reproduce-link").symlink_to(kept)
    with scratch_tree(project, NO_COMMIT, ()):
        assert kept.is_dir()


def test_what_code_left_unreadable_goes_as_well(project, temporary):
    with scratch_tree(project, NO_COMMIT, ()) as tree:
        (tree.root / "closed").mkdir()
        (tree.root / "closed" / "file").write_text("")
        (tree.root / "closed").chmod(0)
    assert list(temporary.iterdir()) == []
