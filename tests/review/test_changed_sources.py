"""Two trees of a repository, read from its objects, its index and the work tree."""

from __future__ import annotations

import pytest

from esper_agents.errors import UsageError
from esper_agents.review.changed_sources import change_since, staged_change

EVERYTHING = frozenset({"."})


@pytest.fixture
def repository(make_project):
    return make_project({"a.py": "a = 1\n", "docs/a.md": "text\n", ".hidden/h.py": "h = 1\n", "build/b.py": "b = 1\n"})


def texts(sources):
    return {source.record.path: source.text for source in sources}


def test_the_work_tree_is_held_against_a_revision(repository):
    (repository / "a.py").write_text("a = 2\n")
    (repository / "new.py").write_text("n = 1\n")
    (repository / "docs/a.md").write_text("other\n")
    change = change_since(repository, "HEAD", EVERYTHING)
    assert change.paths == ("a.py", "docs/a.md", "new.py")
    assert texts(change.before) == {"a.py": "a = 1\n"}
    assert texts(change.after) == {"a.py": "a = 2\n", "new.py": "n = 1\n"}


def test_what_is_ignored_and_unknown_to_git_is_no_part_of_the_change(repository):
    (repository / ".gitignore").write_text("made.py\n")
    (repository / "made.py").write_text("m = 1\n")
    (repository / "a.py").write_text("a = 2\n")
    change = change_since(repository, "HEAD", EVERYTHING)
    assert "made.py" not in change.paths
    assert "made.py" not in texts(change.after)


def test_staged_is_what_the_index_holds_and_not_the_work_tree(repository, git):
    (repository / "a.py").write_text("a = 2\n")
    git(repository, "add", "a.py")
    (repository / "a.py").write_text("a = 3\n")
    change = staged_change(repository, EVERYTHING)
    assert texts(change.before) == {"a.py": "a = 1\n"}
    assert texts(change.after) == {"a.py": "a = 2\n"}


def test_the_first_commit_is_held_against_nothing(make_project, git):
    root = make_project({"a.py": "a = 1\n"}, under_git=False)
    git(root, "init", "-q", "-b", "main", "--template=")
    git(root, "add", "-A")
    change = staged_change(root, EVERYTHING)
    assert change.before == ()
    assert texts(change.after) == {"a.py": "a = 1\n"}


def test_the_index_of_a_commit_in_progress_counts(repository, git, monkeypatch):
    (repository / "a.py").write_text("a = 2\n")
    index = repository / ".git/next-index"
    index.write_bytes((repository / ".git/index").read_bytes())
    monkeypatch.setenv("GIT_INDEX_FILE", str(index))
    git(repository, "add", "a.py")
    assert staged_change(repository, EVERYTHING).paths == ("a.py",)
    monkeypatch.setenv("GIT_INDEX_FILE", "/somewhere/else/index")
    assert staged_change(repository, EVERYTHING).paths == ()


def test_two_commits_and_what_one_has_beyond_the_other(repository, git):
    git(repository, "checkout", "-q", "-b", "side")
    (repository / "side.py").write_text("s = 1\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "side")
    git(repository, "checkout", "-q", "main")
    (repository / "a.py").write_text("a = 2\n")
    git(repository, "commit", "-qam", "second")
    assert change_since(repository, "main..side", EVERYTHING).paths == ("a.py", "side.py")
    assert change_since(repository, "main...side", EVERYTHING).paths == ("side.py",)
    assert change_since(repository, "HEAD~1..", EVERYTHING).paths == ("a.py",)


def test_only_what_was_named_is_read(repository):
    (repository / "a.py").write_text("a = 2\n")
    (repository / "pkg").mkdir()
    (repository / "pkg/p.py").write_text("p = 1\n")
    assert texts(change_since(repository, "HEAD", {"pkg"}).after) == {"pkg/p.py": "p = 1\n"}
    assert texts(change_since(repository, "HEAD", {".hidden/h.py"}).after) == {".hidden/h.py": "h = 1\n"}


def test_links_are_not_followed(repository, tmp_path):
    (tmp_path / "outside.py").write_text("o = 1\n")
    (repository / "link.py").symlink_to(tmp_path / "outside.py")
    (repository / "a.py").write_text("a = 2\n")
    assert set(texts(change_since(repository, "HEAD", EVERYTHING).after)) == {"a.py"}


@pytest.mark.parametrize("revision", ["nothing", "--output=/tmp/x", "HEAD~9", "main..nothing", "-"])
def test_what_names_no_commit_is_refused(repository, revision):
    with pytest.raises(UsageError, match="revision"):
        change_since(repository, revision, EVERYTHING)


def test_a_folder_that_is_not_under_git_is_refused(tmp_path):
    with pytest.raises(UsageError, match="not under git"):
        change_since(tmp_path, "HEAD", EVERYTHING)


def test_nothing_of_the_repository_runs(repository, tmp_path, git):
    mark = tmp_path / "ran"
    (repository / ".gitattributes").write_text("*.py filter=bad diff=bad\n")
    for key in ("filter.bad.clean", "filter.bad.smudge", "diff.bad.textconv", "diff.external", "core.fsmonitor"):
        git(repository, "config", key, f"touch {mark}")
    (repository / "a.py").write_text("a = 2\n")
    change_since(repository, "HEAD", EVERYTHING)
    staged_change(repository, EVERYTHING)
    assert not mark.exists()
