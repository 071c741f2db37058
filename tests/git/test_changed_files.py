"""Which files differ between two sides: the bytes decide, not what git's index was told."""

from __future__ import annotations

import pytest

from esper_agents.errors import UsageError
from esper_agents.git.changed_files import changed


@pytest.fixture
def sides(make_project, git):
    """Return a project whose work tree differs from its only commit in many ways."""
    root = make_project(
        {
            "model.py": "x = 1\n",
            "other.py": "x = 1\n",
            "same.py": "x = 1\n",
            "gone.py": "x = 1\n",
            "kind.py": "x = 1\n",
            "ends.py": "x = 1\ny = 1\n",
            ".gitignore": "ignored.py\n",
        }
    )
    (root / "model.py").write_text("x = 2\n")
    (root / "other.py").write_text("x = 2\n")
    (root / "gone.py").unlink()
    (root / "kind.py").unlink()
    (root / "kind.py").symlink_to("same.py")
    (root / "ends.py").write_bytes(b"x = 1\r\ny = 1\r\n")
    (root / "new.py").write_text("")
    (root / "ignored.py").write_text("")
    return root


def test_against_the_work_tree_all_that_differs_is_named(sides):
    found = changed(sides, "HEAD", target_file="model.py")
    assert found.is_target_changed
    assert found.others == ("gone.py", "kind.py", "new.py", "other.py")


def test_one_variable_at_a_time_leaves_no_others(make_project):
    root = make_project({"model.py": "x = 1\n", "same.py": ""})
    (root / "model.py").write_text("x = 2\n")
    assert changed(root, "HEAD", target_file="model.py").others == ()
    assert not changed(root, "HEAD", target_file="same.py").is_target_changed
    assert changed(root, "HEAD", target_file=None).others == ("model.py",)


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_what_the_index_was_told_to_believe_does_not_count(make_project, git, flag):
    root = make_project({"model.py": "x = 1\n", "other.py": "x = 1\n"})
    git(root, "update-index", flag, "other.py")
    (root / "other.py").write_text("x = 2\n")
    assert git(root, "status", "--porcelain") == ""
    assert changed(root, "HEAD", target_file="model.py").others == ("other.py",)


def test_between_two_commits_the_work_tree_does_not_count(sides, git):
    git(sides, "add", "-A")
    git(sides, "commit", "-qm", "second")
    (sides / "same.py").write_text("x = 9\n")
    found = changed(sides, "HEAD~1", "HEAD", target_file="model.py")
    assert found.is_target_changed
    assert found.others == ("ends.py", "gone.py", "kind.py", "new.py", "other.py")


def test_folders_that_do_not_count_are_left_out(make_project):
    root = make_project({"model.py": ""})
    for path in ("docs/ai/agents/a.md", "docs/ai/agents-too.md"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")
    assert changed(root, "HEAD", target_file=None, apart_from=("docs/ai/agents",)).others == ("docs/ai/agents-too.md",)


def test_a_project_inside_a_larger_repository_is_looked_at_alone(make_project):
    root = make_project({"inner/a.py": "x = 1\n", "outer.py": ""})
    (root / "outer.py").write_text("x = 1\n")
    (root / "inner" / "a.py").write_text("x = 2\n")
    found = changed(root / "inner", "HEAD", target_file="a.py")
    assert (found.is_target_changed, found.others) == (True, ())


def test_a_submodule_is_no_file(make_project, git):
    inner, root = make_project(name="inner"), make_project({"a.py": ""})
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    git(root, "commit", "-qm", "with a submodule")
    (root / "sub" / "train.py").write_text("x = 2\n")
    assert changed(root, "HEAD", target_file=None).others == ()


def test_no_filter_of_the_repository_is_run(make_project, git, tmp_path):
    root = make_project({"a.py": "x = 1\n", ".gitattributes": "*.py filter=evil\n"})
    with (root / ".git" / "config").open("a") as file:
        file.write(f'[filter "evil"]\n\tclean = "touch {tmp_path / "mark"}; cat"\n')
    (root / "a.py").write_text("x = 2\n")
    assert changed(root, "HEAD", target_file="a.py").is_target_changed
    assert not (tmp_path / "mark").exists()


def test_no_such_revision_is_refused(project):
    with pytest.raises(UsageError, match="there is no revision 'nosuch'"):
        changed(project, "HEAD", "nosuch", target_file=None)
