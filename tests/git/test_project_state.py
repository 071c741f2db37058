from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from esper_agents.errors import InputFileError, UsageError
from esper_agents.git.find_project import find_project
from esper_agents.git.project_state import revision
from esper_agents.paths import PUBLISHED


def test_the_project_of_a_file_is_the_work_tree_around_it(make_project):
    root = make_project({"a/b/train.py": "x = 1\n"})
    for path in ("a/b/train.py", "a/b", "."):
        found = find_project([root / path], root.parent)
        assert (found.root, found.name, found.is_git) == (str(root), "toy", True)
    assert find_project([], root / "a").root == str(root)


def test_relative_paths_start_at_the_working_folder(make_project):
    root = make_project({"a/train.py": "x = 1\n"})
    assert find_project([Path("train.py")], root / "a").root == str(root)


def test_without_git_the_project_is_the_folder(make_project):
    root = make_project({"a/train.py": "x = 1\n"}, under_git=False)
    found = find_project([root / "a" / "train.py"], root.parent.parent / "elsewhere")
    assert (found.root, found.is_git) == (str(root / "a"), False)


def test_without_git_the_working_folder_is_the_project_of_what_lies_in_it(make_project):
    root = make_project({"a/train.py": "x = 1\n", "b/model.py": "x = 1\n"}, under_git=False)
    found = find_project([root / "a" / "train.py", root / "b" / "model.py"], root)
    assert found.root == str(root)


def test_projects_have_keys_of_their_own(make_project):
    one, other = make_project(name="one/toy"), make_project(name="other/toy")
    keys = [find_project([each], each).key for each in (one, other)]
    assert keys[0] != keys[1]
    assert all(key.startswith("toy-") for key in keys)
    assert find_project([one / "train.py"], other).key == keys[0]


@pytest.mark.parametrize("name", ["sp ace", "ünï", "a'b\"c", "$(x)", "x" * 120, "..."])
def test_a_key_is_a_plain_name_whatever_the_folder_is_called(make_project, name):
    key = find_project([make_project(name=name)], make_project(name=name)).key
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,60}", key)
    assert not key.startswith("..-") or len(key) > 10


def test_an_installed_package_in_an_ignored_environment_is_no_part_of_the_project_around_it(make_project):
    root = make_project({"train.py": "x = 1\n", ".gitignore": ".venv/\n", ".venv/lib/pkg/model.py": "x = 1\n"})
    found = find_project([root / ".venv" / "lib" / "pkg" / "model.py"], root.parent)
    assert found.root == str(root / ".venv" / "lib" / "pkg")
    assert not found.is_git


def test_a_repository_inside_another_is_a_project_of_its_own(make_project, git):
    root = make_project({"train.py": "x = 1\n", "inner/model.py": "x = 1\n"})
    git(root / "inner", "init", "-q")
    assert find_project([root / "inner" / "model.py"], root).root == str(root / "inner")


def test_paths_of_two_projects_are_refused(make_project):
    one, other = make_project(name="one"), make_project(name="other")
    with pytest.raises(UsageError, match="the paths belong to two projects") as refused:
        find_project([one / "train.py", other / "train.py"], one)
    assert f"{str(other / 'train.py')!r} to {str(other)!r}" in refused.value.problem
    assert refused.value.remedy == "name paths of one project; submit another task for the other"


@pytest.mark.parametrize("path", ["nosuch.py", "train.py/deeper"])
def test_a_path_that_is_not_there_is_refused(project, path):
    with pytest.raises(InputFileError, match="no such file or folder"):
        find_project([Path(path)], project)


def test_a_link_leads_to_the_project_it_points_into(make_project, tmp_path):
    root = make_project()
    (tmp_path / "link").symlink_to(root)
    assert find_project([tmp_path / "link" / "train.py"], tmp_path).root == str(root)


def test_a_work_tree_beside_the_main_one_is_a_project_of_its_own(make_project, git, tmp_path):
    root = make_project()
    git(root, "worktree", "add", "-q", str(tmp_path / "beside"))
    found = find_project([tmp_path / "beside" / "train.py"], tmp_path)
    assert (found.root, found.is_git) == (str(tmp_path / "beside"), True)
    assert revision(tmp_path / "beside").branch == "beside"


