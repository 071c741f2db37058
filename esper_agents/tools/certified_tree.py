"""Restore a project as it was certified into a separate folder, without running its code."""

from __future__ import annotations

import asyncio
import fcntl
import os
import tempfile
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import source_file
from esper_agents.errors import EsperError, EvidenceError
from esper_agents.git.process import git, toplevel
from esper_agents.git.revisions import checkout
from esper_agents.torchlab.remove_tree import remove

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from contextlib import AbstractContextManager
    from typing import Any

    from esper_agents.domain.evidence import SourceFile
    from esper_agents.domain.project import GitRevision

# Outside the program's data directory, which stays hidden from the code that runs in the tree.
_PREFIX = "esper-reproduce-"


@dataclass(frozen=True, slots=True)
class ScratchTree:
    """Project in its certified state.

    Attributes:
        root: Root of the tree.
        missing: Files whose certified content is not available, by path.
        unknown: Reason that other files may have differed; empty if the whole tree is known.
    """

    root: Path
    missing: frozenset[str]
    unknown: str


@contextmanager
def scratch_tree(project: Path, revision: GitRevision, files: Iterable[SourceFile]) -> Iterator[ScratchTree]:
    """Yield a project in its certified state: its commit, plus the differing files that still exist in the project.

    The tree is deleted when the block ends; trees left by killed processes are deleted when the next one is created.

    Args:
        project: The project's folder.
        revision: Git state recorded at that time.
        files: Files read at that time.

    Raises:
        EvidenceError: There is no space for the tree, or git cannot read the commit.
    """
    with own_folder() as folder:
        tree = folder / "tree"
        wanted = {file.path: file for file in files}
        try:
            has_commit = _put_commit(project, revision, tree)
            missing = frozenset(path for path, each in wanted.items() if not _put_file(project, tree, each))
        except OSError as error:
            problem = f"the project cannot be written to {str(tree)!r}: {error.strerror}"
            raise EvidenceError(problem, remedy="free some space, or set TMPDIR to another folder") from error
        yield ScratchTree(tree, missing, _unknown(revision, wanted.keys() - missing, has_commit=has_commit))


@asynccontextmanager
async def in_thread(tree: AbstractContextManager[ScratchTree]) -> AsyncIterator[ScratchTree]:
    """Yield a scratch tree that is created and removed in a thread; on cancellation, none is left."""
    making = asyncio.ensure_future(asyncio.to_thread(tree.__enter__))
    try:
        yield await asyncio.shield(making)
    finally:
        with suppress(EsperError):
            await making
            await asyncio.shield(asyncio.to_thread(tree.__exit__, None, None, None))


def renamed(value: Any, scratch: str, root: str) -> Any:
    """Return a JSON value that names the project's folder instead of a scratch tree."""
    match value:
        case str():
            return value.replace(scratch, root)
        case dict():
            return {renamed(name, scratch, root): renamed(each, scratch, root) for name, each in value.items()}
        case list():
            return [renamed(each, scratch, root) for each in value]
        case _:
            return value


def _unknown(revision: GitRevision, known: Iterable[str], *, has_commit: bool) -> str:
    if not revision.commit:
        return "the project had no commit, so other files of the project at that time are unknown"
    if not has_commit:
        return f"commit {revision.commit[:12]} is not available, so other files of the project at that time are unknown"
    others = [each for each in revision.dirty if each not in set(known)]
    return f"{others[0]!r} differed from the commit, and the difference is not recorded" if others else ""


def _put_commit(project: Path, revision: GitRevision, tree: Path) -> bool:
    """Write a commit's files, with a repository around them that shares only the project's object store."""
    tree.mkdir()
    commit = revision.commit
    # An alternates file lists object folders only: no branch and no option.
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
    """Return whether the tree has the recorded version of a file, copying it from the project if possible."""
    if _holds(tree, wanted):
        return True
    data = _bytes(project, wanted)
    if data is None:
        return False
    target = tree / PurePosixPath(wanted.path)
    with suppress(OSError, ValueError):
        target.parent.mkdir(parents=True, exist_ok=True)
        # A link of the commit may point outside the tree.
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
    """Return a file's content if it is the recorded content, else None."""
    path = PurePosixPath(wanted.path)
    if path.is_absolute() or ".." in path.parts or ".git" in {part.lower() for part in path.parts}:
        return None
    with suppress(OSError, ValueError, RuntimeError):
        file = (root / path).resolve()
        if file.is_relative_to(root.resolve()) and file.is_file() and file.stat().st_size == wanted.size_bytes:
            data = file.read_bytes()
            return data if source_file(wanted.path, data).sha256 == wanted.sha256 else None
    return None


@contextmanager
def own_folder() -> Iterator[Path]:
    """Yield a temporary folder, deleted when the block ends together with the folders of dead processes.

    Raises:
        EvidenceError: There is no space for it.
    """
    _remove_stale()
    while True:
        try:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        except OSError as error:
            problem = f"cannot create a temporary folder: {error.strerror}"
            raise EvidenceError(problem, remedy="free some space, or set TMPDIR to another folder") from error
        lock = _locked(folder)
        if lock is not None:
            break
    try:
        yield folder
    finally:
        remove(folder)
        os.close(lock)


def _locked(folder: Path) -> int | None:
    """Return the lock of an existing folder; None if another process has it. The kernel releases it on exit."""
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
    """Remove the folders of dead processes."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError, EsperError):
            if folder.lstat().st_uid == os.getuid() and (lock := _locked(folder)) is not None:
                remove(folder)
                os.close(lock)
