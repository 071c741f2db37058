"""The project at the revision of a baseline, with a harness that the revision lacks."""

from __future__ import annotations

import pytest

from esper_agents.errors import UsageError
from esper_agents.torchlab.compare.change_control import base_revision

HARNESS = ".esper/harness/ops_f.py"


@pytest.fixture
def project(make_project, git):
    root = make_project({"ops.py": "old = 1\n"})
    (root / "ops.py").write_text("new = 1\n")
    (root / HARNESS).parent.mkdir(parents=True)
    (root / HARNESS).write_text("made = 1\n")
    (root / HARNESS).with_suffix(".tensors").write_bytes(b"tensors")
    return root


def test_a_harness_of_the_project_is_used_with_the_code_of_the_revision(project):
    with base_revision(project, "HEAD", f"{HARNESS}:make", f"{HARNESS}:make") as found:
        assert (found.root / "ops.py").read_text() == "old = 1\n"
        assert (found.root / HARNESS).read_text() == "made = 1\n"
        assert (found.root / HARNESS).with_suffix(".tensors").read_bytes() == b"tensors"


def test_a_harness_of_the_revision_is_its_own(project, git):
    git(project, "add", "-f", HARNESS)
    git(project, "commit", "-q", "-m", "harness")
    (project / HARNESS).write_text("edited = 1\n")
    with base_revision(project, "HEAD", f"{HARNESS}:make", f"{HARNESS}:make") as found:
        assert (found.root / HARNESS).read_text() == "made = 1\n"


def test_other_files_of_the_work_tree_are_not_copied(project):
    (project / "later.py").write_text("x = 1\n")
    with base_revision(project, "HEAD", "later.py:f", "later.py:f") as found:
        assert not (found.root / "later.py").exists()
        assert not (found.root / HARNESS).exists()


def test_nothing_is_written_through_a_link_of_the_revision(project, git, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (project / ".esper").rename(tmp_path / "kept")
    (project / ".esper").symlink_to(outside)
    git(project, "add", "-f", ".esper")
    git(project, "commit", "-q", "-m", "link")
    (project / ".esper").unlink()
    (tmp_path / "kept").rename(project / ".esper")
    with pytest.raises(UsageError), base_revision(project, "HEAD", f"{HARNESS}:make", f"{HARNESS}:make"):
        pass
    assert not list(outside.iterdir())