def test_what_git_knows_of_a_clean_project(project, git):
    found = revision(project)
    assert found.commit == git(project, "rev-parse", "HEAD")
    assert found.tree == git(project, "rev-parse", "HEAD^{tree}")
    assert (found.branch, found.remote, found.is_git, found.dirty) == ("main", "", True, ())


def test_every_path_that_differs_is_named(make_project, git):
    root = make_project({"train.py": "x = 1\n", "old.py": "y = 1\n" * 9, "gone.py": "", "same.py": ""})
    (root / "train.py").write_text("x = 2\n")
    git(root, "mv", "old.py", "new name.py")
    (root / "gone.py").unlink()
    (root / "ünt räcked.py").write_text("")
    assert revision(root).dirty == ("gone.py", "new name.py", "train.py", "ünt räcked.py")


def test_before_the_first_commit_there_is_no_commit(make_project, git):
    root = make_project(under_git=False)
    git(root, "init", "-q", "-b", "main")
    found = revision(root)
    assert (found.commit, found.tree, found.branch, found.is_git) == ("", "", "main", True)
    assert found.dirty == ("train.py",)


def test_away_from_any_branch_there_is_none(project, git):
    git(project, "checkout", "-q", "--detach")
    assert revision(project).branch == ""


def test_outside_git_nothing_is_known(make_project):
    found = revision(make_project(under_git=False))
    assert (found.commit, found.is_git, found.dirty) == ("", False, ())


def test_without_git_on_the_machine_nothing_is_known(project, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not revision(project).is_git
    assert not find_project([project], project).is_git


def test_what_we_publish_does_not_count_as_a_change_and_what_lies_beside_it_does(project):
    folder = project / PUBLISHED / "reviewer"
    folder.mkdir(parents=True)
    (folder / "working-memory.md").write_text("remembered\n")
    assert revision(project).dirty == ()
    (project / "docs" / "mine.md").write_text("mine\n")
    assert revision(project).dirty == ("docs/",)


def test_published_files_that_are_kept_in_git_do_not_count_when_they_change(project, git):
    folder = project / PUBLISHED
    folder.mkdir(parents=True)
    (folder / "one.md").write_text("one\n")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "kept")
    (folder / "one.md").write_text("two\n")
    (folder / "two.md").write_text("two\n")
    assert revision(project).dirty == ()


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("https://user:seekret@example.org/a/b.git", "https://example.org/a/b.git"),
        ("https://seekret@example.org/a/b.git", "https://example.org/a/b.git"),
        ("https://example.org/a.git?token=seekret", "https://example.org/a.git"),
        ("https://u:p@ss:seekret@example.org/a.git", "https://example.org/a.git"),
        ("ssh://git@example.org:2222/a.git", "ssh://example.org:2222/a.git"),
        ("git@example.org:a/b.git", "git@example.org:a/b.git"),
        ("/srv/git/a.git", "/srv/git/a.git"),
    ],
)
def test_credentials_are_left_out_of_the_remote(project, git, given, shown):
    git(project, "remote", "add", "origin", given)
    assert revision(project).remote == shown


# What a repository that came as an archive could make git run, each by touching a file.
HOSTILE = {
    "a file system monitor": '[core]\n\tfsmonitor = "touch {mark}; false"\n',
    "a clean filter": '[filter "evil"]\n\tclean = "touch {mark}; cat"\n\trequired = true\n',
    "a filter process": '[filter "evil"]\n\tprocess = "touch {mark}"\n\trequired = true\n',
    "a filter with an odd name": '[filter "e=v.il"]\n\tclean = "touch {mark}; cat"\n',
    "hooks": "[core]\n\thooksPath = {folder}\n",
    "a pager": '[core]\n\tpager = "touch {mark}; cat"\n[pager]\n\tstatus = true\n',
    "an alias": '[alias]\n\tstatus = "!touch {mark}"\n\trev-parse = "!touch {mark}"\n',
    "a diff driver": '[diff "evil"]\n\ttextconv = "touch {mark}; cat"\n[diff]\n\texternal = "touch {mark}"\n',
    "an included file": "[include]\n\tpath = {folder}/included\n",
}


