"""Revisions in folders of their own: what is in them, what is not, and what is never touched or run."""

from __future__ import annotations

import os
import subprocess

import pytest

from esper_agents.errors import UsageError
from esper_agents.git.revisions import checkout

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "a" * 64 + "\nsize 12345\n"


@pytest.fixture
def plumb(git):
    """Return what makes objects that no `git add` would make."""

    def plumb(root, *arguments, fed=b""):
        done = subprocess.run(["git", "-C", str(root), *arguments], input=fed, capture_output=True, check=True)
        return done.stdout.decode().strip()

    return plumb


@pytest.fixture
def commit_tree(plumb):
    """Return what commits a tree of raw entries (mode, name, object id), whatever their names are."""

    def commit_tree(root, *entries):
        raw = b"".join(mode + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in entries)
        tree = plumb(root, "hash-object", "--literally", "-t", "tree", "-w", "--stdin", fed=raw)
        return plumb(root, "commit-tree", tree, "-m", "odd")

    return commit_tree


def files_of(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def absences(revision):
    return {each.path: each.why for each in revision.absent}


def test_a_revision_holds_the_files_of_then_and_names_its_objects(make_project, git, tmp_path):
    root = make_project({"a.py": "x = 1\n", "pkg/b.py": "y = 1\n", "empty": "", "large": "z" * 3_000_000})
    (root / "a.py").write_text("x = 2\n")
    git(root, "commit", "-qam", "second")
    (root / "a.py").write_text("x = 3\n")
    made = checkout(root, "HEAD~1", tmp_path / "then")
    assert files_of(made.root) == ["a.py", "empty", "large", "pkg/b.py"]
    assert (made.root / "a.py").read_text() == "x = 1\n"
    assert (made.root / "large").read_text() == "z" * 3_000_000
    assert (made.commit, made.tree) == (git(root, "rev-parse", "HEAD~1"), git(root, "rev-parse", "HEAD~1^{tree}"))
    assert made.described() == {"asked": "HEAD~1", "commit": made.commit, "tree": made.tree, "absent": []}


def test_modes_links_and_odd_names_are_kept(make_project, git, tmp_path):
    root = make_project({"run.sh": "echo\n", "ünt räcked\n.py": "x = 1\n", "plain.py": ""})
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("plain.py")
    (root / "bytes").symlink_to(os.fsdecode(b"\xff"))
    (root / os.fsdecode(b"\xfe.py")).write_text("")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "second")
    made = checkout(root, "main", tmp_path / "then")
    assert (made.root / "run.sh").stat().st_mode & 0o111
    assert not (made.root / "plain.py").stat().st_mode & 0o111
    assert str((made.root / "link").readlink()) == "plain.py"
    assert os.fsencode((made.root / "bytes").readlink()) == b"\xff"
    assert (made.root / os.fsdecode(b"\xfe.py")).exists()
    assert (made.root / "ünt räcked\n.py").exists()
    assert made.absent == ()


def test_a_project_inside_a_larger_repository_is_written_alone(make_project, git, tmp_path):
    root = make_project({"inner/a.py": "x = 1\n", "outer.py": ""})
    (root / "late").mkdir()
    assert files_of(checkout(root / "inner", "HEAD", tmp_path / "then").root) == ["a.py"]
    with pytest.raises(UsageError, match="at 'HEAD' there was no folder 'late'"):
        checkout(root / "late", "HEAD", tmp_path / "none")


def test_the_persons_checkout_is_as_it_was(make_project, git, tmp_path):
    root = make_project()
    (root / "train.py").write_text("changed\n")
    os.utime(root / "train.py", (1, 1))

    def state():
        held = {path: path.read_bytes() for path in sorted((root / ".git").rglob("*")) if path.is_file()}
        return held, (root / "train.py").read_text(), git(root, "worktree", "list")

    before = state()
    checkout(root, "HEAD", tmp_path / "then")
    assert state() == before


TRAPS = {
    "a smudge filter": '[filter "evil"]\n\tsmudge = "touch {mark}; cat"\n\trequired = true\n',
    "a filter process": '[filter "evil"]\n\tprocess = "touch {mark}"\n\trequired = true\n',
    "a file system monitor": '[core]\n\tfsmonitor = "touch {mark}; false"\n',
    "hooks": "[core]\n\thooksPath = {folder}\n",
    "a text converter": '[diff "evil"]\n\ttextconv = "touch {mark}; cat"\n',
    "aliases": '[alias]\n\tls-tree = "!touch {mark}"\n\tcat-file = "!touch {mark}"\n\trev-parse = "!touch {mark}"\n',
    "a pager": '[core]\n\tpager = "touch {mark}; cat"\n[pager]\n\tls-tree = true\n\tcat-file = true\n',
}


