"""Restore a project as it was certified into a separate folder, without running its code."""

from __future__ import annotations

import fcntl
import os
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import source_file
from esper_agents.errors import EsperError, EvidenceError
from esper_agents.safe_git import git, toplevel
from esper_agents.torchlab.remove_tree import remove
from esper_agents.torchlab.revisions import checkout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from esper_agents.domain.evidence import SourceFile
    from esper_agents.domain.project import GitRevision

# Not in the program's own home: that stays out of sight of the code that is run in the tree.
_PREFIX = "esper-reproduce-"


@dataclass(frozen=True, slots=True)
class ScratchTree:
    """A project as it was.

    Attributes:
        root: Where it lies.
        missing: Files that are not to be had as they were, by path.
        unknown: Why more of it may have been otherwise than it is here; empty where the whole tree is known.
    """

    root: Path
    missing: frozenset[str]
    unknown: str


@contextmanager
def scratch_tree(project: Path, revision: GitRevision, files: Iterable[SourceFile]) -> Iterator[ScratchTree]:
    """Yield a project as it was: its commit, and what differed from it where that is still in the project.

    It is gone when the block ends; what a process that was killed left behind goes when the next one is made.

    Args:
        project: The project's folder.
        revision: What git knew of it then.
        files: What was read of it then.

    Raises:
        EvidenceError: There is no room for it, or git cannot read the commit.
    """
    with own_folder() as folder:
        tree = folder / "tree"
        wanted = {each.path: each for each in files}
        try:
            has_commit = _put_commit(project, revision, tree)
            missing = frozenset(path for path, each in wanted.items() if not _put_file(project, tree, each))
        except OSError as error:
            problem = f"the project cannot be written to {str(tree)!r}: {error.strerror}"
            raise EvidenceError(problem, remedy="make room there, or name another place in TMPDIR") from error
        yield ScratchTree(tree, missing, _unknown(revision, wanted.keys() - missing, has_commit=has_commit))


def _unknown(revision: GitRevision, known: Iterable[str], *, has_commit: bool) -> str:
    if not revision.commit:
        return "the project had no commit, so what lay beside the files that were read is not known"
    if not has_commit:
        return f"commit {revision.commit[:12]} is not here, so what lay beside the files that were read is not known"
    others = [each for each in revision.dirty if each not in set(known)]
    return f"{others[0]!r} differed from the commit, and how is not on record" if others else ""


def _put_commit(project: Path, revision: GitRevision, tree: Path) -> bool:
    """Write a commit's files, with a repository around them that shares the project's objects and nothing else."""
    tree.mkdir()
    commit = revision.commit
    # Objects alone are named so: no branch and no option.
    if not commit or not set(commit) <= set("0123456789abcdef") or toplevel(project) != project.resolve():
        return False
    if git(project, "cat-file", "-e", f"{commit}^{{commit}}") is None:
        return False
    checkout(project, commit, tree)
    objects = git(project, "rev-parse", "--git-path", "objects")
    form = (git(project, "rev-parse", "--show-object-format") or "sha1").strip()
    if objects is None or git(tree, "init", "-q", "--template=", f"--object-format={form}") is None:
        raise EvidenceError("git cannot make a repository to work in", remedy="run `git --version`; 2.31 will do")
    shared = (project / objects.rstrip("\n")).resolve()
    (tree / ".git/objects/info/alternates").write_text(f"{shared}\n", encoding="utf-8", errors="surrogateescape")
    branch = f"refs/heads/{revision.branch}"
    if revision.branch and git(tree, "check-ref-format", branch) is not None:
        git(tree, "symbolic-ref", "HEAD", branch)
        git(tree, "update-ref", branch, commit)
    else:
        git(tree, "update-ref", "--no-deref", "HEAD", commit)
    return git(tree, "read-tree", commit) is not None


def _put_file(project: Path, tree: Path, wanted: SourceFile) -> bool:
    """Return whether the tree holds a file as it was read, after it was taken from the project where that has it."""
    if _holds(tree, wanted):
        return True
    data = _bytes(project, wanted)
    if data is None:
        return False
    target = tree / PurePosixPath(wanted.path)
    with suppress(OSError, ValueError):
        target.parent.mkdir(parents=True, exist_ok=True)
        # A link of the commit may lead out of the tree.
        if not target.parent.resolve().is_relative_to(tree.resolve()):
            return False
        target.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(target, flags, 0o644), "wb") as opened:  # noqa: PTH123 - a descriptor
            opened.write(data)
    return _holds(tree, wanted)


def _holds(root: Path, wanted: SourceFile) -> bool:
    return _bytes(root, wanted) is not None


def _bytes(root: Path, wanted: SourceFile) -> bytes | None:
    """Return a file's bytes where they are those that were read."""
    path = PurePosixPath(wanted.path)
    if path.is_absolute() or ".." in path.parts or ".git" in {each.lower() for each in path.parts}:
        return None
    with suppress(OSError, ValueError, RuntimeError):
        file = (root / path).resolve()
        if file.is_relative_to(root.resolve()) and file.is_file() and file.stat().st_size == wanted.size_bytes:
            data = file.read_bytes()
            return data if source_file(wanted.path, data).sha256 == wanted.sha256 else None
    return None


@contextmanager
def own_folder() -> Iterator[Path]:
    """Yield a folder that is gone when the block ends; what processes that are gone left behind goes as well.

    Raises:
        EvidenceError: There is no room for it.
    """
    _remove_stale()
    while True:
        try:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        except OSError as error:
            problem = f"no folder to work in can be made: {error.strerror}"
            raise EvidenceError(problem, remedy="make room, or name another place in TMPDIR") from error
        lock = _locked(folder)
        if lock is not None:
            break
    try:
        yield folder
    finally:
        remove(folder)
        os.close(lock)


def _locked(folder: Path) -> int | None:
    """Return the lock of a folder that is still there; None where somebody else has it. The kernel frees it."""
    lock = None
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), folder.lstat()):
            return lock
    except OSError:
        pass
    if lock is not None:
        os.close(lock)
    return None


def _remove_stale() -> None:
    """Remove the folders of processes that are gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError, EsperError):
            if folder.lstat().st_uid == os.getuid() and (lock := _locked(folder)) is not None:
                remove(folder)
                os.close(lock)