@pytest.mark.parametrize("means", HOSTILE)
def test_nothing_that_a_repository_configures_is_run(make_project, git, tmp_path, means):
    name = "e=v.il" if "odd" in means else "evil"
    root = make_project({"train.py": "x = 1\n", ".gitattributes": f"*.py filter={name} diff=evil\n"})
    mark, folder = tmp_path / "mark", tmp_path / "hostile"
    folder.mkdir()
    (folder / "included").write_text(f'[filter "evil"]\n\tclean = "touch {mark}; cat"\n')
    for hook in ("post-index-change", "fsmonitor-watchman", "pre-commit"):
        (folder / hook).write_text(f"#!/bin/sh\ntouch {mark}\n")
        (folder / hook).chmod(0o755)
    with (root / ".git" / "config").open("a") as file:
        file.write(HOSTILE[means].format(mark=mark, folder=folder))
    # Of the same length, so that git must look into the file to tell whether it has changed.
    (root / "train.py").write_text("x = 2\n")
    found = revision(root)
    find_project([root / "train.py"], root)
    assert not mark.exists()
    assert (found.is_git, found.dirty) == (True, ("train.py",))


@pytest.mark.parametrize("means", ["a clean filter", "a file system monitor"])
def test_the_traps_are_real(make_project, git, tmp_path, means):
    root = make_project({"train.py": "x = 1\n", ".gitattributes": "*.py filter=evil\n"})
    with (root / ".git" / "config").open("a") as file:
        file.write(HOSTILE[means].format(mark=tmp_path / "mark", folder=tmp_path))
    (root / "train.py").write_text("x = 2\n")
    git(root, "status", "--porcelain")
    assert (tmp_path / "mark").exists()


def test_nothing_that_a_submodule_configures_is_run(make_project, git, tmp_path):
    inner = make_project({"a.py": "x = 1\n", ".gitattributes": "*.py filter=evil\n"}, name="inner")
    root = make_project()
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    git(root, "commit", "-q", "-m", "with a submodule")
    with (root / ".git" / "modules" / "sub" / "config").open("a") as file:
        file.write(HOSTILE["a clean filter"].format(mark=tmp_path / "mark"))
    (root / "sub" / "a.py").write_text("x = 2\n")
    assert revision(root).is_git
    assert not (tmp_path / "mark").exists()


def test_the_filters_that_a_person_has_set_up_themselves_still_work(make_project, git, tmp_path, monkeypatch):
    own = tmp_path / "gitconfig"
    own.write_text('[filter "rot"]\n\tclean = "tr a-z n-za-m"\n\tsmudge = "tr a-z n-za-m"\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(own))
    root = make_project({"a.txt": "hello\n", ".gitattributes": "*.txt filter=rot\n"})
    os.utime(root / "a.txt", (1, 1))
    assert git(root, "show", "HEAD:a.txt") == "uryyb"
    assert revision(root).dirty == ()


def test_a_repository_cannot_claim_a_folder_that_it_is_not_in(make_project, git, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    root = make_project()
    git(root, "config", "core.worktree", str(victim))
    found = find_project([root / "train.py"], root)
    assert found.root == str(root)
    assert not found.is_git


def test_inside_a_hook_git_is_asked_about_the_project_and_not_about_the_hooks_repository(make_project, monkeypatch):
    root, other = make_project(), make_project(name="other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    assert find_project([root / "train.py"], root).root == str(root)
    assert revision(root).dirty == ()


def test_asking_changes_nothing_in_the_repository(project):
    os.utime(project / "train.py", (1, 1))
    before = (project / ".git" / "index").read_bytes()
    revision(project)
    find_project([project / "train.py"], project)
    assert (project / ".git" / "index").read_bytes() == before
    assert not list((project / ".git").glob("*.lock"))