@pytest.mark.parametrize("means", TRAPS)
def test_nothing_that_a_repository_configures_is_run(make_project, git, tmp_path, means):
    text = "$Id$ $Format:%H$\r\n"
    attributes = "*.py filter=evil diff=evil ident export-subst text eol=lf\nhidden.py export-ignore\n"
    root = make_project({"a.py": text, "hidden.py": "x = 1\n", ".gitattributes": ""})
    (root / ".gitattributes").write_text(attributes)
    git(root, "commit", "-q", ".gitattributes", "-m", "attributes")
    folder = tmp_path / "hostile"
    folder.mkdir()
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        (folder / hook).write_text(f"#!/bin/sh\ntouch {tmp_path / 'mark'}\n")
        (folder / hook).chmod(0o755)
    with (root / ".git" / "config").open("a") as file:
        file.write(TRAPS[means].format(mark=tmp_path / "mark", folder=folder))
    made = checkout(root, "HEAD", tmp_path / "then")
    assert not (tmp_path / "mark").exists()
    assert (made.root / "a.py").read_bytes() == text.encode()
    assert (made.root / "hidden.py").exists()


def test_the_smudge_trap_is_real(make_project, git, tmp_path):
    root = make_project({"a.py": "x = 1\n", ".gitattributes": "*.py filter=evil\n"})
    with (root / ".git" / "config").open("a") as file:
        file.write(TRAPS["a smudge filter"].format(mark=tmp_path / "mark", folder=tmp_path))
    git(root, "worktree", "add", "-q", str(tmp_path / "then"))
    assert (tmp_path / "mark").exists()


def lacking(make_project, git, plumb, mark):
    """Return a clone that promises to fetch what it lacks, by a command of its own."""
    root = make_project({"a.py": "x = 1\n", "b.py": "y = 1\n"})
    blob = git(root, "rev-parse", "HEAD:a.py")
    (root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    for name, text in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.url": "ssh://example.invalid/a.git",
        "remote.origin.promisor": "true",
        "remote.origin.partialCloneFilter": "blob:none",
        "core.sshCommand": f"touch {mark}; false",
    }.items():
        git(root, "config", name, text)
    return root


def test_what_a_partial_clone_lacks_is_named_and_not_fetched(make_project, git, plumb, tmp_path):
    root = lacking(make_project, git, plumb, tmp_path / "mark")
    made = checkout(root, "HEAD", tmp_path / "then")
    assert not (tmp_path / "mark").exists()
    assert files_of(made.root) == ["b.py"]
    assert absences(made) == {"a.py": "this clone does not have it: run `git fetch`"}


def test_the_fetching_trap_is_real(make_project, git, plumb, tmp_path):
    root = lacking(make_project, git, plumb, tmp_path / "mark")
    subprocess.run(["git", "-C", str(root), "cat-file", "-p", "HEAD:a.py"], capture_output=True, check=False)
    assert (tmp_path / "mark").exists()


def test_a_replaced_object_does_not_count(make_project, git, plumb, tmp_path):
    root = make_project({"a.py": "x = 1\n"})
    other = plumb(root, "hash-object", "-w", "--stdin", fed=b"evil\n")
    git(root, "replace", git(root, "rev-parse", "HEAD:a.py"), other)
    assert (checkout(root, "HEAD", tmp_path / "then").root / "a.py").read_text() == "x = 1\n"


def test_submodules_and_pointers_to_large_files_are_named_as_not_there(make_project, git, tmp_path):
    inner = make_project(name="inner")
    root = make_project({"weights.pt": POINTER, "a.py": "x = 1\n"})
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    git(root, "commit", "-qm", "with a submodule")
    made = checkout(root, "HEAD", tmp_path / "then")
    assert files_of(made.root) == [".gitmodules", "a.py"]
    assert absences(made) == {
        "sub": "a submodule, which is a repository of its own",
        "weights.pt": "kept in Git LFS, which has only a pointer in the revision",
    }


@pytest.mark.parametrize(
    "name", [b"..", b".git", b".GIT", b"a/../../escaped.py", b"/tmp/escaped.py", b"b//c", b".", b"x" * 300, b"./x"]
)
def test_a_path_that_git_would_not_write_is_left_out(make_project, plumb, commit_tree, tmp_path, name):
    root = make_project()
    blob = plumb(root, "hash-object", "-w", "--stdin", fed=b"x = 1\n")
    odd = commit_tree(root, (b"100644", name, blob), (b"100644", b"good.py", blob))
    before = set(tmp_path.iterdir())
    made = checkout(root, odd, tmp_path / "deep" / "then")
    assert files_of(tmp_path / "deep") == ["then/good.py"]
    assert [each.path for each in made.absent] == [name.decode()]
    assert set(tmp_path.iterdir()) - before == {tmp_path / "deep"}


@pytest.mark.parametrize("is_link_first", [True, False])
def test_nothing_is_written_through_a_link(make_project, plumb, commit_tree, tmp_path, is_link_first):
    root = make_project()
    blob = plumb(root, "hash-object", "-w", "--stdin", fed=b"x = 1\n")
    (tmp_path / "victim").mkdir()
    link = plumb(root, "hash-object", "-w", "--stdin", fed=str(tmp_path / "victim").encode())
    inner = plumb(root, "mktree", fed=f"100644 blob {blob}\tescaped.py\n".encode())
    both = [(b"120000", b"a", link), (b"40000", b"a", inner)]
    odd = commit_tree(root, *(both if is_link_first else both[::-1]))
    made = checkout(root, odd, tmp_path / "then")
    assert list((tmp_path / "victim").iterdir()) == []
    assert (made.root / "a" / "escaped.py").is_file()
    assert absences(made) == {"a": "another entry of the revision has its name"}


@pytest.mark.parametrize("target", [b"", b"a\0b", b"x" * 5000])
def test_a_link_that_cannot_be_made_is_left_out(make_project, plumb, commit_tree, tmp_path, target):
    root = make_project()
    link = plumb(root, "hash-object", "-w", "--stdin", fed=target)
    made = checkout(root, commit_tree(root, (b"120000", b"a", link)), tmp_path / "then")
    assert files_of(made.root) == []
    assert len(made.absent) == 1


def test_a_tree_that_unfolds_without_end_is_refused(make_project, plumb, commit_tree, tmp_path):
    root = make_project()
    blob = plumb(root, "hash-object", "-w", "--stdin", fed=b"boom")
    tree = plumb(root, "mktree", fed="".join(f"100644 blob {blob}\tf{n}\n" for n in range(10)).encode())
    for _ in range(8):
        tree = plumb(root, "mktree", fed="".join(f"040000 tree {tree}\td{n}\n" for n in range(10)).encode())
    bomb = plumb(root, "commit-tree", tree, "-m", "bomb")
    with pytest.raises(UsageError, match="the revision holds over 200000 files"):
        checkout(root, bomb, tmp_path / "then")


@pytest.mark.parametrize("name", ["-n", "--all", "", " ", "a\0b", "a\nb"])
def test_what_can_be_no_revision_is_refused_before_git_sees_it(project, tmp_path, name):
    with pytest.raises(UsageError, match="is not a valid revision") as refused:
        checkout(project, name, tmp_path / "then")
    assert refused.value.remedy == "name a branch, tag or commit, such as HEAD~1"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("faster-atention", "did you mean 'faster-attention'?"),
        ("HEAD~99", "run `git log --oneline`"),
        ("HEAD:train.py", "run `git log --oneline`"),
        ("main..main", "did you mean 'main'?"),
    ],
)
def test_a_revision_that_there_is_not_offers_the_nearest(project, git, tmp_path, name, remedy):
    git(project, "branch", "faster-attention")
    with pytest.raises(UsageError) as refused:
        checkout(project, name, tmp_path / "then")
    assert (refused.value.problem, refused.value.remedy) == (f"there is no revision {name!r}", remedy)
    assert not (tmp_path / "then").exists()


def test_a_shallow_clone_says_how_to_get_more(make_project, git, tmp_path):
    root = make_project()
    git(root, "commit", "-q", "--allow-empty", "-m", "second")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{root}", "shallow")
    with pytest.raises(UsageError) as refused:
        checkout(tmp_path / "shallow", "HEAD~1", tmp_path / "then")
    assert refused.value.remedy == "the clone is shallow: run `git fetch --unshallow`, or name a later revision"


def test_before_the_first_commit_there_is_no_revision(make_project, git, tmp_path):
    root = make_project(under_git=False)
    git(root, "init", "-q")
    with pytest.raises(UsageError) as refused:
        checkout(root, "HEAD", tmp_path / "then")
    assert refused.value.remedy == "commit something first"


def test_outside_git_and_without_git_it_says_so(make_project, monkeypatch, tmp_path):
    root = make_project(under_git=False)
    with pytest.raises(UsageError, match="is not a git repository that git trusts"):
        checkout(root, "HEAD", tmp_path / "then")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="git is not installed"):
        checkout(root, "HEAD", tmp_path / "then")


def test_a_folder_that_holds_something_is_left_alone(project, tmp_path):
    (tmp_path / "then").mkdir()
    (tmp_path / "then" / "mine").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        checkout(project, "HEAD", tmp_path / "then")
    assert files_of(tmp_path / "then") == ["mine"]
